"""The running calls of a session, locks on the files that they write, and open approvals."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec
import trio

from hilum.errors import UsageError
from hilum.events import ApprovalShown
from hilum.time_limits import TimedCall
from hilum.workspace import Locks, Workspace

if TYPE_CHECKING:
    from hilum.agents import Agent


class OpenApproval(msgspec.Struct, eq=False):
    """A request for approval that has not been answered yet.

    Attributes:
        id: The id of the approval, as in its events.
        agent: The agent whose call needs approval.
        seconds: Seconds that the user has to answer once the question is shown.
        deadline: Unix time by which the user must answer; 0 until the question is shown.
        first: Set when this becomes the oldest open question, so that its clock starts.
        answered: Set when the answer has been logged.
        clock: A scope that ends the wait; its deadline is set when the question is shown.
    """

    id: str
    agent: Agent
    seconds: float
    deadline: float = 0.0
    first: trio.Event = msgspec.field(default_factory=trio.Event)
    answered: trio.Event = msgspec.field(default_factory=trio.Event)
    clock: trio.CancelScope = msgspec.field(default_factory=trio.CancelScope)

    def show(self) -> float:
        """Start the clock if it is not running, and return the deadline."""
        if not self.deadline:
            # Faces need Unix time; the wait itself uses trio's clock, because the system clock may
            # jump.
            self.deadline = time.time() + self.seconds
            self.clock.deadline = trio.current_time() + self.seconds
            self.agent.emit(ApprovalShown(id=self.id, deadline=self.deadline))
        return self.deadline

    async def wait(self) -> None:
        """Wait until the user has answered or the time is over."""
        with self.clock:
            await self.first.wait()
            # An answer sets both events, so that a question that is answered before it becomes the
            # oldest one is not shown.
            if not self.answered.is_set():
                self.show()
            await self.answered.wait()


class CallsInFlight:
    """The running calls, file locks and open approvals of a session.

    Args:
        workspace: The folder that the session works in.

    Attributes:
        locks: File locks; with them, calls of different agents that write the same file run one
            after another.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.locks: Locks = Locks(workspace)
        self._approvals: dict[str, OpenApproval] = {}
        self._calls: list[TimedCall] = []
        # The calls of tools, by agent and id, which is unique among the calls that run at once.
        self._by_id: dict[tuple[str, str], TimedCall] = {}

    @contextmanager
    def call(self, timed: TimedCall) -> Iterator[None]:
        """Register a running call, so that ``end`` can end it with its plugin."""
        self._calls.append(timed)
        try:
            yield
        finally:
            self._calls.remove(timed)

    @contextmanager
    def tool_call(self, timed: TimedCall, agent: str, call: str) -> Iterator[None]:
        """Register the running call of a tool, which ``stop`` can also end.

        Args:
            timed: The running call.
            agent: Name of the agent that made the call.
            call: The call's id.
        """
        self._by_id[agent, call] = timed
        try:
            with self.call(timed):
                yield
        finally:
            if self._by_id.get((agent, call)) is timed:
                del self._by_id[agent, call]

    def stop(self, agent: str, call: str) -> bool:
        """End one call of a tool because the user wants it; return whether it was running."""
        timed = self._by_id.get((agent, call))
        if timed is None:
            return False
        timed.stopped = True
        timed.cancel()
        return True

    def end(self, plugin: str) -> None:
        """End the running calls of a plugin."""
        for timed in [timed for timed in self._calls if timed.plugin == plugin]:
            timed.cancel()

    @contextmanager
    def approval(self, agent: Agent, approval: str, seconds: float) -> Iterator[OpenApproval]:
        """Register an open approval."""
        opened = OpenApproval(approval, agent, seconds)
        self._approvals[approval] = opened
        try:
            yield opened
        finally:
            # Only the clock of the oldest open question starts automatically, so the clock of the
            # next question must start now, however the wait ended.
            self._approvals.pop(approval, None)
            self.start_oldest()

    def start_oldest(self) -> None:
        """Start the clock of the oldest open question."""
        if self._approvals:
            oldest = next(iter(self._approvals.values()))
            oldest.first.set()

    def show(self, approval: str) -> float:
        """Start the clock of an open approval.

        Returns:
            The approval's deadline, in Unix seconds.

        Raises:
            UsageError: No such approval is open.
        """
        return self._find(approval).show()

    def agent_of(self, approval: str) -> Agent:
        """Return the agent whose call waits for an approval.

        Raises:
            UsageError: No such approval is open.
        """
        return self._find(approval).agent

    def take(self, approval: str) -> OpenApproval:
        """Close an open approval and return it.

        Raises:
            UsageError: No such approval is open, because it was answered, it expired, or its run
                ended.
        """
        found = self._find(approval)
        del self._approvals[approval]
        self.start_oldest()
        return found

    def _find(self, approval: str) -> OpenApproval:
        if approval not in self._approvals:
            raise UsageError(
                f"There is no open approval {approval!r}.",
                hint="The approval was already answered, or it expired.",
            )
        return self._approvals[approval]
