"""The file: its schema, how it is opened, and how it is known for ours before anything is written
to it.

One row per session, one row per event. The key of an event is the number of its session and its
``seq`` in one integer, so that a log lies together in a single tree and appending to it touches no
index.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec
from hilum import StoreError
from hilum.events import AnyEvent, decode
from hilum.store import SessionInfo

from hilum_store.faults import ELSEWHERE, damaged, explain, foreign, unusable
from hilum_store.lease import Lease

Durability = Literal["process", "power"]

APPLICATION = 0x68696C75  # "hilu" in the header of the file
VERSION = 1
# In the order of SessionInfo
FIELDS = "id, workspace, kind, title, created, updated, events, state, forked"
SEQ_BITS = 32
SEQ_MASK = (1 << SEQ_BITS) - 1
WAIT = 5.0  # seconds to wait for another process that writes at this moment
SWEEPING_SECONDS = 0.01  # in which another process has removed the lease of one that was killed

# AUTOINCREMENT: the number of a deleted session is never given again, so nothing can append to the
# wrong one.
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
    """An open session file. Opening it may block: make it in a thread.

    ``writer`` belongs to the thread of the event loop (appending and reading of open logs).
    Everything else runs in threads and goes through ``side``, one at a time.

    Args:
        path: The file; it and its folder are made where they do not exist.
        durability: ``process``: what is committed survives the death of the process; ``power``:
            also a loss of power.

    Raises:
        StoreError: The file is not ours, is damaged, comes from a newer version or may not be used.
            It was not changed.
    """

    def __init__(self, path: Path, durability: Durability = "process") -> None:
        self.path = _prepare(path)
        self.leases = self.path.with_name(f"{self.path.name}.leases")
        self._synchronous = "FULL" if durability == "power" else "NORMAL"
        self._lock = threading.RLock()
        with self.explained():
            self._side = self.connect()
            try:
                self._recognise()
                self.writer = self.connect()
            except BaseException:
                self._side.close()
                raise
        self._identity = os.stat(self.path)

    def connect(self) -> sqlite3.Connection:
        """Open one more connection. Nothing is written by this."""
        # mode=rw: SQLite must never make the file, which would have the wrong permissions.
        uri = f"{self.path.as_uri()}?mode=rw"
        connection = sqlite3.connect(
            uri, uri=True, timeout=WAIT, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            connection.execute("PRAGMA wal_autocheckpoint = 0")  # see checkpoint.py
            connection.execute("PRAGMA journal_size_limit = 8388608")
            connection.execute("PRAGMA trusted_schema = OFF")
        except BaseException:
            connection.close()
            raise
        return connection

    def _recognise(self) -> None:
        found = self._stamp()
        if found == (0, 0, 0):
            self._create()
            found = self._stamp()
        application, version, _ = found
        if application != APPLICATION:
            raise foreign(self.path, "another program made it")
        if version > VERSION:
            raise StoreError(
                f"The session file {self.path} was made by a newer hilum (format {version}, this"
                f" one knows {VERSION}).",
                hint=f"Update hilum, {ELSEWHERE}.",
            )
        if version != VERSION:
            raise damaged(self.path, f"it has no known format ({version})")
        if self._side.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            # A crash between the two steps of making it, or somebody changed the mode
            self._create()

    def _stamp(self) -> tuple[int, int, int]:
        ask = self._side.execute
        # A file shorter than a page is empty to SQLite, which would write over it: its size counts
        # as well.
        pages = ask("PRAGMA page_count").fetchone()[0] or os.stat(self.path).st_size
        return (
            ask("PRAGMA application_id").fetchone()[0],
            ask("PRAGMA user_version").fetchone()[0],
            pages,
        )

    def _create(self) -> None:
        """Write the schema into an empty file; processes that start at the same time take turns."""
        lease = self.lease("create", wait=True)
        assert lease is not None
        try:
            if self._stamp() == (0, 0, 0):
                self._side.executescript(f"BEGIN IMMEDIATE; {SCHEMA} COMMIT;")
            # Only now: in this order the stamp is in the file itself before anything can be in the
            # log beside it.
            self._side.execute("PRAGMA journal_mode = WAL")
        finally:
            lease.release()

    def lease(self, name: str, *, wait: bool = False) -> Lease | None:
        """Take a lease of this file, or give ``None`` where somebody else holds it.

        Raises:
            StoreError: The folder of the leases cannot be used.
        """
        try:
            self.leases.mkdir(mode=0o700, exist_ok=True)
            lease = Lease.take(self.leases / name, wait=wait)
            if (
                lease is None
            ):  # another process may be removing what a killed one left, which takes microseconds
                time.sleep(SWEEPING_SECONDS)
                lease = Lease.take(self.leases / name, wait=wait)
            return lease
        except OSError as error:
            raise unusable(
                self.path, f"no lock can be taken in {self.leases.name} ({error.strerror})"
            ) from None

    @property
    def moved(self) -> bool:
        """Whether the file is no longer where it was opened: what is written now would be lost with
        it.
        """
        try:
            return not os.path.samestat(os.stat(self.path), self._identity)
        except OSError:
            return True

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn what SQLite raises into a ``StoreError``."""
        try:
            yield
        except sqlite3.Error as error:
            raise self.explain(error) from error

    def explain(self, error: sqlite3.Error) -> StoreError:
        """Return what an error of SQLite means for this file."""
        return explain(error, self.path)

    @contextmanager
    def side(self) -> Iterator[sqlite3.Connection]:
        """Use the connection of the threads, alone."""
        with self._lock, self.explained():
            yield self._side

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Use the connection of the threads for one transaction; an error undoes all of it."""
        with self.side() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def holder(self, number: int) -> str:
        """Return what the process that writes a session signed it with.

        Empty if there is no such session.
        """
        with self.side() as side:
            row = side.execute("SELECT holder FROM sessions WHERE number = ?", (number,)).fetchone()
        return row[0] if row else ""

    def last(self, number: int, connection: sqlite3.Connection | None = None) -> int:
        """Return the ``seq`` of the last event of a session, 0 without any.

        Args:
            number: The session's number.
            connection: Where to ask, for the thread of the event loop; else the connection of the
                threads.
        """
        first = number << SEQ_BITS
        query = "SELECT max(key) FROM events WHERE key > ? AND key <= ?"
        if connection is None:
            with self.side() as side:
                return self.last(number, side)
        return (connection.execute(query, (first, first | SEQ_MASK)).fetchone()[0] or 0) & SEQ_MASK

    def close(self) -> None:
        """Close what is left.

        The last connection in the system moves the log beside the file into the file.
        """
        with self.side() as side:
            side.close()


def _prepare(path: Path) -> Path:
    """Make folder and empty file where they do not exist, private to the user.

    Say what is wrong with those that do.
    """
    # The real path, because leases lie beside it: two names of one file must lead to the same
    # leases.
    path = path.expanduser().resolve()
    try:
        if not path.parent.exists():
            path.parent.parent.mkdir(parents=True, exist_ok=True)
            path.parent.mkdir(mode=0o700, exist_ok=True)
        if not path.parent.is_dir():
            raise unusable(path, f"{path.parent} is not a folder")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise unusable(path, f"the folder {path.parent} may not be written")
        if path.is_dir():
            raise unusable(path, "it is a folder")
        if not path.exists():
            _make(path)
        if not os.access(path, os.R_OK | os.W_OK):
            raise unusable(path, "the file may not be read and written")
    except OSError as error:
        raise unusable(path, error.strerror or str(error)) from None
    return path


def _make(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        pass  # another process was faster


def read_events(
    connection: sqlite3.Connection, path: Path, session: str, number: int, after: int, limit: int
) -> list[AnyEvent]:
    """Read events of a session.

    Args:
        connection: One that belongs to this thread.
        path: The file, for messages.
        session: The session's id, for messages.
        number: The session's number.
        after: The ``seq`` after which to begin.
        limit: How many at most.

    Raises:
        StoreError: An event is damaged or missing; the message names it.
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
                raise ValueError(f"it calls itself {event.seq}")
            events.append(event)
        except (
            ValueError,
            TypeError,
        ) as error:  # what msgspec raises is a ValueError; a row may hold a number
            raise StoreError(
                f"Event {expected & SEQ_MASK} of session {session} in {path} is damaged: {error}.",
                hint=(
                    "Other sessions are not affected; fork this one before that event, or"
                    " delete it."
                ),
            ) from None
    return events


def session_info(row: tuple[object, ...]) -> SessionInfo:
    """Build the description of a session from a row of ``FIELDS``."""
    return msgspec.convert(dict(zip(SessionInfo.__struct_fields__, row, strict=True)), SessionInfo)
