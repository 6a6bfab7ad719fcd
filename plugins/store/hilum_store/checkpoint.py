"""Checkpoints: moving what was committed from the log beside the file into the file, in a thread of
the store's own.

They may take milliseconds (the disk is waited for), so none happens inside a commit: SQLite's
automatic ones are off.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import suppress

from hilum import StoreError

from hilum_store.database import Database

# Up to SQLite 3.51.2 a checkpoint that begins while somebody else's commit starts the log anew can
# lose pages for good (the "WAL-reset bug") and leave a damaged file. It cannot happen while nobody
# can write: there the write lock is held.
SAFE_ALONGSIDE_WRITERS = sqlite3.sqlite_version_info >= (3, 51, 3)


class Checkpointer:
    """Makes checkpoints of a database when asked, one at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._wanted = threading.Event()
        self._ended = False
        # daemon: a store that was never closed must not keep the process alive; a checkpoint may
        # break off anywhere.
        self._thread = threading.Thread(
            target=self._run, name="hilum-store-checkpoint", daemon=True
        )
        self._thread.start()

    def request(self) -> None:
        """Ask for a checkpoint soon. Does not block."""
        self._wanted.set()

    def close(self) -> None:
        """End the thread; blocks until a checkpoint under way is done."""
        self._ended = True
        self._wanted.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if self._ended:
                return
            try:
                checkpoint(self._database)
            except StoreError:
                # Nothing is lost: what was committed stays in the log beside the file, and the next
                # one tries again. A full disk or a broken file is told by the next append or read:
                # they know what it means for a session.
                continue


def checkpoint(database: Database) -> None:
    """Move everything committed into the file, as far as no reader still needs the state before.

    Blocks.

    Raises:
        StoreError: The file cannot be written.
    """
    if not SAFE_ALONGSIDE_WRITERS:
        _sync_log(database)
    with database.side() as side:
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
    """Send the log to the disk beforehand: that is half of the waiting, and needs no lock."""
    # Only this file may be opened beside SQLite: closing the session file would drop the locks
    # SQLite has on it.
    with suppress(OSError):
        fd = os.open(f"{database.path}-wal", os.O_RDWR)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
