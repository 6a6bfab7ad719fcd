"""Reads files that may be links, pipes or devices, or may be too long or changing."""

from __future__ import annotations

import hashlib
import os
import stat
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import attrs
from hilum import Workspace
from hilum.errors import HilumError

MAX_TRIES = 3
"""Maximum number of attempts to read a file that changes while it is read."""
_REASONS = {
    "E_PATH_TRAVERSAL": "It is a link that points outside the project.",
    "E_FILE_NOT_FOUND": "There is no such file.",
}


class Stamp(NamedTuple):
    """The status of a file or folder. If two stamps differ, the file or folder has changed."""

    device: int
    inode: int
    modified: int
    changed: int
    size: int


@attrs.frozen
class Source:
    """The contents of a file.

    Attributes:
        real: The path, with links followed.
        data: The bytes, up to the limit.
        size: The size of the file, in bytes.
        stamp: The file's status when it was read.
    """

    real: Path
    data: bytes
    size: int
    stamp: Stamp

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the bytes, in hexadecimal."""
        return hashlib.sha256(self.data).hexdigest()

    def is_same(self, other: Source) -> bool:
        """Return whether another reading of the file has found the same contents."""
        return (self.digest, self.size) == (other.digest, other.size)


class UnreadableError(Exception):
    """Raised if a file cannot be read; the message is one sentence."""


def follow_links(path: str | os.PathLike[str]) -> Path:
    """Return a path with links followed, even if they form a loop. Blocks."""
    return Path(os.path.realpath(path))


def read_stamp(path: str | os.PathLike[str]) -> Stamp | None:
    """Return the stamp of a path, with links followed, or ``None`` if the path does not exist."""
    try:
        return _stamp_of(os.stat(path))
    except (OSError, ValueError):
        return None


def _stamp_of(status: os.stat_result) -> Stamp:
    # A folder's size and status change time may change although the names in it do not.
    is_folder = stat.S_ISDIR(status.st_mode)
    return Stamp(
        status.st_dev,
        status.st_ino,
        status.st_mtime_ns,
        0 if is_folder else status.st_ctime_ns,
        0 if is_folder else status.st_size,
    )


def read_source(path: Path, fence: Workspace, limit: int) -> Source:
    """Read a file. Blocks only briefly.

    Args:
        path: The file.
        fence: The folder that must contain the file after all links are followed.
        limit: Maximum number of bytes to read.

    Raises:
        UnreadableError: The file is not a regular file, is outside ``fence``, is binary, cannot be
            opened, or keeps changing.
    """
    try:
        with fence.at(path) as place:
            # The name is relative to an open folder, so replacing a parent folder with a link has
            # no effect.
            status = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                raise UnreadableError("It is a folder, not a file.")
            for _ in range(MAX_TRIES):
                with place.open() as file:
                    before = _stamp_of(os.fstat(file.fileno()))
                    data = file.read(limit + 1)
                    # An editor may be writing the file, and half a file could lack the rule that
                    # forbids something.
                    after = _stamp_of(os.fstat(file.fileno()))
                if before == after:
                    _check_text(data)
                    return Source(place.path, data[:limit], max(after.size, len(data)), after)
    except HilumError as error:
        raise UnreadableError(_REASONS.get(error.code, error.message)) from None
    except OSError as error:
        raise UnreadableError(f"It cannot be read: {error.strerror or error}.") from None
    raise UnreadableError(
        "It changed while it was being read; it will be read again at the next turn."
    )


def _check_text(data: bytes) -> None:
    # UTF-16 text also contains null bytes.
    if b"\0" in data[:8192] and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UnreadableError("It is a binary file.")


def digest_text(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()
