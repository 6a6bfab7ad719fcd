"""Holds the entries of a file tree in little memory.

A tree may have 100,000 entries, and hilum keeps the last snapshot for as long as a session lasts. As
Python objects, an entry with its node, timestamps and numbers takes 700 bytes. Here it is one ``bytes``
object, which takes 100 bytes, and is unpacked when somebody asks for it. Entries of unchanged files
are shared by successive snapshots.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Set
from typing import Literal, NamedTuple, TypeVar, overload

import msgspec

Kind = Literal["file", "link", "folder", "skipped"]
Stamp = bytes
"""The timestamps and numbers that show whether an entry has changed; empty if they do not show it."""

_Default = TypeVar("_Default")
_KINDS: tuple[Kind, ...] = ("file", "link", "folder", "skipped")
_STAMP = struct.Struct("<5Q")
_INODE = struct.Struct("<Q")
# Timestamps can be negative, and numbers of files can have 64 bits.
_64_BITS = 0xFFFF_FFFF_FFFF_FFFF
# A packed entry begins with one byte and two for the mode. The byte contains the kind in two bits, then
# one bit that is set if the hash is packed as text, then the length of the stamp in units of 8 bytes.
# The stamp and the hash follow.
_HEAD = struct.Struct("<BH")
_KIND_BITS = 0b11
_TEXT_BIT = 0b100
_LENGTH_SHIFT = 3
_STAMP_UNIT = 8
# The head of an array in MessagePack: https://github.com/msgpack/msgpack/blob/master/spec.md
_ARRAY = 0xDD
_ARRAY_HEAD = struct.Struct(">BI")


# `gc=False` keeps the garbage collector from visiting nodes, which cannot be part of a cycle.
class Node(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The entry at a path.

    Args:
        kind: ``skipped`` means a folder that is not opened.
        mode: Permissions of a file or folder.
        hash: Hash of the content of a file, or of the target of a link. A hash that begins with
            ``?`` means that the content was not kept (too large or not readable) and can be
            compared, but not restored.
    """

    kind: Kind
    mode: int = 0
    hash: str = ""

    @property
    def kept(self) -> bool:
        """Whether the entry can be restored."""
        return self.kind != "skipped" and not self.hash.startswith("?")


class TreeEntry(NamedTuple):
    """A node, and the timestamps and numbers that show the next walk whether the entry has changed.

    Without this information, the next walk reads the file again.
    """

    node: Node
    stamp: Stamp = b""


class StampParts(NamedTuple):
    """The parts of the stamp of a file.

    Attributes:
        mode: Kind and permissions.
        modified: When the content was changed, in nanoseconds.
        changed: When the content or the status was changed, in nanoseconds.
        size: Size in bytes.
        inode: Number of the file in its file system.
    """

    mode: int
    modified: int
    changed: int
    size: int
    inode: int


def make_stamp(status: os.stat_result) -> Stamp:
    """Return the timestamps and numbers that show whether a file has changed."""
    return _STAMP.pack(
        status.st_mode,
        status.st_mtime_ns & _64_BITS,
        status.st_ctime_ns & _64_BITS,
        status.st_size,
        status.st_ino & _64_BITS,
    )


def make_inode_stamp(status: os.stat_result) -> Stamp:
    """Return the number that shows whether a folder is still the same folder."""
    return _INODE.pack(status.st_ino & _64_BITS)


def read_stamp(stamp: Stamp) -> StampParts | None:
    """Return the parts of a stamp that ``make_stamp`` returned; ``None`` for any other stamp."""
    if len(stamp) != _STAMP.size:
        return None
    return StampParts(*_STAMP.unpack(stamp))


def is_same_content(stamp: Stamp, status: os.stat_result) -> bool:
    """Return whether a file has the content it had when its stamp was made, whatever its mode is."""
    was = read_stamp(stamp)
    now = read_stamp(make_stamp(status))
    if was is None or now is None:
        return False
    # Changing a file's mode also changes the time when its status was changed.
    return now._replace(mode=was.mode, changed=was.changed) == was


class Tree(MutableMapping[str, TreeEntry]):
    """The entries of a tree, by path relative to its root.

    Args:
        entries: The entries.
    """

    __slots__ = ("_packed",)

    def __init__(self, entries: Mapping[str, TreeEntry] | None = None) -> None:
        self._packed: dict[str, bytes] = {}
        for name, entry in (entries or {}).items():
            self[name] = entry

    def __len__(self) -> int:
        return len(self._packed)

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __contains__(self, name: object) -> bool:
        return name in self._packed

    def __getitem__(self, name: str) -> TreeEntry:
        return _unpack(self._packed[name])

    def __setitem__(self, name: str, entry: TreeEntry) -> None:
        self._packed[name] = _pack(entry)

    def __delitem__(self, name: str) -> None:
        del self._packed[name]

    @overload
    def get(self, name: str, /) -> TreeEntry | None: ...

    @overload
    def get(self, name: str, /, default: TreeEntry | _Default) -> TreeEntry | _Default: ...

    def get(self, name: str, /, default: object = None) -> object:
        """Return an entry, or ``default`` if there is none."""
        packed = self._packed.get(name)
        return default if packed is None else _unpack(packed)

    def copy(self) -> Tree:
        """Return a copy, which shares the entries."""
        copy = Tree()
        copy._packed = self._packed.copy()
        return copy

    def select(self, is_wanted: Callable[[str], bool]) -> Tree:
        """Return a tree with those entries whose paths are wanted."""
        selected = Tree()
        selected._packed = {name: each for name, each in self._packed.items() if is_wanted(name)}
        return selected

    def copy_entry(self, name: str, source: Tree) -> None:
        """Copy an entry from another tree, which has it."""
        self._packed[name] = source._packed[name]

    def copy_all(self, source: Tree) -> None:
        """Copy all entries from another tree."""
        self._packed.update(source._packed)

    def copy_if_unchanged(self, name: str, source: Tree, stamp: Stamp) -> bool:
        """Copy an entry from another tree if it has a stamp; return whether it has.

        Args:
            name: The path.
            source: The other tree, which need not have an entry for the path.
            stamp: What ``make_stamp`` returned for the present file.
        """
        packed = source._packed.get(name)
        if packed is None or not packed.startswith(stamp, _HEAD.size):
            return False
        # The entry may have a shorter stamp, which is followed by a hash.
        if packed[0] >> _LENGTH_SHIFT != len(stamp) // _STAMP_UNIT:
            return False
        self._packed[name] = packed
        return True

    def find_differing(self, other: Tree) -> Iterator[str]:
        """Yield the paths whose entries or stamps differ from those of another tree."""
        theirs = other._packed
        for name, packed in self._packed.items():
            if theirs.get(name) != packed:
                yield name
        for name in theirs:
            if name not in self._packed:
                yield name

    def hashes(self) -> Iterator[str]:
        """Yield the hash of each entry that has one."""
        for packed in self._packed.values():
            text = _unpack_hash(packed)
            if text:
                yield text

    def select_hashes(self, hashes: Set[str]) -> Tree:
        """Return a tree with those entries that have no hash, or one of the given ones."""
        selected = Tree()
        for name, packed in self._packed.items():
            text = _unpack_hash(packed)
            if not text or text in hashes:
                selected._packed[name] = packed
        return selected


def encode_entries(tree: Tree, names: Collection[str]) -> bytes:
    """Encode some entries of a tree as bytes, and which of the paths have none."""
    encoder = msgspec.msgpack.Encoder()
    # Row by row, because a list of 100,000 rows would take 20 MB.
    encoded = bytearray(_ARRAY_HEAD.pack(_ARRAY, len(names)))
    for name in names:
        # Names are stored as bytes, because they need not be valid UTF-8.
        encoder.encode_into((os.fsencode(name), tree._packed.get(name)), encoded, -1)
    return bytes(encoded)


def decode_entries(data: bytes, tree: Tree) -> None:
    """Set and delete the entries of a tree that ``encode_entries`` encoded.

    Raises:
        msgspec.DecodeError: The data is damaged, or has the form that an older version wrote.
    """
    for raw_name, packed in msgspec.msgpack.decode(data, type=list[tuple[bytes, bytes | None]]):
        name = os.fsdecode(raw_name)
        if packed is None:
            tree._packed.pop(name, None)
        elif _is_valid(packed):
            tree._packed[name] = packed
        else:
            raise msgspec.DecodeError("an entry of the tree is damaged")


def _pack(entry: TreeEntry) -> bytes:
    node = entry.node
    first = _KINDS.index(node.kind) | len(entry.stamp) // _STAMP_UNIT << _LENGTH_SHIFT
    content = _pack_hexadecimal(node.hash)
    if content is None:
        first |= _TEXT_BIT
        content = node.hash.encode()
    return _HEAD.pack(first, node.mode) + entry.stamp + content


def _pack_hexadecimal(text: str) -> bytes | None:
    """Return the bytes that have a text as their hexadecimal form; ``None`` if there are none."""
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        return None
    # `fromhex` also accepts spaces and capital letters.
    return raw if raw.hex() == text else None


def _unpack(packed: bytes) -> TreeEntry:
    first, mode = _HEAD.unpack_from(packed)
    stamp = packed[_HEAD.size : _end_of_stamp(packed)]
    return TreeEntry(Node(_KINDS[first & _KIND_BITS], mode, _unpack_hash(packed)), stamp)


def _unpack_hash(packed: bytes) -> str:
    content = packed[_end_of_stamp(packed) :]
    return content.decode() if packed[0] & _TEXT_BIT else content.hex()


def _end_of_stamp(packed: bytes) -> int:
    return _HEAD.size + (packed[0] >> _LENGTH_SHIFT) * _STAMP_UNIT


def _is_valid(packed: bytes) -> bool:
    """Return whether data that was read from a file is a packed entry."""
    if len(packed) < _HEAD.size or len(packed) < _end_of_stamp(packed):
        return False
    try:
        _unpack_hash(packed)
    except UnicodeDecodeError:
        return False
    return True
