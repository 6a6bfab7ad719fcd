"""Takes snapshots of a file tree: content, permissions, links and empty folders.

A snapshot is exact enough for an undo. hilum walks the tree itself in every workspace, because a
version control system records what it would check out (converted line endings, filtered content,
references to large files) instead of the bytes on disk, and ignores some files and all empty
folders. An unchanged file costs one ``stat`` call.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from hilum import cache_folder, config_folder, data_folder

from hilum_files.journal.tree_entries import (
    Node,
    Stamp,
    Tree,
    TreeEntry,
    is_same_content,
    make_inode_stamp,
    make_stamp,
)

if TYPE_CHECKING:
    from hilum_files.journal.content_store import ContentStore

LEFT_OUT = frozenset(
    ".git .hg .svn .jj .bzr node_modules .venv venv __pycache__ .tox .nox .mypy_cache .pytest_cache"
    " .ruff_cache .gradle".split()
)
"""Names of folders that are left out: version control folders, and folders that tools can
recreate."""
CACHE_TAG = "CACHEDIR.TAG"  # marks a cache folder: https://bford.info/cachedir
TEMPORARY = ".hilum-"
HILUM_FOLDER = ".hilum"
# A file that changed just before it was read may change again without new timestamps.
_RACY_NS = 50_000_000
# Some file systems store timestamps in seconds, or in steps of two seconds.
_COARSE_NS = 2_000_000_000
_SECOND_NS = 1_000_000_000
# Number of bytes after which the contents read so far are stored, which limits memory use.
_BATCH_BYTES = 2_000_000
# A walk that is cancelled, because the session closes, waits for at most one batch.
_BATCH_FILES = 500
_FILES_PER_CHECK = 50
# A pipe must not block, and a link that replaced a file must not be followed.
_READ_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)

Difference = tuple[str, Node | None, Node | None]
"""A path, with its earlier and its current node."""


class SnapshotLimits(NamedTuple):
    """The limits of a snapshot: bytes per file, bytes in total, and seconds."""

    file: int = 10_000_000
    total: int = 1_000_000_000
    seconds: float = 6.0


class HilumPaths(NamedTuple):
    """The entries that hilum itself keeps in a tree, by path relative to the root.

    Attributes:
        folders: hilum's data, configuration and cache folders.
        placeholders: Empty folders and files that a sandbox creates where commands must not create
            anything.
    """

    folders: frozenset[str] = frozenset()
    placeholders: frozenset[str] = frozenset()

    def contains(self, name: str) -> bool:
        """Return whether a path is one of hilum's own folders or is below one."""
        return any(name == folder or name.startswith(f"{folder}/") for folder in self.folders)

    def remove_from(self, tree: Tree) -> Tree:
        """Return a tree without hilum's own folders, which older versions recorded."""
        if self.folders:
            return tree.select(lambda name: not self.contains(name))
        return tree


def find_hilum_folders(root: str) -> frozenset[str]:
    """Return the paths of hilum's own folders below a folder, relative to this folder. Blocks."""
    folders = (data_folder(), config_folder(), cache_folder())
    return frozenset(_relative_to(root, map(os.path.realpath, folders)))


def find_hilum_paths(root: str) -> HilumPaths:
    """Return the entries that hilum itself keeps below a folder. Blocks."""
    placeholders: list[str] = []
    with suppress(OSError):
        # Each file in the folder `masks` contains a path that the sandbox created.
        for record in (data_folder() / "masks").iterdir():
            with suppress(OSError):
                placeholders.append(os.fsdecode(record.read_bytes()))
    return HilumPaths(find_hilum_folders(root), frozenset(_relative_to(root, placeholders)))


def _relative_to(root: str, paths: Iterable[str]) -> Iterator[str]:
    """Yield the paths below a folder, relative to this folder."""
    start = root.rstrip("/") + "/"
    for path in paths:
        if path.startswith(start) and path != start:
            yield path[len(start) :]


def is_empty(path: str, status: os.stat_result) -> bool:
    """Return whether a path is an empty file or folder."""
    if not stat.S_ISDIR(status.st_mode):
        return stat.S_ISREG(status.st_mode) and not status.st_size
    try:
        return not os.listdir(path)
    except OSError:
        return False


class SnapshotTooSlow(Exception):
    """Raised if the tree cannot be walked within the time limit."""


def node_at(path: str | os.PathLike[str], keep: Callable[[bytes], str]) -> Node | None:
    """Return the node at a path.

    Args:
        path: The path.
        keep: A function that stores the content of a file, or the target of a link, and returns the
            hash.

    Raises:
        OSError: The path cannot be read.
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
        # A pipe, a socket or a device has no content to keep.
        return Node("file", mode, f"?special {status.st_ino}")
    with open(path, "rb", opener=_open_unfollowed) as file:
        return Node("file", mode, keep(file.read()))


def _open_unfollowed(path: str, _: int) -> int:
    return os.open(path, _READ_FLAGS)


def _read_open_file(file: int, size: int, limit: int) -> bytes:
    """Return the content of an open file, up to a limit.

    Args:
        file: The descriptor.
        size: The size that the file had a moment ago, in bytes.
        limit: The maximum number of bytes to read.
    """
    data = os.read(file, min(size + 1, limit))
    # A read may return less than was asked for, and the file may grow.
    while len(data) < limit and (more := os.read(file, limit - len(data))):
        data += more
    return data


class TreeWalk:
    """One walk over a tree that starts from an earlier snapshot.

    Args:
        root: The folder.
        base: The earlier snapshot; a file with the same timestamps and numbers is not read again.
        store: The store of contents.
        limits: The limits of the walk.
        check_cancelled: A function that is called regularly and may raise an exception to end the
            walk.
        own: The entries that hilum itself keeps in the tree, which are left out.
        watch: A function that is called with each folder's path, which ends in a slash or is empty,
            before the folder is read.

    Attributes:
        tree: The entries found so far.
        hard_linked: The files that have several names.
        total: The size of the files in the tree whose content is kept, in bytes.
    """

    def __init__(
        self,
        root: str,
        base: Tree,
        store: ContentStore,
        limits: SnapshotLimits,
        check_cancelled: Callable[[], object] = lambda: None,
        own: HilumPaths | None = None,
        watch: Callable[[str], object] = lambda prefix: None,
    ) -> None:
        self._watch = watch
        self._own = own or HilumPaths()
        # Most trees contain no entries that hilum keeps, and checking each path takes 5 % of a
        # walk.
        self._has_own = bool(self._own.folders or self._own.placeholders)
        self._root = root
        self._base = base
        self._store = store
        self._limits = limits
        self._check_cancelled = check_cancelled
        # The next walk rereads a file whose timestamps are near this moment or later.
        self._began_ns = time.time_ns()
        self._deadline = time.monotonic() + limits.seconds
        self._device = os.stat(root).st_dev
        self.tree = Tree()
        self.hard_linked: set[str] = set()
        self.total = 0
        # Only the names are kept until the files are read: 100,000 statuses would take 60 MB.
        self._changed: list[str] = []
        self._batch: list[tuple[str, Node, Stamp, bytes]] = []
        self._batch_bytes = 0

    def run(self) -> Tree:
        """Walk over all folders, then read new and changed files.

        Raises:
            SnapshotTooSlow: The walk took too long.
            StoreError: Contents cannot be stored.
        """
        self._walk([""])
        self._read_changed()
        return self.tree

    def _walk(self, folders: list[str]) -> None:
        """Add the entries of folders and of their subfolders to the tree."""
        while folders:
            self._check_cancelled()
            if time.monotonic() > self._deadline:
                raise SnapshotTooSlow(
                    f"a snapshot of the workspace took longer than {self._limits.seconds:g} seconds"
                )
            prefix = folders.pop()
            # A change after this line is reported, and a change before it is seen.
            self._watch(prefix)
            folders += self._walk_folder(prefix)

    def _read_changed(self) -> None:
        for number, name in enumerate(self._changed):
            if number % _FILES_PER_CHECK == 0:
                self._check_cancelled()
            self._read(name)
        self._flush()

    # --- folders ----------------------------------------------------------------------------------

    def _walk_folder(self, prefix: str) -> Iterator[str]:
        """Add the entries of a folder to the tree, and yield its subfolders to walk."""
        try:
            entries = os.scandir(f"{self._root}/{prefix}")
        except PermissionError:
            # The folder's content is unknown, which must not look like a deletion.
            for name in self._base:
                if name.startswith(prefix):
                    self.tree.copy_entry(name, self._base)
            return
        except OSError:
            return
        with entries:
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                name = prefix + entry.name
                if self._has_own and self._is_own(name, entry.path, status):
                    continue
                if stat.S_ISDIR(status.st_mode):
                    found = self._take_folder(name, entry.name, status)
                    self.tree[name] = found
                    if found.node.kind == "folder":
                        yield f"{name}/"
                else:
                    self._take_file(name, entry.name, status)

    def _is_own(self, name: str, path: str, status: os.stat_result) -> bool:
        if self._own.contains(name):
            return True
        return name in self._own.placeholders and is_empty(path, status)

    def _take_file(self, name: str, last_name: str, status: os.stat_result) -> None:
        """Copy an unchanged file's entry from the base, or plan to read the file."""
        if stat.S_ISLNK(status.st_mode):
            self._changed.append(name)
        elif stat.S_ISREG(status.st_mode):
            if status.st_nlink > 1:
                self.hard_linked.add(name)
            if self.tree.copy_if_unchanged(name, self._base, make_stamp(status)):
                self.total += status.st_size
            # `replace_file` is about to rename or remove such a file.
            elif not last_name.startswith(TEMPORARY):
                self._changed.append(name)

    def _take_folder(self, name: str, last_name: str, status: os.stat_result) -> TreeEntry:
        known = self._base.get(name)
        if self._is_left_out(name, last_name, status, known):
            return TreeEntry(Node("skipped"), make_inode_stamp(status))
        node = Node("folder", stat.S_IMODE(status.st_mode))
        if known is not None and known.node == node:
            return known
        return TreeEntry(node)

    def _is_left_out(
        self, name: str, last_name: str, status: os.stat_result, known: TreeEntry | None
    ) -> bool:
        if known is not None and known.node.kind == "folder":
            # A cache tag that appears later must not make all files look deleted.
            return False
        # A folder stays left out even if its cache tag is removed; otherwise, all of its files
        # would appear to be new.
        if known is not None and known == TreeEntry(Node("skipped"), make_inode_stamp(status)):
            return True
        # A folder on another device is a mount point, which may be slow or very large.
        if last_name in LEFT_OUT or status.st_dev != self._device:
            return True
        return os.path.exists(f"{self._root}/{name}/{CACHE_TAG}")

    # --- contents ---------------------------------------------------------------------------------

    def _read(self, name: str) -> None:
        """Read a file or link; a file whose content is not kept gets a stand-in for its hash."""
        path = f"{self._root}/{name}"
        try:
            file = os.open(path, _READ_FLAGS)
        except FileNotFoundError:
            return  # it was deleted meanwhile
        except OSError:
            self._read_unopened(name, path)
            return
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                return
            if self._may_keep(status):
                data = _read_open_file(file, status.st_size, self._limits.file + 1)
                self.total += status.st_size
                is_settled = len(data) == status.st_size and self._is_settled(status)
                stamp = make_stamp(status) if is_settled else b""
                self._add(name, Node("file", stat.S_IMODE(status.st_mode)), stamp, data)
                return
        except OSError:
            pass
        finally:
            os.close(file)
        self._take_unkept(name, status)

    def _read_unopened(self, name: str, path: str) -> None:
        """Read a link, or copy the entry of a file that cannot be read."""
        try:
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                self._add(name, Node("link"), b"", os.fsencode(os.readlink(path)))
                return
        except OSError:
            return  # it was deleted meanwhile
        if stat.S_ISREG(status.st_mode):
            self._take_unkept(name, status)

    def _take_unkept(self, name: str, status: os.stat_result) -> None:
        """Add the entry of a file whose content is not kept."""
        if self._take_unreadable(name, status):
            return
        mode = stat.S_IMODE(status.st_mode)
        stand_in = f"?{status.st_size}.{status.st_mtime_ns}.{status.st_ino}"
        self.tree[name] = TreeEntry(Node("file", mode, stand_in))

    def _may_keep(self, status: os.stat_result) -> bool:
        """Return whether the limits allow to keep a file's content."""
        if status.st_size > self._limits.file:
            return False
        if self.total + status.st_size > self._limits.total:
            return False
        return time.monotonic() <= self._deadline

    def _take_unreadable(self, name: str, status: os.stat_result) -> bool:
        """Copy an unreadable file's entry from the base if its content is unchanged."""
        known = self._base.get(name)
        if known is None or not is_same_content(known.stamp, status):
            return False
        node = msgspec.structs.replace(known.node, mode=stat.S_IMODE(status.st_mode))
        self.tree[name] = TreeEntry(node, known.stamp)
        return True

    def _add(self, name: str, node: Node, stamp: Stamp, data: bytes) -> None:
        """Add an entry, whose node gets its hash when the content is stored."""
        self._batch.append((name, node, stamp, data))
        self._batch_bytes += len(data)
        if self._batch_bytes > _BATCH_BYTES or len(self._batch) >= _BATCH_FILES:
            self._flush()

    def _flush(self) -> None:
        """Store the contents read so far in one transaction, which is faster than using many."""
        self._check_cancelled()
        if not self._batch:
            return
        hashes = self._store.put(data for _, _, _, data in self._batch)
        for (name, node, stamp, _), hashed in zip(self._batch, hashes, strict=True):
            self.tree[name] = TreeEntry(Node(node.kind, node.mode, hashed), stamp)
        self._batch = []
        self._batch_bytes = 0

    def _is_settled(self, status: os.stat_result) -> bool:
        """Return whether a later change to a file would change its timestamps."""
        changed = max(status.st_mtime_ns, status.st_ctime_ns) + _RACY_NS
        # The file system's timestamps are coarse, or this one was copied from another file.
        if status.st_mtime_ns % _SECOND_NS == 0:
            changed += _COARSE_NS
        return changed < self._began_ns


def find_differences(before: Tree, after: Tree) -> list[Difference]:
    """Return the paths that differ, sorted, each with its earlier and its current node.

    The folder ``.hilum`` is not a difference: a sandbox creates it temporarily to keep commands
    from creating it.
    """
    found: list[Difference] = []
    for name in after.find_differing(before):
        old = node_of(name, before.get(name))
        new = node_of(name, after.get(name))
        if old != new:
            found.append((name, old, new))
    return sorted(found, key=lambda difference: difference[0])


def node_of(name: str, entry: TreeEntry | None) -> Node | None:
    """Return the node of an entry; ``None`` if it is missing or is the folder ``.hilum``."""
    if entry is None:
        return None
    if name == HILUM_FOLDER and entry.node.kind == "folder":
        return None
    return entry.node
