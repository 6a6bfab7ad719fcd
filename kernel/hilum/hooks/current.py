"""The plugin whose code is running, so that the log can name it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_current: ContextVar[str] = ContextVar("hilum_current_plugin", default="")


def current_plugin() -> str:
    """Return the name of the plugin whose code is running; empty for the kernel and for faces.

    Tasks and threads that a plugin's code starts belong to the same plugin.
    """
    return _current.get()


@contextmanager
def running_plugin(name: str) -> Iterator[None]:
    """Set the result of ``current_plugin`` for this task and the tasks that it starts."""
    token = _current.set(name)
    try:
        yield
    finally:
        _current.reset(token)
