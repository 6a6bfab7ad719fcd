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
from hilum import StoreError, errors
from hilum.hooks import describe_error

from hilum_postgres import schema
from hilum_postgres.database import Connection, Database, is_lost

if TYPE_CHECKING:
    from hilum_postgres.log import PostgresLog

T = TypeVar("T")

HEARTBEAT_INTERVAL = 5.0  # seconds between the signs of life of a process that has sessions open
# Seconds between two attempts to acquire the lock of a session that was opened without it. Until then,
# another process could open the session, too.
RELOCK_INTERVAL = 0.5
STALE = 30.0  # seconds without one, after which its sessions may be taken over
MIN_PAUSE, MAX_PAUSE = 0.1, 2.0  # seconds between two attempts to connect


class Writer:
    """The thread of a store.

    Args:
        database: The database.
        outage_timeout: Seconds that logs with queued events wait for an unreachable database.
        address: What is announced with the leases.

    Attributes:
        holder: The id of this process as a holder of leases.
        logs: The open logs by the number of their session. Used in the thread.
    """

    def __init__(self, database: Database, outage_timeout: float, address: str = "") -> None:
        self.holder = os.urandom(8).hex()
        self._address = address
        self.logs: dict[int, PostgresLog] = {}
        self._database = database
        self._outage_timeout = outage_timeout
        self._pid = os.getpid()
        self._connection: Connection | None = None
        self._jobs: queue.SimpleQueue[tuple[Callable[[Connection], Any], Future[Any]]] = (
            queue.SimpleQueue()
        )
        # Not an Event: an interrupt in ``set`` could leave its lock locked.
        self._wanted: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._ended = False
        self._is_over = False
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
        return self._submit(work).result()

    def _submit(self, work: Callable[[Connection], T]) -> Future[T]:
        done: Future[T] = Future()
        self._jobs.put((work, done))
        self.wake()
        if self._is_over:
            self._fail_jobs(_closed_error())  # the thread may have ended before it saw the job
        return done

    def release(self, log: PostgresLog) -> None:
        """Forget a log, and release its lease. Blocks."""
        with suppress(StoreError):
            self.release_soon(log).result()

    def release_soon(self, log: PostgresLog) -> Future[None]:
        """Have the thread forget a log and release its lease. Does not block."""

        def unlock(connection: Connection) -> None:
            if self.logs.get(log.number) is not log:
                return
            del self.logs[log.number]
            if log.is_locked:
                connection.execute(schema.UNLOCK, (log.number,))
            # Without a holder, the session is not taken for one whose process may return.
            connection.execute(schema.RELEASE, (log.number, log.epoch))

        # If the database is away, the lock ends with the connection, and ``_lose`` forgets the log.
        log.is_released = True
        return self._submit(unlock)

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
        self._is_over = True
        self._fail_jobs(_closed_error())
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
            if any(not log.is_locked and not log.is_broken for log in self.logs.values()):
                self._beat_at = min(self._beat_at, time.monotonic() + RELOCK_INTERVAL)
            for log in list(self.logs.values()):
                self._write(log, connection)
            self._note_success()
        except psycopg.Error as error:
            self._lose(self._database.explain(error))
        except StoreError as error:
            self._lose(error)
        except Exception as error:
            # Without this thread, all sessions of the process would wait for ever.
            unexpected = _unexpected_error(error)
            for log in self.logs.values():
                log.end(unexpected)
            self._lose(unexpected)

    def _note_success(self) -> None:
        """Report that the database is back.

        Only a committed write shows it: a standby accepts connections, but no writes. The first write
        of a connection is the sign of life.
        """
        if self._away_since is None:
            return
        self._away_since = None
        self._pause = MIN_PAUSE
        for log in self.logs.values():
            log.note_delay(None)

    def _write(self, log: PostgresLog, connection: Connection) -> None:
        try:
            log.write(connection)
        except psycopg.Error as error:
            if is_lost(error, connection):
                raise
            # The database refuses these events for good; other sessions are not affected.
            refused = self._database.explain(error)
            log.end(StoreError(refused.message, hint=f"{refused.hint} {_hint_resume(log.id)}"))
        except Exception as error:
            log.end(_unexpected_error(error))

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
            # Those of killed processes. One that was only frozen writes its row again.
            connection.execute("DELETE FROM holders WHERE beat < now() - interval '5 minutes'")
        about = (self.holder, socket.gethostname(), self._pid, self._address)
        connection.execute(schema.BEAT, about)
        self._beat_at = time.monotonic() + HEARTBEAT_INTERVAL
        for log in list(self.logs.values()):
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
        with suppress(queue.Empty):
            while True:
                _, done = self._jobs.get_nowait()
                done.set_exception(error)

    def _lose(self, error: StoreError) -> None:
        """Close the connection after an error, and choose when to connect again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        # Their locks ended with the connection.
        for log in [log for log in self.logs.values() if log.is_released]:
            del self.logs[log.number]
        now = time.monotonic()
        if self._away_since is None:
            self._away_since = now
        self._retry_at = now + self._pause
        self._pause = min(2 * self._pause, MAX_PAUSE)
        self._fail_jobs(error)
        for log in self.logs.values():
            log.note_delay(error)
            if log.is_waiting and now - self._away_since > self._outage_timeout:
                log.end(_outage_error(log.id, self._outage_timeout, error))


def _closed_error() -> StoreError:
    return StoreError("The session store is closed.", hint="Open a new kernel.")


def _outage_error(session: str, seconds: float, error: StoreError) -> StoreError:
    return StoreError(
        f"hilum gave up after {seconds:g} seconds: {error.message}",
        hint=f"{error.hint} {_hint_resume(session)}",
    )


def _hint_resume(session: str) -> str:
    return (
        "Everything that was shown is stored. Later, `hilum run --resume"
        f" {session}` continues the session."
    )


def _unexpected_error(error: Exception) -> StoreError:
    return StoreError(
        f"The events could not be written: {describe_error(error)}.",
        code=errors.E_INTERNAL,
        hint="Everything that was shown is stored; the session can be resumed.",
    )
