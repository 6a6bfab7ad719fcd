"""The feed of a session: what its readers get, encoded once for all of them."""

from __future__ import annotations

import trio
from hilum import Session
from hilum_view import SessionView


class Feed:
    """The feed of one session.

    Args:
        session: The session.
        view: The view that the feed keeps up to date.

    Attributes:
        ended: Set when the session has ended, so that nothing more comes.
        why: Why the feed ended.
    """

    def __init__(self, session: Session, view: SessionView) -> None:
        self.ended = trio.Event()
        self.why = ""
        self._session = session
        self._view = view
        self._reached = 0
        self._moved = trio.Event()

    async def run(self) -> None:
        """Follow the session until it ends."""
        async for item in self._session.events(deltas=True):
            self._view.apply(item)
            self._reached = max(self._reached, item.seq)
            self._wake()
        self.end("closed")

    def end(self, why: str) -> None:
        """End the feed; readers are told why."""
        if not self.ended.is_set():
            self.why = why
            self.ended.set()
        self._wake()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = trio.Event()

    async def reached(self, seq: int) -> None:
        """Wait until the feed contains an event, or has ended."""
        while self._reached < seq and not self.ended.is_set():
            await self._moved.wait()
