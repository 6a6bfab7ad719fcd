"""Makes checkpoints, which move committed data from SQLite's log into the database file.

A checkpoint waits for the disk and may take several milliseconds, so it runs in a separate thread
and never inside a commit; SQLite's automatic checkpoints are disabled.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import suppress

from hilum import StoreError

from hilum_store.database import Database

# Up to SQLite 3.51.2, a checkpoint that begins while another commit restarts the log can lose pages
# and damage the file (the "WAL-reset bug"). With older versions, the write lock is therefore held
# during a checkpoint.
SAFE_ALONGSIDE_WRITERS = sqlite3.sqlite_version_info >= (3, 51, 3)


class Checkpointer:
    """Makes checkpoints of a database on request, one at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._wanted = threading.Event()
        self._ended = False
        # daemon: a store that was never closed must not keep the process alive, and a checkpoint
        # can be interrupted safely at any point.
        self._thread = threading.Thread(
            target=self._run,
            name="hilum-store-checkpoint",
            daemon=True,
        )
        self._thread.start()

    def request(self) -> None:
        """Request a checkpoint. Does not block."""
        self._wanted.set()

    def close(self) -> None:
        """End the thread. Blocks until a running checkpoint is complete."""
        self._ended = True
        self._wanted.set()
        # The file must not be closed while a checkpoint is using it.
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if self._ended:
                return
            try:
                make_checkpoint(self._database)
            except StoreError:
                # Nothing is lost: committed data stays in the log next to the file, and the next
                # checkpoint tries again. The next append or read reports a full disk or a damaged
                # file, along with the consequences for the session.
                continue


def make_checkpoint(database: Database) -> None:
    """Move committed data into the file as far as open readers allow. Blocks.

    A damaged file stays as it is, because what can still be read may be saved from it.

    Raises:
        StoreError: The file cannot be written.
    """
    if database.damaged:
        return
    if not SAFE_ALONGSIDE_WRITERS:
        _sync_log(database)
    with database.side() as side:
        # Use a separate connection, because a connection with an open write transaction cannot make
        # a checkpoint.
        connection = database.connect()
        try:
            if not SAFE_ALONGSIDE_WRITERS:
                side.execute("BEGIN IMMEDIATE")
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        finally:
            if side.in_transaction:
                side.execute("ROLLBACK")
            connection.close()


def _sync_log(database: Database) -> None:
    """Write the log to disk, which takes half of the time for a checkpoint but needs no lock."""
    # Only the log may be opened separately from SQLite: closing the session file would release
    # SQLite's locks on it (POSIX locks belong to the process).
    with suppress(OSError):
        fd = os.open(f"{database.path}-wal", os.O_RDWR)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
