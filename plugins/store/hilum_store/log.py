"""The log of one session, open for writing by this process.

Appending and reading are synchronous and run in the event loop's thread. They are synchronous on
purpose: an event must be stored before anything acts on it, with no point in between at which the
run could be cancelled. Appending an event takes tens of microseconds, less than passing it to a
thread. If another process is writing at the same time, appending waits for about a millisecond.
"""

from __future__ import annotations

import os
import socket
import sqlite3
from collections.abc import Callable, Sequence

from hilum import StoreError, errors
from hilum.events import AnyEvent, RunEnded, encode
from hilum.store import ImmediateLog, SessionInfo, describe
from msgspec.structs import replace

from hilum_store.database import SEQ_BITS, Database, read_events
from hilum_store.lease import Lease

# Number of appended bytes after which a checkpoint is requested during a run.
CHECKPOINT_EVERY = 4 << 20

# The process that last opened the session has stored its name in it, and only that process can
# write. A title is never overwritten.
CLAIM = """
UPDATE sessions SET title = iif(title = '', ?, title), state = ?, updated = ?, events = ?
WHERE number = ? AND holder = ?
"""
INSERT = "INSERT INTO events (key, data) VALUES (?, ?)"


class SqliteLog(ImmediateLog):
    """The log of a session and its lease. Implements ``Log``. The store creates it.

    Args:
        database: The open file.
        lease: The lock that keeps other processes out.
        checkpoint: Function that requests a checkpoint; called at the end of each run of the main
            agent.
        number: The number of the session in the file.
        holder: The unique name, stored in the session, for this opening of the session.
        info: The description of the session.
        last: Sequence number of the last event.
    """

    def __init__(
        self,
        database: Database,
        lease: Lease,
        checkpoint: Callable[[], None],
        number: int,
        holder: str,
        info: SessionInfo,
        last: int,
    ) -> None:
        self._database = database
        self._lease = lease
        self._checkpoint = checkpoint
        self._number = number
        self._holder = holder
        # Another process may rename the session, so the title is always read from the file.
        self._info = replace(info, title="")
        self._last = last
        self._size = 0
        # Using one cursor for all appends avoids creating one for each event.
        self._cursor = database.writer.cursor()

    @property
    def last(self) -> int:
        """Sequence number of the last event, 0 for an empty log."""
        return self._last

    @property
    def open(self) -> bool:
        """Whether this process still holds the lease."""
        return self._lease.held

    def append(self, events: Sequence[AnyEvent]) -> None:
        """Write events, whose ``seq`` must continue ``last`` without a gap, in one transaction.

        Raises:
            StoreError: The disk is full, the file is damaged, or the lease was lost. Nothing was
                written.
        """
        if not events:
            return
        self._check(events)
        first = self._number << SEQ_BITS
        rows = [(first | event.seq, encode(event)) for event in events]
        info = describe(self._info, events)
        last = events[-1].seq
        claim = (info.title, info.state, info.updated, last, self._number, self._holder)
        try:
            self._write(claim, rows)
            self._accept(info, last)
        except BaseException as error:
            # An interrupt may occur just before or just after the commit, so check whether the file
            # contains the events.
            if self._undo() == last and not isinstance(error, StoreError):
                self._accept(info, last)
            if isinstance(error, sqlite3.Error):
                raise self._database.explain(error) from error
            raise
        self._size += sum(len(data) for _, data in rows)
        if self._size > CHECKPOINT_EVERY or any(map(_ends_main_run, events)):
            self._size = 0
            self._checkpoint()

    def read(self, after: int = 0, limit: int = 1000) -> list[AnyEvent]:
        """Return at most ``limit`` events with a ``seq`` greater than ``after``, in order.

        Raises:
            StoreError: An event is damaged or missing, or the file cannot be read.
        """
        database = self._database
        try:
            return read_events(
                database.writer,
                database.path,
                self._info.id,
                self._number,
                after,
                limit,
            )
        except sqlite3.ProgrammingError:  # the store was closed
            raise self._given_up() from None
        except sqlite3.Error as error:
            raise database.explain(error) from error

    async def close(self) -> None:
        """Release the lease. Events can still be read through the store."""
        self.release()

    def release(self) -> None:
        """Release the lease, like ``close``, for callers in a thread."""
        if self.open:
            self._lease.release()
            self._checkpoint()

    def _check(self, events: Sequence[AnyEvent]) -> None:
        if not self.open:
            raise self._given_up()
        # SQLite would continue to write into a deleted file without an error.
        if self._database.moved:
            raise StoreError(
                f"The session file {self._database.path} was moved or deleted while it was in use.",
                hint="Nothing was written. Move it back, or restart hilum to create a new one.",
            )
        for expected, event in enumerate(events, self._last + 1):
            if event.seq != expected:
                raise StoreError(
                    f"The log of session {self._info.id} received event {event.seq} instead of"
                    f" {expected}.",
                    code=errors.E_INTERNAL,
                    hint="Nothing was written. This is a bug in the program that appends events.",
                )

    def _write(self, claim: tuple[object, ...], rows: list[tuple[int, bytes]]) -> None:
        cursor = self._cursor
        cursor.execute("BEGIN IMMEDIATE")
        # The holder is checked in the same transaction, so that it cannot change between the check
        # and the insertion of the events.
        if cursor.execute(CLAIM, claim).rowcount != 1:
            raise self._lost()
        if len(rows) == 1:
            cursor.execute(INSERT, rows[0])
        else:
            cursor.executemany(INSERT, rows)
        cursor.execute("COMMIT")

    def _accept(self, info: SessionInfo, last: int) -> None:
        self._last = last
        self._info = replace(info, title="")

    def _undo(self) -> int:
        """Roll back and return the number of the last event in the file."""
        try:
            if self._database.writer.in_transaction:
                self._cursor.execute("ROLLBACK")
            return self._database.last(self._number, self._database.writer)
        except sqlite3.Error:
            return self._last  # the original error is more informative

    def _lost(self) -> StoreError:
        row = self._cursor.execute(
            "SELECT id, holder FROM sessions WHERE number = ?", (self._number,)
        ).fetchone()
        what = session_busy_error(*row).message.rstrip(".") if row else "it was deleted"
        return StoreError(
            f"Session {self._info.id} can no longer be written by this process: {what}.",
            code=errors.E_BUSY,
            hint="Nothing was written; open the session again.",
        )

    def _given_up(self) -> StoreError:
        return StoreError(
            f"The log of session {self._info.id} is closed.",
            code=errors.E_BUSY,
            hint="Open the session again.",
        )


def _ends_main_run(event: AnyEvent) -> bool:
    return type(event) is RunEnded and event.agent == "main"


def session_busy_error(session: str, holder: str) -> StoreError:
    """Return the error for a session to which another process is writing.

    Args:
        session: Its id.
        holder: The stored name of the session's holder; may be empty.
    """
    process, _, rest = holder.partition("@")
    host, _, _ = rest.rpartition("/")
    if process == str(os.getpid()) and host == socket.gethostname():
        who = f"in this process ({process})"
    elif process and host:
        who = f"by process {process} on {host}"
    else:
        who = "by another process"
    return StoreError(
        f"Session {session} is in use {who}.",
        code=errors.E_BUSY,
        hint="Close the session there first, or fork it.",
    )
