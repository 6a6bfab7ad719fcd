"""Defines the state that a server's transport reports to the connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import attrs
import trio


@attrs.define(eq=False)
class TransportState:
    """The state of one transport.

    Attributes:
        lost: An event that is set when no further message can arrive.
        reason: Why the transport is lost, in one sentence; empty while the reason is unknown.
        status: The last HTTP status; 0 for none.
        refusal: The last refused request, in one sentence; empty for none.
        session_expired: Whether an HTTP server has forgotten the session.
        login_reason: Why the user must log in first; empty if no login is required.
    """

    lost: trio.Event = attrs.Factory(trio.Event)
    reason: str = ""
    status: int = 0
    refusal: str = ""
    session_expired: bool = False
    login_reason: str = ""
    _jobs: int = 0
    _job_ended: trio.Event = attrs.Factory(trio.Event)

    @contextmanager
    def count_job(self) -> Iterator[None]:
        """Count a job that uses the transport during the ``with`` block."""
        self._jobs += 1
        try:
            yield
        finally:
            self._jobs -= 1
            ended = self._job_ended
            self._job_ended = trio.Event()
            ended.set()

    async def wait_for_jobs(self) -> None:
        """Wait until no job uses the transport, or it is lost."""
        while self._jobs and not self.lost.is_set():
            await self._job_ended.wait()

    def fail(self, reason: str) -> None:
        """Mark the transport as lost. Only the first reason is kept."""
        self.reason = self.reason or reason
        self.lost.set()
