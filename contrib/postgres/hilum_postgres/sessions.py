"""The sessions in the database. All methods may block, and are called in threads."""

from __future__ import annotations

import builtins
import socket
import time
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import psycopg
import trio
from hilum import StoreError, errors
from hilum.events import AnyEvent, decode
from hilum.store import LeaseHolder, SessionInfo, spell_folder, unreadable_event_error
from msgspec.structs import astuple

from hilum_postgres import schema
from hilum_postgres.database import Connection, Database, is_dead, session_busy_error
from hilum_postgres.local_copy import LocalCopy
from hilum_postgres.log import PostgresLog
from hilum_postgres.writer import STALE, Writer

T = TypeVar("T")

MAX_CANDIDATES = 8  # maximum number of sessions listed in the error for an ambiguous name
PAGE = 5_000  # events that are read at once when a session is opened
# Seconds that the server may need to notice that a process on its machine was killed
LOCK_TIMEOUT = 0.1
NAMING_TIMEOUT = 1.0  # seconds that a process which opens a session may need to write its name
RELEASE_TIMEOUT = 2.0  # seconds that the server needs at most to end a connection


class SessionTable:
    """The sessions of one database.

    Args:
        url: The URL of the database.
        outage_timeout: Seconds that logs wait for an unreachable database.
    """

    def __init__(self, url: str, outage_timeout: float) -> None:
        self._database = Database(url)
        self._outage_timeout = outage_timeout
        self._writer: Writer | None = None
        self._address = ""

    def announce(self, address: str) -> None:
        """Announce a text with all leases from now on. Does not block."""
        self._address = address
        if self._writer is not None:
            self._writer.announce(address)

    @property
    def writer(self) -> Writer:
        """The thread for leases and appends, which the first open log starts."""
        if self._writer is None or not self._writer.is_own:
            self._writer = Writer(self._database, self._outage_timeout, self._address)
        return self._writer

    def find(self, session: str) -> tuple[int, SessionInfo]:
        """Return the number and the description of a session.

        Args:
            session: The session's id or an unambiguous beginning of the id.

        Raises:
            StoreError: No session matches, or several do (``E_UNKNOWN``).
        """
        return self._database.run(lambda connection: _find(connection, session))

    def is_open(self, session: str) -> bool:
        """Return whether a process has a session open, or may return to it."""

        def read(connection: Connection) -> bool:
            number, _ = _find(connection, session)
            row = connection.execute(schema.FIND_LEASE, (number,), prepare=True).fetchone()
            if row is None:  # it was closed in order
                return False
            host, pid, silence, is_locked = row
            if silence > STALE:
                return False
            return is_locked or not (host == socket.gethostname() and is_dead(pid))

        return self._database.run(read)

    def list(self, workspace: str) -> Sequence[SessionInfo]:
        """Return all sessions or those of a workspace, most recently used first."""
        query = f"SELECT {schema.FIELDS} FROM sessions"
        values: tuple[Any, ...] = ()
        if workspace:
            query += " WHERE workspace = %s"
            values = (spell_folder(workspace),)

        def read(connection: Connection) -> builtins.list[tuple[Any, ...]]:
            statement = f"{query} ORDER BY updated DESC, number DESC"
            return connection.execute(statement.encode(), values, binary=True).fetchall()

        return [SessionInfo(*row) for row in self._database.run(read)]

    def find_holders(self, sessions: Sequence[str]) -> dict[str, LeaseHolder]:
        """Return who opened sessions last and has not closed them in order, by id."""

        def read(connection: Connection) -> builtins.list[tuple[Any, ...]]:
            values = (STALE, builtins.list(sessions))
            return connection.execute(schema.FIND_HOLDERS, values, prepare=True).fetchall()

        return {row[0]: LeaseHolder(*row[1:]) for row in self._database.run(read)}

    def publish(self, notice: str, seconds: float) -> None:
        """Let other processes read a text for a number of seconds."""

        def write(connection: Connection) -> None:
            connection.execute(schema.FORGET_NOTICES)
            connection.execute(schema.PUBLISH, (notice, seconds))

        self._database.run(write)

    def read_notices(self, seconds: float) -> builtins.list[str]:
        """Return the texts that were published at most a number of seconds ago, and are valid."""

        def read(connection: Connection) -> builtins.list[str]:
            rows = connection.execute(schema.READ_NOTICES, (seconds,), prepare=True).fetchall()
            return [row[0] for row in rows]

        return self._database.run(read)

    def read(self, session: str, after: int, limit: int) -> builtins.list[AnyEvent]:
        """Return events of a session, whichever process is writing to it."""

        def read(connection: Connection) -> builtins.list[AnyEvent]:
            number, info = _find(connection, session)
            return _decode(info, _read_lines(connection, number, info.id, after, limit))

        return self._database.run(read)

    def read_raw(self, session: str, after: int, limit: int) -> builtins.list[tuple[int, bytes]]:
        """Return events of a session as they are in the database."""

        def read(connection: Connection) -> builtins.list[tuple[int, bytes]]:
            return _read_rows(connection, _find(connection, session)[0], after, limit)

        return self._database.run(read)

    def create(self, info: SessionInfo, token: trio.lowlevel.TrioToken) -> PostgresLog:
        """Create a session and acquire its lease."""
        writer = self.writer
        marks = ", ".join(["%s"] * len(astuple(info)))
        insert = (
            f"INSERT INTO sessions ({schema.FIELDS}, epoch, holder) VALUES ({marks}, 1, %s)"
            " ON CONFLICT (id) DO NOTHING RETURNING number"
        )
        values = [
            each.replace("\0", "\ufffd") if isinstance(each, str) else each
            for each in astuple(info)
        ]

        def create(connection: Connection) -> PostgresLog:
            # The lease is acquired before the commit, so that the session is never visible without
            # it.
            with connection.transaction():
                row = connection.execute(insert.encode(), (*values, writer.holder)).fetchone()
                if row is None:
                    raise StoreError(
                        f"There is already a session {info.id}.",
                        hint="Use another id for the new session.",
                    )
                connection.execute(schema.LOCK, row)
            return self._add(writer, token, row[0], 1, info, LocalCopy())

        return writer.call(create)

    def open(self, session: str, token: trio.lowlevel.TrioToken) -> PostgresLog:
        """Acquire the lease of a session, and read its events."""
        writer = self.writer
        number, info = self.find(session)

        copy = LocalCopy()

        def acquire(connection: Connection) -> tuple[PostgresLog, SessionInfo]:
            if number in writer.logs:
                holder = connection.execute(schema.FIND_HOLDER, (number,)).fetchone()
                raise session_busy_error(info.id, holder)
            is_locked = _take_lock(connection, number, info.id)
            statement = (
                "UPDATE sessions SET epoch = epoch + 1, holder = %s WHERE number = %s"
                f" RETURNING epoch, {schema.FIELDS}"
            )
            row = connection.execute(statement.encode(), (writer.holder, number)).fetchone()
            if row is None:  # deleted in the meantime
                if is_locked:
                    connection.execute(schema.UNLOCK, (number,))
                raise _unknown_error(session)
            current = SessionInfo(*row[1:])
            log = self._add(writer, token, number, row[0], current, copy)
            log.is_locked = is_locked
            return log, current

        try:
            log, current = writer.call(acquire)
        except BaseException:
            copy.close()
            raise
        try:
            self._fill(copy, number, current)
        except BaseException:
            writer.release(log)
            copy.close()
            raise
        return log

    def _fill(self, copy: LocalCopy, number: int, info: SessionInfo) -> None:
        while copy.last < info.events:

            def read(connection: Connection) -> builtins.list[bytes]:
                return _read_lines(connection, number, info.id, copy.last, PAGE)

            lines = self._database.run(read)
            _decode(info, lines, copy.last)
            copy.add(lines, copy.last)

    def rename(self, session: str, title: str) -> None:
        """Set the title of a session."""
        title = title.replace("\0", "\ufffd")

        def rename(connection: Connection) -> None:
            number, _ = _find(connection, session)
            connection.execute("UPDATE sessions SET title = %s WHERE number = %s", (title, number))

        self._database.run(rename)

    def delete(self, session: str) -> None:
        """Delete a session and its log."""

        def delete(connection: Connection) -> None:
            number, info = _find(connection, session)
            with connection.transaction():
                locked = connection.execute(schema.LOCK_FOR_TRANSACTION, (number,)).fetchone()
                if not locked or not locked[0]:
                    holder = connection.execute(schema.FIND_HOLDER, (number,)).fetchone()
                    raise session_busy_error(info.id, holder)
                connection.execute("DELETE FROM sessions WHERE number = %s", (number,))
                connection.execute("DELETE FROM events WHERE session = %s", (number,))

        self._database.run(delete)

    def close(self) -> None:
        """End the thread, which gives all leases back, and close the connections."""
        if self._writer is not None and self._writer.is_own:
            self._writer.close()
        self._database.close()

    def _add(
        self,
        writer: Writer,
        token: trio.lowlevel.TrioToken,
        number: int,
        epoch: int,
        info: SessionInfo,
        copy: LocalCopy,
    ) -> PostgresLog:
        log = PostgresLog(writer, token, number, epoch, info, copy)
        writer.logs[number] = log
        return log


def _find(connection: Connection, session: str) -> tuple[int, SessionInfo]:
    query = f"SELECT number, {schema.FIELDS} FROM sessions WHERE"
    wanted = session.replace("\0", "\ufffd")
    rows = connection.execute(f"{query} id = %s".encode(), (wanted,), prepare=True).fetchall()
    if not rows:
        # starts_with: unlike LIKE, it has no wildcards. The range uses the index.
        rows = connection.execute(
            f"{query} id >= %s AND starts_with(id, %s) ORDER BY id LIMIT %s".encode(),
            (wanted, wanted, MAX_CANDIDATES + 1),
        ).fetchall()
    if len(rows) == 1:
        return rows[0][0], SessionInfo(*rows[0][1:])
    if not rows:
        raise _unknown_error(session)
    names = ", ".join(str(row[1]) for row in rows[:MAX_CANDIDATES])
    if len(rows) > MAX_CANDIDATES:
        names += ", …"
    raise StoreError(
        f"More than one session begins with {session!r}.",
        code=errors.E_UNKNOWN,
        hint=f"Use a longer part of the id: {names}.",
    )


def _unknown_error(session: str) -> StoreError:
    return StoreError(
        f"There is no session {session!r}.",
        code=errors.E_UNKNOWN,
        hint="`hilum sessions list --all` shows all sessions.",
    )


def _take_lock(connection: Connection, number: int, session: str) -> bool:
    """Acquire the lock of a session, also from a process that shows no sign of life any more.

    Returns:
        Whether the lock was acquired. Without it, the session may be opened all the same: the new
        epoch keeps the earlier holder from writing, and the writer acquires the lock later.

    Raises:
        StoreError: A process that is alive has it (``E_BUSY``).
    """
    began = time.monotonic()
    deadline = 0.0
    while True:
        row = connection.execute(schema.LOCK, (number,)).fetchone()
        if row and row[0]:
            return True
        holder = connection.execute(schema.FIND_HOLDER, (number,)).fetchone()
        if holder is not None and holder[0] is None:
            # A process that has just taken the lock writes its name in the next statement.
            is_stale = time.monotonic() > began + NAMING_TIMEOUT
        else:
            is_stale = holder is not None and holder[3] > STALE
        if not is_stale:
            is_named = holder is None or holder[0] is not None
            if is_named and time.monotonic() > began + LOCK_TIMEOUT:
                raise session_busy_error(session, holder)
            time.sleep(0.005)
            continue
        if not deadline:
            deadline = time.monotonic() + RELEASE_TIMEOUT
            # A frozen process, or one on the other side of a broken network, would keep its lock.
            try:
                connection.execute(schema.END_HOLDER, (number,))
            except psycopg.errors.InsufficientPrivilege:
                return False
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)


def _read_rows(
    connection: Connection, number: int, after: int, limit: int
) -> list[tuple[int, bytes]]:
    return connection.execute(
        "SELECT seq, data FROM events WHERE session = %s AND seq > %s ORDER BY seq LIMIT %s",
        (number, max(after, 0), limit),
        prepare=True,
        binary=True,
    ).fetchall()


def _read_lines(
    connection: Connection, number: int, session: str, after: int, limit: int
) -> list[bytes]:
    """Return encoded events of a session.

    Raises:
        StoreError: An event is missing, also at the end.
    """
    after = max(after, 0)
    rows = _read_rows(connection, number, after, limit)
    for expected, (seq, _) in enumerate(rows, after + 1):
        if seq != expected:
            raise _missing_error(session, expected)
    if len(rows) < limit:
        # Other processes may have written meanwhile; both numbers are of one snapshot.
        row = connection.execute(
            "SELECT events, (SELECT max(seq) FROM events WHERE session = %s) FROM sessions"
            " WHERE number = %s",
            (number, number),
            prepare=True,
        ).fetchone()
        if row is not None and (row[1] or 0) < row[0]:
            raise _missing_error(session, (row[1] or 0) + 1)
    return [data for _, data in rows]


def _decode(info: SessionInfo, lines: Sequence[bytes], after: int | None = None) -> list[AnyEvent]:
    """Return decoded events.

    Raises:
        StoreError: An event is damaged, or not the one that belongs there.
    """
    events: list[AnyEvent] = []
    for line in lines:
        try:
            event = decode(line)
            if after is not None and event.seq != after + len(events) + 1:
                raise ValueError(f"its number is {event.seq}")
        except (ValueError, msgspec.MsgspecError) as error:
            seq = events[-1].seq + 1 if events else (after or 0) + 1
            raise unreadable_event_error(info.id, seq, str(error), line) from None
        events.append(event)
    return events


def _missing_error(session: str, seq: int) -> StoreError:
    return unreadable_event_error(session, seq, "it is missing")
