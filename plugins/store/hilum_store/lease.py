"""A lease on a file, which has one holder at a time and ends with the holder's process.

The lock belongs to the open file (``flock``), not to the process, so two kernels in one process
also exclude each other. The system releases the lock however the process ends, so a file left
behind by a crash cannot block a session.
"""

from __future__ import annotations

import os
import sys
import weakref
from contextlib import suppress
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def _lock(fd: int, wait: bool) -> bool:
        try:
            msvcrt.locking(fd, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _lock(fd: int, wait: bool) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class Lease:
    """The lock on one file, held until ``release`` or the end of the process."""

    def __init__(self, path: Path, fd: int) -> None:
        self._path = path
        self._fd = fd
        _held.add(self)

    @classmethod
    def take(cls, path: Path, *, wait: bool = False) -> Lease | None:
        """Lock a file, creating it if it does not exist.

        Args:
            path: The file; its folder must exist.
            wait: Whether to wait until another holder releases the lock. Waiting blocks, so wait
                only in a worker thread.

        Returns:
            The lease, or ``None`` if it has another holder.

        Raises:
            OSError: The file cannot be created, or its file system does not support locks.
        """
        while True:
            fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                if not _lock(fd, wait):
                    os.close(fd)
                    return None
                if _is_at(fd, path):
                    return cls(path, fd)
            except BaseException:
                os.close(fd)
                raise
            # The previous holder removed the file just before this lock was taken, so the lock
            # protects nothing: try again with the new file.
            os.close(fd)

    @property
    def held(self) -> bool:
        """Whether this process still holds the lease."""
        return self._fd >= 0

    def release(self) -> None:
        """Remove the file and release the lock; a second call does nothing."""
        if self._fd < 0:
            return
        if sys.platform != "win32" and _is_at(self._fd, self._path):
            with suppress(OSError):  # an unlocked file does no harm
                self._path.unlink()
        self._drop()

    def _drop(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def is_locked(path: Path) -> bool:
    """Return whether a file is locked, without creating it.

    An unlocked file, which a killed holder left, is locked for a few microseconds; ``Database.lease``
    allows for this.

    Raises:
        OSError: The file cannot be opened, or its file system does not support locks.
    """
    try:
        fd = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        return not _lock(fd, wait=False)
    finally:
        os.close(fd)


def remove_stale_leases(folder: Path) -> None:
    """Remove the lock files of killed holders. Blocks.

    Each file is locked for a few microseconds, during which nothing else can lock it;
    ``Database.lease`` allows for this.
    """
    with suppress(OSError):
        for path in list(folder.iterdir()):
            lease = Lease.take(path)
            if lease is not None:
                lease.release()


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


_held: weakref.WeakSet[Lease] = weakref.WeakSet()


def _after_fork() -> None:
    # A forked child shares the open file and the lock. The child must not block the session when
    # its parent ends.
    for lease in list(_held):
        lease._drop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
