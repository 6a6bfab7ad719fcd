"""A thin layer over Linux's inotify(7), which names the entries of folders that were changed.

The libraries for inotify do not fit: ``watchfiles`` and ``watchdog`` read events in threads of
their own and hide overflows, and ``inotify_simple`` starts ``ldconfig`` to find the C library.
hilum needs three calls, and reads events only when it looks, so no thread and no task waits.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

MODIFY = 0x2
ATTRIB = 0x4
CLOSE_WRITE = 0x8
MOVED_FROM = 0x40
MOVED_TO = 0x80
CREATE = 0x100
DELETE = 0x200
DELETE_SELF = 0x400
MOVE_SELF = 0x800
UNMOUNT = 0x2000
OVERFLOW = 0x4000
IGNORED = 0x8000
ONLYDIR = 0x0100_0000
DONT_FOLLOW = 0x0200_0000
ISDIR = 0x4000_0000
LOCAL_FILE_SYSTEMS = frozenset(
    "bcachefs btrfs ext2 ext3 ext4 f2fs jfs reiserfs tmpfs xfs zfs".split()
)
"""File systems that only this computer changes, each change through inotify's notice."""
MAX_WATCHES_FILE = "/proc/sys/fs/inotify/max_user_watches"
"""The file with the number of watches that a user may have."""
# Larger than the queue of a usual system (16,384 events of at most 272 bytes), read in steps.
_READ_BYTES = 1 << 16
_HEAD = struct.Struct("iIII")


class Event(NamedTuple):
    """An event.

    Attributes:
        watch: The number of the watch; -1 for an overflow.
        mask: What happened, as a combination of the constants above.
        name: The name of the entry of the watched folder; empty for the folder itself.
    """

    watch: int
    mask: int
    name: str


class Inotify:
    """A queue of events about watched folders.

    Raises:
        OSError: The system has no inotify, or the user's limit of queues is reached.
    """

    def __init__(self) -> None:
        if sys.platform != "linux":
            raise OSError("inotify is a feature of Linux")
        import ctypes  # the import takes 5 ms

        self._get_errno = ctypes.get_errno
        # The program already contains the C library, with glibc and with musl.
        self._library = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._check(self._library.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))

    def _check(self, result: int) -> int:
        if result < 0:
            number = self._get_errno()
            raise OSError(number, os.strerror(number))
        return result

    def add_watch(self, path: str, mask: int) -> int:
        """Watch a folder, and return the number of the watch.

        A folder that is already watched, even under another path, keeps its number.

        Raises:
            OSError: The folder cannot be watched; ``ENOSPC`` at the user's limit of watches.
        """
        return self._check(
            self._library.inotify_add_watch(self._descriptor, os.fsencode(path), mask)
        )

    def remove_watch(self, watch: int) -> None:
        """Stop watching a folder; nothing happens if it is no longer watched."""
        self._library.inotify_rm_watch(self._descriptor, watch)

    def read(self) -> Iterator[Event]:
        """Yield the events that have happened until now, oldest first, without waiting."""
        while True:
            try:
                data = os.read(self._descriptor, _READ_BYTES)
            except BlockingIOError:
                return
            position = 0
            while position < len(data):
                watch, mask, _, length = _HEAD.unpack_from(data, position)
                position += _HEAD.size
                name = data[position : position + length].rstrip(b"\0")
                position += length
                yield Event(watch, mask, os.fsdecode(name))

    def close(self) -> None:
        """Close the queue, and stop watching."""
        os.close(self._descriptor)


def find_file_system(path: str) -> str:
    """Return the type of the file system that contains a folder; empty if it is unknown."""
    found = ""
    longest = -1
    with suppress(OSError):
        real = os.path.realpath(path)
        for point, kind in read_mounts():
            is_above = point == "/" or real == point or real.startswith(f"{point}/")
            # The last of several mounts at one place hides the others.
            if is_above and len(point) >= longest:
                found = kind
                longest = len(point)
    return found


def read_mounts() -> Iterator[tuple[str, str]]:
    """Yield each mount point, with the type of its file system (see proc_pid_mountinfo(5))."""
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            before, _, after = line.partition(b" - ")
            point = before.split()[4]
            # Blanks and backslashes are written as octal numbers.
            for code in (b"\\040", b"\\011", b"\\012", b"\\134"):
                point = point.replace(code, bytes([int(code[1:], 8)]))
            yield os.fsdecode(point), os.fsdecode(after.split()[0])
