"""The store: sessions in a PostgreSQL database.

Everything that waits for the database runs in a thread. The driver is imported on first use.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import trio
from hilum import StoreError
from hilum.events import AnyEvent
from hilum.store import SessionInfo

if TYPE_CHECKING:
    from hilum.store import LeaseHolder, Log, RawReader, SharedStore, Store

    from hilum_postgres.log import PostgresLog
    from hilum_postgres.sessions import SessionTable

T = TypeVar("T")

CLOSE_TIMEOUT = 2.0  # seconds that a store which closes waits for the end of its connections


class PostgresStore:
    """Sessions in a PostgreSQL database. Implements ``Store`` and ``SharedStore``.

    Args:
        url: The URL of the database, which is connected to on first use.
        outage_timeout: Seconds that logs with queued events wait for an unreachable database.
    """

    def __init__(self, url: str, outage_timeout: float = 300.0) -> None:
        self._url = url
        self._outage_timeout = outage_timeout
        self._opening = threading.Lock()
        self._sessions: SessionTable | None = None
        self._logs: set[PostgresLog] = set()
        self._closed = False
        self._address = ""

    def announce(self, address: str) -> None:
        """Publish a text with each lease that this store acquires from now on."""
        self._address = address
        if self._sessions is not None:
            self._sessions.announce(address)

    async def find_holders(self, sessions: Sequence[str]) -> Mapping[str, LeaseHolder]:
        """Return who opened sessions last and has not closed them in order, by id.

        Raises:
            StoreError: The database cannot be reached.
        """
        if not sessions:
            return {}
        return await self._in_thread(lambda table: table.find_holders(sessions))

    async def publish(self, notice: str, seconds: float) -> None:
        """Let other processes read a text for a number of seconds.

        Raises:
            StoreError: The database cannot be reached.
        """
        await self._in_thread(lambda table: table.publish(notice, seconds))

    async def read_notices(self, seconds: float) -> Sequence[str]:
        """Return the texts that were published at most a number of seconds ago, and are valid.

        Raises:
            StoreError: The database cannot be reached.
        """
        return await self._in_thread(lambda table: table.read_notices(seconds))

    async def create(self, info: SessionInfo) -> PostgresLog:
        """Create a session with an empty log and acquire its lease.

        Raises:
            StoreError: The id is already in use, or the database cannot be reached.
        """
        token = trio.lowlevel.current_trio_token()
        return await self._acquire(lambda sessions: sessions.create(info, token))

    async def open(self, session: str) -> PostgresLog:
        """Acquire the lease of a session.

        Raises:
            StoreError: No session matches, or several do (``E_UNKNOWN``), or another process,
                named in the message, is writing to it (``E_BUSY``).
        """
        token = trio.lowlevel.current_trio_token()
        return await self._acquire(lambda sessions: sessions.open(session, token))

    async def info(self, session: str) -> SessionInfo:
        """Return the description of a session without acquiring a lease.

        Raises:
            StoreError: There is no such session.
        """
        return await self._in_thread(lambda sessions: sessions.find(session)[1])

    async def is_open(self, session: str) -> bool:
        """Return whether a process has a session open, without acquiring the lease.

        A process that lost its connection counts until it has shown no sign of life for 30 seconds.

        Raises:
            StoreError: There is no such session, or the database cannot be reached.
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
        """Return events as they are in the database, also those that ``read`` rejects.

        Raises:
            StoreError: There is no such session.
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
        self._closed = True
        # Closing is shielded: it takes a limited time, and leases must be given back.
        with trio.CancelScope(shield=True):
            try:
                async with trio.open_nursery() as nursery:
                    for log in self._logs:
                        nursery.start_soon(log.close)
            finally:
                with trio.move_on_after(CLOSE_TIMEOUT):
                    await trio.to_thread.run_sync(self._close, abandon_on_cancel=True)

    async def _acquire(self, acquire: Callable[[SessionTable], PostgresLog]) -> PostgresLog:
        """Open a log in a thread; its lease is released if the caller no longer waits for it."""
        opened = deque["PostgresLog"]()
        is_abandoned = threading.Event()

        def discard() -> None:
            # The thread and the caller may both be here; only one of them finds the log.
            with suppress(IndexError):
                opened.pop().discard()

        def work(sessions: SessionTable) -> PostgresLog:
            log = acquire(sessions)
            opened.append(log)
            if is_abandoned.is_set():
                discard()
            return log

        try:
            log = await self._in_thread(work)
        except BaseException:
            is_abandoned.set()
            discard()
            raise
        self._logs = {known for known in self._logs if not known.is_closed} | {log}
        return log

    async def _in_thread(self, work: Callable[[SessionTable], T]) -> T:
        # The driver waits as long as the server does not answer. A caller that is cancelled leaves it
        # alone with that.
        return await trio.to_thread.run_sync(lambda: work(self._ready()), abandon_on_cancel=True)

    def _ready(self) -> SessionTable:
        with self._opening:
            if self._closed:
                raise StoreError("The session store is closed.", hint="Open a new kernel.")
            if self._sessions is None:
                from hilum_postgres.sessions import SessionTable  # imports the driver

                self._sessions = SessionTable(self._url, self._outage_timeout)
                self._sessions.announce(self._address)
            return self._sessions

    def _close(self) -> None:
        with self._opening:
            sessions = self._sessions
            self._sessions = None
        if sessions:
            sessions.close()


if TYPE_CHECKING:

    def _conforms(
        store: PostgresStore, log: PostgresLog
    ) -> tuple[Store, RawReader, SharedStore, Log]:
        return store, store, store, log
