"""Keeps the last snapshot of each session on disk, for the recovery after a crash.

The file contains a whole snapshot, followed by what later snapshots have changed, because writing
100,000 entries before each command would take 60 ms.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from hilum import make_private_folder

from hilum_files.journal.tree_entries import Tree, decode_entries, encode_entries

# Each part of the file follows its length.
_LENGTH_BYTES = 8
# The file is written anew when more entries were appended than this share of the tree.
_MAX_APPENDED = 0.5
_MIN_APPENDED = 1_000


class SavedTree:
    """The last snapshot of a session on disk. All methods block.

    Args:
        folder: The folder with the snapshots of all sessions in one workspace.
        session: Id of the session.
    """

    def __init__(self, folder: Path, session: str) -> None:
        self._folder = folder
        self._path = folder / session
        self._appended = 0
        # The file of an earlier process may end in the middle of a part.
        self._can_append = False

    def write(self, tree: Tree) -> None:
        """Write a whole snapshot."""
        make_private_folder(self._folder)
        temporary = self._folder / f".{self._path.name}.tmp"
        with open(temporary, "wb", opener=_open_private) as file:
            file.write(_make_part(encode_entries(tree, tree.keys())))
        # A crash must not leave a partial snapshot from which an undo would be computed.
        os.replace(temporary, self._path)
        self._appended = 0
        self._can_append = True

    def update(self, changed: Collection[str], tree: Tree) -> None:
        """Write what has changed since the last write.

        Args:
            changed: The paths that have changed.
            tree: The present snapshot.
        """
        self._appended += len(changed)
        if not self._can_append or self._appended > _MIN_APPENDED + _MAX_APPENDED * len(tree):
            self.write(tree)
            return
        part = _make_part(encode_entries(tree, changed))
        self._can_append = False
        with open(self._path, "ab", opener=_open_private) as file:
            file.write(part)
        self._can_append = True

    def read(self) -> Tree:
        """Read the snapshot.

        Raises:
            OSError: There is no snapshot.
            msgspec.DecodeError: The file is damaged.
        """
        return read_tree(self._path)


def read_tree(path: Path) -> Tree:
    """Read a snapshot; the errors are those of ``SavedTree.read``."""
    tree = Tree()
    for part in _split(path.read_bytes()):
        decode_entries(part, tree)
    return tree


def _make_part(data: bytes) -> bytes:
    return len(data).to_bytes(_LENGTH_BYTES, "big") + data


def _split(data: bytes) -> Iterator[bytes]:
    """Yield the parts of a file.

    hilum may have ended while it wrote the last part; no command has begun after this part.
    """
    position = 0
    while position < len(data):
        start = position + _LENGTH_BYTES
        position = start + int.from_bytes(data[position:start], "big")
        if position > len(data):
            return
        yield data[start:position]


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
