"""Let the plugins that judge a call share what they read for it.

Several gates read the same command line, and the files of the project that it loads. A judgement is one
look at the project, so each of these is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")

# What was read for the current judgement, by its keys; None outside of a judgement.
_current: ContextVar[dict[Hashable, Any] | None] = ContextVar("hilum_shared_reads", default=None)


@contextmanager
def share_reads() -> Iterator[None]:
    """Keep what ``read_once`` reads until the block ends, also in the tasks and threads begun in it."""
    token = _current.set({})
    try:
        yield
    finally:
        _current.reset(token)


def read_once(key: Hashable, read: Callable[[], T]) -> T:
    """Return what a function returns, which is called only once while a call is judged.

    Outside of a judgement, it is called each time. Gates that run at the same time may each call it.

    Args:
        key: What identifies the result: a name of its own, and everything on which it depends.
        read: The function, which may block. The plugins share its result, so nobody may change it.
    """
    known = _current.get()
    if known is None:
        return read()
    if key not in known:
        known[key] = read()
    result: T = known[key]
    return result
