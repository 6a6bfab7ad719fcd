"""The database file of an index: its schema, its locks, and how a damaged one is replaced.

The file is a cache: nothing in it is lost for good. It is opened for each use (1 ms), so a file that
another process replaced is never used. Two locks order the processes that share an index: one is
held, shared, while the file is open, so that it is replaced only while nobody uses it; the other is
held by the process that indexes. Both end with their process, however it ends.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import sqlite3
import time
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import msgspec
from hilum import HilumError, StoreError, cache_folder, errors

APPLICATION = 0x68736978  # "hsix" in the header of the file
VERSION = 1
# Seconds to wait while another process writes a batch, or replaces the file.
LOCK_TIMEOUT = 10.0
_POLL_SECONDS = 0.02
_FOLDER = "semantic-search"

# `words` has no content of its own, which would double the size of the file. To remove a row from
# such a table, FTS5 needs its text again, so `files.words` keeps the texts, compressed.
_SCHEMA = f"""
CREATE TABLE marks (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE files (
    id INTEGER PRIMARY KEY,
    path BLOB NOT NULL UNIQUE,
    state TEXT NOT NULL,
    skipped TEXT NOT NULL,
    words BLOB NOT NULL
);
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY,
    file INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    kind TEXT NOT NULL,
    symbol TEXT NOT NULL,
    digest BLOB NOT NULL
);
CREATE INDEX chunks_by_file ON chunks (file);
CREATE INDEX chunks_by_digest ON chunks (digest);
CREATE VIRTUAL TABLE words USING fts5(
    path, symbol, text, content='', tokenize='porter unicode61 remove_diacritics 2'
);
CREATE TABLE vectors (digest BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID;
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
"""
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)
# What a damaged file makes of a query: a missing table, a value of another type, or a text that is
# not UTF-8.
_SIGNS_OF_DAMAGE = (sqlite3.OperationalError, sqlite3.IntegrityError, sqlite3.InterfaceError)


class DamagedIndex(Exception):
    """The database is damaged, or from another version of hilum, and must be replaced."""


class IndexFolder:
    """The folder in the cache with the index of one workspace.

    Args:
        root: The root of the workspace, resolved.
        cache: The cache folder; by default, hilum's.

    Attributes:
        path: The folder.
        database: The database file in it.
    """

    def __init__(self, root: Path, cache: Path | None = None) -> None:
        digest = hashlib.blake2b(os.fsencode(root), digest_size=10).hexdigest()
        self.root = root
        self.path = (cache or cache_folder()) / _FOLDER / digest
        self.database = self.path / "index.db"

    def exists(self) -> bool:
        """Return whether there is a database."""
        return self.database.is_file()

    def try_lock(self, name: str) -> int | None:
        """Take a lock if it is free, and return the descriptor that holds it until it is closed."""
        self._make()
        file = self._open_lock(name)
        if _acquire(file, fcntl.LOCK_EX, 0):
            return file
        os.close(file)
        return None

    @contextmanager
    def lock(self, name: str, *, exclusive: bool, wait: float) -> Iterator[bool]:
        """Hold a lock for the block, and yield whether it was free in time. Blocks."""
        self._make()
        file = self._open_lock(name)
        try:
            yield _acquire(file, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH, wait)
        finally:
            os.close(file)

    def _open_lock(self, name: str) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        return os.open(self.path / f"{name}.lock", flags, 0o600)

    def _make(self) -> None:
        self.path.parent.parent.mkdir(parents=True, exist_ok=True)
        # Other users of the machine must not read the code of the workspace in the index.
        self.path.parent.mkdir(mode=0o700, exist_ok=True)
        self.path.mkdir(mode=0o700, exist_ok=True)

    @contextmanager
    def open(self) -> Iterator[sqlite3.Connection]:
        """Open the database for the block, and create it if it is missing. Blocks.

        Raises:
            DamagedIndex: The database must be replaced (see ``replace``).
            StoreError: The file cannot be used: the disk is full, or access is denied.
        """
        with _explained(self.database), self.lock("use", exclusive=False, wait=LOCK_TIMEOUT) as got:
            if not got:
                raise _busy(self.database)
            with closing(self._connect()) as connection:
                yield connection

    def _connect(self) -> sqlite3.Connection:
        # SQLite would create the file with the permissions that the umask allows.
        with suppress(FileExistsError):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            os.close(os.open(self.database, flags, 0o600))
        if not self.database.is_file():
            raise DamagedIndex("the database is not a file")
        uri = f"{self.database.as_uri()}?mode=rw"
        connection = sqlite3.connect(
            uri, uri=True, timeout=LOCK_TIMEOUT, isolation_level=None, check_same_thread=False
        )
        try:
            _prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def replace(self) -> None:
        """Remove the database, so that the next use creates an empty one. Blocks.

        Raises:
            StoreError: Another process uses the file, or it cannot be removed.
        """
        with _explained(self.database), self.lock("use", exclusive=True, wait=LOCK_TIMEOUT) as got:
            if not got:
                raise _busy(self.database)
            for suffix in ("", "-wal", "-shm", "-journal"):
                with suppress(FileNotFoundError):
                    os.unlink(f"{self.database}{suffix}")


@contextmanager
def writing(connection: sqlite3.Connection) -> Iterator[None]:
    """Make the block one transaction, which any error rolls back."""
    # Take the write lock now: a transaction that first reads and then writes could fail at once.
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # After some errors, SQLite has already rolled back.
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def get_mark(connection: sqlite3.Connection, name: str) -> str:
    """Return a named value in the database; empty if it is not set."""
    row = connection.execute("SELECT value FROM marks WHERE name = ?", (name,)).fetchone()
    return str(row[0]) if row else ""


def set_mark(connection: sqlite3.Connection, name: str, value: str) -> None:
    """Set a named value in the database."""
    connection.execute("INSERT OR REPLACE INTO marks VALUES (?, ?)", (name, value))


def _prepare(connection: sqlite3.Connection) -> None:
    # A file from another source may contain views and triggers that call functions.
    connection.execute("PRAGMA trusted_schema = OFF")
    # A loss of power may cost the last batches, but never damages the file.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA mmap_size = 268435456")
    if _read_stamp(connection) == (0, 0):
        with writing(connection):
            # Another process may have created the tables meanwhile.
            if _read_stamp(connection) == (0, 0):
                for statement in _SCHEMA.split(";\n"):
                    connection.execute(statement)
    if _read_stamp(connection) != (APPLICATION, VERSION):
        raise DamagedIndex("another version of hilum created it")


def _read_stamp(connection: sqlite3.Connection) -> tuple[int, int]:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    return application, version


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Convert errors of SQLite and the system into errors of hilum."""
    try:
        yield
    except sqlite3.Error as error:
        if _is_damage(error):
            raise DamagedIndex(str(error)) from error
        raise _explain(error, path) from error
    # Values of the wrong type, or that are no text or number, can only come from damage.
    except (zlib.error, msgspec.DecodeError, ValueError, TypeError, OverflowError) as error:
        raise DamagedIndex(str(error)) from error
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error


def _is_damage(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # without the extended code
    if code in _DAMAGE:
        return True
    if "no such module" in str(error):  # a few builds of SQLite have no full-text search
        return False
    return code in (
        0,
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_MISMATCH,
    ) and (isinstance(error, _SIGNS_OF_DAMAGE))


def _explain(error: sqlite3.Error, path: Path) -> HilumError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return _busy(path)
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return StoreError(
            f"The search index {path} could not be written: {error}.",
            hint="Free some space on that disk, or remove old indexes: hilum index --clear.",
        )
    return _unusable(path, str(error))


def _busy(path: Path) -> HilumError:
    return StoreError(
        f"Another program keeps the search index {path} locked.",
        code=errors.E_BUSY,
        hint="Close the program that has it open, then try again.",
    )


def _unusable(path: Path, why: str) -> HilumError:
    return StoreError(
        f"The search index {path} cannot be used: {why}.",
        hint="Make its folder readable and writable for you, or set HILUM_CACHE to another one.",
    )


def _acquire(file: int, kind: int, wait: float) -> bool:
    # A blocking `flock` cannot be given up after some time.
    end = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(_POLL_SECONDS)
        else:
            return True
