"""Heartbeats in the log while agents work and nothing else is written.

The log of a killed process shows until when its agents worked: at most ``HEARTBEAT_INTERVAL`` seconds
less than they did. Without heartbeats, a call that was killed after an hour would count as one of no
seconds in traces, bills and budgets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set

import trio

from hilum.agents import Agent
from hilum.errors import StoreError
from hilum.event_writer import EventWriter
from hilum.events import HEARTBEAT_INTERVAL, Heartbeat
from hilum.journal import Journal

MAX_HEARTBEATS = 24 * 60
"""Heartbeats without another event between them, after which none is written until the next event:
those of a day."""


class Heartbeats:
    """The writer of a session's heartbeats.

    Args:
        journal: The log of the session.
        writer: The writer of the session's events.
        agents: The session's agents by name.
        working: The names of the agents that are working.
    """

    def __init__(
        self, journal: Journal, writer: EventWriter, agents: Mapping[str, Agent], working: Set[str]
    ) -> None:
        self._journal = journal
        self._writer = writer
        self._agents = agents
        self._working = working
        self._scope: trio.CancelScope | None = None

    def start(self, start_task: Callable[..., None]) -> None:
        """Write heartbeats from now on; has no effect if they are already written.

        Args:
            start_task: Starts a task in the session.
        """
        if self._scope is None:
            self._scope = trio.CancelScope()
            start_task(self._write, self._scope, name="heartbeats")

    def stop(self) -> None:
        """Write no more heartbeats, because no agent is working."""
        if self._scope is not None:
            self._scope.cancel()
            self._scope = None

    async def _write(self, scope: trio.CancelScope) -> None:
        silent = 0  # heartbeats since the last other event
        last = self._journal.last
        with scope:
            while True:
                await self._wait_for_silence()
                if self._journal.last != last:
                    silent = 0
                if silent < MAX_HEARTBEATS and any(map(self._is_busy, self._working)):
                    try:
                        self._writer.write(Heartbeat())
                    except StoreError:
                        return  # the agents' own events fail too, which ends their runs
                    silent += 1
                last = self._journal.last

    async def _wait_for_silence(self) -> None:
        """Wait until nothing was written for ``HEARTBEAT_INTERVAL`` seconds, beginning now at most.

        Other events show just as well until when the agents worked.
        """
        due = trio.current_time() + HEARTBEAT_INTERVAL
        while trio.current_time() < due:
            await trio.sleep_until(due)
            due = max(due, self._journal.appended_at + HEARTBEAT_INTERVAL)

    def _is_busy(self, name: str) -> bool:
        """Return whether an agent does more than wait for the user."""
        conversation = self._agents[name].conversation
        # An agent that waits for the user's approval costs nothing, perhaps for a whole night.
        if conversation.state != "waiting_for_approval":
            return True
        # Another call of the same response may run meanwhile.
        open_calls = conversation.open_calls()
        return any(call.started is not None and not call.waits_for_user for call in open_calls)
