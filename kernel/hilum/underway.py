"""What is under way in a session: calls that run, files that are written, approvals that wait."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec
import trio

from hilum.bounds import BoundCall
from hilum.errors import UsageError
from hilum.events import ApprovalShown
from hilum.workspace import Locks, Workspace

if TYPE_CHECKING:
    from hilum.agents import Agent


class OpenApproval(msgspec.Struct, eq=False):
    """A question that waits for its answer.

    Attributes:
        id: Its id, as in its events.
        agent: The agent whose call it is about.
        seconds: How long the user has, from when it is shown.
        deadline: When that is over, in Unix seconds; 0 until it is shown.
        first: Set when it is the oldest one, so that its clock must run.
        answered: Set when the answer is written.
        clock: Ends the waiting; its deadline is set when the question is shown.
    """

    id: str
    agent: Agent
    seconds: float
    deadline: float = 0.0
    first: trio.Event = msgspec.field(default_factory=trio.Event)
    answered: trio.Event = msgspec.field(default_factory=trio.Event)
    clock: trio.CancelScope = msgspec.field(default_factory=trio.CancelScope)

    def show(self) -> float:
        """Start its clock, once; returns its deadline."""
        if not self.deadline:
            self.deadline = time.time() + self.seconds
            self.clock.deadline = trio.current_time() + self.seconds
            self.agent.emit(ApprovalShown(id=self.id, deadline=self.deadline))
        return self.deadline

    async def wait(self) -> None:
        """Wait for the answer, until the clock has run out."""
        with self.clock:
            await self.first.wait()
            if not self.answered.is_set():
                self.show()
            await self.answered.wait()


class Underway:
    """See the module.

    Args:
        workspace: The folder the session works in.

    Attributes:
        locks: Calls of different agents that write one file run one after another.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.locks = Locks(workspace)
        self._approvals: dict[str, OpenApproval] = {}
        self._calls: list[BoundCall] = []

    @contextmanager
    def call(self, bound: BoundCall) -> Iterator[None]:
        """Register a running call, so that it ends with its plugin."""
        self._calls.append(bound)
        try:
            yield
        finally:
            self._calls.remove(bound)

    def end(self, plugin: str) -> None:
        """End the running calls of a plugin."""
        for bound in [bound for bound in self._calls if bound.plugin == plugin]:
            bound.cancel()

    @contextmanager
    def approval(self, agent: Agent, approval: str, seconds: float) -> Iterator[OpenApproval]:
        """Register an open approval."""
        opened = OpenApproval(approval, agent, seconds)
        self._approvals[approval] = opened
        try:
            yield opened
        finally:
            self._approvals.pop(approval, None)
            self._start_oldest()

    def ask(self) -> None:
        """See that the clock of the oldest question runs: one was just written to the log."""
        self._start_oldest()

    def _start_oldest(self) -> None:
        if self._approvals:
            oldest = next(iter(self._approvals.values()))
            oldest.first.set()

    def show(self, approval: str) -> float:
        """Start the clock of an open approval.

        Returns:
            Its deadline, in Unix seconds.

        Raises:
            UsageError: No such approval is open.
        """
        return self._find(approval).show()

    def take(self, approval: str) -> OpenApproval:
        """Return an open approval, which is open no more.

        Raises:
            UsageError: No such approval is open: it was answered, ran out, or its run ended.
        """
        found = self._find(approval)
        del self._approvals[approval]
        self._start_oldest()
        return found

    def _find(self, approval: str) -> OpenApproval:
        if approval not in self._approvals:
            raise UsageError(
                f"There is no open approval {approval!r}.", hint="It was answered or ran out."
            )
        return self._approvals[approval]
