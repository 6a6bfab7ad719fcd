"""The time of day, which a replay sets to that of the recorded session."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_clock: ContextVar[Callable[[], float] | None] = ContextVar("wall_clock", default=None)


def read_clock() -> float:
    """Return the Unix time in seconds."""
    clock = _clock.get()
    return time.time() if clock is None else clock()


@contextmanager
def use_clock(clock: Callable[[], float]) -> Iterator[None]:
    """Read the time from a function within the block, and in the tasks that the block starts.

    Args:
        clock: A function that returns a Unix time in seconds.
    """
    token = _clock.set(clock)
    try:
        yield
    finally:
        _clock.reset(token)
