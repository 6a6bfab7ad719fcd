"""What a session puts down beside its log: its temporary folder, and empty files in the workspace.

A killed one leaves them.

They are locked while they are used (flock), so a lock that can be had means that every owner is
gone, however it ended. The next session removes them. Processes take part without knowing of each
other, and locks end with their process. On Windows there is no sandbox, and nothing is locked or
removed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from hilum import data_folder

if sys.platform != "win32":
    import fcntl

PREFIX = "hilum-"
OWNER = "owner"
"""The file in a temporary folder that its owner locks."""
_NEW_OWNER = f"{OWNER}.new"
_RANDOM_NAME = re.compile(PREFIX + r"(?:[a-z]+-)?[a-z0-9_]{8}")  # as `tempfile` makes them
_ABANDONED_SECONDS = 60
"""A folder this old has no owner that is about to put its file there and to lock it."""


def lock(fd: int, *, exclusive: bool) -> None:
    """Lock an open file or folder, without waiting.

    Raises:
        OSError: Another process holds it.
    """
    if sys.platform != "win32":
        fcntl.flock(fd, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)


def make_folder(kind: str = "") -> tuple[str, int]:
    """Create a temporary folder of one's own, which the next session removes if this process is
    killed. Blocks.

    Args:
        kind: A part of its name, for people who look for what it is.

    Returns:
        Its path, and a descriptor that holds it: close it when the folder has been removed.
    """
    while True:
        folder = tempfile.mkdtemp(prefix=f"{PREFIX}{kind}-" if kind else PREFIX)
        new = os.path.join(folder, _NEW_OWNER)
        try:
            fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            continue  # this process was suspended for so long that another one removed the folder
        try:
            lock(fd, exclusive=True)
            os.rename(new, os.path.join(folder, OWNER))  # nobody sees the file before it is locked
        except (BlockingIOError, FileNotFoundError):
            os.close(fd)
            continue
        except BaseException:
            os.close(fd)
            raise
        return folder, fd


def sweep_folders() -> None:
    """Remove the temporary folders whose owners are gone. Blocks."""
    if sys.platform == "win32":
        return
    base = tempfile.gettempdir()
    with suppress(OSError), os.scandir(base) as found:
        for entry in found:
            mine = entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False)
            if mine and entry.stat(follow_symlinks=False).st_uid == os.getuid():
                _remove_unowned(entry.path)


def _remove_unowned(folder: str) -> None:
    """Remove a temporary folder unless its owner lives, or it is not of hilum's making."""
    if not _remove_if_unlocked(folder, OWNER) and _is_abandoned(folder):
        # Its owner was killed while it made the folder.
        _remove_if_unlocked(folder, _NEW_OWNER)
        with suppress(OSError):
            os.rmdir(folder)  # fails where something is in it


def _is_abandoned(folder: str) -> bool:
    """Check whether a folder without an owner is hilum's by its name, and too old to get one."""
    with suppress(OSError):
        old = time.time() - os.lstat(folder).st_mtime > _ABANDONED_SECONDS
        return old and bool(_RANDOM_NAME.fullmatch(os.path.basename(folder)))
    return False


def _remove_if_unlocked(folder: str, owner: str) -> bool:
    """Remove a folder if nobody holds its owner's file. Returns whether there is such a file."""
    try:
        fd = os.open(os.path.join(folder, owner), os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        lock(fd, exclusive=True)
        _remove_folder(folder, owner)
    except OSError:
        pass  # it is in use
    finally:
        os.close(fd)
    return True


def _remove_folder(folder: str, owner: str) -> None:
    """Remove a folder, the file of its owner last: if this process is killed meanwhile, the next
    one finds the rest.
    """
    with os.scandir(folder) as found:
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            elif entry.name != owner:
                with suppress(OSError):
                    os.unlink(entry.path)
    shutil.rmtree(folder, ignore_errors=True)


class Masks:
    """The empty files and folders that a session has put in the place of missing ones, or found
    there.

    A record of each is kept beside hilum's data, so that what the user made themselves is told from
    what hilum made.
    """

    def __init__(self) -> None:
        self._fds: dict[str, int] = {}

    def put(self, path: str, *, file: bool = False) -> None:
        """Put an empty folder in a place where nothing is, and hold it.

        One that another session has put there is held, too.

        Args:
            path: The place.
            file: Whether it is to be a file.
        """
        if path in self._fds and os.path.lexists(path):
            return
        with suppress(OSError):
            while not self._put(path, file=file):
                pass

    def _put(self, path: str, *, file: bool) -> bool:
        """Put and hold it. Returns False where another process removed it before it was held."""
        if not os.path.lexists(path):
            record = _record(path)
            record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            record.write_bytes(os.fsencode(path))
            if file:
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
            else:
                os.mkdir(path)
        elif not _record(path).exists():
            return True
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            lock(fd, exclusive=False)
            held = os.path.samestat(os.fstat(fd), os.lstat(path))
        except FileNotFoundError:
            held = False
        except OSError:
            os.close(fd)
            raise
        if not held:
            os.close(fd)
            return False
        self._release(path)
        self._fds[path] = fd
        return True

    def close(self) -> None:
        """Let go of all, and remove those that no other session holds and that are still empty.

        Blocks.
        """
        for path in list(self._fds):
            self._release(path)
            _remove_mask(path)

    def _release(self, path: str) -> None:
        fd = self._fds.pop(path, None)
        if fd is not None:
            os.close(fd)


def sweep_masks() -> None:
    """Remove the empty files and folders of sessions that are gone. Blocks."""
    with suppress(OSError):
        for record in (data_folder() / "masks").iterdir():
            with suppress(OSError):
                _remove_mask(os.fsdecode(record.read_bytes()))


def _record(path: str) -> Path:
    return data_folder() / "masks" / hashlib.sha256(os.fsencode(path)).hexdigest()[:32]


def _remove_mask(path: str) -> None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        _record(path).unlink(missing_ok=True)
        return
    try:
        lock(fd, exclusive=True)
        _record(path).unlink(missing_ok=True)
        if os.path.isdir(path):
            os.rmdir(path)
        elif not os.path.getsize(path):
            os.unlink(path)
    except OSError:
        pass  # another session holds it, or it is in use by now
    finally:
        os.close(fd)
