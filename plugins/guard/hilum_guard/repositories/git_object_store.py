"""Read commits and trees from a repository's object database, without starting Git.

The formats are described in gitformat-pack(5); objects are named by SHA-1.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from typing import NamedTuple

MAX_OBJECT = 8_000_000
"""Maximum size of an object to read, in bytes."""
MAX_DELTAS = 100
"""Maximum number of objects of which each contains only its difference from the next one."""
_INDEX_HEADER = b"\xfftOc\0\0\0\2"
_FANOUT = 256 * 4
_HASH = 20
_KINDS = {1: b"commit", 2: b"tree", 3: b"blob", 4: b"tag"}
_BY_OFFSET = 6
_BY_HASH = 7


class _Pack(NamedTuple):
    """A pack, whose index is open."""

    table: mmap.mmap
    size: int
    path: str


class GitObjectStore:
    """The objects of a repository that has no other object database than its own.

    Args:
        folder: The folder ``objects``.

    Raises:
        ValueError: Some objects are elsewhere.
    """

    def __init__(self, folder: str) -> None:
        if os.path.exists(os.path.join(folder, "info", "alternates")):
            raise ValueError("some objects are in another repository")
        self._folder = folder
        self._packs: list[_Pack] | None = None

    def read(self, name: bytes, kind: bytes) -> bytes:
        """Return the content of an object. Reads the disk.

        Args:
            name: The hash of the object.
            kind: The expected kind, such as ``b"tree"``.

        Raises:
            OSError, ValueError, IndexError, struct.error, zlib.error: There is no such object, or
                it cannot be read.
        """
        digits = name.hex()
        path = os.path.join(self._folder, digits[:2], digits[2:])
        if os.path.exists(path):
            with open(path, "rb") as file:
                data = _inflate(file.read(MAX_OBJECT))
            header, _, content = data.partition(b"\0")
            found = header.partition(b" ")[0]
        else:
            found, content = self._read_packed(name)
        if found != kind:
            raise ValueError(f"the object {digits} is of another kind")
        return content

    def _read_packed(self, name: bytes) -> tuple[bytes, bytes]:
        for pack in self._open_packs():
            offset = _find_offset(pack, name)
            if offset is not None:
                with open(pack.path, "rb") as file:
                    data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                return self._read_at(data, offset)
        raise ValueError(f"there is no object {name.hex()}")

    def _open_packs(self) -> list[_Pack]:
        if self._packs is None:
            self._packs = []
            folder = os.path.join(self._folder, "pack")
            names = os.listdir(folder) if os.path.isdir(folder) else []
            for name in names:
                if name.endswith(".idx"):
                    with open(os.path.join(folder, name), "rb") as file:
                        index = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                    if index[:8] != _INDEX_HEADER:
                        raise ValueError("the index of a pack cannot be read")
                    count = int.from_bytes(index[8 + _FANOUT - 4 : 8 + _FANOUT])
                    path = os.path.join(folder, f"{name.removesuffix('.idx')}.pack")
                    self._packs.append(_Pack(index, count, path))
        return self._packs

    def _read_at(self, data: mmap.mmap, offset: int) -> tuple[bytes, bytes]:
        """Return the kind and the content of an object at an offset of a pack."""
        deltas: list[bytes] = []
        for _ in range(MAX_DELTAS):
            start = offset
            kind = data[offset] >> 4 & 7
            while data[offset] & 0x80:
                offset += 1
            offset += 1
            if kind in _KINDS:
                found, content = _KINDS[kind], _inflate_at(data, offset)
                break
            if kind == _BY_OFFSET:
                distance = data[offset] & 0x7F
                while data[offset] & 0x80:
                    offset += 1
                    distance = ((distance + 1) << 7) + (data[offset] & 0x7F)
                deltas.append(_inflate_at(data, offset + 1))
                offset = start - distance
            elif kind == _BY_HASH:
                base = data[offset : offset + _HASH]
                deltas.append(_inflate_at(data, offset + _HASH))
                found, content = self._read_packed(base)
                break
            else:
                raise ValueError("a pack contains an unknown kind of object")
        else:
            raise ValueError("an object consists of too many differences")
        for delta in reversed(deltas):
            content = _apply_delta(content, delta)
        return found, content


def _inflate(data: bytes | mmap.mmap) -> bytes:
    inflater = zlib.decompressobj()
    content = inflater.decompress(data, MAX_OBJECT)
    if not inflater.eof:
        raise ValueError("an object is too large, or not complete")
    return content


def _inflate_at(data: mmap.mmap, offset: int) -> bytes:
    inflater = zlib.decompressobj()
    content = b""
    # Most commits and trees are small, so that little needs to be copied from the pack.
    size = 4096
    while not inflater.eof:
        part = data[offset : offset + size]
        if not part or len(content) > MAX_OBJECT:
            raise ValueError("an object is too large, or not complete")
        content += inflater.decompress(part, MAX_OBJECT)
        if inflater.unconsumed_tail:
            raise ValueError("an object is too large")
        offset += size
        size *= 4
    return content


def _find_offset(pack: _Pack, name: bytes) -> int | None:
    """Return where an object is in a pack; ``None`` if it is in another one."""
    index = pack.table
    fanout = struct.unpack_from(">256I", index, 8)
    low = fanout[name[0] - 1] if name[0] else 0
    high = fanout[name[0]]
    hashes = 8 + _FANOUT
    while low < high:
        middle = (low + high) // 2
        found = index[hashes + middle * _HASH : hashes + (middle + 1) * _HASH]
        if found == name:
            offsets = hashes + pack.size * (_HASH + 4)
            (offset,) = struct.unpack_from(">I", index, offsets + middle * 4)
            if offset & 0x80000000:
                large = offsets + pack.size * 4 + (offset & 0x7FFFFFFF) * 8
                (offset,) = struct.unpack_from(">Q", index, large)
            return int(offset)
        if found < name:
            low = middle + 1
        else:
            high = middle
    return None


def _apply_delta(base: bytes, delta: bytes) -> bytes:
    """Return an object that is described by its difference from another one."""
    at = 0
    sizes = []
    for _ in range(2):
        size = shift = 0
        while True:
            byte = delta[at]
            at += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                break
        sizes.append(size)
    if sizes[0] != len(base) or sizes[1] > MAX_OBJECT:
        raise ValueError("a difference does not belong to the object")
    parts = []
    while at < len(delta):
        command = delta[at]
        at += 1
        if not command & 0x80:
            parts.append(delta[at : at + command])
            at += command
            continue
        numbers = [0, 0]
        for bit in range(7):
            if command & 1 << bit:
                numbers[bit > 3] |= delta[at] << 8 * (bit if bit < 4 else bit - 4)
                at += 1
        start, length = numbers[0], numbers[1] or 0x10000
        parts.append(base[start : start + length])
    content = b"".join(parts)
    if len(content) != sizes[1]:
        raise ValueError("a difference is not complete")
    return content
