"""The plugin whose code is running, so that the log can name it, and the tool call that runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, Token

_current: ContextVar[str] = ContextVar("hilum_current_plugin", default="")
_call: ContextVar[tuple[str, str]] = ContextVar("hilum_current_call", default=("", ""))


def current_plugin() -> str:
    """Return the name of the plugin whose code is running; empty for the kernel and for faces.

    Tasks and threads that a plugin's code starts belong to the same plugin.
    """
    return _current.get()


def running_plugin(name: str) -> AbstractContextManager[None]:
    """Set the result of ``current_plugin`` for this task and the tasks that it starts."""
    return _RunningPlugin(name)


def current_call() -> tuple[str, str]:
    """Return the agent's name and the id of the tool call that runs; empty outside of calls.

    Tasks and threads that a tool starts belong to the same call.
    """
    return _call.get()


@contextmanager
def running_call(agent: str, identity: str) -> Iterator[None]:
    """Set the result of ``current_call`` for this task and the tasks that it starts."""
    token = _call.set((agent, identity))
    try:
        yield
    finally:
        _call.reset(token)


class _RunningPlugin(AbstractContextManager[None]):
    """A class, because a turn calls 28 hooks, and a generator would take four times as long."""

    __slots__ = ("_name", "_token")

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._token: Token[str] = _current.set(self._name)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)
