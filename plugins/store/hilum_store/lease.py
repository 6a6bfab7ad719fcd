"""A lease on a file: one holder at a time, free the instant its holder dies.

The lock belongs to the open file (``flock``), not to the process, so that two kernels in one
process exclude each other as well, and the system drops it when the process ends, however it ends.
No file that a crash left behind can keep a session closed.
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
    """The lock on one file, held until ``release`` or until the process is gone."""

    def __init__(self, path: Path, fd: int) -> None:
        self._path = path
        self._fd = fd
        _held.add(self)

    @classmethod
    def take(cls, path: Path, *, wait: bool = False) -> Lease | None:
        """Lock a file, which is made where it does not exist.

        Args:
            path: The file; its folder must exist.
            wait: Wait for another holder to release it (blocks, so only in a thread).

        Returns:
            The lease, or ``None`` while somebody else holds it.

        Raises:
            OSError: The file cannot be made, or its file system has no locks.
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
            os.close(
                fd
            )  # its holder removed the file just before we had the lock: this one guards nothing any more

    @property
    def held(self) -> bool:
        """Whether this process still holds it."""
        return self._fd >= 0

    def release(self) -> None:
        """Remove the file and give up the lock; a second time does nothing."""
        if self._fd < 0:
            return
        if sys.platform != "win32" and _is_at(self._fd, self._path):
            with suppress(OSError):  # left behind it does no harm: only the lock counts
                self._path.unlink()
        self._drop()

    def _drop(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def sweep(folder: Path) -> None:
    """Remove the files of holders that were killed. Blocks.

    Each is locked for some microseconds, in which nobody else can take it: see ``Database.lease``.
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
    # A forked child shares the open file, and with it the lock: it must not keep a session closed
    # when its parent dies.
    for lease in list(_held):
        lease._drop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
