"""Walk over and remove folders, however deeply their folders are nested.

A command may nest folders thousands deep. ``os.walk`` before Python 3.12 and ``shutil.rmtree`` call
themselves for each level, and then fail with ``RecursionError``.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress

_HAS_OPENAT = os.open in os.supports_dir_fd and os.scandir in os.supports_fd
_O_PATH = getattr(os, "O_PATH", 0)
_ACCESSIBLE = 0o700
_FOLDER = (
    os.O_RDONLY
    | getattr(os, "O_DIRECTORY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
)


def walk_folders(top: str | os.PathLike[str]) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each folder of a tree with the names of its folders and of its other entries. Blocks.

    The results and their order are those of ``os.walk``: folders can be removed from the list, so that
    they are not walked, and links to folders are listed, but not walked. What cannot be read is left
    out.
    """
    waiting = [os.fspath(top)]
    while waiting:
        folder = waiting.pop()
        folders: list[str] = []
        others: list[str] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    (folders if _is_folder(entry) else others).append(entry.name)
        except OSError:
            continue
        yield folder, folders, others
        for name in reversed(folders):
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                waiting.append(path)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def remove_folder(path: str | os.PathLike[str]) -> None:
    """Remove a folder with everything in it; what cannot be removed stays. Blocks.

    Folders that their owner may not read or change, such as those of a module cache of Go, are made
    accessible first. No link is followed, also if another process creates one meanwhile. A path may be longer than the
    system allows in one call.
    """
    if not _HAS_OPENAT:
        import shutil  # only Windows needs it, and the import takes 5 ms

        shutil.rmtree(path, ignore_errors=True)
        return
    try:
        folder = _open_folder(os.fspath(path), None)
    except OSError:
        return
    _remove_contents(folder)
    with suppress(OSError):
        os.rmdir(path)


def _remove_contents(folder: int) -> None:
    """Remove what is in an open folder, and close it.

    Only one folder is open at a time, because a process may open only some thousand files.
    """
    # The folders between the first one and the open one, outermost first.
    above: list[_Above] = []
    names = _list_names(folder)
    try:
        while True:
            name = _remove_entries(folder, names)
            if name is not None:
                with suppress(OSError):
                    below = _open_folder(name, folder)
                    above.append(_Above(name, os.fstat(folder), names))
                    os.close(folder)
                    folder = below
                    names = _list_names(folder)
                continue
            if not above:
                return
            last = above.pop()
            outer = os.open("..", _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = outer
            # Another process may have moved the folder to a place from which nothing is to be
            # removed.
            if not os.path.samestat(os.fstat(folder), last.status):
                return
            names = last.names
            with suppress(OSError):
                os.rmdir(last.name, dir_fd=folder)
    except OSError:
        return
    finally:
        os.close(folder)


class _Above:
    """A folder above the open one.

    Args:
        name: The name of the folder below it.
        status: Its status, by which it is recognized.
        names: The names in it that were not removed yet.
    """

    __slots__ = ("name", "names", "status")

    def __init__(self, name: str, status: os.stat_result, names: list[str]) -> None:
        self.name = name
        self.status = status
        self.names = names


def _open_folder(name: str, parent: int | None) -> int:
    """Open a folder, and make it accessible for its owner if it is not.

    Args:
        name: The path of the folder.
        parent: The open folder to which the path is relative, if it is.

    Raises:
        OSError: The folder cannot be opened.
    """
    try:
        folder = os.open(name, _FOLDER, dir_fd=parent)
    except PermissionError:
        if not _O_PATH:
            raise
        # The entry cannot be replaced by a link while it is open.
        entry = os.open(name, _O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            os.chmod(f"/proc/self/fd/{entry}", _ACCESSIBLE)
        finally:
            os.close(entry)
        folder = os.open(name, _FOLDER, dir_fd=parent)
    if os.fstat(folder).st_mode & _ACCESSIBLE != _ACCESSIBLE:
        with suppress(OSError):
            os.fchmod(folder, _ACCESSIBLE)
    return folder


def _list_names(folder: int) -> list[str]:
    """Return the names in an open folder; none if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries]
    except OSError:
        return []


def _remove_entries(folder: int, names: list[str]) -> str | None:
    """Remove files and empty folders in an open folder; each name is tried once.

    Args:
        folder: The open folder.
        names: The names, which are taken from the list.

    Returns:
        The name of a folder that must be emptied first; ``None`` if no name is left.
    """
    while names:
        name = names.pop()
        with suppress(OSError):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                return name
            os.unlink(name, dir_fd=folder)
    return None
