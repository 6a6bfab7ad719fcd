"""Tell the files that an agent may have written from those of the project."""

from __future__ import annotations

import os
import stat
import tempfile
import time
import unicodedata
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from hilum.program_start import find_start

from hilum_guard.command_paths import locate
from hilum_guard.name_set import NameSet
from hilum_guard.repositories.changed_files import list_changed_files
from hilum_guard.repositories.git_metadata import common_folder
from hilum_guard.repositories.tracked_files import find_git_top, find_index, list_tracked_files

MAX_FOLDERS = 4096
"""Maximum number of folders whose repository is remembered."""
_CLOCK_STEP = 0.02
"""Seconds by which the time of a file may be behind the clock: the kernel counts in steps."""
_INSTALLED = ("/site-packages/", "/dist-packages/", "/node_modules/", "/.venv/")
_TEMPORARY = ("/tmp/", "/var/tmp/", "/dev/shm/", "/private/tmp/")


# When this program began to work in each workspace, in seconds since the epoch.
_begun: dict[str, float] = {}


def begin_in(workspace: str) -> None:
    """Note that agents of this program may write files in a workspace from now on.

    A program that opens many sessions, such as ``hilum web``, may have started long before a project
    was cloned: without this note, all of the project's files would be new.

    Args:
        workspace: The resolved path of the workspace.
    """
    _begun.setdefault(workspace, time.time() - _CLOCK_STEP)


def _find_beginning(path: str) -> float:
    """Return since when an agent of this program may have written a file.

    An agent that works in a folder above the workspace may have written in it, too, so that the
    earliest time counts. For other places, this is when the program started.
    """
    path = os.path.normpath(path)
    times = [_begun[folder] for folder in (path, *_list_folders(path)) if folder in _begun]
    return min(times, default=find_start())


def _list_folders(path: str) -> Iterator[str]:
    """Yield the folders that a path is in, the innermost first."""
    folder = os.path.dirname(path)
    while folder != path:
        yield folder
        path, folder = folder, os.path.dirname(folder)


class Tracking(Enum):
    """Whether Git tracks a file. It tracks all files if there is no repository."""

    TRACKED = "tracked"
    UNTRACKED = "untracked"
    UNKNOWN = "unknown"


def is_new_file(path: str, root: str) -> bool:
    """Return whether a file may be an agent's: it is not in Git's index, or new.

    A new file was written since this program began to work in its workspace. In a folder without a
    repository, only new files count. Blocks.

    Args:
        path: The absolute path of the file.
        root: The root of the workspace.
    """
    try:
        status = os.stat(locate(path))
    except OSError:
        return False
    if status.st_mtime >= _find_beginning(path):
        return True
    return _find_tracking(path, root) is not Tracking.TRACKED


def is_tracked(path: str, root: str) -> bool:
    """Return whether a file is in its repository's index, or may be. Blocks.

    Without a repository, and in one whose index cannot be read, every file may be.

    Args:
        path: The absolute path of the file.
        root: The root of the workspace, which may be a folder inside a repository.
    """
    return _find_tracking(path, root) is not Tracking.UNTRACKED


def filter_tracked(paths: Iterable[str], root: str) -> list[str]:
    """Return those of several files for which ``is_tracked`` is true. Blocks.

    The index is looked up once for each folder: this takes several system calls, which would be
    most of the time if a session has written thousands of files.

    Args:
        paths: The absolute paths of the files.
        root: The root of the workspace, which may be a folder inside a repository.
    """
    outer = _find_top(root)
    indexes: dict[str, _Index | Tracking] = {}
    found = []
    for path in paths:
        whole = os.path.normpath(path)
        folder = os.path.dirname(whole) if whole.startswith(f"{root}/") else root
        if folder not in indexes:
            indexes[folder] = _find_index_of(folder, outer)
        if _look_up(whole, indexes[folder]) is not Tracking.UNTRACKED:
            found.append(path)
    return found


class _FirstLook(NamedTuple):
    """What was in a workspace before an agent could change it.

    Attributes:
        tracked: The files that Git tracked, with folded names.
        time: When this was, in seconds since the epoch.
    """

    tracked: NameSet
    time: float


_first_looks: dict[str, _FirstLook] = {}


def note_tracked(root: str) -> None:
    """Note which files are in a workspace, before its first call writes some or changes the index.

    Args:
        root: The resolved root of the workspace.
    """
    if root not in _first_looks:
        top = _find_top(root)
        index = _read_index(top) if top is not None else Tracking.UNKNOWN
        tracked = index.tracked if isinstance(index, _Index) else NameSet()
        folded = NameSet(_fold(f"{top}/{name}") for name in tracked)
        _first_looks[root] = _FirstLook(folded, time.time())


def is_own_file(path: str, root: str) -> bool:
    """Return whether a file exists as a part of the project, and is not still being written.

    A file that Git does not track is not a part of it yet: a migration that `alembic revision` has
    just made. In a folder without a repository, or in which Git tracks no such file, because it
    ignores them, all files are that are older than the first call. Blocks.

    Args:
        path: The absolute path of the file.
        root: The resolved root of the workspace.
    """
    path = os.path.normpath(path)
    try:
        status = os.lstat(path)
    except OSError:
        return True
    note_tracked(root)
    first = _first_looks[root]
    if not stat.S_ISREG(status.st_mode) or _fold(path) in first.tracked:
        return True
    index = _find_index_of(os.path.dirname(path), _find_top(root))
    if not isinstance(index, _Index):
        return status.st_mtime < first.time
    tracked = {_fold(f"{index.top}/{name}") for name in index.tracked}
    if _fold(path) in tracked:
        return path not in _list_staged(index.top)
    if status.st_mtime >= first.time:
        return False
    folder, ending = os.path.dirname(_fold(path)), os.path.splitext(path)[1].casefold()
    return not any(
        os.path.dirname(each) == folder and each.endswith(ending or "/") for each in tracked
    )


def _fold(path: str) -> str:
    # macOS may store names in decomposed form, and ignore the case.
    return unicodedata.normalize("NFKC", path).casefold()


def _list_staged(top: str) -> frozenset[str]:
    """Return the files that differ between the last commit and the index."""
    git_folder = os.path.dirname(find_index(top))
    common = common_folder(git_folder) or git_folder
    names = list_changed_files(git_folder, common, "HEAD", "") or ()
    return frozenset(f"{top}/{name}" for name in names)


def _find_tracking(path: str, root: str) -> Tracking:
    path = os.path.normpath(path)
    is_inside = path.startswith(f"{root}/")
    index = _find_index_of(os.path.dirname(path) if is_inside else root, _find_top(root))
    return _look_up(path, index)


class _Index(NamedTuple):
    """The files that a repository tracks.

    Attributes:
        top: The top of the repository.
        tracked: The files, relative to the top.
    """

    top: str
    tracked: NameSet

    def find(self, path: str) -> Tracking:
        """Return whether a file is tracked."""
        is_tracked = path.removeprefix(f"{self.top}/") in self.tracked
        return Tracking.TRACKED if is_tracked else Tracking.UNTRACKED


def _look_up(path: str, index: _Index | Tracking) -> Tracking:
    """Return whether a file is tracked.

    Args:
        path: The absolute path of the file.
        index: The index of its repository, or what is known about all files without one.
    """
    return index.find(path) if isinstance(index, _Index) else index


class WrittenFiles:
    """The files that an agent may have written, among those that a program loads.

    In contrast to ``is_new_file``, an installed package, and a file outside of the workspace, are
    new only if they were written since this program began to work there, or started, or are in a
    folder for temporary files.
    The repositories are read at most once: a test runner loads hundreds of files.

    Args:
        root: The root of the workspace.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._beginnings = (_find_beginning(root), find_start())
        # The folder of this process, which may have been forked from one with another.
        self._temporary = (*_TEMPORARY, f"{tempfile.gettempdir()}/")
        self._outer = _find_top(root)
        # What is tracked in each folder, and in each repository.
        self._indexes: dict[str, _Index | Tracking] = {}
        self._tops: dict[str | None, _Index | Tracking] = {}

    def contains(self, path: str, status: os.stat_result) -> bool:
        """Return whether an agent may have written a file. Blocks.

        Args:
            path: The absolute path of the file.
            status: The status of the file.
        """
        is_inside = path.startswith(f"{self._root}/")
        if status.st_mtime >= self._beginnings[0 if is_inside else 1]:
            return True
        if not is_inside:
            return path.startswith(self._temporary) and not self._root.startswith(self._temporary)
        folder = path.rpartition("/")[0]
        if folder not in self._indexes:
            is_installed = any(each in f"{folder}/" for each in _INSTALLED)
            self._indexes[folder] = Tracking.TRACKED if is_installed else self._find_index(folder)
        return _look_up(path, self._indexes[folder]) is not Tracking.TRACKED

    def _find_index(self, folder: str) -> _Index | Tracking:
        top = _find_top(folder)
        if top not in self._tops:
            self._tops[top] = _find_index_of(folder, self._outer)
        return self._tops[top]


def _find_index_of(folder: str, outer: str | None) -> _Index | Tracking:
    """Return the index that lists the files in a folder.

    Without a repository, all files are the user's own. An agent may have made a repository inside
    that of the workspace, unless the outer one lists it, as it lists a submodule.

    Args:
        folder: The folder.
        outer: The top of the repository of the workspace.

    Returns:
        The index, or what is known about all files of the folder without one.
    """
    inner = _find_top(folder)
    if inner is None:
        return Tracking.TRACKED
    if outer not in (None, inner):
        above = _read_index(str(outer))
        if _look_up(inner, above) is not Tracking.TRACKED:
            return Tracking.UNKNOWN
    return _read_index(inner)


# The tests of a project load hundreds of files, each of which is looked up.
_tops: dict[str, str] = {}


def _find_top(folder: str) -> str | None:
    """Return the top of the repository that contains a folder, or ``None``."""
    known = _tops.get(folder)
    if known is not None and os.path.lexists(f"{known}/.git"):
        return known
    top = find_git_top(folder)
    if top is not None:
        if len(_tops) >= MAX_FOLDERS:
            _tops.clear()
        _tops[folder] = top
    return top


def _read_index(top: str) -> _Index | Tracking:
    """Return the index of a repository, or ``UNKNOWN`` if it cannot be read."""
    try:
        index = _find_index(top, _read_stamp(f"{top}/.git"))
        tracked = _list_tracked(top, index, _read_stamp(index))
    except OSError:
        return Tracking.UNKNOWN
    return Tracking.UNKNOWN if tracked is None else _Index(top, tracked)


def _read_stamp(path: str) -> tuple[int, ...]:
    status = os.stat(path)
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


@lru_cache(8)
def _find_index(top: str, stamp: tuple[int, ...]) -> str:
    return find_index(top)


@lru_cache(4)
def _list_tracked(top: str, index: str, stamp: tuple[int, ...]) -> NameSet | None:
    tracked = list_tracked_files(top)
    return None if tracked is None else NameSet(tracked)
