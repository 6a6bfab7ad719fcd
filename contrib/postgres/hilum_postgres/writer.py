"""The thread that holds the leases of this process and writes the events of its open logs.

Leases are locks of one connection. If that is lost, the thread connects again, takes the locks again
and asks the database what it has before it goes on. The epoch in a session's row decides: a log whose
session was opened elsewhere meanwhile writes nothing more.
"""

from __future__ import annotations

import os
import queue
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from hilum import StoreError

from hilum_postgres import schema
from hilum_postgres.database import Connection, Database, is_lost

if TYPE_CHECKING:
    from hilum_postgres.log import PostgresLog

T = TypeVar("T")

BEAT = 5.0  # seconds between the signs of life of a process that has sessions open
STALE = 30.0  # seconds without one, after which its sessions may be taken over
MIN_PAUSE, MAX_PAUSE = 0.1, 2.0  # seconds between two attempts to connect


class Writer:
    """The thread of a store.

    Args:
        database: The database.
        patience: Seconds that logs with queued events wait for a database that is away.
        address: What is announced with the leases.

    Attributes:
        holder: The id of this process as a holder of leases.
        logs: The open logs by the number of their session. Used in the thread.
    """

    def __init__(self, database: Database, patience: float, address: str = "") -> None:
        self.holder = os.urandom(8).hex()
        self._address = address
        self.logs: dict[int, PostgresLog] = {}
        self._database = database
        self._patience = patience
        self._pid = os.getpid()
        self._connection: Connection | None = None
        self._jobs: queue.SimpleQueue[tuple[Callable[[Connection], Any], Future[Any]]] = (
            queue.SimpleQueue()
        )
        # Not an Event: an interrupt in ``set`` could leave its lock locked.
        self._wanted: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._ended = False
        self._away_since: float | None = None
        self._retry_at = 0.0
        self._pause = MIN_PAUSE
        self._beat_at = 0.0
        # daemon: a store that was never closed must not keep the process alive, and the database
        # discards a statement that breaks off.
        self._thread = threading.Thread(target=self._run, name="hilum-postgres", daemon=True)
        self._thread.start()

    @property
    def is_own(self) -> bool:
        """Whether this is the process that created the writer, and not one that it forked."""
        return os.getpid() == self._pid

    def announce(self, address: str) -> None:
        """Announce a text with the leases. Does not block."""
        self._address = address
        self._beat_at = 0.0
        self.wake()

    def wake(self) -> None:
        """Have the thread look for events. Does not block."""
        self._wanted.put(None)

    def call(self, work: Callable[[Connection], T]) -> T:
        """Do work with the connection in the thread, and return its outcome. Blocks.

        Raises:
            StoreError: The database cannot be reached or used.
        """
        done: Future[T] = Future()
        self._jobs.put((work, done))
        self.wake()
        return done.result()

    def release(self, log: PostgresLog) -> None:
        """Forget a log, and release its lease. Blocks."""

        def unlock(connection: Connection) -> None:
            if self.logs.get(log.number) is not log:
                return
            del self.logs[log.number]
            if log.is_locked:
                connection.execute(schema.UNLOCK, (log.number,))

        # If the database is away, the lock ends with the connection.
        with suppress(StoreError):
            self.call(unlock)
        self.logs.pop(log.number, None)

    def close(self) -> None:
        """End the thread and close its connection. Blocks."""
        self._ended = True
        self.wake()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended:
            with suppress(queue.Empty):
                self._wanted.get(timeout=self._choose_timeout())
                while True:
                    self._wanted.get_nowait()
            self._work()
        self._fail_jobs(StoreError("The session store is closed.", hint="Open a new kernel."))
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.execute("DELETE FROM holders WHERE id = %s", (self.holder,))
            self._connection.close()

    def _choose_timeout(self) -> float | None:
        if not self._jobs.empty():
            return 0.0
        now = time.monotonic()
        if self._connection is None:
            return max(self._retry_at - now, 0.0) if self.logs else None
        return max(self._beat_at - now, 0.0) if self.logs else None

    def _work(self) -> None:
        is_due = time.monotonic() >= self._retry_at or not self._jobs.empty()
        if self._connection is None and not is_due:
            return
        try:
            connection = self._connection or self._connect()
            self._beat(connection)
            self._do_jobs(connection)
            for log in list(self.logs.values()):
                self._write(log, connection)
        except psycopg.Error as error:
            self._lose(self._database.explain(error))
        except StoreError as error:
            self._lose(error)

    def _write(self, log: PostgresLog, connection: Connection) -> None:
        try:
            log.write(connection)
        except psycopg.Error as error:
            if is_lost(error, connection):
                raise
            # The database refuses these events for good; other sessions are not affected.
            log.end(self._database.explain(error))

    def _connect(self) -> Connection:
        connection = self._database.connect()
        try:
            for log in list(self.logs.values()):
                log.is_locked = False
                self._lock_again(log, connection)
            self._beat_at = 0.0
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        self._away_since = None
        self._pause = MIN_PAUSE
        for log in self.logs.values():
            log.note_delay(None)
        return connection

    def _lock_again(self, log: PostgresLog, connection: Connection) -> None:
        """Take a log's lock again, and find out what the database has of it.

        Without the lock, the epoch still keeps others from writing between this log's events. The
        lock may be that of this process's own lost connection, which the server has not noticed.
        """
        if log.is_broken or not log.reconcile(connection):
            return
        row = connection.execute(schema.LOCK, (log.number,)).fetchone()
        log.is_locked = bool(row and row[0])

    def _beat(self, connection: Connection) -> None:
        if time.monotonic() < self._beat_at:
            return
        if self._beat_at == 0.0:
            connection.execute("DELETE FROM holders WHERE beat < now() - interval '1 day'")
        about = (self.holder, socket.gethostname(), self._pid, self._address)
        connection.execute(schema.BEAT, about)
        self._beat_at = time.monotonic() + BEAT
        for log in self.logs.values():
            if not log.is_locked:
                self._lock_again(log, connection)

    def _do_jobs(self, connection: Connection) -> None:
        while not self._jobs.empty():
            work, done = self._jobs.get()
            try:
                done.set_result(work(connection))
            except psycopg.Error as error:
                done.set_exception(self._database.explain(error))
                if is_lost(error, connection):
                    raise
            except BaseException as error:
                done.set_exception(error)

    def _fail_jobs(self, error: StoreError) -> None:
        while not self._jobs.empty():
            _, done = self._jobs.get()
            done.set_exception(error)

    def _lose(self, error: StoreError) -> None:
        """Close the connection after an error, and choose when to connect again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        now = time.monotonic()
        if self._away_since is None:
            self._away_since = now
        self._retry_at = now + self._pause
        self._pause = min(2 * self._pause, MAX_PAUSE)
        self._fail_jobs(error)
        for log in self.logs.values():
            log.note_delay(error)
            if log.is_waiting and now - self._away_since > self._patience:
                log.end(error)
