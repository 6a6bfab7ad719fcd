"""The store: sessions in one SQLite file.

Operations that may wait for a disk or another process run in a worker thread. Only appending to and
reading from an open log are synchronous (see ``log.py``). SQLite is imported in the worker thread
on first use.
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
    from hilum.store import Log, RawReader, Store

    from hilum_store.log import SqliteLog
    from hilum_store.sessions import SessionTable

T = TypeVar("T")


class SqliteStore:
    """Sessions in one SQLite file. Implements ``Store``.

    Args:
        path: The file, which is opened on first use. If the file does not exist, it is created with
            permissions for the user only.
        durability: With ``process``, an appended event survives the end of the process; with
            ``power``, it also survives a loss of power.
    """

    def __init__(self, path: Path, durability: Literal["process", "power"] = "process") -> None:
        self.path = path
        self.durability = durability
        self._opening = threading.Lock()
        self._sessions: SessionTable | None = None
        self._closed = False

    async def create(self, info: SessionInfo) -> SqliteLog:
        """Create a session with an empty log and acquire its lease.

        Raises:
            StoreError: The id is already in use, or the file cannot be written.
        """
        return await self._in_thread(lambda sessions: sessions.create(info))

    async def open(self, session: str) -> SqliteLog:
        """Acquire the lease of a session.

        Raises:
            StoreError: No session matches, or several do (``E_UNKNOWN``), or another process,
                named in the message, is writing to it (``E_BUSY``).
        """
        return await self._in_thread(lambda sessions: sessions.open(session))

    async def info(self, session: str) -> SessionInfo:
        """Return the description of a session without acquiring a lease.

        Raises:
            StoreError: There is no such session.
        """
        return await self._in_thread(lambda sessions: sessions.find(session)[1])

    async def is_open(self, session: str) -> bool:
        """Return whether a process has a session open, without acquiring the lease.

        Raises:
            StoreError: There is no such session.
        """
        return await self._in_thread(lambda sessions: sessions.is_open(session))

    async def list(self, workspace: str = "") -> Sequence[SessionInfo]:
        """Return all sessions or those of one workspace, most recently used first."""
        return await self._in_thread(lambda sessions: sessions.list(workspace))

    async def read(self, session: str, after: int = 0, limit: int = 1000) -> Sequence[AnyEvent]:
        """Return events without acquiring a lease, even while another process is writing.

        Raises:
            StoreError: There is no such session, or an event is damaged.
        """
        return await self._in_thread(lambda sessions: sessions.read(session, after, limit))

    async def read_raw(
        self, session: str, after: int = 0, limit: int = 1000
    ) -> Sequence[tuple[int, bytes]]:
        """Return events as they are in the file, also those that ``read`` rejects.

        Raises:
            StoreError: There is no such session, or the file cannot be read.
        """
        return await self._in_thread(lambda sessions: sessions.read_raw(session, after, limit))

    async def rename(self, session: str, title: str) -> None:
        """Set the title of a session, even if the session is in use."""
        await self._in_thread(lambda sessions: sessions.rename(session, title))

    async def delete(self, session: str) -> None:
        """Delete a session and its log.

        Raises:
            StoreError: The session is open (``E_BUSY``).
        """
        await self._in_thread(lambda sessions: sessions.delete(session))

    async def close(self) -> None:
        """Close the store and all of this process's logs; the store cannot be used again."""
        # The flag is set first, so that no operation in a thread reopens the file.
        self._closed = True
        if self._sessions:
            # This runs here instead of in a worker thread: only this thread appends to logs, so no
            # append can be in progress.
            self._sessions.release()
        # Closing is shielded: it takes milliseconds, and a partly closed store would keep its file
        # open.
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._close)

    async def _in_thread(self, work: Callable[[SessionTable], T]) -> T:
        return await trio.to_thread.run_sync(lambda: work(self._ready()))

    def _ready(self) -> SessionTable:
        """Return the sessions, opening the file on first use.

        If opening fails, the next use tries again, because the cause may have been resolved.
        """
        with self._opening:
            if self._closed:
                raise StoreError("The session store is closed.", hint="Open a new kernel.")
            if self._sessions is None:
                from hilum_store.sessions import SessionTable  # imports SQLite

                self._sessions = SessionTable(self.path, self.durability)
            return self._sessions

    def _close(self) -> None:
        with self._opening:
            sessions = self._sessions
            self._sessions = None
            if sessions:
                sessions.close()


if TYPE_CHECKING:

    def _conforms(store: SqliteStore, log: SqliteLog) -> tuple[Store, RawReader, Log]:
        return store, store, log
