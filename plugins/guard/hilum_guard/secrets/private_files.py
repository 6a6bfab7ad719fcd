"""Find the files in a home folder's dot-folders that only the user may read.

Each command needs them, and a home folder may contain thousands of folders. Therefore each folder is
listed once, and again only when inotify reports a change. Where inotify cannot be used, all folders
are listed again if they are few; otherwise those near the home folder are, and the others at
intervals.
"""

from __future__ import annotations

import math
import os
import stat
import time
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping
from threading import Lock
from typing import NamedTuple

from hilum_guard.file_names import is_below
from hilum_guard.secrets.home_events import HomeEvents
from hilum_guard.secrets.secret_paths import GENERATED, PASSED_OVER, START_FILES

MAX_DEPTH = 12
"""Maximum number of folders below the home folder that lead to a file."""
MAX_FOLDERS = 10_000
"""Maximum number of folders to search in a home folder; the search omits the deepest."""
MAX_HIDDEN = 300
"""Number of files from which folders with several such files are hidden instead."""
FEW_FOLDERS = 100
"""Number of folders that are listed again for each command if they cannot be watched."""
MAX_HOMES = 4
"""Maximum number of home folders to remember; usually, there is one."""
NEAR = 3
"""Depth to which folders are listed again for each command if they cannot be watched."""
INTERVAL = 30.0
"""Seconds after which deeper folders are listed again if they cannot be watched."""

# Folders that many programs share are never hidden as a whole.
_SHARED = frozenset(". .config .local .local/share .local/state .local/lib .cache".split())
_OPEN = (
    os.O_RDONLY
    | getattr(os, "O_DIRECTORY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
)


class _Folder(NamedTuple):
    """What a folder contained.

    Attributes:
        inode: The folder's inode; 0 if it could not be listed.
        is_private: Whether only the user may use the folder, and read the files in it.
        folders: The paths of the subfolders, and of the folders that links in it lead to, each with
            its inode.
        secrets: The paths of the files that only the user may read.
        unsure: The paths whose state may change without a change of the folder, with their states.
    """

    inode: int
    is_private: bool
    folders: tuple[tuple[str, int], ...]
    secrets: tuple[str, ...]
    unsure: tuple[tuple[str, object], ...]


class _Home:
    """What is known about a home folder.

    Args:
        home: The home folder.
        is_watched: Whether its folders are watched while they are listed.
    """

    def __init__(self, home: str, *, is_watched: bool = True) -> None:
        self.path = home
        self.is_watched = is_watched
        self.events = HomeEvents(home)
        self.folders: dict[str, _Folder] = {}
        self.found: dict[object, tuple[str, ...]] = {}
        # When all folders were listed, and how long that took.
        self.searched_at = -math.inf
        self.search_seconds = 0.0
        # The states of paths that may change without an event.
        self.unsure: list[tuple[str, str, object]] = []

    def tidy(self, reached: dict[str, _Folder]) -> None:
        """Forget folders that have gone, and note what is to be examined each time."""
        if len(self.folders) > 2 * len(reached):
            self.folders = reached
        self.unsure = [
            (path, each, state)
            for path, folder in self.folders.items()
            for each, state in folder.unsure
        ]


class PrivateFiles:
    """A finder of files that only the user may read; threads may use it at the same time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._homes: dict[str, _Home] = {}

    def find(
        self,
        home: str,
        listed: Collection[str] = (),
        shown: Collection[str] = (),
        *,
        is_early: bool = False,
    ) -> tuple[str, ...]:
        """Return the files in dot-folders that only the user may read. Blocks.

        A folder represents the files in it if only the user may use it and read what is in it.

        Args:
            home: The home folder, without links.
            listed: Paths that are hidden in any case, so that nothing in them is searched.
            shown: Paths that commands may use, so that no folder with one of them is hidden.
            is_early: Whether only the folders near the home folder are searched, unless all were
                searched before.
        """
        key = frozenset(listed), frozenset(shown)
        with self._lock:
            known = self._homes.get(home)
            if known is None and is_early:
                near = _search(_Home(home, is_watched=False), key[0], NEAR)
                return tuple(_select(home, near, *key))
            if known is None:
                known = self._homes[home] = _Home(home)
                while len(self._homes) > MAX_HOMES:
                    self._homes.pop(next(iter(self._homes))).events.close()
            _forget_changed(known)
            found = known.found.get(key)
            if found is None:
                began_at = time.monotonic()
                lists_all = not known.folders
                reached = _search(known, key[0])
                if lists_all:
                    known.searched_at = time.monotonic()
                    known.search_seconds = known.searched_at - began_at
                found = tuple(_select(home, reached, *key))
                known.found[key] = found
                known.tidy(reached)
            return found


def _forget_changed(known: _Home) -> None:
    """Forget the folders that may have changed since they were listed, and what was found."""
    changed = known.events.read_changed()
    if changed is None and (known.events.open() or _is_due(known)):
        known.folders.clear()
        known.found.clear()
        return
    if changed is None:
        changed = _list_unwatched(known)
    for path, each, state in known.unsure:
        if _examine(each) != state:
            changed.add(path)
    for path in changed:
        known.folders.pop(path, None)
    if changed:
        known.found.clear()


def _is_due(known: _Home) -> bool:
    """Return whether all folders are to be listed again, because no event reports their changes."""
    # A search in a slow file system happens seldom.
    interval = max(INTERVAL, 100 * known.search_seconds)
    return time.monotonic() - known.searched_at >= interval


def _list_unwatched(known: _Home) -> set[str]:
    """Return the changed folders among those that are listed again each time without events."""
    start = len(known.path.rstrip("/")) + 1
    are_few = len(known.folders) <= FEW_FOLDERS
    return {
        path
        for path, folder in known.folders.items()
        if are_few or path.count("/", start) < NEAR
        if _list_folder(path, known) != folder
    }


def _search(known: _Home, listed: frozenset[str], max_depth: int = MAX_DEPTH) -> dict[str, _Folder]:
    """Return the folders in reach, nearest first."""
    reached: dict[str, _Folder] = {}
    waiting = deque([(known.path, 0, 0)])
    while waiting and len(reached) < MAX_FOLDERS:
        path, inode, depth = waiting.popleft()
        if path in reached:
            continue
        folder = known.folders.get(path)
        # A folder that took the place of another has another inode.
        if folder is None or (inode and folder.inode != inode):
            folder = known.folders[path] = _list_folder(path, known)
        reached[path] = folder
        if depth >= max_depth:
            continue
        for each, number in folder.folders:
            if each not in listed:
                waiting.append((each, number, depth + 1))
    return reached


def _list_folder(path: str, known: _Home) -> _Folder:
    """Return what a folder contains; it is watched from now on."""
    try:
        descriptor = os.open(path, _OPEN)
    except OSError:  # commands cannot list it, either
        return _Folder(0, False, (), (), ())
    try:
        status = os.fstat(descriptor)
        # Only what is watched before it is listed is known not to have changed since.
        if known.is_watched:
            # A new folder at the former path may get the same inode.
            known.folders.pop(known.events.watch(path, descriptor), None)
        contents = _Contents(path, known.path)
        with os.scandir(descriptor) as entries:
            for entry in entries:
                contents.add(entry)
    except OSError:
        return _Folder(0, False, (), (), ())
    finally:
        os.close(descriptor)
    return _Folder(
        status.st_ino,
        contents.is_private and not status.st_mode & 0o077,
        tuple(contents.folders),
        tuple(contents.secrets),
        tuple(contents.unsure),
    )


class _Contents:
    """Collects what a folder contains; see ``_Folder``."""

    def __init__(self, path: str, home: str) -> None:
        self._path = path
        self._home = home
        self.is_private = True
        self.folders: list[tuple[str, int]] = []
        self.secrets: list[str] = []
        self.unsure: list[tuple[str, object]] = []

    def add(self, entry: os.DirEntry[str]) -> None:
        """Add an entry. Of the home folder itself, only entries that begin with a dot count."""
        if self._path == self._home and not entry.name.startswith("."):
            return
        path = os.path.join(self._path, entry.name)
        if entry.is_symlink():
            self._add_link(path)
        elif entry.is_dir(follow_symlinks=False):
            self._add_folder(path, entry.inode())
        else:
            self._add_file(path, entry)

    def _add_folder(self, path: str, inode: int) -> None:
        relative = path[len(self._home.rstrip("/")) + 1 :]
        if relative in PASSED_OVER or os.path.basename(path) in GENERATED:
            self.is_private = False
        else:
            self.folders.append((path, inode))

    def _add_link(self, path: str) -> None:
        self.is_private = False
        state = _examine(path)
        self.unsure.append((path, state))
        if state is None:
            return
        if stat.S_ISDIR(state.mode):
            if is_below(state.real, [self._home]):
                self._add_folder(state.real, state.inode)
        elif _is_restricted(state.mode) and state.has_content:
            self.secrets.append(path)

    def _add_file(self, path: str, entry: os.DirEntry[str]) -> None:
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:  # it has vanished
            return
        relative = path[len(self._home.rstrip("/")) + 1 :]
        if not _is_restricted(status.st_mode) or relative.casefold() in START_FILES:
            self.is_private = False
        elif status.st_size:
            self.secrets.append(path)
        else:
            # No event reports the first content as long as the file is open.
            self.unsure.append((path, _examine(path)))


class _State(NamedTuple):
    """What a path leads to; ``real`` is empty if that is no folder."""

    real: str
    inode: int
    mode: int
    has_content: bool


def _examine(path: str) -> _State | None:
    """Return what a path leads to; ``None`` if that does not exist."""
    try:
        status = os.stat(path)
        real = os.path.realpath(path) if stat.S_ISDIR(status.st_mode) else ""
    except OSError:
        return None
    return _State(real, status.st_ino, status.st_mode, status.st_size > 0)


def _is_restricted(mode: int) -> bool:
    """Return whether a mode is that of a file that only its owner may read.

    Programs set this mode for keys and logins (ssh rejects other modes).
    """
    return stat.S_ISREG(mode) and not mode & 0o177


def _select(
    home: str, reached: Mapping[str, _Folder], listed: Collection[str], shown: Collection[str]
) -> Iterator[str]:
    """Yield what is to be hidden of the folders in reach."""
    start = len(home.rstrip("/")) + 1
    # The number of secrets in each folder that is hidden as a whole if it contains any.
    whole: dict[str, int] = {}
    for path, folder in reversed(list(reached.items())):
        inner = [each for each, _ in folder.folders if each not in listed]
        if not folder.is_private or not all(each in whole for each in inner):
            continue
        if path[start:] not in _SHARED and path != home and not _contains(path, shown):
            whole[path] = len(folder.secrets) + sum(whole[each] for each in inner)
    covered: set[str] = set()
    found: list[str] = []
    for path, folder in reached.items():
        if path in covered or whole.get(path):
            covered.update(each for each, _ in folder.folders)
            if path not in covered:
                found.append(path)
        else:
            found += folder.secrets
    yield from _join(home, found, shown)


def _join(home: str, paths: list[str], shown: Collection[str]) -> list[str]:
    """Return at most ``MAX_HIDDEN`` paths if possible, with folders instead of many files."""
    start = len(home.rstrip("/")) + 1
    while len(paths) > MAX_HIDDEN:
        counts = Counter(map(os.path.dirname, paths))
        chosen: set[str] = set()
        left = len(paths)
        for folder, count in counts.most_common():
            if left <= MAX_HIDDEN or count < 2:
                break
            if folder == home or folder[start:] in _SHARED or _contains(folder, shown):
                continue
            chosen.add(folder)
            left -= count - 1
        if not chosen:
            break
        paths = [path for path in paths if chosen.isdisjoint(_list_parents(path))]
        paths += sorted(path for path in chosen if chosen.isdisjoint(_list_parents(path)))
    return paths


def _list_parents(path: str) -> Iterator[str]:
    """Yield the folders that contain a path, the nearest first."""
    while path := path.rpartition("/")[0]:
        yield path


def _contains(folder: str, paths: Collection[str]) -> bool:
    """Return whether a folder is one of the paths, or contains one."""
    return any(path == folder or is_below(path, [folder]) for path in paths)
