"""Confirm, by inotify, that no folder of a workspace has changed since it was scanned.

In a large workspace, a scan takes most of the time that a command adds to a turn. A scan can be
omitted if every folder that the previous scan found has been watched since before that scan, and no
event has arrived. Any event, and any doubt, leads to a scan.

inotify reports every change of a folder that would change its change time (ctime): entries that
appear, vanish or are renamed, and new attributes. Three things that it does not report are compared
here: the mounts, the roots' own inodes and change times, and whether the file system is local.

A watch belongs to an inode and not to a path. Therefore each folder is opened, and the open folder is
watched if it has the inode that the scan found. A command that exchanges folders in the meantime
cannot have hilum watch others.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from hilum import inotify
from hilum.inotify import LOCAL_FILE_SYSTEMS, MAX_WATCHES_FILE, Event, Inotify, find_file_system

from hilum_guard.file_names import is_below

MIN_FOLDERS = 50
"""Number of folders from which watching is worth its memory.

A scan takes 3 µs for each folder, twice for each command, and a confirmation takes 0.1 ms.
"""
_SHARE = 4
"""The part of the user's limit of watches that hilum may use here; the journal uses one half."""
_MASK = (
    inotify.CREATE
    | inotify.DELETE
    | inotify.MOVED_FROM
    | inotify.MOVED_TO
    | inotify.ATTRIB
    | inotify.DELETE_SELF
    | inotify.MOVE_SELF
    | inotify.ONLYDIR
)
# Linux alone has O_PATH.
_OPEN = getattr(os, "O_PATH", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_RootStamp = tuple[int, int, int]


class FolderEvents:
    """The watches of the folders that a scan found.

    Only one thread at a time may call the methods.

    Args:
        roots: The roots of the scan.
    """

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = tuple(roots)
        self._inotify: Inotify | None = None
        self._is_possible = True
        self._limit = 0
        # The folders that are watched, with their inodes, and the paths by watch.
        self._watched: dict[str, int] = {}
        self._paths: dict[int, str] = {}
        # Whether the previous scan found only folders that had been watched before it began.
        self._is_complete = False
        self._mounts = b""
        self._root_stamps: tuple[_RootStamp, ...] = ()

    def confirm(self) -> bool:
        """Return whether no folder has changed since the beginning of the previous scan."""
        if self._inotify is None or not self._is_complete:
            return False
        is_same = self._read_surroundings() == (self._mounts, self._root_stamps)
        self._is_complete = is_same and not self._read_events()
        return self._is_complete

    def begin_scan(self) -> None:
        """Forget what has changed until now, because the scan sees it."""
        self._is_complete = False
        if self._inotify is None:
            return
        self._read_events()
        mounts, self._root_stamps = self._read_surroundings()
        if mounts != self._mounts:
            self._mounts = mounts
            if not self._is_watchable():
                self.close()

    def end_scan(self, inodes: Mapping[str, int]) -> None:
        """Watch the folders that a scan found.

        Args:
            inodes: The folders, with their inodes.
        """
        if self._inotify is None:
            if len(inodes) < MIN_FOLDERS or not self._open(len(inodes)):
                return
        elif len(self._paths) > self._limit:
            # Folders that were moved out of the workspace are still watched.
            self.close()
            self._is_possible = True
            return
        unwatched = [path for path, inode in inodes.items() if self._watched.get(path) != inode]
        for path in unwatched:
            if not self._add(path, inodes[path]):
                return
        # A path whose folder has gone must not count as watched if another folder with the same
        # inode number appears there.
        self._watched = {path: inode for path, inode in self._watched.items() if path in inodes}
        self._is_complete = not unwatched

    def close(self) -> None:
        """Stop watching."""
        self._is_complete = False
        self._is_possible = False
        self._watched.clear()
        self._paths.clear()
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None

    def _open(self, count: int) -> bool:
        """Return whether the folders can be watched."""
        if not self._is_possible:
            return False
        self._is_possible = False
        if not self._is_watchable():
            return False
        try:
            self._limit = int(Path(MAX_WATCHES_FILE).read_text()) // _SHARE
            if count > self._limit:
                return False
            self._inotify = Inotify()
        except (OSError, ValueError, AttributeError):
            return False
        self._mounts, self._root_stamps = self._read_surroundings()
        self._is_possible = True
        return True

    def _is_watchable(self) -> bool:
        """Return whether the file systems are local, and nothing is mounted inside the roots."""
        if not all(find_file_system(root) in LOCAL_FILE_SYSTEMS for root in self._roots):
            return False
        return not any(is_below(point, self._roots) for point, _ in inotify.read_mounts())

    def _add(self, path: str, inode: int) -> bool:
        """Watch a folder; return False if nothing can be watched any more."""
        assert self._inotify is not None
        try:
            folder = os.open(path, _OPEN)
        except OSError:  # it has vanished, which an event reports
            return True
        try:
            if os.fstat(folder).st_ino != inode:
                return True
            watch = self._inotify.add_watch(f"/proc/self/fd/{folder}", _MASK)
        except OSError:  # at the limit, or the folder cannot be read
            self.close()
            return False
        finally:
            os.close(folder)
        self._paths[watch] = path
        self._watched[path] = inode
        return True

    def _read_events(self) -> bool:
        """Read all events, and return whether one of them is about a change of a folder."""
        assert self._inotify is not None
        is_changed = False
        for event in self._inotify.read():
            if event.mask & inotify.OVERFLOW:
                # Events about removed watches may be lost.
                self._watched.clear()
            elif event.mask & inotify.IGNORED:
                # The kernel has removed the watch. The inode number may be used again.
                self._watched.pop(self._paths.pop(event.watch, ""), None)
            if not _is_about_entry(event):
                is_changed = True
        return is_changed

    def _read_surroundings(self) -> tuple[bytes, tuple[_RootStamp, ...]]:
        """Return the mounts of this process, and the stamps of the roots."""
        mounts = b""
        with suppress(OSError), open("/proc/self/mountinfo", "rb", 0) as file:
            mounts = file.read()
        return mounts, tuple(map(_read_root_stamp, self._roots))


def _is_about_entry(event: Event) -> bool:
    """Return whether an event is only about the attributes of an entry of a folder.

    A folder reports a change of its own attributes itself, and the attributes of files do not
    matter.
    """
    return bool(event.name) and event.mask & ~inotify.ISDIR == inotify.ATTRIB


def _read_root_stamp(root: str) -> _RootStamp:
    try:
        status = os.lstat(root)
    except OSError:
        return (0, 0, 0)
    return status.st_dev, status.st_ino, status.st_ctime_ns
