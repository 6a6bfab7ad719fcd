"""Opens files below a folder without following links, and decodes their text."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

BINARY_PROBE = 8192
"""Number of bytes in which a NUL makes a file a binary file, as for Git."""
MAX_LINE = 5000
"""Files with a longer line are data or minified code, which nobody searches by meaning."""
MAX_AVERAGE_LINE = 400
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
# Opening a pipe must not block.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


class UnsuitableFile(Exception):
    """A file without text that can be searched; the message is the reason."""


class FileOpener:
    """Reads files below a folder. No part of a path may be a link.

    Args:
        root: The folder.
        max_size: Maximum number of bytes of a file.
    """

    def __init__(self, root: str, max_size: int) -> None:
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        self._max_size = max_size

    def close(self) -> None:
        """Close the folder."""
        os.close(self._root)

    def read(self, path: bytes) -> bytes:
        """Return the content of a file.

        Args:
            path: The path relative to the folder, with slashes.

        Raises:
            OSError: The file cannot be read, or its path contains a link.
            UnsuitableFile: It is not a regular file, or is too large.
        """
        with self._open(path) as file:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise UnsuitableFile("not a file")
            # One byte more shows that the file is too large, even if it is growing.
            data = _read_all(file, self._max_size + 1)
        if len(data) > self._max_size:
            raise UnsuitableFile("too large")
        return data

    @contextmanager
    def _open(self, path: bytes) -> Iterator[int]:
        *folders, name = path.split(b"/")
        folder = self._root
        try:
            for each in folders:
                inner = os.open(each, _FOLDER, dir_fd=folder)
                if folder != self._root:
                    os.close(folder)
                folder = inner
            file = os.open(name, _FILE, dir_fd=folder)
        finally:
            if folder != self._root:
                os.close(folder)
        try:
            yield file
        finally:
            os.close(file)


def _read_all(file: int, limit: int) -> bytes:
    parts = list[bytes]()
    size = 0
    while size < limit:
        part = os.read(file, min(limit - size, 1 << 20))
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def decode(data: bytes) -> str:
    """Return the text in a file.

    Raises:
        UnsuitableFile: The file is binary, minified, or empty.
    """
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = data.decode("utf-16", "replace")
    elif b"\0" in data[:BINARY_PROBE]:
        raise UnsuitableFile("binary")
    else:
        text = data.decode("utf-8-sig", "replace")
    if not text.strip():
        raise UnsuitableFile("empty")
    # UTF-8 text has few invalid bytes, whatever the encoding of some names in it.
    if text.count("\ufffd") > len(text) // 10:
        raise UnsuitableFile("binary")
    return text


def split_lines(text: str) -> list[str]:
    """Return the lines of a text, as editors and ripgrep count them.

    Raises:
        UnsuitableFile: The lines are too long for code or text.
    """
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    longest = max(map(len, lines), default=0)
    if longest > MAX_LINE or len(text) > MAX_AVERAGE_LINE * max(len(lines), 1):
        raise UnsuitableFile("minified")
    return lines
