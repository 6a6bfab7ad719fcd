"""Reads files that may be anything: links out of the project, pipes, devices, too long, changing
while they are read.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple

from hilum import Workspace
from hilum.errors import HilumError

TRIES = 3


class Stamp(NamedTuple):
    """What shows that a file or folder changed."""

    device: int
    inode: int
    modified: int
    changed: int
    size: int


class Source(NamedTuple):
    """What was read of a file: its bytes up to the limit, and how many it has."""

    real: Path
    data: bytes
    size: int
    stamp: Stamp


class Unread(Exception):
    """A file could not be read; says why in one sentence."""


def stamp(path: str | os.PathLike[str]) -> Stamp | None:
    """Return the stamp of a path, links followed.

    ``None`` if there is nothing that can be looked at.
    """
    try:
        return _stamp(os.stat(path))
    except (OSError, ValueError):
        return None


def _stamp(status: os.stat_result) -> Stamp:
    # A folder's size and the time of its status say nothing of the names in it.
    folder = stat.S_ISDIR(status.st_mode)
    return Stamp(
        status.st_dev,
        status.st_ino,
        status.st_mtime_ns,
        0 if folder else status.st_ctime_ns,
        0 if folder else status.st_size,
    )


def read(path: Path, fence: Workspace, limit: int) -> Source:
    """Read a file. Blocks, but never for long.

    Args:
        path: The file.
        fence: Where it may be once all links are followed.
        limit: Most bytes that are read.

    Raises:
        Unread: It is no plain file, leads out of the fence, is binary, cannot be opened, or does
            not stop changing.
    """
    try:
        with fence.at(path) as place:
            status = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                raise Unread("It is a folder, not a file.")
            for _ in range(TRIES):
                with place.open() as file:
                    before = _stamp(os.fstat(file.fileno()))
                    data = file.read(limit + 1)
                    after = _stamp(os.fstat(file.fileno()))
                if before == after:
                    return _checked(
                        Source(place.path, data[:limit], max(after.size, len(data)), after)
                    )
    except HilumError as error:
        if error.code == "E_PATH_TRAVERSAL":
            raise Unread("It is a link that leads out of the project.") from None
        raise Unread(
            "There is no such file." if error.code == "E_FILE_NOT_FOUND" else error.message
        ) from None
    except OSError as error:
        raise Unread(f"It cannot be read: {error.strerror or error}.") from None
    raise Unread("It changes while it is read; it is read again at the next turn.")


def _checked(source: Source) -> Source:
    if b"\0" in source.data[:8192] and not source.data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Unread("It is a binary file.")
    return source
