"""The file of memories: its schema, how it is known for ours before anything is written, and
SQLite's errors in plain words.

It is opened anew for each use (1 ms), so that nothing has to be closed and a file that was moved
away is no longer used. There is no write-ahead log, on purpose: what is forgotten must be gone when
the command returns, and from a log beside the file it goes only when no other process is reading.
Writing is rare and takes milliseconds; others wait for it.
"""

from __future__ import annotations

import functools
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from hilum import StoreError, errors

APPLICATION = 0x686D656D  # "hmem" in the header of the file
VERSION = 1
WAIT = 8.0
"""Seconds to wait for another process that writes at this moment."""
_MAGIC = b"SQLite format 3\0"

# AUTOINCREMENT: the number of a forgotten memory is never given again.
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
# Where the index keeps words; rows 1 and 10 hold none, and the table can be opened only with them.
_HELD = {"found_data": "id > 10", "found_idx": "1", "found_docsize": "1"}


@functools.cache
def has_fts5() -> bool:
    """Whether this Python's SQLite was built with full-text search; a few are not."""
    with closing(sqlite3.connect(":memory:")) as probe:
        try:
            probe.execute("CREATE VIRTUAL TABLE probe USING fts5(words)")
        except sqlite3.OperationalError:
            return False
        return True


@contextmanager
def opened(path: Path, *, write: bool = False) -> Iterator[sqlite3.Connection | None]:
    """Open the file for one piece of work; blocks.

    With ``write`` all of the work is done, or nothing of it.

    Args:
        path: The file. It is made for writing; for reading, ``None`` is given where there is none.
        write: Whether something is written.

    Raises:
        StoreError: The file is not ours, damaged, of a newer version, locked, or the disk is full.
            Nothing was changed.
    """
    try:
        if not _is_there(path):
            if not write:
                yield None
                return
            _make(path)
        with closing(_connect(path)) as connection:
            if write:
                connection.execute("BEGIN IMMEDIATE")
            _recognise(connection, path, write)
            yield connection
            if write:
                connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise explain(error, path) from error
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from None


def _is_there(path: Path) -> bool:
    """Return whether there is a file with something in it, which then begins as an SQLite file
    does.
    """
    try:
        if stat.S_ISFIFO(path.stat().st_mode):  # to open it would be to wait for ever
            raise _foreign(path, "it is a pipe")
        with path.open("rb") as file:
            head = file.read(len(_MAGIC))
    except FileNotFoundError:
        return False
    if head and head != _MAGIC:  # SQLite would write over what is shorter than a page
        raise _foreign(path, "it is no SQLite file")
    return bool(head)


def _make(path: Path) -> None:
    path.parent.parent.mkdir(parents=True, exist_ok=True)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def _connect(path: Path) -> sqlite3.Connection:
    # mode=rw: SQLite must never make the file, which would have the wrong permissions.
    uri = f"{path.absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(
        uri, uri=True, timeout=WAIT, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.row_factory = sqlite3.Row
    except BaseException:
        connection.close()
        raise
    return connection


def _recognise(connection: sqlite3.Connection, path: Path, write: bool) -> None:
    stamp = _stamp(connection)
    if (
        stamp == (0, 0)
        and write
        and not connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    ):
        for statement in SCHEMA:
            connection.execute(statement)
        stamp = _stamp(connection)
    application, version = stamp
    if application != APPLICATION:
        raise _foreign(path, "another program made it")
    if version > VERSION:
        raise StoreError(
            f"The file of memories {path} was made by a newer hilum (format {version}, this one"
            f" knows {VERSION}).",
            hint="Update hilum. Until then nothing is remembered.",
        )
    if write and has_fts5() and mark(connection, "index") != "whole":
        connection.execute("DROP TABLE IF EXISTS found")
        connection.execute(INDEX)
        connection.execute("INSERT INTO found (found) VALUES ('rebuild')")
        set_mark(connection, "index", "whole")


def _stamp(connection: sqlite3.Connection) -> tuple[int, int]:
    ask = connection.execute
    return ask("PRAGMA application_id").fetchone()[0], ask("PRAGMA user_version").fetchone()[0]


def mark(connection: sqlite3.Connection, name: str) -> str:
    """Return a mark of the file, empty where it is not set."""
    row = connection.execute("SELECT value FROM marks WHERE name = ?", (name,)).fetchone()
    return row[0] if row else ""


def set_mark(connection: sqlite3.Connection, name: str, value: str) -> None:
    """Set a mark of the file."""
    connection.execute("INSERT OR REPLACE INTO marks VALUES (?, ?)", (name, value))


def is_indexed(connection: sqlite3.Connection) -> bool:
    """Return whether the full-text index can be asked."""
    return mark(connection, "index") == "whole" and has_fts5()


def drop_index(connection: sqlite3.Connection) -> None:
    """Empty an index that cannot be kept up here: a Python whose SQLite has full-text search makes
    it anew.
    """
    for name, rows in _HELD.items():
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone():
            connection.execute(f"DELETE FROM {name} WHERE {rows}")
    set_mark(connection, "index", "")


def explain(error: sqlite3.Error, path: Path) -> StoreError:
    """Turn an error of SQLite into one that says what happened to which file, and what to do."""
    primary = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if primary == sqlite3.SQLITE_NOTADB:
        return _foreign(path, "it is no SQLite file")
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
            hint="Free some space on that disk, or mend it, and try again.",
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
        f"{path} is not a file of memories: {why}.",
        hint="It was not touched. Move it away; until then nothing is remembered.",
    )


def _unusable(path: Path, why: str) -> StoreError:
    return StoreError(
        f"The file of memories {path} cannot be used: {why}.",
        hint="Make the file and its folder readable and writable for you.",
    )
