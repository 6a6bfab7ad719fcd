"""Learn, by inotify, which folders of a home folder have changed since they were listed.

A watch belongs to an inode and not to a path. Therefore, the open folder that is listed is watched,
and the caller compares inodes.
"""

from __future__ import annotations

import os
import weakref
from contextlib import suppress
from pathlib import Path

from hilum import inotify
from hilum.inotify import LOCAL_FILE_SYSTEMS, MAX_WATCHES_FILE, Inotify, find_file_system

from hilum_guard.file_names import is_below

_SHARE = 8
"""The part of the user's limit of watches to use for home folders."""
_MASK = (
    inotify.CREATE
    | inotify.DELETE
    | inotify.MOVED_FROM
    | inotify.MOVED_TO
    | inotify.ATTRIB
    | inotify.CLOSE_WRITE
    | inotify.DELETE_SELF
    | inotify.MOVE_SELF
    | inotify.ONLYDIR
)


class HomeEvents:
    """The watches of folders in a home folder.

    Only one thread at a time may call the methods.

    Args:
        home: The home folder, without links.
    """

    def __init__(self, home: str) -> None:
        self._home = home
        self._inotify: Inotify | None = None
        self._finalizer: weakref.finalize[..., HomeEvents] | None = None
        self._is_possible = True
        self._limit = 0
        self._paths: dict[int, str] = {}
        # What may change without an event: which folder is the home folder, and the mounts.
        self._identity: tuple[int, int] | None = None
        self._mounts = b""
        self._relevant_mounts: list[tuple[str, str]] = []
        # A process that was forked shares the queue with its parent, but not what the parent reads.
        self._process = 0

    def read_changed(self) -> set[str] | None:
        """Return the folders that may have changed; ``None`` if all folders may have changed."""
        if self._inotify is None:
            return None
        if self._process != os.getpid() or not self._is_in_place():
            self.close()
            return None
        changed: set[str] = set()
        for event in self._inotify.read():
            if event.mask & (inotify.OVERFLOW | inotify.UNMOUNT):
                self.close()
                return None
            path = self._paths.get(event.watch)
            if event.mask & inotify.IGNORED:
                # The inode number may be used again.
                self._paths.pop(event.watch, None)
            if path is not None:
                changed.add(path)
        return changed

    def open(self) -> bool:
        """Begin to watch if that is possible; return whether no folder is watched yet."""
        if self._inotify is not None:
            return False
        if not self._is_possible:
            return False
        # Only a reason that may pass lets the next search try again.
        self._is_possible = False
        if find_file_system(self._home) not in LOCAL_FILE_SYSTEMS:
            return False
        self._identity = _read_identity(self._home)
        self._mounts = _read_mounts()
        self._relevant_mounts = self._select_mounts()
        if any(is_below(point, [self._home]) for point, _ in self._relevant_mounts):
            return False
        try:
            self._limit = int(Path(MAX_WATCHES_FILE).read_text()) // _SHARE
            self._inotify = Inotify()
            # The user may have few such queues.
            self._finalizer = weakref.finalize(self, self._inotify.close)
        except (OSError, ValueError, AttributeError):
            return False
        self._process = os.getpid()
        self._is_possible = True
        return True

    def watch(self, path: str, descriptor: int) -> str:
        """Watch a folder that is about to be listed.

        Args:
            path: The path.
            descriptor: The open folder.

        Returns:
            The path from which the folder was moved; empty if it was not. No event reports what
            changes there from now on.
        """
        if self._inotify is None:
            return ""
        try:
            watch = self._inotify.add_watch(f"/proc/self/fd/{descriptor}", _MASK)
        except OSError:  # at the limit
            watch = -1
        if watch < 0 or len(self._paths) >= self._limit:
            self.close()
            self._is_possible = False
            return ""
        former = self._paths.get(watch, path)
        self._paths[watch] = path
        return former if former != path else ""

    def close(self) -> None:
        """Stop watching."""
        self._paths.clear()
        if self._finalizer is not None:
            self._finalizer()
        self._inotify = None

    def _is_in_place(self) -> bool:
        """Return whether the home folder is the same, and nothing else is mounted over it."""
        if _read_identity(self._home) != self._identity:
            return False
        mounts = _read_mounts()
        if mounts != self._mounts:
            self._mounts = mounts
            return self._select_mounts() == self._relevant_mounts
        return True

    def _select_mounts(self) -> list[tuple[str, str]]:
        """Return the mounts that lead to the home folder, are the home folder or are in it."""
        found: list[tuple[str, str]] = []
        with suppress(OSError):
            for point, kind in inotify.read_mounts():
                is_above = point == self._home or is_below(self._home, [point])
                if is_above or is_below(point, [self._home]):
                    found.append((point, kind))
        return found


def _read_identity(home: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(home)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _read_mounts() -> bytes:
    with suppress(OSError), open("/proc/self/mountinfo", "rb", 0) as file:
        return file.read()
    return b""
