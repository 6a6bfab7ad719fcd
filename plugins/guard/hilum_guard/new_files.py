"""Tell the files that an agent may have written from those of the project."""

from __future__ import annotations

import os
import tempfile
import time
from functools import lru_cache

from hilum_guard.command_paths import locate
from hilum_guard.repositories.tracked_files import find_git_top, find_index, list_tracked_files

MAX_FOLDERS = 4096
"""Maximum number of folders whose repository is remembered."""
_IMPORTED = time.time()
_INSTALLED = ("/site-packages/", "/dist-packages/", "/node_modules/", "/.venv/")
_TEMPORARY = ("/tmp/", "/var/tmp/", "/dev/shm/", "/private/tmp/", f"{tempfile.gettempdir()}/")


@lru_cache(2)
def _find_start(process: int) -> float:
    """Return when this process started: later files may be the work of one of its agents.

    This module is imported only when the first command is judged, which may be after the first file
    has been written; and a process that a fork server starts has it from the start.

    Args:
        process: The identifier of this process, which is another one after a fork.
    """
    try:
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
            # The name of the program, in parentheses, may contain spaces (proc_pid_stat(5)).
            ticks = int(file.read().rpartition(")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):  # there is no /proc
        return _IMPORTED
    return time.time() - age


def _find_age(path: str) -> str:
    """Return "new" for a file written since this program started, "old", or "" if there is none."""
    try:
        return "new" if os.stat(locate(path)).st_mtime >= _find_start(os.getpid()) else "old"
    except OSError:
        return ""


def is_new_file(path: str, root: str) -> bool:
    """Return whether a file was written since this program started, or is not in Git's index.

    A file in a folder without a repository is new only if it was written since. Blocks.

    Args:
        path: The absolute path of the file.
        root: The root of the workspace.
    """
    age = _find_age(path)
    return age == "new" or (age == "old" and not _is_own(path, root))


def is_written_file(path: str, root: str) -> bool:
    """Return whether an agent may have written a file that a program loads. Blocks.

    In contrast to ``is_new_file``, an installed package, and a file outside of the workspace, are
    new only if they were written since this program started, or are in a folder for temporary files.

    Args:
        path: The absolute path of the file.
        root: The root of the workspace.
    """
    age = _find_age(path)
    if age != "old":
        return age == "new"
    if path.startswith(f"{root}/"):
        return not any(each in path for each in _INSTALLED) and not _is_own(path, root)
    return path.startswith(_TEMPORARY) and not root.startswith(_TEMPORARY)


def is_tracked(path: str, root: str) -> bool:
    """Return whether a file is in its repository's index, or may be. Blocks.

    Without a repository, and in one whose index cannot be read, every file may be.

    Args:
        path: The absolute path of the file.
        root: The root of the workspace, which may be a folder inside a repository.
    """
    return _find_tracked(path, root) is not False


def _is_own(path: str, root: str) -> bool:
    """Return whether a file is certainly in Git's index, or there is no repository."""
    return _find_tracked(path, root) is True


def _find_tracked(path: str, root: str) -> bool | None:
    """Return whether a file is in its repository's index; ``None`` if that is unknown.

    Without a repository, all files are the user's own. An agent may have made a repository inside
    that of the workspace, unless the outer one lists it, as it lists a submodule.
    """
    outer = _find_top(root)
    inner = _find_top(os.path.dirname(path)) if path.startswith(f"{root}/") else outer
    if inner is None:
        return True
    if outer not in (None, inner) and not _is_listed(str(outer), inner):
        return None
    return _is_listed(inner, path)


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


def _is_listed(top: str, path: str) -> bool | None:
    """Return whether the index of a repository contains a path; ``None`` if it cannot be read."""
    try:
        index = _find_index(top, _read_stamp(f"{top}/.git"))
        tracked = _list_tracked(top, index, _read_stamp(index))
    except OSError:
        return None
    name = os.path.normpath(path).removeprefix(f"{top}/")
    return None if tracked is None else name in tracked


def _read_stamp(path: str) -> tuple[int, ...]:
    status = os.stat(path)
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


@lru_cache(8)
def _find_index(top: str, stamp: tuple[int, ...]) -> str:
    return find_index(top)


@lru_cache(4)
def _list_tracked(top: str, index: str, stamp: tuple[int, ...]) -> frozenset[str] | None:
    tracked = list_tracked_files(top)
    return None if tracked is None else frozenset(tracked)
