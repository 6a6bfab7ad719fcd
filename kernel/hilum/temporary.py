"""Temporary folders that are removed even if their owner is killed.

Each contains a file that its owner locks (flock) while it uses the folder, so if another process
can lock it, the owner is gone, however it ended. ``sweep_temporary_folders`` removes such folders.
Processes need not know of each other, and locks end with their process. On Windows nothing is
locked or swept.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import time
from contextlib import suppress

if sys.platform != "win32":
    import fcntl

PREFIX = "hilum-"
OWNER = "owner"
"""The file in a temporary folder that its owner locks."""
_NEW_OWNER = f"{OWNER}.new"
_RANDOM_NAME = PREFIX + r"(?:[a-z]+-)?[a-z0-9_]{8}"  # as `tempfile` creates them
_ABANDONED_SECONDS = 60
"""Age in seconds above which a folder has no owner that is still about to lock its file."""


def make_temporary_folder(kind: str = "") -> tuple[str, int]:
    """Create a temporary folder for this process.

    The next session removes it if this process is killed. Blocks.

    Args:
        kind: A part of its name that tells people what it is for.

    Returns:
        Its path, and a descriptor that keeps it: close it when the folder has been removed.
    """
    while True:
        folder = tempfile.mkdtemp(prefix=f"{PREFIX}{kind}-" if kind else PREFIX)
        new = os.path.join(folder, _NEW_OWNER)
        try:
            # O_CLOEXEC: a child process with the descriptor would keep the lock after its owner has
            # ended.
            fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            continue  # this process was suspended for so long that another one removed the folder
        try:
            _lock(fd)
            # Renamed only now, so that no other process sees the file before it is locked.
            os.rename(new, os.path.join(folder, OWNER))
        except (BlockingIOError, FileNotFoundError):
            os.close(fd)
            continue
        except BaseException:
            os.close(fd)
            raise
        return folder, fd


def sweep_temporary_folders() -> None:
    """Remove the temporary folders whose owners are gone. Blocks."""
    if sys.platform == "win32":
        return
    base = tempfile.gettempdir()
    with suppress(OSError), os.scandir(base) as found:
        for entry in found:
            mine = entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False)
            # The folder may be shared: what other users left there is theirs to remove.
            if mine and entry.stat(follow_symlinks=False).st_uid == os.getuid():
                _remove_unowned(entry.path)


def _remove_unowned(folder: str) -> None:
    """Remove a temporary folder unless its owner is running, or it was not created by hilum."""
    if not _remove_if_unlocked(folder, OWNER) and _is_abandoned(folder):
        # Its owner was killed while it created the folder.
        _remove_if_unlocked(folder, _NEW_OWNER)
        with suppress(OSError):
            os.rmdir(folder)  # fails if the folder is not empty


def _is_abandoned(folder: str) -> bool:
    """Return whether an unowned folder is named as by hilum, and too old to get an owner."""
    with suppress(OSError):
        old = time.time() - os.lstat(folder).st_mtime > _ABANDONED_SECONDS
        return old and bool(re.fullmatch(_RANDOM_NAME, os.path.basename(folder)))
    return False


def _remove_if_unlocked(folder: str, owner: str) -> bool:
    """Remove a folder if no process locks its owner's file. Return whether it has such a file."""
    try:
        fd = os.open(os.path.join(folder, owner), os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        _lock(fd)
        _remove_folder(folder, owner)
    except OSError:
        pass  # it is in use
    finally:
        os.close(fd)
    return True


def _remove_folder(folder: str, owner: str) -> None:
    """Remove a folder; the file of its owner is removed last.

    If this process is killed meanwhile, the next sweep finds the remaining files.
    """
    with os.scandir(folder) as found:
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            elif entry.name != owner:
                with suppress(OSError):
                    os.unlink(entry.path)
    shutil.rmtree(folder, ignore_errors=True)


def _lock(fd: int) -> None:
    """Lock an open file without waiting.

    Raises:
        OSError: Another process has locked it.
    """
    if sys.platform != "win32":
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
