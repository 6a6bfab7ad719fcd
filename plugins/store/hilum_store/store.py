"""The store: sessions in one SQLite file.

Everything that may wait for a disk or another process runs in a thread.

Only appending to and reading from an open log are synchronous (see ``log.py``). This module imports
neither SQLite nor anything that does: that happens at first use, in the thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import trio
from hilum import StoreError
from hilum.events import AnyEvent
from hilum.store import SessionInfo

if TYPE_CHECKING:
    from hilum.store import Log, Store

    from hilum_store.log import SqliteLog
    from hilum_store.sessions import Sessions

T = TypeVar("T")


class SqliteStore:
    """Sessions in one SQLite file. Implements ``Store``.

    Args:
        path: The file. It is opened at first use, and made where it does not exist, for the user
            alone.
        durability: ``process``: an appended event survives the death of the process; ``power``:
            also a loss of power.
    """

    def __init__(self, path: Path, durability: Literal["process", "power"] = "process") -> None:
        self.path = path
        self.durability = durability
        self._opening = threading.Lock()
        self._sessions: Sessions | None = None
        self._closed = False

    async def create(self, info: SessionInfo) -> SqliteLog:
        """Create a session with an empty log and take its lease.

        Raises:
            StoreError: The id is taken, or the file cannot be written.
        """
        return await self._in_thread(lambda sessions: sessions.create(info))

    async def open(self, session: str) -> SqliteLog:
        """Take the lease of a session.

        Raises:
            StoreError: ``E_UNKNOWN`` no such session, or more than one; ``E_BUSY`` somebody writes
                it (it says who).
        """
        return await self._in_thread(lambda sessions: sessions.open(session))

    async def info(self, session: str) -> SessionInfo:
        """Describe one session, without a lease. Raises ``StoreError`` with ``E_UNKNOWN``."""
        return await self._in_thread(lambda sessions: sessions.find(session)[1])

    async def list(self, workspace: str = "") -> Sequence[SessionInfo]:
        """List sessions, last used first; all, or those of one workspace."""
        return await self._in_thread(lambda sessions: sessions.list(workspace))

    async def read(self, session: str, after: int = 0, limit: int = 1000) -> Sequence[AnyEvent]:
        """Read events without a lease, also while another process writes them.

        Raises:
            StoreError: No such session, or an event is damaged.
        """
        return await self._in_thread(lambda sessions: sessions.read(session, after, limit))

    async def rename(self, session: str, title: str) -> None:
        """Give a session a title; it may be in use."""
        await self._in_thread(lambda sessions: sessions.rename(session, title))

    async def delete(self, session: str) -> None:
        """Delete a session and its log. Raises ``StoreError`` with ``E_BUSY`` while it is open."""
        await self._in_thread(lambda sessions: sessions.delete(session))

    async def close(self) -> None:
        """Close the store and all logs of this process. It cannot be used again."""
        self._closed = True
        if self._sessions:
            # Here and not in the thread: appending happens on this one, so none can be under way.
            self._sessions.release()
        with trio.CancelScope(
            shield=True
        ):  # milliseconds; a half-closed store would hold on to its file
            await trio.to_thread.run_sync(self._close)

    async def _in_thread(self, work: Callable[[Sessions], T]) -> T:
        return await trio.to_thread.run_sync(lambda: work(self._ready()))

    def _ready(self) -> Sessions:
        """Open the file at first use.

        Where that fails the next use tries again: the cause may be gone by then.
        """
        with self._opening:
            if self._closed:
                raise StoreError("The session store is closed.", hint="Open a new kernel.")
            if self._sessions is None:
                from hilum_store.sessions import Sessions  # loads SQLite

                self._sessions = Sessions(self.path, self.durability)
            return self._sessions

    def _close(self) -> None:
        with self._opening:
            sessions = self._sessions
            self._sessions = None
            if sessions:
                sessions.close()


if TYPE_CHECKING:

    def _conforms(store: SqliteStore, log: SqliteLog) -> tuple[Store, Log]:
        return store, log
