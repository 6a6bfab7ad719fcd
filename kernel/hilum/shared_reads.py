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


class _Judgement:
    """What was read for a judgement.

    Attributes:
        results: The results, by their keys.
        has_ended: Whether the judgement is over. A task that was begun in it may still run.
    """

    def __init__(self) -> None:
        self.results: dict[Hashable, Any] = {}
        self.has_ended = False


# None outside of a judgement.
_current: ContextVar[_Judgement | None] = ContextVar("hilum_shared_reads", default=None)


@contextmanager
def share_reads() -> Iterator[None]:
    """Keep what ``read_once`` reads until the block ends, also in the tasks and threads begun in it."""
    judgement = _Judgement()
    token = _current.set(judgement)
    try:
        yield
    finally:
        judgement.has_ended = True
        _current.reset(token)


def read_once(key: Hashable, read: Callable[[], T]) -> T:
    """Return what a function returns, which is called only once while a call is judged.

    Outside of a judgement, it is called each time. Gates that run at the same time may each call it.

    Args:
        key: What identifies the result: a name of its own, and everything on which it depends.
        read: The function, which may block. The plugins share its result, so nobody may change it.
    """
    judgement = _current.get()
    if judgement is None or judgement.has_ended:
        return read()
    if key not in judgement.results:
        judgement.results[key] = read()
    result: T = judgement.results[key]
    return result
