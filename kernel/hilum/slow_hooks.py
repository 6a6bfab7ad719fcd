"""Slow hooks that end before the log contains the prompt that they were called for.

Hooks interpret a prompt and remove its secrets before the prompt is queued, and only then does it have
a run. Their events are held back until then, so that they belong to the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from msgspec.structs import replace

from hilum.events import HookCalled

_current: ContextVar[HeldHooks | None] = ContextVar("held_hooks", default=None)


class HeldHooks:
    """The events of slow hooks that wait for a prompt to be queued."""

    def __init__(self) -> None:
        self._is_open = True
        self._held: list[tuple[HookCalled, float]] = []

    def add(self, event: HookCalled) -> bool:
        """Hold an event of a hook that has just ended; return whether that is possible."""
        # Tasks that were started meanwhile may outlive the block.
        if self._is_open:
            self._held.append((event, time.perf_counter()))
        return self._is_open

    def take(self) -> list[HookCalled]:
        """Return and forget the events, with the time since the hooks ended."""
        now = time.perf_counter()
        events = [replace(event, delay=round(now - ended, 6)) for event, ended in self._held]
        self._held.clear()
        return events

    def close(self) -> None:
        """Hold no more events."""
        self._is_open = False


@contextmanager
def hold_slow_hooks(write: Callable[[HookCalled], None]) -> Iterator[HeldHooks]:
    """Hold the events of slow hooks that end within the block.

    Args:
        write: Writes the events that are left at the end of the block.

    Yields:
        The events.
    """
    held = HeldHooks()
    token = _current.set(held)
    try:
        yield held
    finally:
        _current.reset(token)
        held.close()
        for event in held.take():
            write(event)


def hold_slow_hook(event: HookCalled) -> bool:
    """Hold the event of a hook that has just ended, if this task prepares a prompt.

    Returns:
        Whether the event is held. Otherwise, it must be written now.
    """
    held = _current.get()
    return held is not None and held.add(event)
