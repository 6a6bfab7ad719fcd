"""Lock a folder, so that only one process at a time changes its files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_LOCK, 1)

else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock the files in a folder until the block ends.

    The function waits until no other process is changing them. Blocks.

    Raises:
        OSError: The folder cannot be opened.
    """
    if sys.platform == "win32":
        # Windows cannot open folders, so a file in the folder is locked instead. The file is not
        # removed, because other processes may wait for its lock.
        handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT)
    else:
        handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems do not support locks
            _lock(handle)
        yield
    finally:
        os.close(handle)
