"""Finds out whether files of the running program have changed.

Each start waits for the answer. Examining all 1,800 paths takes 6 ms, so the system says whether
anything has happened in their folders (inotify), where it can be relied on.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from hilum import inotify


class FileStamp(NamedTuple):
    """The state of a file: its time of modification in nanoseconds, its size and its inode."""

    modified: int
    size: int
    inode: int


class FolderStamp(NamedTuple):
    """The state of a folder.

    Attributes:
        modified: The time of modification, in nanoseconds.
        inode: The inode.
        names: What the folder contains, except for bytecode; nothing for a folder with the metadata
            of a distribution, whose other parts show each change.
    """

    modified: int
    inode: int
    names: tuple[str, ...] = ()


Stamp = FileStamp | FolderStamp
Stamps = dict[str, Stamp | None]
_METADATA = ".dist-info"
_CHANGES = (
    inotify.MODIFY
    | inotify.ATTRIB
    | inotify.CLOSE_WRITE
    | inotify.MOVED_FROM
    | inotify.MOVED_TO
    | inotify.CREATE
    | inotify.DELETE
    | inotify.DELETE_SELF
    | inotify.MOVE_SELF
)


def read_stamps() -> Stamps:
    """Return the stamps of all files and folders that the imported code comes from. Blocks.

    Installing, upgrading or removing a distribution changes what its folder on ``sys.path`` lists.
    """
    paths = {sys.executable, os.path.realpath(sys.executable)}
    paths.add(os.path.join(sys.prefix, "pyvenv.cfg"))
    for folder in filter(None, sys.path):
        paths.add(folder)
        paths.update(_list_metadata(folder))
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            paths.add(file)
    return {path: _read_stamp(path) for path in sorted(paths)}


def _list_metadata(folder: str) -> Iterator[str]:
    """Yield the folders with metadata of distributions."""
    with suppress(OSError):
        for name in os.listdir(folder):
            if name.endswith(_METADATA):
                yield os.path.join(folder, name)


def find_changed(stamps: Stamps) -> str:
    """Return the first path that has changed since its stamp was read; empty if none has. Blocks."""
    for path, stamp in stamps.items():
        if _has_changed(path, stamp):
            return path
    return ""


def find_newer(stamps: Stamps, started: float) -> str:
    """Return the first file that changed after a time; empty if none did.

    Args:
        stamps: The stamps.
        started: Seconds since the epoch.
    """
    for path, stamp in stamps.items():
        if isinstance(stamp, FileStamp) and stamp.modified > started * 1e9:
            return path
    return ""


class CodeWatch:
    """A watch of the folders of the imported code.

    Args:
        stamps: The stamps of the code.
    """

    def __init__(self, stamps: Stamps) -> None:
        self._stamps = stamps
        self._is_quiet = False
        # A folder above them may be replaced, which the watches do not show.
        self._outermost = {path: stamps[path] for path in sys.path if path in stamps}
        for path in (sys.executable, os.path.realpath(sys.executable)):
            self._outermost[path] = stamps.get(path)
        self._events: inotify.Inotify | None = None
        # Without watches, all paths are examined for each start.
        with suppress(OSError):
            self._begin()

    def _begin(self) -> None:
        """Watch all folders.

        Raises:
            OSError: They cannot be watched.
        """
        for path in filter(os.path.exists, self._outermost):
            if inotify.find_file_system(path) not in inotify.LOCAL_FILE_SYSTEMS:
                return
        events = inotify.Inotify()
        try:
            for folder in {os.path.dirname(path) for path in self._stamps} | {*self._stamps}:
                if os.path.isdir(folder):
                    events.add_watch(folder, _CHANGES | inotify.ONLYDIR)
        except OSError:
            events.close()
            raise
        self._events = events

    def find_changed(self) -> str:
        """Return the first path that has changed; empty if none has. Blocks."""
        if self._events is None:
            return find_changed(self._stamps)
        if [*self._events.read()]:
            self._is_quiet = False
        changed = find_changed(self._outermost if self._is_quiet else self._stamps)
        # Most events are about other files, such as bytecode.
        self._is_quiet = not changed
        return changed

    def close(self) -> None:
        """Stop watching."""
        if self._events is not None:
            self._events.close()
            self._events = None


def _has_changed(path: str, stamp: Stamp | None) -> bool:
    try:
        found = os.stat(path)
    except OSError:
        return stamp is not None
    if not _is_listed(path, found):
        return _make_stamp(found) != stamp
    if not isinstance(stamp, FolderStamp):
        return True
    if found.st_mtime_ns == stamp.modified:
        # Nothing was added or removed, so the folder need not be listed.
        return False
    # The time also changes with the folder for bytecode.
    now = _read_stamp(path)
    return not isinstance(now, FolderStamp) or now.names != stamp.names


def _read_stamp(path: str) -> Stamp | None:
    """Return the stamp of a path; ``None`` if it does not exist or cannot be read."""
    try:
        found = os.stat(path)
        stamp = _make_stamp(found)
        if _is_listed(path, found):
            return FolderStamp(stamp.modified, stamp.inode, _list_folder(path))
    except OSError:
        return None
    return stamp


def _is_listed(path: str, found: os.stat_result) -> bool:
    """Return whether a path is a folder whose entries matter."""
    return stat.S_ISDIR(found.st_mode) and not path.endswith(_METADATA)


def _make_stamp(found: os.stat_result) -> Stamp:
    """Return the stamp of a file, or of a folder that is not listed."""
    if stat.S_ISDIR(found.st_mode):
        return FolderStamp(found.st_mtime_ns, found.st_ino)
    return FileStamp(found.st_mtime_ns, found.st_size, found.st_ino)


def _list_folder(path: str) -> tuple[str, ...]:
    """Return what a folder contains, except for bytecode, which appears with a first import."""
    return tuple(sorted(name for name in os.listdir(path) if name != "__pycache__"))
