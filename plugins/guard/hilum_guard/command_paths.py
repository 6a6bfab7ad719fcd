"""Find the files that commands name: a sandboxed command sees another folder as ``/tmp``."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

TEMPORARY = "/tmp"
MAX_LINKS = 10
"""Maximum number of links to follow in the folder that commands see as ``/tmp``."""


class _Seen(NamedTuple):
    """How commands see the files of this machine.

    Attributes:
        temporary: The folder that they see as ``/tmp``; empty if they see this machine's.
        workspace: The resolved root of the workspace, which they see where it is.
        folders: Folders without links, by their paths.
    """

    temporary: str
    workspace: str
    folders: dict[str, str]


_current: ContextVar[_Seen | None] = ContextVar("hilum_guard_command_paths", default=None)


@contextmanager
def as_seen_by_commands(temporary: str, workspace: str) -> Iterator[None]:
    """Find files where a session's commands find them, in this thread and until the block ends.

    Blocks, because it reads the disk.

    Args:
        temporary: The folder that the commands see as ``/tmp``; empty if they see this machine's.
        workspace: The root of the workspace.
    """
    seen = None
    if temporary:
        seen = _Seen(os.path.realpath(temporary), os.path.realpath(workspace), {})
    token = _current.set(seen)
    try:
        yield
    finally:
        _current.reset(token)


def find_temporary() -> str:
    """Return the folder that commands see as ``/tmp``; empty if they see this machine's."""
    seen = _current.get()
    return seen.temporary if seen else ""


def locate(path: str) -> str:
    """Return where a file is that a command names. Reads the disk.

    Args:
        path: The absolute path, as the command sees it.

    Returns:
        The path on this machine. Of a file that is not in the folder that commands see as ``/tmp``,
        the path is returned as it is, because the workspace may be below ``/tmp``.
    """
    seen = _current.get()
    if seen is None or "\0" in path:
        return path
    if _is_beside_temporary(path, seen) and not os.path.islink(path):
        return path
    temporary, workspace, _ = seen
    found = path
    for _ in range(MAX_LINKS):
        found = os.path.realpath(found)
        is_inside = found.startswith(f"{TEMPORARY}/") and not f"{found}/".startswith(
            f"{workspace}/"
        )
        if not is_inside:
            return found if os.path.lexists(found) else path
        place, link = _enter(temporary, found.removeprefix(f"{TEMPORARY}/"))
        if not link:
            return place if _has_content(place) or not os.path.lexists(found) else path
        found = link
    return path


def read_status(path: str) -> os.stat_result:
    """Return the status of the file that a command names. Reads the disk.

    Args:
        path: The absolute path, as the command sees it.

    Raises:
        OSError: There is no such file, or it cannot be reached.
    """
    seen = _current.get()
    if seen is None:
        return os.stat(path)
    if _is_beside_temporary(path, seen):
        status = os.lstat(path)
        if not stat.S_ISLNK(status.st_mode):
            return status
    return os.stat(locate(path))


def _is_beside_temporary(path: str, seen: _Seen) -> bool:
    """Return whether a path is not in ``/tmp``, unless it is a link that leads there."""
    if path.startswith(TEMPORARY):
        return False
    # The tests of a project load hundreds of files, most of them in few folders.
    folder = path.rpartition("/")[0]
    resolved = seen.folders.get(folder)
    if resolved is None:
        resolved = seen.folders[folder] = os.path.realpath(folder or "/")
    return not resolved.startswith(TEMPORARY)


def _enter(temporary: str, name: str) -> tuple[str, str]:
    """Return where a path below ``/tmp`` is, and where its first link leads, as commands see it."""
    parts = name.split("/")
    place = temporary
    for number, part in enumerate(parts):
        place = os.path.join(place, part)
        if os.path.islink(place):
            folder = os.path.join(TEMPORARY, *parts[:number])
            return place, os.path.join(folder, os.readlink(place), *parts[number + 1 :])
    return place, ""


def _has_content(path: str) -> bool:
    """Return whether there is more than an empty file, on which the sandbox mounts another one."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    return os.path.isdir(path) or status.st_size > 0
