"""What all processes need to share the day's budget, in a small file.

The file contains the requests in flight, and what each session spent on a day, which is kept when
the session is deleted.
"""

from __future__ import annotations

import os
import platform
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from math import inf
from pathlib import Path

from hilum import StoreError

from hilum_trace.bill.budgets.amounts import Amount, Estimate

# Seconds to wait for another process that writes to the file. A transaction takes milliseconds.
BUSY_TIMEOUT = 5.0

# Rows of earlier days are deleted; a process in another time zone may still need yesterday's.
KEPT_DAYS = 3
DAMAGED_HINT = (
    "Delete the file: hilum reads again from the logs what was spent today, except in sessions that"
    " were deleted."
)

_REQUESTS = """
CREATE TABLE IF NOT EXISTS requests (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    expires REAL NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    least_dollars REAL NOT NULL,
    least_tokens INTEGER NOT NULL,
    dollars REAL NOT NULL,
    tokens INTEGER NOT NULL,
    minutes REAL NOT NULL
)
"""

_SPENDING = """
CREATE TABLE IF NOT EXISTS spending (
    day TEXT NOT NULL,
    session TEXT NOT NULL,
    dollars REAL NOT NULL,
    tokens INTEGER NOT NULL,
    minutes REAL NOT NULL,
    PRIMARY KEY (day, session)
)
"""
# What a session has spent never becomes less, also if the end of its log was lost.
_RECORD = """
INSERT INTO spending (day, session, dollars, tokens, minutes) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (day, session) DO UPDATE SET
    dollars = max(dollars, excluded.dollars),
    tokens = max(tokens, excluded.tokens),
    minutes = max(minutes, excluded.minutes)
"""


class BudgetFile:
    """The requests in flight and the spending of days. All methods block for a short time: call them in a thread.

    Each method opens the file anew, so that any thread can call it and nothing needs closing.

    Args:
        path: The file, which is created if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, request: Estimate, lifetime: float) -> tuple[int, list[Estimate]]:
        """Add a request.

        Of two requests that are added at the same time, only one sees the other.

        Args:
            request: What it will use.
            lifetime: Seconds after which the request counts as lost, because its process was
                killed.

        Returns:
            The number of the request, and the requests that were added before and are in flight.

        Raises:
            OSError: The file cannot be written.
            sqlite3.Error: The file is damaged or locked.
            StoreError: The file contains something that hilum does not write.
        """
        now = time.time()
        host = platform.node()
        least = request.least
        row = (now + lifetime, host, os.getpid(), least.dollars, least.tokens, *request.most)
        with self._transaction() as database:
            database.execute("DELETE FROM requests WHERE expires < ?", (now,))
            self._delete_lost(database, host)
            found = database.execute(
                "SELECT least_dollars, least_tokens, dollars, tokens, minutes FROM requests"
            ).fetchall()
            for each in found:
                self._check("requests", each)
            added = database.execute(
                "INSERT INTO requests (expires, host, pid, least_dollars, least_tokens, dollars,"
                " tokens, minutes) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                row,
            )
        number = added.lastrowid or 0
        return number, [Estimate(Amount(*each[:2]), Amount(*each[2:])) for each in found]

    def remove(self, number: int) -> None:
        """Remove a request that has ended.

        Raises:
            OSError: The file cannot be written.
            sqlite3.Error: The file is damaged or locked.
        """
        with self._transaction() as database:
            database.execute("DELETE FROM requests WHERE id = ?", (number,))

    def record(self, day: str, spent: Mapping[str, Amount]) -> Amount:
        """Record what sessions have spent on a day, and return what all of them have spent.

        Args:
            day: The day, as ``2026-01-31``.
            spent: What sessions have spent on this day so far, by the id of the session.

        Raises:
            OSError: The file cannot be written.
            sqlite3.Error: The file is damaged or locked.
            StoreError: The file contains something that hilum does not write.
        """
        oldest = date.fromisoformat(day) - timedelta(days=KEPT_DAYS)
        with self._transaction() as database:
            database.execute("DELETE FROM spending WHERE day < ?", (oldest.isoformat(),))
            rows = [(day, session, *amount) for session, amount in spent.items()]
            database.executemany(_RECORD, rows)
            found = database.execute(
                "SELECT dollars, tokens, minutes FROM spending WHERE day = ?", (day,)
            ).fetchall()
        total = Amount()
        for row in found:
            # A negative row would make the day's budget larger.
            self._check("spending", row)
            total = total.plus(Amount(*row))
        return total

    def _delete_lost(self, database: sqlite3.Connection, host: str) -> None:
        """Delete the requests of processes on this machine that were killed."""
        found = database.execute("SELECT DISTINCT pid FROM requests WHERE host = ?", (host,))
        for row in found.fetchall():
            self._check("requests", row)
            if not _is_running(row[0]):
                database.execute("DELETE FROM requests WHERE host = ? AND pid = ?", (host, *row))

    def _check(self, table: str, row: Sequence[object]) -> None:
        """Check the numbers of a row, which another program may have changed.

        Raises:
            StoreError: One is no number, negative or not finite.
        """
        for value in row:
            if not isinstance(value, int | float) or not 0 <= value < inf:
                raise StoreError(
                    f"{self._path} is damaged: the table {table} contains {value!r}.",
                    hint=DAMAGED_HINT,
                )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if not self._path.exists():
            # The file is for the user only, from its first moment.
            os.close(os.open(self._path, os.O_CREAT | os.O_WRONLY, 0o600))
        database = sqlite3.connect(self._path, timeout=BUSY_TIMEOUT, isolation_level=None)
        try:
            database.execute("PRAGMA synchronous = OFF")
            # The lock is taken before reading, so that no two processes read the same state.
            database.execute("BEGIN IMMEDIATE")
            database.execute(_REQUESTS)
            database.execute(_SPENDING)
            yield database
            database.execute("COMMIT")
        finally:
            # An open transaction is rolled back.
            database.close()


def _is_running(pid: float) -> bool:
    """Return whether a process runs; true if that cannot be found out."""
    # On Windows, os.kill would end the process.
    if os.name != "posix":
        return True
    try:
        os.kill(int(pid), 0)
    # No process has a number that the system cannot represent.
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
