"""A thread that reads the memories does not release the lock of a thread that writes them."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from hilum_memory.longterm.database import open_database

# Prints whether another process can start to write.
_OTHER_PROCESS = """
import sqlite3, sys

connection = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
try:
    connection.execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError as error:
    print(error)
else:
    print("not locked")
"""


def _read(path: Path) -> None:
    with open_database(path):
        pass


def test_a_reader_does_not_release_the_lock_of_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "memory" / "memories.db"
    with open_database(path, write=True):
        pass  # the file exists now
    reader = threading.Thread(target=_read, args=(path,))
    with open_database(path, write=True):
        reader.start()
        # The reader waits for the writer. A reader that opened the file would end here.
        reader.join(timeout=0.3)
        waits = reader.is_alive()
        command = [sys.executable, "-c", _OTHER_PROCESS, str(path)]
        said = subprocess.run(command, check=True, timeout=60, capture_output=True, text=True)
    reader.join(timeout=60)
    assert waits
    assert said.stdout.strip() == "database is locked"
