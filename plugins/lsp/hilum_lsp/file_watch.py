"""Finds the source files that have changed on the disk, for servers that do not look themselves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# Maximum number of files to compare; in larger projects, servers may not learn of changes that
# commands make in files that are not open.
MAX_FILES = 50_000
# Folders that contain no sources of the project.
_SKIPPED = {"node_modules", "__pycache__", "target", "build", "dist", "venv"}
_CREATED = 1
_CHANGED = 2
_DELETED = 3

# Time of the last change in nanoseconds, size in bytes, and inode.
Stamp = tuple[int, int, int]


class FileWatch:
    """The source files below a folder, as they were at the last look.

    Args:
        folder: The folder.
        suffixes: Suffixes of the files.
    """

    def __init__(self, folder: Path, suffixes: tuple[str, ...]) -> None:
        self._folder = folder
        self._suffixes = suffixes
        self._known: dict[str, Stamp] = {}

    def scan(self) -> list[tuple[Path, int]]:
        """Return the files that were created, changed or deleted since the last look. Blocks.

        Returns:
            The files, each with the protocol's number of the kind of change.
        """
        found: dict[str, Stamp] = {}
        for path, stamp in find_files(self._folder, self._suffixes):
            found[path] = stamp
            if len(found) >= MAX_FILES:
                break
        before = self._known
        self._known = found
        changes = []
        for path, stamp in found.items():
            if path not in before:
                changes.append((Path(path), _CREATED))
            elif before[path] != stamp:
                changes.append((Path(path), _CHANGED))
        changes += [(Path(path), _DELETED) for path in before.keys() - found.keys()]
        return changes


def find_files(folder: Path, suffixes: tuple[str, ...]) -> Iterator[tuple[str, Stamp]]:
    """Yield the source files below a folder, each with what identifies its content. Blocks."""
    left = [str(folder)]
    while left:
        with suppress(OSError), os.scandir(left.pop()) as entries:
            for entry in entries:
                name = entry.name
                if name.endswith(suffixes):
                    try:
                        stamp = make_stamp(entry.stat())
                    except OSError:  # the file was deleted after it had been listed
                        continue
                    yield entry.path, stamp
                elif (
                    not name.startswith(".")
                    and name not in _SKIPPED
                    and entry.is_dir(follow_symlinks=False)
                ):
                    left.append(entry.path)


def make_stamp(status: os.stat_result) -> Stamp:
    """Return what identifies the content of a file."""
    return status.st_mtime_ns, status.st_size, status.st_ino
