"""Content of files, kept once for each content and named by its hash: what an undo puts back.

One SQLite file: thousands of small contents are written in one transaction, several processes may
write, and a crash leaves no half of one.
"""

from __future__ import annotations

import os
import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from hilum import StoreError

if TYPE_CHECKING:
    import sqlite3

DAY = 86400.0
_PLAIN = b"\0"
_PACKED = b"\1"
_WORTH_PACKING = 512
_BATCH = 500
_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (hash TEXT PRIMARY KEY, used REAL NOT NULL, size INTEGER NOT NULL, data BLOB NOT NULL)
WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS changes (id INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, record TEXT NOT NULL,
    path TEXT NOT NULL, began REAL NOT NULL, at REAL NOT NULL, before BLOB NOT NULL, after BLOB NOT NULL,
    undone INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS changes_by_path ON changes (path, id)
"""


def hash_of(data: bytes) -> str:
    """Name a content: 160 bits of BLAKE2b, in hexadecimal digits."""
    return blake2b(data, digest_size=20).hexdigest()


class Objects:
    """The contents kept in a folder; for any number of threads. Opened at first use.

    Args:
        folder: Where they are; made with access for the user only.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._open: sqlite3.Connection | None = None

    def put(self, contents: Iterable[bytes]) -> list[str]:
        """Keep contents, all or none of them, and give their hashes.

        When this returns they outlive the process.

        Raises:
            StoreError: They could not be written.
        """
        now = time.time()
        rows = []
        for data in contents:
            packed = zlib.compress(data, 1) if len(data) > _WORTH_PACKING else data
            stored = _PACKED + packed if len(packed) < len(data) else _PLAIN + data
            rows.append((hash_of(data), now, len(stored), stored))
        with self.using() as database:
            # Looked up first: what is there already is the usual case, and must not cost a write.
            new = [row for row in rows if not self._fresh(database, row[0], now)]
            if new:
                with database:
                    statement = (
                        "INSERT INTO objects VALUES (?, ?, ?, ?) ON CONFLICT (hash) DO UPDATE SET"
                        " used = excluded.used"
                    )
                    database.executemany(statement, new)
        return [row[0] for row in rows]

    @staticmethod
    def _fresh(database: sqlite3.Connection, name: str, now: float) -> bool:
        row = database.execute("SELECT used FROM objects WHERE hash = ?", (name,)).fetchone()
        return row is not None and row[0] > now - DAY

    def get(self, name: str) -> bytes | None:
        """Return a content, ``None`` if it is not kept (any more) or damaged."""
        with self.using() as database:
            row = database.execute("SELECT data FROM objects WHERE hash = ?", (name,)).fetchone()
        if row is None:
            return None
        try:
            data: bytes = zlib.decompress(row[0][1:]) if row[0][:1] == _PACKED else row[0][1:]
        except zlib.error:
            return None
        return data if hash_of(data) == name else None

    def touch(self, names: Iterable[str]) -> set[str]:
        """Return which of these contents are kept, and note that they are in use."""
        wanted = list(set(names))
        found = set[str]()
        now = time.time()
        with self.using() as database, database:
            for start in range(0, len(wanted), _BATCH):
                batch = wanted[start : start + _BATCH]
                marks = ",".join("?" * len(batch))
                rows = database.execute(
                    f"SELECT hash, used FROM objects WHERE hash IN ({marks})", batch
                ).fetchall()
                found.update(name for name, _ in rows)
                old = [name for name, used in rows if used < now - DAY]
                marks = ",".join("?" * len(old))
                if old:
                    database.execute(
                        f"UPDATE objects SET used = ? WHERE hash IN ({marks})", [now, *old]
                    )
        return found

    def sweep(self, days: float, most: int) -> int:
        """Forget what was not used for long, and the longest unused of what is too much.

        Gives how many.

        Args:
            days: Days after which a content is forgotten.
            most: Bytes to keep on disk.
        """
        with self.using() as database, database:
            gone = database.execute(
                "DELETE FROM objects WHERE used < ?", (time.time() - days * DAY,)
            ).rowcount
            size = database.execute("SELECT coalesce(sum(size), 0) FROM objects").fetchone()[0]
            if size > most:
                old = []
                for name, used in database.execute("SELECT hash, size FROM objects ORDER BY used"):
                    old.append((name,))
                    size -= used
                    if size <= most:
                        break
                gone += database.executemany("DELETE FROM objects WHERE hash = ?", old).rowcount
        if gone:
            with self.using() as database:
                database.execute("PRAGMA incremental_vacuum").fetchall()
        return gone

    def close(self) -> None:
        """Close the file; using it again opens it again."""
        with self._lock:
            if self._open is not None:
                self._open.close()
                self._open = None

    @contextmanager
    def using(self) -> Iterator[sqlite3.Connection]:
        """Hold the database for one thread.

        Raises:
            StoreError: It cannot be used.
        """
        import sqlite3  # 5 ms, with the first change

        with self._lock:
            try:
                if self._open is None:
                    self._open = self._connect()
                yield self._open
            except (sqlite3.Error, OSError) as error:
                message = f"The contents that undo needs cannot be kept in {self._folder}: {error}."
                raise StoreError(
                    message, hint="Make room there, or set HILUM_DATA to another folder."
                ) from error

    def _connect(self) -> sqlite3.Connection:
        import sqlite3

        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = self._folder / "objects.db"
        os.close(
            os.open(file, os.O_CREAT | os.O_RDWR, 0o600)
        )  # what SQLite puts beside it gets the same mode
        database = sqlite3.connect(file, timeout=20, check_same_thread=False)
        try:
            database.execute("PRAGMA auto_vacuum = INCREMENTAL")
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            database.executescript(_SCHEMA)
        except BaseException:
            database.close()
            raise
        return database
