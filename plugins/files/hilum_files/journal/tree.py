"""What a tree of files holds, as exact as an undo needs it: content, permissions, links, empty
folders.

A walk of our own, for every workspace alike. What a version control system knows of a file is what
it would check out (line ends, filters, large files elsewhere), not the bytes that are there; it
knows nothing of ignored files and empty folders. An unchanged file costs one ``stat``.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec
from hilum import cache_folder, config_folder, data_folder

if TYPE_CHECKING:
    from hilum_files.journal.objects import Objects

# Left out by name: version control, and what tools make anew. Others mark their folders with a file
# CACHEDIR.TAG.
LEFT_OUT = frozenset(
    ".git .hg .svn .jj .bzr node_modules .venv venv __pycache__ .tox .nox .mypy_cache .pytest_cache"
    " .ruff_cache .gradle".split()
)
TAG = "CACHEDIR.TAG"
TEMPORARY = ".hilum-"
OWN = ".hilum"
# Ns; a file that was changed so shortly before it was read may change again and keep its times
_RACY = 50_000_000
_BATCH_BYTES = 8_000_000
_READ = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)

Kind = Literal["file", "link", "folder", "skipped"]
Stamp = tuple[int, ...]


class Node(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is at a path.

    Args:
        kind: ``skipped`` is a folder that is not looked into.
        mode: Permissions of a file or folder.
        hash: Names the content of a file, or the target of a link. One that begins with ``?``
            stands for a content that was not kept (too large, not readable): it can be compared and
            not restored.
    """

    kind: Kind
    mode: int = 0
    hash: str = ""

    @property
    def kept(self) -> bool:
        """Whether it can be restored."""
        return self.kind != "skipped" and not self.hash.startswith("?")


class Found(NamedTuple):
    """A node, and the times and numbers by which the next walk knows that it is the same (none:
    look again).
    """

    node: Node
    stamp: Stamp


Tree = dict[str, Found]
Difference = tuple[str, Node | None, Node | None]


class Limits(NamedTuple):
    """What a snapshot may cost: bytes of one file, bytes of all, seconds."""

    file: int = 10_000_000
    total: int = 1_000_000_000
    seconds: float = 6.0


class Own(NamedTuple):
    """What hilum itself keeps in a tree, by path relative to the root.

    Attributes:
        folders: Its folders of data, configuration and caches.
        placeholders: Empty folders and files that a sandbox puts where nothing may be made.
    """

    folders: frozenset[str]
    placeholders: frozenset[str]

    def has(self, name: str) -> bool:
        """Return whether a path is one of the folders or below one."""
        return any(name == folder or name.startswith(f"{folder}/") for folder in self.folders)

    def without(self, tree: Tree) -> Tree:
        """Return a tree without the folders: an older hilum kept them."""
        if self.folders:
            return {name: found for name, found in tree.items() if not self.has(name)}
        return tree


def find_own_folders(root: str) -> frozenset[str]:
    """Find the folders that hilum itself keeps below a folder, by path relative to it.

    Looks at the disk.
    """
    folders = (
        os.path.realpath(folder) for folder in (data_folder(), config_folder(), cache_folder())
    )
    return frozenset(_below(root, folders))


def find_own(root: str) -> Own:
    """Find what hilum itself keeps below a folder. Looks at the disk."""
    placeholders = list[str]()
    with suppress(OSError):
        for record in (data_folder() / "masks").iterdir():  # each names what the sandbox put down
            with suppress(OSError):
                placeholders.append(os.fsdecode(record.read_bytes()))
    return Own(find_own_folders(root), frozenset(_below(root, placeholders)))


def _below(root: str, paths: Iterable[str]) -> Iterator[str]:
    start = root.rstrip("/") + "/"
    return (path[len(start) :] for path in paths if path.startswith(start) and path != start)


def _is_empty(path: str, status: os.stat_result) -> bool:
    """Return whether a path is an empty file or folder."""
    if not stat.S_ISDIR(status.st_mode):
        return stat.S_ISREG(status.st_mode) and not status.st_size
    try:
        return not os.listdir(path)
    except OSError:
        return False


class TooLarge(Exception):
    """The tree cannot be walked in the time there is."""


def node_at(path: str | os.PathLike[str], keep: Callable[[bytes], str]) -> Node | None:
    """Look at one path.

    Args:
        path: Where.
        keep: Gets a file's content, or a link's target, and names it.

    Raises:
        OSError: It cannot be read.
    """
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISDIR(status.st_mode):
        return Node("folder", mode)
    if stat.S_ISLNK(status.st_mode):
        return Node("link", 0, keep(os.fsencode(os.readlink(path))))
    if not stat.S_ISREG(status.st_mode):
        return Node("file", mode, f"?special {status.st_ino}")
    with open(path, "rb", opener=lambda name, _: os.open(name, _READ)) as file:
        return Node("file", mode, keep(file.read()))


class Walk:
    """One look at a tree, with what an earlier one knew.

    Args:
        root: The folder.
        base: The tree as it was known; what has the same times and numbers is not read again.
        objects: Keeps contents.
        limits: What it may cost.
        alive: Called now and then; may raise to end the walk.
        own: What is hilum's own in the tree, and left out.

    Attributes:
        tree: What was found, by path relative to the root.
        left: Paths whose content was not kept, and why.
    """

    def __init__(
        self,
        root: str,
        base: Tree,
        objects: Objects,
        limits: Limits,
        alive: Callable[[], object] = lambda: None,
        own: Own | None = None,
    ) -> None:
        self._own = own or Own(frozenset(), frozenset())
        self._root = root
        self._base = base
        self._objects = objects
        self._limits = limits
        self._alive = alive
        self._began = time.time_ns()
        self._until = time.monotonic() + limits.seconds
        self._device = os.stat(root).st_dev
        self.tree: Tree = {}
        self.left: dict[str, str] = {}
        self._total = 0
        self._fresh: list[tuple[str, os.stat_result]] = []
        self._batch: list[tuple[str, os.stat_result, bytes]] = []
        self._batched = 0

    def run(self) -> Tree:
        """Walk, then read what is new.

        Raises:
            TooLarge: The time was over before everything was seen.
            StoreError: Contents cannot be kept.
        """
        folders = [""]
        while folders:
            self._alive()
            if time.monotonic() > self._until:
                raise TooLarge(f"more than {len(self.tree):,} files and folders")
            folders += self._folder(folders.pop())
        for name, status in self._fresh:
            self._read(name, status)
        self._flush()
        return self.tree

    def _folder(self, prefix: str) -> Iterator[str]:
        """Look at the entries of a folder; gives the folders in it to walk."""
        base = self._base
        tree = self.tree
        try:
            entries = os.scandir(self._root + "/" + prefix)
        except PermissionError:  # nothing is known, which must not look as if nothing were there
            tree.update((name, found) for name, found in base.items() if name.startswith(prefix))
            return
        except OSError:
            return
        with entries:
            for entry in entries:
                name = prefix + entry.name
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                mode = status.st_mode
                if self._own.has(name) or (
                    name in self._own.placeholders and _is_empty(entry.path, status)
                ):
                    continue
                if stat.S_ISREG(mode):
                    stamp = (
                        mode,
                        status.st_mtime_ns,
                        status.st_ctime_ns,
                        status.st_size,
                        status.st_ino,
                    )
                    known = base.get(name)
                    if known is not None and known.stamp == stamp:
                        tree[name] = known
                        self._total += status.st_size
                    elif not entry.name.startswith(TEMPORARY):
                        self._fresh.append((name, status))
                elif stat.S_ISDIR(mode):
                    tree[name] = found = self._found_folder(name, entry.name, status)
                    if found.node.kind == "folder":
                        yield name + "/"
                elif stat.S_ISLNK(mode):
                    self._fresh.append((name, status))

    def _found_folder(self, name: str, last: str, status: os.stat_result) -> Found:
        known = self._base.get(name)
        if known is not None and known.node.kind == "folder":
            skip = (
                False  # a mark that appears later must not look like the end of all that is in it
            )
        elif known is not None and known.node.kind == "skipped" and known.stamp == (status.st_ino,):
            skip = True
        else:
            skip = (
                last in LEFT_OUT
                or status.st_dev != self._device
                or os.path.exists(f"{self._root}/{name}/{TAG}")
            )
        if skip:
            self.left[name + "/"] = "left out"
            return Found(Node("skipped"), (status.st_ino,))
        mode = stat.S_IMODE(status.st_mode)
        same = known is not None and known.node.kind == "folder" and known.node.mode == mode
        if same and known is not None:
            return known
        return Found(Node("folder", mode), ())

    def _read(self, name: str, status: os.stat_result) -> None:
        path = f"{self._root}/{name}"
        if stat.S_ISLNK(status.st_mode):
            with suppress(OSError):
                self._add(name, status, os.fsencode(os.readlink(path)))
            return
        why = ""
        if status.st_size > self._limits.file:
            why = f"larger than {self._limits.file:,} bytes"
        elif self._total + status.st_size > self._limits.total:
            why = f"the files before it have {self._limits.total:,} bytes"
        elif time.monotonic() > self._until:
            why = "the time was over"
        else:
            self._total += status.st_size
            try:
                with open(path, "rb", opener=lambda name, _: os.open(name, _READ)) as file:
                    # Not those of the walk: it may have changed since.
                    self._add(name, os.fstat(file.fileno()), file.read(self._limits.file + 1))
                return
            except FileNotFoundError:
                return
            except OSError as error:
                why = error.strerror or "cannot be read"
                known = self._base.get(name)
                # What may not be read any more can still be known to be what it was.
                if known is not None and (known.stamp[1:2], known.stamp[3:]) == (
                    (status.st_mtime_ns,),
                    _rest(status),
                ):
                    node = msgspec.structs.replace(known.node, mode=stat.S_IMODE(status.st_mode))
                    self.tree[name] = Found(node, known.stamp)
                    return
        stamp = f"?{status.st_size}.{status.st_mtime_ns}.{status.st_ino}"
        self.tree[name] = Found(Node("file", stat.S_IMODE(status.st_mode), stamp), ())
        self.left[name] = why

    def _add(self, name: str, status: os.stat_result, data: bytes) -> None:
        self._batch.append((name, status, data))
        self._batched += len(data)
        if self._batched > _BATCH_BYTES:
            self._flush()

    def _flush(self) -> None:
        self._alive()
        if self._batch:
            hashes = self._objects.put(data for _, _, data in self._batch)
        else:
            hashes = []
        for (name, status, data), hashed in zip(self._batch, hashes, strict=True):
            if stat.S_ISLNK(status.st_mode):
                self.tree[name] = Found(Node("link", 0, hashed), ())
                continue
            stamp = (
                status.st_mode,
                status.st_mtime_ns,
                status.st_ctime_ns,
                status.st_size,
                status.st_ino,
            )
            coarse = (
                status.st_mtime_ns % 1_000_000_000 == 0
            )  # a file system that knows seconds only, or a copied time
            last = max(status.st_mtime_ns, status.st_ctime_ns) + _RACY + coarse * 2_000_000_000
            sure = last < self._began and len(data) == status.st_size
            self.tree[name] = Found(
                Node("file", stat.S_IMODE(status.st_mode), hashed), stamp if sure else ()
            )
        self._batch = []
        self._batched = 0


def _rest(status: os.stat_result) -> Stamp:
    return status.st_size, status.st_ino


def differences(before: Tree, after: Tree) -> list[Difference]:
    """Return each path that differs, with what was and what is there, sorted.

    A folder ``.hilum`` alone is no difference: a sandbox makes it for as long as it must not be
    made by a command.
    """
    found: list[Difference] = []
    before = {
        name: was for name, was in before.items() if not (name == OWN and was.node.kind == "folder")
    }
    for name, now in after.items():
        if name == OWN and now.node.kind == "folder":
            continue
        was = before.get(name)
        if was is not now and (was is None or was.node != now.node):
            found.append((name, was.node if was else None, now.node))
    found += [(name, was.node, None) for name, was in before.items() if name not in after]
    return sorted(found, key=lambda change: change[0])


def encode(tree: Tree) -> bytes:
    """Write a tree as bytes."""
    return msgspec.msgpack.encode(
        [(os.fsencode(name), found.node, found.stamp) for name, found in tree.items()]
    )


def decode(data: bytes) -> Tree:
    """Read what ``encode`` wrote.

    Raises:
        msgspec.DecodeError: It is something else.
    """
    rows = msgspec.msgpack.decode(data, type=list[tuple[bytes, Node, tuple[int, ...]]])
    return {os.fsdecode(name): Found(node, stamp) for name, node, stamp in rows}
