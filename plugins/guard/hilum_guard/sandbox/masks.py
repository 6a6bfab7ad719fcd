"""Create masks: empty files and folders in place of missing files and folders.

A killed session leaves its masks behind, and the next session removes them. Sessions lock the masks
that they use (flock). A lock ends with its process, so a mask that can be locked exclusively has no
owner. The lock is on the mask itself, so it also counts between sessions with different data folders;
only the records, which say who may remove a mask, are in the data folder. On Windows there is no
sandbox, and nothing is locked or removed.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from hilum import data_folder, make_private_folder

from hilum_guard.file_names import digest_path

if sys.platform != "win32":
    import fcntl


PUT_TIMEOUT = 0.5
"""Time limit, in seconds, for creating and locking a mask that other sessions keep removing."""
_RETRY_PAUSE = 0.001
# A named pipe has no size, either, and must not block.
_OPEN = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_OPEN |= getattr(os, "O_CLOEXEC", 0)


def lock(fd: int, *, exclusive: bool) -> None:
    """Lock an open file or folder without waiting.

    Raises:
        OSError: Another process has locked the file or folder.
    """
    if sys.platform != "win32":
        fcntl.flock(fd, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)


class Masks:
    """The masks of one session.

    hilum's data folder contains a record of each mask, which distinguishes the mask from an empty
    folder that the user created.
    """

    def __init__(self) -> None:
        self._fds: dict[str, int] = {}

    def put(self, path: str, *, file: bool = False) -> bool:
        """Create and lock a mask at a path where nothing exists.

        An empty file or folder at the path is locked as well, because it may be the mask of another
        session: if that session removed it, the sandbox would no longer protect the path.

        Args:
            path: The path.
            file: Whether to create a file instead of a folder.

        Returns:
            Whether this call locked the mask; False if it was locked before, or cannot be.
        """
        if self.holds(path):
            return False
        deadline = time.monotonic() + PUT_TIMEOUT
        with suppress(OSError):
            while time.monotonic() < deadline:
                if self._put(path, file=file):
                    return True
                time.sleep(_RETRY_PAUSE)
        return False

    def holds(self, path: str) -> bool:
        """Return whether the locked mask is still at its path; the user may have removed it."""
        fd = self._fds.get(path)
        if fd is None:
            return False
        try:
            return os.path.samestat(os.fstat(fd), os.lstat(path))
        except OSError:
            return False

    def _put(self, path: str, *, file: bool) -> bool:
        """Create and lock a mask; return False if another process removed it first."""
        if not os.path.lexists(path):
            record = _record(path)
            make_private_folder(record.parent)
            # The record is written before the mask: if hilum is killed in between, the next session
            # finds a record without a mask, which is harmless.
            record.write_bytes(os.fsencode(path))
            if file:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                os.close(os.open(path, flags, 0o644))
            else:
                os.mkdir(path)
        fd = os.open(path, _OPEN)
        try:
            # The lock is shared, so that several sessions can use the same mask. Removing a mask
            # needs an exclusive lock.
            lock(fd, exclusive=False)
            # Another session may have removed the mask between opening and locking it.
            held = os.path.samestat(os.fstat(fd), os.lstat(path))
        except (FileNotFoundError, BlockingIOError):
            # Another session is removing the mask.
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
        """Release all masks, and remove those that are empty and not locked elsewhere. Blocks."""
        for path in list(self._fds):
            self._release(path)
            # A session with another data folder removes its own masks.
            if _record(path).exists():
                _remove_mask(path)

    def _release(self, path: str) -> None:
        fd = self._fds.pop(path, None)
        if fd is not None:
            os.close(fd)


def sweep_masks() -> None:
    """Remove the masks of sessions that ended. Blocks."""
    with suppress(OSError):
        for record in (data_folder() / "masks").iterdir():
            with suppress(OSError):
                _remove_mask(os.fsdecode(record.read_bytes()))


def _record(path: str) -> Path:
    """Return a mask's record."""
    return data_folder() / "masks" / digest_path(path)


def _remove_mask(path: str) -> None:
    """Remove a mask if it is empty and nobody has locked it."""
    try:
        fd = os.open(path, _OPEN)
    except OSError:
        _record(path).unlink(missing_ok=True)
        return
    try:
        # Locking fails while any session uses the mask, because each such session has a shared lock
        # on it.
        lock(fd, exclusive=True)
        _record(path).unlink(missing_ok=True)
        if os.path.isdir(path):
            os.rmdir(path)
        # The user may have put something into the mask in the meantime, which makes it the user's
        # file or folder.
        elif not os.path.getsize(path):
            os.unlink(path)
    except OSError:
        pass  # another session has locked the mask, or it is no longer empty
    finally:
        os.close(fd)
