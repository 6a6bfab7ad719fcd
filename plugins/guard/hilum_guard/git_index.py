"""Find nested repositories in the index of a Git folder, also in one that Git did not write."""

from __future__ import annotations

import os
import struct

MAX_BYTES = 100_000_000
_HEADER = struct.Struct(">4sII")
# An entry has 24 bytes before the mode, and after the hash the flags, which hold the length of
# the path.
_MODE = struct.Struct(">24xI")
_FLAGS = struct.Struct(">60xH")
_LONG_PATH = 0xFFF
_EXTENDED = 0x4000
# Types of entries in a mode: a nested repository, and a folder of a sparse index, which may hold
# one. Git ignores all other bits of the mode, so that a comparison with 0160000 is not enough.
_TYPE = 0xF000
_NESTING = frozenset((0xE000, 0x4000))


def may_have_nested_repositories(folder: str) -> bool:
    """Return whether the index of a Git folder may name a nested repository. Looks at the disk.

    Git enters nested repositories when it compares the working tree, and follows their settings.
    The index must have hashes of 20 bytes.

    Raises:
        OSError, ValueError, struct.error, IndexError: If the index cannot be read.
    """
    path = os.path.join(folder, "index")
    if not os.path.lexists(path):
        return False
    # A split index keeps entries in these files.
    if any(name.casefold().startswith("sharedindex.") for name in os.listdir(folder)):
        return True
    if not os.path.isfile(path) or os.path.getsize(path) > MAX_BYTES:
        return True
    with open(path, "rb") as file:
        data = file.read(MAX_BYTES)
    signature, version, count = _HEADER.unpack_from(data)
    if signature != b"DIRC" or version not in (2, 3, 4):
        return True
    at = _HEADER.size
    length = 0
    for _ in range(count):
        if _MODE.unpack_from(data, at)[0] & _TYPE in _NESTING:
            return True
        at, length = _find_next_entry(data, at, length if version == 4 else None)
    # With this extension Git reads entries from the places that it names.
    return data.find(b"IEOT", at) >= 0


def _find_next_entry(data: bytes, at: int, previous: int | None) -> tuple[int, int]:
    """Return where the entry after the one at a position begins, and the length of its path.

    Like Git it takes the length from the flags: an attacker may have written another path.

    Args:
        data: The index.
        at: Where the entry begins.
        previous: In version 4, the length of the path before it; otherwise None.
    """
    flags = _FLAGS.unpack_from(data, at)[0]
    name = at + (64 if flags & _EXTENDED else 62)
    length = flags & _LONG_PATH
    shared = 0
    if previous is not None:
        removed, name = _read_number(data, name)
        shared = previous - removed
    if length == _LONG_PATH:
        length = shared + data.index(b"\0", name) - name
    if not 0 <= shared <= length:
        raise ValueError("a path in the index is shorter than its beginning")
    end = name + length - shared
    if previous is not None:
        return end + 1, length
    # The path and at least one NUL byte fill up 8 bytes.
    return at + (end - at + 8) // 8 * 8, length


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length (``varint.c`` of Git), and where it ends."""
    number = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        number = ((number + 1) << 7) + (data[at] & 0x7F)
    return number, at + 1
