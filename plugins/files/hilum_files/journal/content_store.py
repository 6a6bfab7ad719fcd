"""Stores the file contents that an undo can restore, each only once, keyed by hash.

The store is one SQLite file: thousands of small contents are written in one transaction, several
processes may write, and a crash never leaves incomplete content.
"""

from __future__ import annotations

import os
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from hilum import StoreError, make_private_folder

if TYPE_CHECKING:
    import sqlite3

DAY_SECONDS = 86400.0
_TIMEOUT = 20.0
_RETRY_SECONDS = 0.01
MAX_PARAMETERS = 500
"""Maximum number of parameters in one SQL statement; old versions of SQLite allow 999."""
# The first byte of a stored entry, which shows whether the rest is compressed.
_PLAIN = b"\0"
_COMPRESSED = b"\1"
# Smaller contents hardly shrink.
_MIN_COMPRESSED = 512
_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (
    hash TEXT PRIMARY KEY, used REAL NOT NULL, size INTEGER NOT NULL, data BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, record TEXT NOT NULL,
    path TEXT NOT NULL, began REAL NOT NULL, at REAL NOT NULL,
    before BLOB NOT NULL, after BLOB NOT NULL, undone INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS changes_by_path ON changes (path, id)
"""


def hash_content(data: bytes) -> str:
    """Return the hash of a file's content: 160 bits of BLAKE2b, in hexadecimal."""
    return blake2b(data, digest_size=20).hexdigest()


def _prepare(database: sqlite3.Connection) -> None:
    """Set the modes of a database, and create its tables if they do not exist."""
    # Incremental vacuuming lets the store free disk space. This mode must be enabled before the first
    # table is created.
    database.execute("PRAGMA auto_vacuum = INCREMENTAL")
    # Other processes can read during a write.
    database.execute("PRAGMA journal_mode = WAL")
    # A power failure may lose the last transactions, but never damages the file.
    database.execute("PRAGMA synchronous = NORMAL")
    database.executescript(_SCHEMA)


class ContentStore:
    """A store of contents in a folder, which any number of threads can use.

    Args:
        folder: The folder, which is created on first use and is accessible only to the user.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._open: sqlite3.Connection | None = None

    def put(self, contents: Iterable[bytes]) -> list[str]:
        """Store contents, either all or none, and return their hashes.

        When this method returns, the contents are on disk.

        Raises:
            StoreError: The contents could not be written.
        """
        now = time.time()
        rows: list[tuple[str, float, int, bytes]] = []
        for data in contents:
            stored = _encode(data)
            rows.append((hash_content(data), now, len(stored), stored))
        with self.connection() as database:
            # Look contents up first, because most are already stored and a write takes much longer.
            new = [row for row in rows if not self._is_fresh(database, row)]
            if new:
                with database:
                    database.executemany(
                        "INSERT INTO objects VALUES (?, ?, ?, ?)"
                        " ON CONFLICT (hash) DO UPDATE SET used = excluded.used,"
                        " size = excluded.size, data = excluded.data",
                        new,
                    )
        return [row[0] for row in rows]

    @staticmethod
    def _is_fresh(database: sqlite3.Connection, row: tuple[str, float, int, bytes]) -> bool:
        """Return whether a row is stored, undamaged, and was used within the last day."""
        name, now, _, data = row
        found = database.execute("SELECT used, data FROM objects WHERE hash = ?", (name,))
        used, stored = found.fetchone() or (0.0, None)
        # Updating the time of use at most once a day turns most writes into lookups.
        return bool(used > now - DAY_SECONDS and stored == data)

    def get(self, name: str) -> bytes | None:
        """Return the content with a hash, or ``None`` if it is damaged or has been deleted."""
        with self.connection() as database:
            row = database.execute("SELECT data FROM objects WHERE hash = ?", (name,)).fetchone()
        if row is None:
            return None
        try:
            data = _decode(row[0])
        except zlib.error:
            return None
        # An undo must never write damaged content.
        return data if hash_content(data) == name else None

    def touch(self, names: Iterable[str]) -> set[str]:
        """Return the hashes of the contents that are kept, and mark those contents as used."""
        wanted = list(set(names))
        found = set[str]()
        now = time.time()
        with self.connection() as database, database:
            for start in range(0, len(wanted), MAX_PARAMETERS):
                batch = wanted[start : start + MAX_PARAMETERS]
                rows = database.execute(
                    f"SELECT hash, used FROM objects WHERE hash IN ({placeholders(batch)})", batch
                ).fetchall()
                found.update(name for name, _ in rows)
                old = [name for name, used in rows if used < now - DAY_SECONDS]
                if old:
                    database.execute(
                        f"UPDATE objects SET used = ? WHERE hash IN ({placeholders(old)})",
                        [now, *old],
                    )
        return found

    def sweep(self, days: float, max_bytes: int) -> int:
        """Delete contents that have long been unused, and the oldest contents above a size limit.

        Args:
            days: Days after which unused content is deleted.
            max_bytes: Maximum number of bytes to keep on disk.

        Returns:
            The number of deleted contents.
        """
        with self.connection() as database, database:
            oldest = time.time() - days * DAY_SECONDS
            deleted = database.execute("DELETE FROM objects WHERE used < ?", (oldest,)).rowcount
            size = database.execute("SELECT coalesce(sum(size), 0) FROM objects").fetchone()[0]
            if size > max_bytes:
                deleted += _delete_oldest(database, size - max_bytes)
        if deleted:
            with self.connection() as database:
                # Without fetching the rows, SQLite frees only one page.
                database.execute("PRAGMA incremental_vacuum").fetchall()
        return deleted

    def release_memory(self) -> None:
        """Free the memory in which SQLite keeps pages of the file, up to 2 MB."""
        with self.connection() as database:
            database.execute("PRAGMA shrink_memory")

    def close(self) -> None:
        """Close the database file; the next use reopens it."""
        with self._lock:
            if self._open is not None:
                self._open.close()
                self._open = None

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """Yield the database connection for exclusive use by one thread.

        Raises:
            StoreError: The database cannot be used.
        """
        import sqlite3  # the import takes 5 ms

        with self._lock:
            try:
                if self._open is None:
                    self._open = self._connect()
                yield self._open
            except (sqlite3.Error, OSError) as error:
                raise StoreError(
                    f"File contents for undo cannot be stored in {self._folder}: {error}.",
                    hint="Free some space there, or set HILUM_DATA to another folder.",
                ) from error

    def _connect(self) -> sqlite3.Connection:
        import sqlite3

        make_private_folder(self._folder)
        file = self._folder / "objects.db"
        _create_file(file)
        # The lock above lets only one thread at a time use the connection.
        database = sqlite3.connect(file, timeout=_TIMEOUT, check_same_thread=False)
        deadline = time.monotonic() + _TIMEOUT
        try:
            while True:
                try:
                    _prepare(database)
                    return database
                except sqlite3.OperationalError as error:
                    # SQLite does not wait for another connection that enables the same mode.
                    if "locked" not in str(error) or time.monotonic() > deadline:
                        raise
                time.sleep(_RETRY_SECONDS)
        except BaseException:
            database.close()
            raise


def _create_file(file: Path) -> None:
    """Create the database file, readable only by the user, unless it exists."""
    # SQLite creates its auxiliary files with the same mode.
    #
    # A file that exists must not be opened and closed here: closing any descriptor of it would
    # release the locks that other connections of this process hold on it (POSIX locks belong to
    # the process; see "How To Corrupt An SQLite Database File", section 2.2). Another process
    # could then take the write-ahead log for abandoned and delete it.
    with suppress(FileExistsError):
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _delete_oldest(database: sqlite3.Connection, excess: int) -> int:
    """Delete at least ``excess`` bytes of the least recently used contents."""
    oldest: list[tuple[str]] = []
    for name, size in database.execute("SELECT hash, size FROM objects ORDER BY used"):
        oldest.append((name,))
        excess -= size
        if excess <= 0:
            break
    return database.executemany("DELETE FROM objects WHERE hash = ?", oldest).rowcount


def placeholders(values: Sequence[object]) -> str:
    """Return the placeholders for values in an SQL statement."""
    return ",".join("?" * len(values))


def _encode(data: bytes) -> bytes:
    """Return content in its stored form, compressed if that makes it smaller."""
    if len(data) > _MIN_COMPRESSED:
        # Use the fastest compression level, because a command waits until its snapshot is stored.
        compressed = zlib.compress(data, 1)
        if len(compressed) < len(data):
            return _COMPRESSED + compressed
    return _PLAIN + data


def _decode(stored: bytes) -> bytes:
    if stored[:1] == _COMPRESSED:
        return zlib.decompress(stored[1:])
    return stored[1:]
