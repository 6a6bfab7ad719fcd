"""The store of contents keeps its file's locks while other stores of the process open and close."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hilum_files.journal.content_store import ContentStore

# Another process that opens the store, writes and leaves. When it leaves, SQLite deletes the
# write-ahead log unless the locks show that somebody else still uses it.
_OTHER_PROCESS = """
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from hilum_files.journal.content_store import ContentStore

store = ContentStore(Path(sys.argv[1]))
store.put([sys.argv[2].encode()])
store.close()
"""


def _write_in_another_process(folder: Path, text: str) -> None:
    command = [sys.executable, "-c", _OTHER_PROCESS, str(folder), text]
    subprocess.run(command, check=True, timeout=60)


def test_a_second_store_of_a_process_does_not_release_the_locks(tmp_path: Path) -> None:
    first = ContentStore(tmp_path / "objects")
    names = first.put([b"before"])
    # The second store opens the same file, as a second session of a server does.
    second = ContentStore(tmp_path / "objects")
    names += second.put([b"from the second store"])
    log = tmp_path / "objects" / "objects.db-wal"
    inode = log.stat().st_ino

    _write_in_another_process(tmp_path / "objects", "from another process")

    assert log.stat().st_ino == inode
    names += first.put([b"after"])
    first.close()
    second.close()
    reopened = ContentStore(tmp_path / "objects")
    assert [reopened.get(name) for name in names] == [
        b"before",
        b"from the second store",
        b"after",
    ]
    reopened.close()


def test_stores_that_create_the_file_at_the_same_moment_wait_for_each_other(tmp_path: Path) -> None:
    """SQLite itself does not wait for another connection that enables the same mode."""

    def put(folder: Path, ready: threading.Barrier, number: int) -> list[str]:
        store = ContentStore(folder)
        ready.wait()
        try:
            return store.put([b"%d" % number])
        finally:
            store.close()

    with ThreadPoolExecutor(6) as pool:
        for number in range(100):
            ready = threading.Barrier(6)
            folder = tmp_path / str(number)
            done = [pool.submit(put, folder, ready, each) for each in range(6)]
            for each in done:
                assert each.result()
