"""Limits for what hilum reads of recordings and cassettes, which other people may have written."""

from __future__ import annotations

import os
import re
import stat

MAX_FILE_SIZE = 64_000_000
"""Maximum size of a cassette, and of the log in a recording, in bytes."""
MAX_VALUES = 4_000_000
"""Maximum number of values in such a file. Decoded, the smallest values take 60 to 250 bytes each."""
MAX_DEPTH = 100
"""Maximum nesting depth of JSON and TOML; the kernel allows arguments of calls the same depth."""
_SEPARATORS = (b",", b":", b"=", b"[", b"{")
_STRING = re.compile(rb'"[^"]*"?')
_CLOSING = frozenset(b"]}")


def read_regular_file(path: str | os.PathLike[str]) -> bytes:
    """Read a whole file that a user named.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not a regular file, or it is too large.
    """
    # A device or a pipe may have no end. Opening one must not block.
    with open(path, "rb", opener=_open_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is not a regular file")
        data = file.read(MAX_FILE_SIZE + 1)
    if len(data) > MAX_FILE_SIZE:
        raise ValueError(f"it has more than {MAX_FILE_SIZE:,} bytes")
    return data


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))


def find_count_problem(data: bytes) -> str:
    """Return why a text has too many values to be decoded; empty if it has not.

    A few bytes of text can become hundreds of bytes in memory, such as each item of
    ``[{"":0},{"":0}]``. Each value has a separator, so their number is an upper bound.
    """
    count = sum(data.count(separator) for separator in _SEPARATORS)
    if count > MAX_VALUES:
        return f"it has more than {MAX_VALUES:,} values"
    return ""


def find_depth_problem(data: bytes) -> str:
    """Return why JSON is nested too deeply to be decoded; empty if it is not."""
    # Most texts have few brackets, and need no closer look.
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return ""
    without_escapes = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    depth = 0
    for character in re.sub(rb"[^\[\]{}]+", b"", _STRING.sub(b"", without_escapes)):
        depth += -1 if character in _CLOSING else 1
        if depth > MAX_DEPTH:
            return f"it is nested more than {MAX_DEPTH} levels deep"
    return ""
