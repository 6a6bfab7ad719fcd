"""The database file for memories: its schema, how it is opened, and messages for SQLite errors.

The file is opened for each use (1 ms), so nothing has to be closed, and a file that was moved away
is no longer used. The file deliberately has no write-ahead log: a forgotten memory must be gone
when the command returns, but would stay in the log as long as another process is reading. Writes
are rare and take milliseconds; other processes wait for them.
"""

from __future__ import annotations

import functools
import os
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from hilum import StoreError, errors

APPLICATION = 0x686D656D  # "hmem" in the header of the file
VERSION = 1
# Seconds to wait while another process is writing.
LOCK_TIMEOUT = 8.0
# The first bytes of every SQLite file (SQLite's documentation, "Database File Format").
_MAGIC = b"SQLite format 3\0"
# Only one thread at a time uses a file: reading the first bytes of a file opens and closes it,
# which releases the locks that other connections of this process hold on it (POSIX locks belong
# to the process; see "How To Corrupt An SQLite Database File", section 2.2).
_ONE_USE = threading.Lock()

# AUTOINCREMENT: the number of a forgotten memory is never reused.
SCHEMA = (
    """CREATE TABLE memories (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    scope TEXT NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    origin TEXT NOT NULL,
    session TEXT NOT NULL,
    run TEXT NOT NULL,
    paths TEXT NOT NULL,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    used REAL NOT NULL,
    replaced INTEGER NOT NULL,
    subject TEXT NOT NULL,
    words TEXT NOT NULL
)""",
    "CREATE INDEX by_subject ON memories (scope, subject)",
    "CREATE INDEX by_kind ON memories (scope, replaced, kind, updated)",
    "CREATE INDEX by_replaced ON memories (replaced) WHERE replaced",
    "CREATE TABLE marks (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)
INDEX = """CREATE VIRTUAL TABLE found USING
    fts5(words, content='memories', content_rowid='id', tokenize='unicode61 remove_diacritics 0')"""
# The tables in which the index stores words. Rows 1 and 10 of ``found_data`` contain no words, but
# FTS5 requires these rows.
_HELD = {"found_data": "id > 10", "found_idx": "1", "found_docsize": "1"}


@functools.cache
def has_fts5() -> bool:
    """Return whether this Python's SQLite supports full-text search; a few builds do not."""
    with closing(sqlite3.connect(":memory:")) as probe:
        try:
            probe.execute("CREATE VIRTUAL TABLE probe USING fts5(words)")
        except sqlite3.OperationalError:
            return False
        return True


@contextmanager
def open_database(path: Path, *, write: bool = False) -> Iterator[sqlite3.Connection | None]:
    """Open the file for one transaction. Blocks.

    Args:
        path: The file. A missing file is created for writing; for reading, ``None`` is yielded
            instead.
        write: Whether the transaction writes. Any error rolls the transaction back.

    Raises:
        StoreError: The file belongs to another program, is damaged, is from a newer version of
            hilum or is locked, or the disk is full. Nothing was changed.
    """
    with _ONE_USE, _open_transaction(path, write) as connection:
        yield connection


@contextmanager
def _open_transaction(path: Path, write: bool) -> Iterator[sqlite3.Connection | None]:
    try:
        if not _is_there(path):
            if not write:
                yield None
                return
            _create_file(path)
        with closing(_connect(path)) as connection:
            if write:
                # Take the write lock now: if two transactions both read first and then try to
                # write, SQLite fails one of them at once instead of waiting.
                connection.execute("BEGIN IMMEDIATE")
            # Check inside the transaction, so that two processes cannot both create the tables.
            _check_schema(connection, path, write)
            yield connection
            if write:
                connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise explain_error(error, path) from error
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from None


def _is_there(path: Path) -> bool:
    """Return whether the file exists and is not empty.

    Raises:
        StoreError: The file is not an SQLite database.
    """
    try:
        if stat.S_ISFIFO(path.stat().st_mode):  # opening a pipe would block forever
            raise _foreign(path, "it is a pipe")
        with path.open("rb") as file:
            head = file.read(len(_MAGIC))
    except FileNotFoundError:
        return False
    if head and head != _MAGIC:  # SQLite would overwrite a file that is shorter than a page
        raise _foreign(path, "it is not an SQLite file")
    return bool(head)


def _create_file(path: Path) -> None:
    path.parent.parent.mkdir(parents=True, exist_ok=True)
    # Other users of the machine must not be able to read memories.
    path.parent.mkdir(mode=0o700, exist_ok=True)
    # SQLite would create the file with the permissions that the umask allows.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def _connect(path: Path) -> sqlite3.Connection:
    # mode=rw: SQLite must never create the file, because it would have the wrong permissions.
    uri = f"{path.absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(
        uri,
        uri=True,
        timeout=LOCK_TIMEOUT,
        # By default, ``sqlite3`` begins transactions automatically, with a deferred lock.
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        # A forgotten memory is overwritten, not only unlinked.
        connection.execute("PRAGMA secure_delete = ON")
        # A file from another source may contain views and triggers that call functions.
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.row_factory = sqlite3.Row
    except BaseException:
        connection.close()
        raise
    return connection


def _check_schema(connection: sqlite3.Connection, path: Path, write: bool) -> None:
    if write and _is_new(connection):
        for statement in SCHEMA:
            connection.execute(statement)
    application, version = _read_stamp(connection)
    if application != APPLICATION:
        raise _foreign(path, "another program created it")
    # An older version of hilum could damage data in an unknown format.
    if version > VERSION:
        raise StoreError(
            f"The file of memories {path} was created by a newer hilum (format {version}, this one"
            f" knows {VERSION}).",
            hint="Update hilum. Until then nothing is remembered.",
        )
    # A Python without FTS5 may have written to the file since; see ``drop_index``.
    if write and has_fts5() and get_mark(connection, "index") != "whole":
        connection.execute("DROP TABLE IF EXISTS found")
        connection.execute(INDEX)
        connection.execute("INSERT INTO found (found) VALUES ('rebuild')")
        set_mark(connection, "index", "whole")


def _is_new(connection: sqlite3.Connection) -> bool:
    # Zero is SQLite's default for both values, so a file with zeros and without tables is new.
    if _read_stamp(connection) != (0, 0):
        return False
    return connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None


def _read_stamp(connection: sqlite3.Connection) -> tuple[int, int]:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    return application, version


def get_mark(connection: sqlite3.Connection, name: str) -> str:
    """Return the value of a named mark in the file; empty if the mark is not set."""
    row = connection.execute("SELECT value FROM marks WHERE name = ?", (name,)).fetchone()
    return row[0] if row else ""


def set_mark(connection: sqlite3.Connection, name: str, value: str) -> None:
    """Set a named mark in the file."""
    connection.execute("INSERT OR REPLACE INTO marks VALUES (?, ?)", (name, value))


def is_indexed(connection: sqlite3.Connection) -> bool:
    """Return whether the full-text index can be used."""
    return get_mark(connection, "index") == "whole" and has_fts5()


def drop_index(connection: sqlite3.Connection) -> None:
    """Empty the index, because this build of SQLite cannot maintain it.

    An installation whose SQLite supports full-text search rebuilds the index.
    """
    exists = "SELECT 1 FROM sqlite_master WHERE name = ?"
    for name, rows in _HELD.items():
        if connection.execute(exists, (name,)).fetchone():
            connection.execute(f"DELETE FROM {name} WHERE {rows}")
    set_mark(connection, "index", "")


def explain_error(error: sqlite3.Error, path: Path) -> StoreError:
    """Return the error to raise for an SQLite error."""
    primary = getattr(error, "sqlite_errorcode", 0) & 0xFF  # mask out the extended code
    if primary == sqlite3.SQLITE_NOTADB:
        return _foreign(path, "it is not an SQLite file")
    if primary == sqlite3.SQLITE_CORRUPT:
        return StoreError(
            f"The file of memories {path} is damaged: {error}.",
            hint=(
                "It was not changed, and nothing is remembered until it is moved away; "
                f"what can still be read is saved by: sqlite3 {path.name} .recover"
            ),
        )
    if primary in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return StoreError(
            f"The file of memories {path} could not be written: {error}. Nothing was changed.",
            hint="Free some space on that disk, or repair it, and try again.",
        )
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreError(
            f"Another program keeps the file of memories {path} locked.",
            code=errors.E_BUSY,
            hint=(
                "Close the program that has it open (a database browser, a backup), then try again."
            ),
        )
    return _unusable(path, str(error))


def _foreign(path: Path, why: str) -> StoreError:
    return StoreError(
        f"{path} is not a memory file: {why}.",
        hint="It was not changed. Move it away; until then nothing is remembered.",
    )


def _unusable(path: Path, why: str) -> StoreError:
    return StoreError(
        f"The file of memories {path} cannot be used: {why}.",
        hint="Make the file and its folder readable and writable for you.",
    )
