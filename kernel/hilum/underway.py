"""What is under way in a session: calls that run, files that are being written, approvals that wait for their answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

from hilum.errors import UsageError
from hilum.workspace import Locks, Workspace

if TYPE_CHECKING:
    from hilum.agents import Agent


class Underway:
    """See the module.

    Args:
        workspace: The folder the session works in.

    Attributes:
        locks: Calls that write one file run one after another.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.locks = Locks(workspace)
        self._approvals: dict[str, tuple[Agent, trio.Event]] = {}
        self._calls: dict[trio.CancelScope, str] = {}

    @contextmanager
    def call(self, plugin: str, deadline: float) -> Iterator[trio.CancelScope]:
        """Register a running call of a plugin, so that it ends at its deadline, or with the plugin."""
        with trio.CancelScope(deadline=deadline) as scope:
            self._calls[scope] = plugin
            try:
                yield scope
            finally:
                del self._calls[scope]

    def end(self, plugin: str) -> None:
        """End the running calls of a plugin."""
        for scope in [scope for scope, owner in self._calls.items() if owner == plugin]:
            scope.cancel()

    @contextmanager
    def approval(self, agent: Agent, approval: str) -> Iterator[trio.Event]:
        """Register an open approval; the event is set when it is answered."""
        _, event = self._approvals[approval] = agent, trio.Event()
        try:
            yield event
        finally:
            self._approvals.pop(approval, None)

    def take(self, approval: str) -> tuple[Agent, trio.Event]:
        """Give an open approval, which is open no more: its agent, and what to set once the answer is written.

        Raises:
            UsageError: No such approval is open: it was answered, ran out, or its run ended.
        """
        if approval not in self._approvals:
            raise UsageError(f"There is no open approval {approval!r}.", hint="It was answered or ran out.")
        return self._approvals.pop(approval)
