"""Watches the folders of a tree, so that the next look at the tree reads only what was changed.

inotify reports every change that a process makes through a path below a watched folder. It does not
report a change

- of a file that another name in an unwatched folder leads to (a hard link),
- through a memory mapping, until the mapping is removed (at the latest when its process ends),
- beyond a full queue, which it reports,
- of a folder that is not watched, because the user's limit of watches is reached,
- that another computer makes (NFS), or a server of a file system (FUSE).

In these cases, the whole tree is walked as it is without inotify. See ``Snapshots``.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path

from hilum import inotify
from hilum.inotify import LOCAL_FILE_SYSTEMS, MAX_WATCHES_FILE, Event, Inotify, find_file_system

_MASK = (
    inotify.MODIFY
    | inotify.ATTRIB
    | inotify.CLOSE_WRITE
    | inotify.MOVED_FROM
    | inotify.MOVED_TO
    | inotify.CREATE
    | inotify.DELETE
    | inotify.ONLYDIR
    | inotify.DONT_FOLLOW
)
# Only the root has no watched folder above it that would report these.
_ROOT_MASK = _MASK | inotify.DELETE_SELF | inotify.MOVE_SELF
_ROOT_GONE = inotify.DELETE_SELF | inotify.MOVE_SELF
# A folder that is new under its name must be walked.
_NEW_NAME = inotify.CREATE | inotify.MOVED_TO
# The folder is gone or cannot be read; the folder above it reports whatever makes it readable.
_UNREADABLE = frozenset([errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP])


class FolderWatch:
    """The watches of the folders of one tree.

    Args:
        root: The root of the tree.

    Attributes:
        reliable: Whether ``named`` will contain every entry that has changed since the last walk.
        named: The paths of the entries that events have named, each with whether a folder is new
            under this name.
        outdated: The paths that were named before the last walk, which has seen these changes.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._inotify: Inotify | None = None
        self._is_possible = True
        self._limit = 0
        self._root_status: tuple[int, int] | None = None
        self._prefixes: dict[int, str] = {}
        self._watches: dict[str, int] = {}
        self._dropped: set[int] = set()
        self.reliable = False
        self.named: dict[str, bool] = {}
        self.outdated: set[str] = set()

    def begin_walk(self) -> None:
        """Prepare for a walk of the whole tree, which watches each folder before reading it."""
        self.collect()
        self.outdated = set(self.named)
        self.named.clear()
        self.reliable = False
        if self._inotify is None and self._is_possible:
            self._open()
        self.drop([""])
        if self._inotify is not None:
            self._root_status = _identity(self._root)
            self.reliable = True

    def _open(self) -> None:
        self._is_possible = False
        if find_file_system(self._root) not in LOCAL_FILE_SYSTEMS:
            return
        try:
            # Editors and other sessions of the user need watches, too.
            self._limit = int(Path(MAX_WATCHES_FILE).read_text()) // 2
            self._inotify = Inotify()
        except (OSError, ValueError, AttributeError):
            return
        self._is_possible = True

    def add(self, prefix: str) -> None:
        """Watch a folder, which must not have been read yet.

        Args:
            prefix: Its path with a slash at the end; empty for the root.
        """
        if self._inotify is None or not self.reliable:
            return
        if len(self._watches) >= self._limit:
            self.close()
            return
        mask = _MASK if prefix else _ROOT_MASK
        try:
            watch = self._inotify.add_watch(f"{self._root}/{prefix}", mask)
        except OSError as error:
            if not prefix or error.errno not in _UNREADABLE:
                self.close()
            return
        if self._prefixes.get(watch, prefix) != prefix:
            # The same folder has two paths (a bind mount), or was moved during the walk.
            self.reliable = False
        self._prefixes[watch] = prefix
        self._watches[prefix] = watch
        self._dropped.discard(watch)

    def is_watched(self, prefix: str) -> bool:
        """Return whether a folder is watched."""
        return prefix in self._watches

    def drop(self, prefixes: Iterable[str]) -> None:
        """Forget all folders below some paths; ``add`` may add them again under other paths."""
        roots = tuple(prefixes)
        for prefix in [each for each in self._watches if each.startswith(roots)]:
            watch = self._watches.pop(prefix)
            if self._prefixes.get(watch) == prefix:
                del self._prefixes[watch]
            self._dropped.add(watch)

    def end_walk(self) -> None:
        """Remove the watches of the folders that were forgotten and not added again."""
        if self._inotify is not None:
            for watch in self._dropped:
                self._inotify.remove_watch(watch)
        self._dropped.clear()

    def collect(self) -> None:
        """Add what events report to ``named``; set ``reliable`` to false if that is incomplete."""
        if self._inotify is None:
            return
        for event in self._inotify.read():
            self._apply(event)
        if self.reliable and _identity(self._root) != self._root_status:
            self.reliable = False

    def _apply(self, event: Event) -> None:
        if event.mask & (inotify.OVERFLOW | inotify.UNMOUNT):
            self.reliable = False
            return
        prefix = self._prefixes.get(event.watch)
        if prefix is None:
            return
        if event.mask & inotify.IGNORED:
            # The folder was deleted, which the folder above it reports.
            del self._prefixes[event.watch]
            if self._watches.get(prefix) == event.watch:
                del self._watches[prefix]
            if not prefix:
                self.reliable = False
        elif event.name:
            name = prefix + event.name
            is_new_folder = bool(event.mask & inotify.ISDIR and event.mask & _NEW_NAME)
            self.named[name] = self.named.get(name, False) or is_new_folder
        elif event.mask & _ROOT_GONE:
            self.reliable = False

    def close(self) -> None:
        """Stop watching for good."""
        self.reliable = False
        self._is_possible = False
        self._watches.clear()
        self._prefixes.clear()
        self._dropped.clear()
        self.named.clear()
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
