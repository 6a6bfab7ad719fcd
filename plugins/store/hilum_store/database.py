"""The database file: its schema, how it is opened, and how it is validated before any write.

There is one row per session and one row per event. An event's key combines its session's number and
its ``seq`` in one integer, so a log's events are adjacent in one tree, and appending does not
update an index.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec
from hilum import StoreError
from hilum.events import AnyEvent, decode
from hilum.store import SessionInfo, UnreadableLog, suggest_rescue, unreadable_event_error

from hilum_store.error_messages import (
    OTHER_FILE,
    damaged_file_error,
    explain_error,
    foreign_file_error,
    is_damage,
    unusable_file_error,
)
from hilum_store.lease import Lease, is_locked

Durability = Literal["process", "power"]

APPLICATION = 0x68696C75  # "hilu" in the header of the file
VERSION = 1
# The columns, in the order of SessionInfo's fields
FIELDS = "id, workspace, kind, title, created, updated, events, state, forked"
SEQ_BITS = 32
SEQ_MASK = (1 << SEQ_BITS) - 1
# A commit takes about a millisecond: a longer wait means that another program holds the lock.
LOCK_TIMEOUT = 5.0  # seconds to wait while another process is writing
SWEEP_SECONDS = 0.01  # seconds that another process may need to remove a killed process's lease

# AUTOINCREMENT: the number of a deleted session is never reused, so events cannot be appended to
# the wrong session.
SCHEMA = f"""
CREATE TABLE sessions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    workspace TEXT NOT NULL,
    kind TEXT NOT NULL,
    title TEXT NOT NULL,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    events INTEGER NOT NULL,
    state TEXT NOT NULL,
    forked TEXT NOT NULL,
    holder TEXT NOT NULL
);
CREATE TABLE events (key INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE VIEW log (session, seq, event) AS
    SELECT s.id, e.key & {SEQ_MASK}, CAST(e.data AS TEXT)
    FROM events e JOIN sessions s ON s.number = e.key >> {SEQ_BITS};
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
"""


class Database:
    """An open session file. Opening a file may block, so create an instance in a thread.

    ``writer`` belongs to the event loop's thread, which appends to and reads from open logs. All
    other operations run in worker threads and use ``side``, one thread at a time.

    Attributes:
        damaged: Whether the file turned out to be damaged. Nothing is then moved into it from the
            log next to it, so that it stays as it is.

    Args:
        path: The file; it and its folder are created if they do not exist.
        durability: With ``process``, committed data survives the end of the process; with
            ``power``, it also survives a loss of power.

    Raises:
        StoreError: The file belongs to another program, is damaged, was created by a newer version
            or cannot be used. It was not changed.
    """

    def __init__(self, path: Path, durability: Durability = "process") -> None:
        self.path = _prepare(path)
        self.leases = self.path.with_name(f"{self.path.name}.leases")
        self._synchronous = "FULL" if durability == "power" else "NORMAL"
        self._lock = threading.RLock()
        self.damaged = False
        self._guard = self._open_guard()
        try:
            with self.explained():
                self._side = self.connect()
                try:
                    self._check_schema()
                    self.writer = self.connect()
                except BaseException:
                    self._side.close()
                    raise
        except BaseException:
            self._guard.close()
            raise
        self._identity = os.stat(self.path)

    def _open_guard(self) -> sqlite3.Connection:
        """Open a connection that only reads, and keeps a damaged or foreign file unchanged.

        When the last connection to a file closes, SQLite moves the log that a killed process left
        into the file, and deletes the log. That would destroy what can still be read of a damaged
        file. While this connection is open, no other one is the last; and as it may not write, it
        moves nothing when it closes.
        """
        guard = self._connect("ro", timeout=0.0)
        self._lock_guard(guard)
        return guard

    def _lock_guard(self, guard: sqlite3.Connection) -> None:
        """Let the guard take its lock, which it gets with the first access to the file."""
        # The other connections report the error.
        with suppress(sqlite3.Error):
            guard.execute("SELECT count(*) FROM sqlite_schema").fetchone()

    def _connect(self, mode: Literal["ro", "rw"], timeout: float) -> sqlite3.Connection:
        return sqlite3.connect(
            f"{self.path.as_uri()}?mode={mode}",
            uri=True,
            timeout=timeout,
            # The module sqlite3 would begin transactions itself, and not as IMMEDIATE.
            isolation_level=None,
            # The worker threads share one connection, and use it one at a time (``side``).
            check_same_thread=False,
        )

    def connect(self) -> sqlite3.Connection:
        """Open another connection without writing anything."""
        # mode=rw: SQLite must never create the file, because it would have the wrong permissions.
        connection = self._connect("rw", LOCK_TIMEOUT)
        connection.text_factory = decode_text
        try:
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            connection.execute("PRAGMA wal_autocheckpoint = 0")  # see checkpoint.py
            # 8 MiB. SQLite overwrites its log without shortening it: one large transaction would
            # take up space forever.
            connection.execute("PRAGMA journal_size_limit = 8388608")
            # The schema of a file that another program created must not call functions with side
            # effects.
            connection.execute("PRAGMA trusted_schema = OFF")
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_schema(self) -> None:
        found = self._read_stamp()
        if found == (0, 0, 0):
            self._create()
            found = self._read_stamp()
        application, version, _ = found
        if application != APPLICATION:
            raise foreign_file_error(self.path, "another program created it")
        if version > VERSION:
            raise StoreError(
                f"The session file {self.path} was created by a newer hilum (format {version}, this"
                f" one knows {VERSION}).",
                hint=f"Update hilum, {OTHER_FILE}.",
            )
        if version != VERSION:
            raise damaged_file_error(self.path, f"it has no known format ({version})")
        if self._side.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            # Either a crash occurred between the two steps of creating the file, or another program
            # changed the mode.
            self._create()

    def _read_stamp(self) -> tuple[int, int, int]:
        def ask(pragma: str) -> int:
            value: int = self._side.execute(f"PRAGMA {pragma}").fetchone()[0]
            return value

        # SQLite treats a file that is shorter than a page as empty and would overwrite it, so the
        # size is also checked.
        pages = ask("page_count") or os.stat(self.path).st_size
        return ask("application_id"), ask("user_version"), pages

    def _create(self) -> None:
        """Write the schema to an empty file. Processes that do so at the same time take turns."""
        lease = self.lease("create", wait=True)
        assert lease is not None
        try:
            if self._read_stamp() == (0, 0, 0):
                self._side.executescript(f"BEGIN IMMEDIATE; {SCHEMA} COMMIT;")
            # The schema is written before WAL mode begins, so that the stamp is in the
            # database itself before the WAL can contain anything.
            self._side.execute("PRAGMA journal_mode = WAL")
        finally:
            lease.release()

    def lease(self, name: str, *, wait: bool = False) -> Lease | None:
        """Return the lease with the given name, or ``None`` if it has another holder.

        Raises:
            StoreError: The folder of the leases cannot be used.
        """
        try:
            self.leases.mkdir(mode=0o700, exist_ok=True)
            lease = Lease.take(self.leases / name, wait=wait)
            # Another process may be removing a killed process's lease, which takes microseconds.
            if lease is None:
                time.sleep(SWEEP_SECONDS)
                lease = Lease.take(self.leases / name, wait=wait)
            return lease
        except OSError as error:
            raise unusable_file_error(
                self.path, f"no lock can be taken in {self.leases.name} ({error.strerror})"
            ) from None

    def is_leased(self, name: str) -> bool:
        """Return whether the lease with the given name has a holder.

        Raises:
            StoreError: The folder of the leases cannot be used.
        """
        try:
            if not is_locked(self.leases / name):
                return False
            # Another process may be removing or checking a killed process's lease.
            time.sleep(SWEEP_SECONDS)
            return is_locked(self.leases / name)
        except OSError as error:
            raise unusable_file_error(
                self.path, f"no lock can be read in {self.leases.name} ({error.strerror})"
            ) from None

    @property
    def moved(self) -> bool:
        """Whether the file was moved or deleted after it was opened; new data would be lost."""
        try:
            return not os.path.samestat(os.stat(self.path), self._identity)
        except OSError:
            return True

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Convert SQLite errors into ``StoreError``."""
        try:
            yield
        except sqlite3.Error as error:
            raise self.explain(error) from error

    def explain(self, error: sqlite3.Error) -> StoreError:
        """Return the error to raise for an SQLite error with this file."""
        if is_damage(error) and not self.damaged:
            self.damaged = True
            # The file may have been created after the guard was opened.
            self._lock_guard(self._guard)
        return explain_error(error, self.path)

    @contextmanager
    def side(self) -> Iterator[sqlite3.Connection]:
        """Use the worker threads' connection exclusively."""
        with self._lock, self.explained():
            yield self._side

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Use the worker threads' connection for one transaction, which any error rolls back."""
        with self.side() as connection:
            # IMMEDIATE takes the write lock at once. A transaction that reads before it writes
            # fails immediately, without waiting, if another process has written in between.
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def holder(self, number: int) -> str:
        """Return the stored name of a session's holder; empty if there is no such session."""
        with self.side() as side:
            row = side.execute("SELECT holder FROM sessions WHERE number = ?", (number,)).fetchone()
        return row[0] if row else ""

    def last(self, number: int, connection: sqlite3.Connection | None = None) -> int:
        """Return the ``seq`` of a session's last event, or 0 if it has none.

        Args:
            number: The session's number.
            connection: The connection to use; by default that of the worker threads.
        """
        if connection is None:
            with self.side() as side:
                return self.last(number, side)
        first = number << SEQ_BITS
        query = "SELECT max(key) FROM events WHERE key > ? AND key <= ?"
        key = connection.execute(query, (first, first | SEQ_MASK)).fetchone()[0]
        return (key or 0) & SEQ_MASK

    def close(self) -> None:
        """Close the worker threads' connection.

        When the last connection of all processes closes, SQLite moves the log into the database
        file, unless the file is damaged (see ``_open_guard``).
        """
        with self.side() as side:
            if not self.damaged:
                self._guard.close()
            side.close()
            self._guard.close()


def _prepare(path: Path) -> Path:
    """Return the real path of the file; create it and its folder if they do not exist.

    The file and the folder are created with permissions for the user only.

    Raises:
        StoreError: The file or its folder cannot be used.
    """
    # Use the real path, because two names of one file must share the leases, which are stored next
    # to it.
    path = Path(os.path.expanduser(path)).resolve()
    try:
        if not path.parent.exists():
            path.parent.parent.mkdir(parents=True, exist_ok=True)
            path.parent.mkdir(mode=0o700, exist_ok=True)
        if not path.parent.is_dir():
            raise unusable_file_error(path, f"{path.parent} is not a folder")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise unusable_file_error(path, f"the folder {path.parent} may not be written")
        if path.is_dir():
            raise unusable_file_error(path, "it is a folder")
        if not path.exists():
            _create_file(path)
        if not os.access(path, os.R_OK | os.W_OK):
            raise unusable_file_error(path, "the file may not be read and written")
    except OSError as error:
        raise unusable_file_error(path, error.strerror or str(error)) from None
    return path


def _create_file(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        pass  # another process was faster


def read_events(
    connection: sqlite3.Connection,
    path: Path,
    session: str,
    number: int,
    after: int,
    limit: int,
) -> list[AnyEvent]:
    """Return events of a session.

    Args:
        connection: A connection that belongs to this thread.
        path: The file, for messages.
        session: The session's id, for messages.
        number: The session's number.
        after: The ``seq`` after which to begin.
        limit: Maximum number of events.

    Raises:
        StoreError: An event is damaged or missing, also at the end; the message identifies the
            event.
    """
    first = number << SEQ_BITS
    rows = connection.execute(
        "SELECT key, data FROM events WHERE key > ? AND key <= ? ORDER BY key LIMIT ?",
        (first + max(after, 0), first | SEQ_MASK, limit),
    ).fetchall()
    events: list[AnyEvent] = []
    for expected, (key, data) in enumerate(rows, first + max(after, 0) + 1):
        try:
            if key != expected:
                raise ValueError("it is missing")
            event = decode(data)
            if event.seq != key & SEQ_MASK:
                raise ValueError(f"its number is {event.seq}")
            events.append(event)
        # msgspec raises ValueErrors; a damaged row may contain a number instead of bytes.
        except (ValueError, TypeError) as error:
            stored = data if key == expected and isinstance(data, bytes | str) else b""
            raise unreadable_event_error(
                session, expected & SEQ_MASK, str(error), stored, where=str(path)
            ) from None
    if len(rows) < limit:
        check_end(connection, path, session, number)
    return events


def read_raw_events(
    connection: sqlite3.Connection, number: int, after: int, limit: int
) -> list[tuple[int, bytes]]:
    """Return events of a session as they are in the file, which may be damaged.

    Args:
        connection: A connection that belongs to this thread.
        number: The session's number.
        after: The ``seq`` after which to begin.
        limit: Maximum number of events.

    Returns:
        The ``seq`` and the line of each event. What is not a line becomes an empty one.
    """
    first = number << SEQ_BITS
    rows = connection.execute(
        "SELECT key, data FROM events WHERE key > ? AND key <= ? ORDER BY key LIMIT ?",
        (first + max(after, 0), first | SEQ_MASK, limit),
    ).fetchall()
    return [(key & SEQ_MASK, data if isinstance(data, bytes) else b"") for key, data in rows]


def check_end(connection: sqlite3.Connection, path: Path, session: str, number: int) -> None:
    """Check that a session still has its last events.

    Each append writes the events and their number in one transaction, so the two are equal even
    after a crash.

    Args:
        connection: A connection that belongs to this thread.
        path: The file, for messages.
        session: The session's id, for messages.
        number: The session's number.

    Raises:
        StoreError: Events are missing at the end.
    """
    first = number << SEQ_BITS
    # A single statement sees one state of the file, although other processes may be writing.
    row = connection.execute(
        "SELECT events, (SELECT max(key) FROM events WHERE key > ? AND key <= ?)"
        " FROM sessions WHERE number = ?",
        (first, first | SEQ_MASK, number),
    ).fetchone()
    if row is None:  # the session was deleted in the meantime
        return
    count, key = row
    last = (key or 0) & SEQ_MASK
    if not isinstance(count, int) or last >= count:
        return
    raise UnreadableLog(
        f"Session {session} in {path} is damaged: of its {count} events, those after event {last}"
        " are missing.",
        hint=suggest_rescue(session, last + 1),
    )


def session_info(row: tuple[object, ...]) -> tuple[SessionInfo, tuple[str, ...]]:
    """Create a session's description from a row of ``FIELDS``.

    Returns:
        The description, and the names of the damaged fields. These have their default values, and
        the title names them.
    """
    try:
        # This is much faster than field by field, and nearly always enough.
        whole = dict(zip(SessionInfo.__struct_fields__, row, strict=True))
        return msgspec.convert(whole, SessionInfo), ()
    except msgspec.ValidationError:
        pass
    values: dict[str, object] = {"id": "(damaged)", "workspace": ""}
    damaged = []
    for field, value in zip(msgspec.structs.fields(SessionInfo), row, strict=True):
        try:
            values[field.name] = msgspec.convert(value, field.type)
        except msgspec.ValidationError:
            damaged.append(field.name)
    if damaged:
        values["title"] = f"(damaged: {', '.join(damaged)})"
    return SessionInfo(**values), tuple(damaged)  # type: ignore[arg-type]


def decode_text(data: bytes) -> str | bytes:
    """Return a stored text, or its bytes if they are no text.

    The error that SQLite's module would raise would hide all other rows, too.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data
