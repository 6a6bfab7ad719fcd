"""Runs: each run is an agent's work on one prompt."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

import msgspec
import trio

from hilum.errors import HilumError
from hilum.events import AnyEvent, Delta, RunEnded

if TYPE_CHECKING:
    from hilum.session import Session


class Run(msgspec.Struct, eq=False):
    """A run: an agent's work on one prompt.

    Attributes:
        id: The run's id, as in its events; empty for a command.
        agent: Name of the agent.
        state: The state of the user's workspace that the face reported with the prompt.
        reply: The reply to a prompt that was a command, for which no agent runs.
        result: The event with which the run ended; ``None`` while it is running.
        error: The error that ended the run without a result.
        after: Sequence number of the last event before the run's prompt, or before the run was
            resumed.
    """

    id: str
    agent: str
    session: Session
    state: Mapping[str, object] = {}
    reply: str | None = None
    result: RunEnded | None = None
    error: HilumError | None = None
    after: int = 0
    _over: trio.Event = msgspec.field(default_factory=trio.Event)

    async def wait(self) -> RunEnded:
        """Wait for the end of the run, and return its result.

        Raises:
            StoreError: The session's log can no longer be written (disk full, file damaged).
                Everything that was shown has been stored.
        """
        await self._over.wait()
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result

    async def events(self, *, deltas: bool = False) -> AsyncIterator[AnyEvent | Delta]:
        """Yield the session's events from this run's prompt until the run has ended.

        The events of other agents are included.

        Args:
            deltas: Whether to yield text and tool output while they arrive.
        """
        if not self.id:  # the prompt was a command
            return
        async for item in self.session.events(self.after, deltas=deltas):
            yield item
            if isinstance(item, RunEnded) and item.run == self.id:
                return

    def stop(self) -> None:
        """Stop the run immediately, with everything that it started.

        Other prompts for the agent stay in the queue.
        """
        if not self._over.is_set():
            self.session.stop(self.agent, run=self.id)

    def _finish(self, result: RunEnded | None, error: HilumError | None = None) -> None:
        """Record how the run ended, and wake all tasks that wait for it."""
        self.result = result
        self.error = error
        self._over.set()
