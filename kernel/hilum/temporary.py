"""Temporary folders that are removed even if their owner is killed.

Each folder contains a file that the owner keeps locked (flock) while it uses the folder. If another
process can lock the file, the owner has ended, however that happened. ``sweep_temporary_folders``
removes such folders. The system releases a process's locks when the process ends, so processes need
not know of each other. On Windows, no folder is locked or swept.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hilum.folder_trees import remove_folder

if sys.platform != "win32":
    import fcntl

PREFIX = "hilum-"
OWNER = "owner"
"""The file in a temporary folder that its owner locks."""
_NEW_OWNER = f"{OWNER}.new"
_RANDOM_NAME = PREFIX + r"(?:[a-z]+-)?[a-z0-9_]{8}"  # as `tempfile` creates them
_ABANDONED_SECONDS = 60
"""Age in seconds above which a folder without an owner counts as abandoned."""


def make_temporary_folder(kind: str = "") -> tuple[str, int]:
    """Create a temporary folder for this process.

    If this process is killed, the next session removes the folder. Blocks.

    Args:
        kind: A part of the folder's name that shows people its purpose.

    Returns:
        The folder's path, and a file descriptor that holds the lock. Close the descriptor after
        removing the folder.
    """
    while True:
        folder = tempfile.mkdtemp(prefix=_make_prefix(kind))
        fd = _claim(folder)
        if fd is not None:
            return folder, fd


@contextmanager
def open_temporary_folder(kind: str) -> Iterator[Path]:
    """Create a temporary folder for this process, and remove it at the end of the ``with`` block.

    If this process is killed, the next session removes the folder. Blocks.

    Args:
        kind: A part of the folder's name that shows people its purpose.
    """
    folder, fd = make_temporary_folder(kind)
    try:
        yield Path(folder)
    finally:
        # On Windows, an open file cannot be removed.
        os.close(fd)
        remove_folder(folder)


def _make_prefix(kind: str) -> str:
    return f"{PREFIX}{kind}-" if kind else PREFIX


def _claim(folder: str) -> int | None:
    """Create and lock the owner file of a new folder.

    Returns:
        A file descriptor that holds the lock; None if another process removed the folder, because
        this one was suspended too long.
    """
    new = os.path.join(folder, _NEW_OWNER)
    try:
        # O_CLOEXEC, because a child process with this file descriptor would keep the lock after the
        # owner has ended.
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return None
    try:
        _lock(fd)
        # The file is renamed after it is locked, so that no other process sees an unlocked owner
        # file.
        os.rename(new, os.path.join(folder, OWNER))
    except (BlockingIOError, FileNotFoundError):
        os.close(fd)
        return None
    except BaseException:
        os.close(fd)
        raise
    return fd


def sweep_temporary_folders() -> None:
    """Remove the temporary folders whose owners are gone. Blocks."""
    if sys.platform == "win32":
        return
    base = tempfile.gettempdir()
    with suppress(OSError), os.scandir(base) as found:
        for entry in found:
            mine = entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False)
            # The base folder may be shared, so other users' folders are not touched.
            if mine and entry.stat(follow_symlinks=False).st_uid == os.getuid():
                _remove_unowned(entry.path)


def _remove_unowned(folder: str) -> None:
    """Remove a temporary folder, unless its owner is running or it was not created by hilum."""
    if not _remove_if_unlocked(folder, OWNER) and _is_abandoned(folder):
        # The owner was killed while it created the folder.
        _remove_if_unlocked(folder, _NEW_OWNER)
        with suppress(OSError):
            os.rmdir(folder)  # fails if the folder is not empty


def _is_abandoned(folder: str) -> bool:
    """Return whether an ownerless folder has a name from hilum and is too old to get an owner."""
    with suppress(OSError):
        old = time.time() - os.lstat(folder).st_mtime > _ABANDONED_SECONDS
        return old and bool(re.fullmatch(_RANDOM_NAME, os.path.basename(folder)))
    return False


def _remove_if_unlocked(folder: str, owner: str) -> bool:
    """Remove a folder if no process has locked its owner file.

    Return whether the folder has an owner file.
    """
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
    """Remove a folder; its owner file is removed last.

    If this process is killed meanwhile, the next sweep finds the remaining files.
    """
    with os.scandir(folder) as found:
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                remove_folder(entry.path)
            elif entry.name != owner:
                with suppress(OSError):
                    os.unlink(entry.path)
    remove_folder(folder)


def _lock(fd: int) -> None:
    """Lock an open file, without waiting for other processes.

    Raises:
        OSError: Another process has locked the file.
    """
    if sys.platform != "win32":
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
