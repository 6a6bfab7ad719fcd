"""Random ids of runs, calls, approvals and file changes, which a replay replaces.

A replayed session uses the ids of the recorded one, so that both logs are the same and the ids in
the recorded answers of a model name the same things.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_source: ContextVar[Callable[[str], str | None] | None] = ContextVar("id_source", default=None)


def make_id(kind: str) -> str:
    """Return a new id, in the form of 12 hexadecimal digits.

    Args:
        kind: The kind of thing that the id names, such as ``run`` or ``approval``.
    """
    source = _source.get()
    if source is not None:
        identity = source(kind)
        if identity is not None:
            return identity
    return os.urandom(6).hex()


@contextmanager
def use_ids(source: Callable[[str], str | None]) -> Iterator[None]:
    """Get new ids from a function within the block, and in the tasks that the block starts.

    Args:
        source: A function that takes the kind and returns the next id of that kind, or ``None`` for
            a random one.
    """
    token = _source.set(source)
    try:
        yield
    finally:
        _source.reset(token)
