"""Find nested repositories in the index of a Git folder, even if Git did not write the index.

The index format is described in gitformat-index(5); versions 2 to 4 are supported.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import NamedTuple, TypeVar

_Collected = TypeVar("_Collected")
MAX_BYTES = 100_000_000
MAX_ENTRIES = 5_000_000
"""Maximum number of entries to read; the extension `IEOT` could repeat the same entries."""
_HEADER = struct.Struct(">4sII")
HASH_SIZES = (20, 32)
"""The sizes of hashes in bytes: SHA-1 and SHA-256."""
# An entry has 24 bytes before the mode; the flags after the hash contain the length of the path.
_ENTRIES = {size: struct.Struct(f">24xI{12 + size}xH") for size in HASH_SIZES}
_LONG_PATH = 0xFFF
_EXTENDED = 0x4000
# Entry types in a mode: a nested repository, and a folder in a sparse index, which may contain a
# nested repository. Git ignores all other bits of the mode, so comparing it with 0160000 is not
# enough.
_TYPE = 0xF000
_NESTED = 0xE000
_SPARSE = 0x4000
_BLOCK = struct.Struct(">II")
_STAT = struct.Struct(">8xII8xI8xI")
_SKIP_WORKTREE = 0x4000
# The hashes of an empty file with SHA-1 and SHA-256.
_EMPTY = (
    bytes.fromhex("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"),
    bytes.fromhex("473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813"),
)


class IndexEntry(NamedTuple):
    """One entry of an index.

    Attributes:
        name: The path, relative to the working tree.
        mode: The type and the permissions.
        size: The size of the file; 0 also if Git does not know whether the file was changed.
        seconds: The modification time of the file.
        nanoseconds: The rest of the modification time.
        empty: Whether the recorded content is empty.
        skipped: Whether the file is left out of the working tree.
        offset: The position of the entry in the index.
    """

    name: str
    mode: int
    size: int
    seconds: int
    nanoseconds: int
    empty: bool
    skipped: bool
    offset: int


def read_index(path: str) -> tuple[bytes, list[IndexEntry]]:
    """Return the content and the entries of an index that is not split. Reads the disk.

    Raises:
        OSError, ValueError, struct.error, IndexError: The index cannot be read, or is split, sparse
            or too large.
    """
    data = _read_data(path)
    return data, _read_with_any_hash(data, list)


def list_names(path: str) -> list[str]:
    """Return the paths in an index that is not split, without keeping its entries. Reads the disk.

    Raises:
        OSError, ValueError, struct.error, IndexError: As ``read_index``.
    """
    return _read_with_any_hash(_read_data(path), lambda entries: [entry.name for entry in entries])


def _read_data(path: str) -> bytes:
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("the index is not a file")
        return file.read(MAX_BYTES + 1)


def _read_with_any_hash(
    data: bytes, collect: Callable[[Iterator[IndexEntry]], _Collected]
) -> _Collected:
    """Return what a function makes of the entries of an index.

    Args:
        data: The index.
        collect: The function, which is called again with the other size of hashes if the entries
            turn out to be invalid.
    """
    signature, version, count = _HEADER.unpack_from(data)
    if signature != b"DIRC" or version not in (2, 3, 4) or len(data) > MAX_BYTES:
        raise ValueError("the index cannot be read")
    for size in HASH_SIZES:
        with suppress(ValueError, struct.error, IndexError):
            return collect(_decode_entries(data, count, version, size))
    raise ValueError("the index cannot be read")


def _decode_entries(data: bytes, count: int, version: int, size: int) -> Iterator[IndexEntry]:
    """Yield the entries of an index.

    Raises:
        ValueError, struct.error, IndexError: An entry is invalid, or there are entries elsewhere.
    """
    at = _HEADER.size
    for mode, name, end in _read_entries(data, at, count, version, size):
        seconds, nanoseconds, _, length = _STAT.unpack_from(data, at)
        content = data[at + _STAT.size : at + _STAT.size + size]
        end_of_hash = at + _STAT.size + size
        flags = int.from_bytes(data[end_of_hash : end_of_hash + 2])
        more = int.from_bytes(data[end_of_hash + 2 : end_of_hash + 4])
        if mode & _TYPE == _SPARSE or not name or b"\0" in name:
            raise ValueError("the index does not name all files")
        yield IndexEntry(
            name=os.fsdecode(name),
            mode=mode,
            size=length,
            seconds=seconds,
            nanoseconds=nanoseconds,
            empty=content in _EMPTY,
            skipped=bool(flags & _EXTENDED and more & _SKIP_WORKTREE),
            offset=at,
        )
        at = end
    rest = data[at:-size]
    while rest:  # the extensions: a name, a size and the content
        if rest[:4] == b"link":
            raise ValueError("the index is split")
        length = int.from_bytes(rest[4:8])
        if len(rest) < 8 + length:
            raise ValueError("an extension of the index is not complete")
        rest = rest[8 + length :]


def may_have_nested_repositories(folder: str) -> bool:
    """Return whether the index of a Git folder may name a nested repository. Reads the disk.

    Git enters nested repositories when it compares the working tree with the index, and then
    follows their settings. The index must use 20-byte hashes.

    Raises:
        OSError, ValueError, struct.error, IndexError: If the index cannot be read.
    """
    path = os.path.join(folder, "index")
    if not os.path.lexists(path):
        return False
    # A split index stores entries in these files.
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
    for mode, _, end in _read_entries(data, at, count, version, 20):
        if mode & _TYPE in (_NESTED, _SPARSE):
            return True
        at = end
    # If the index has this extension, Git reads entries at the offsets that the extension contains.
    return data.find(b"IEOT", at) >= 0


def find_nested_repositories(path: str, sizes: Sequence[int] = HASH_SIZES) -> set[str]:
    """Return the nested repositories that an index names, relative to its working tree.

    The result may include paths that are not in the index. No path in the first `MAX_BYTES` bytes
    and `MAX_ENTRIES` entries is omitted.

    Args:
        path: An index, or a shared part of a split index. The path need not be a regular file.
        sizes: The sizes that the hashes may have, which the index does not say.

    Raises:
        OSError: The file cannot be read.
    """
    # Without O_NONBLOCK, opening a pipe at this path would wait for a writer; and a device such as
    # /dev/zero has no end.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return set()
        data = file.read(MAX_BYTES)
    if len(data) < _HEADER.size:
        return set()
    _, version, count = _HEADER.unpack_from(data)
    names = islice(_find_names(data, count, version, sizes), MAX_ENTRIES)
    return {os.fsdecode(name) for name in names if name}


def _find_names(data: bytes, count: int, version: int, sizes: Sequence[int]) -> Iterator[bytes]:
    """Yield the path of each nested repository, and an empty path for each other entry."""
    for start, number in chain([(_HEADER.size, count)], _find_blocks(data)):
        for size in sizes:
            # An invalid entry means either that Git also stops there, or that this hash size is the
            # wrong one.
            with suppress(ValueError, struct.error, IndexError):
                for mode, name, _ in _read_entries(data, start, number, version, size):
                    # In Git, a path ends at a NUL byte; Python functions reject such bytes.
                    yield name.partition(b"\0")[0] if mode & _TYPE == _NESTED else b""


def _find_blocks(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the offsets from which Git reads entries in parallel, each with its number of entries.

    The extension `IEOT` contains these offsets, and may refer to entries other than those after the
    header.
    """
    at = data.find(b"IEOT")
    while at >= 0:
        # The extension's size and version come before its blocks.
        size = int.from_bytes(data[at + 4 : at + 8])
        end = min(at + 8 + size, len(data))
        for block in range(at + 12, end - _BLOCK.size + 1, _BLOCK.size):
            yield _BLOCK.unpack_from(data, block)
        at = data.find(b"IEOT", at + 4)


def _read_entries(
    data: bytes, at: int, count: int, version: int, size: int
) -> Iterator[tuple[int, bytes, int]]:
    """Yield the mode, path and end offset of each entry.

    Like Git, this function takes the length of a path from the flags, because an attacker may have
    written a path of another length.

    Args:
        data: The index.
        at: The offset of the first entry.
        count: The number of entries.
        version: The index version: 2, 3 or 4.
        size: The size of a hash, in bytes.

    Raises:
        ValueError, struct.error, IndexError: An entry is invalid.
    """
    entry = _ENTRIES[size]
    path = b""
    for _ in range(count):
        mode, flags = entry.unpack_from(data, at)
        name = at + entry.size + (2 if flags & _EXTENDED else 0)
        length = flags & _LONG_PATH
        shared = 0
        if version == 4:
            removed, name = _read_number(data, name)
            shared = len(path) - removed
        if length == _LONG_PATH:
            length = shared + data.index(b"\0", name) - name
        if not 0 <= shared <= length:
            raise ValueError("a path in the index is shorter than its beginning")
        end = name + length - shared
        path = path[:shared] + data[name:end]
        if version == 4:
            at = end + 1
        else:
            # The entry is padded with one or more NUL bytes to a multiple of 8 bytes.
            at += (end - at + 8) // 8 * 8
        yield mode, path, at


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    """Return a variable-length integer (see Git's ``varint.c``) and its end offset."""
    number = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        number = ((number + 1) << 7) + (data[at] & 0x7F)
    return number, at + 1
