"""Tell the files that an agent may have written from those of the project."""

from __future__ import annotations

import os
import tempfile
import time
from functools import lru_cache

from hilum_guard.command_paths import locate
from hilum_guard.small_files import read_small_file

MAX_INDEX = 20_000_000
"""Maximum size of a Git index to read, in bytes."""
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
    return age == "new" or (age == "old" and not is_tracked(path, root))


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
        return not any(each in path for each in _INSTALLED) and not is_tracked(path, root)
    return path.startswith(_TEMPORARY) and not root.startswith(_TEMPORARY)


def is_tracked(path: str, root: str) -> bool:
    """Return whether a file is in Git's index, or whether there is no index to read. Blocks.

    Args:
        path: The absolute path of the file.
        root: The root of the workspace.
    """
    index = os.path.join(root, ".git", "index")
    try:
        status = os.stat(index)
    except OSError:
        return True
    stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
    return _is_in_index(index, stamp, os.path.relpath(path, root))


# The tests of a project load hundreds of files, each of which is looked up.
@lru_cache(16_384)
def _is_in_index(index: str, stamp: tuple[int, ...], name: str) -> bool:
    content = _read_index(index, stamp)
    # The index contains each path as a whole, followed by a null byte.
    return content is None or os.fsencode(name) + b"\0" in content


@lru_cache(2)
def _read_index(path: str, stamp: tuple[int, ...]) -> bytes | None:
    return read_small_file(path, MAX_INDEX)
