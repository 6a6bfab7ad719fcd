"""Looks again at the entries of a tree that inotify named, instead of walking the whole tree."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from typing import NamedTuple

from hilum_files.journal.content_store import ContentStore
from hilum_files.journal.folder_watch import FolderWatch
from hilum_files.journal.tree import (
    Difference,
    HilumPaths,
    SnapshotLimits,
    TreeWalk,
    find_differences,
)
from hilum_files.journal.tree_entries import Tree, TreeEntry, read_stamp


class WalkNeeded(Exception):
    """Raised if only a walk of the whole tree can find what has changed."""


class TreeUpdate(NamedTuple):
    """What has changed in a tree.

    Attributes:
        removed: The paths whose earlier entries no longer hold.
        entries: The present entries of these paths, and of new paths.
        differences: The differences, as ``find_differences`` returns them.
        total: The size of the kept files in the tree, in bytes; too large rather than too small.
    """

    removed: Tree
    entries: Tree
    differences: list[Difference]
    total: int


class PartialWalk(TreeWalk):
    """A check of some entries of a tree; the result is the one that a walk would have.

    Args:
        root: The folder.
        base: The earlier snapshot, which contains all changes before the named ones.
        store: The store of contents.
        limits: The limits of the walk.
        check_cancelled: A function that is called regularly and may raise an exception to end the
            walk.
        own: The entries that hilum itself keeps in the tree.
        watch: The watches of the tree's folders.
        known_links: The files that have several names, as far as they were known earlier.
        total: The size of the kept files in ``base``, in bytes.
    """

    def __init__(
        self,
        root: str,
        base: Tree,
        store: ContentStore,
        limits: SnapshotLimits,
        check_cancelled: Callable[[], object],
        own: HilumPaths,
        watch: FolderWatch,
        known_links: set[str],
        total: int,
    ) -> None:
        super().__init__(root, base, store, limits, check_cancelled, own, watch.add)
        self._folder_watch = watch
        self._known_links = known_links
        self.total = total

    def check(self, named: Mapping[str, bool]) -> TreeUpdate:
        """Return what has changed at some paths.

        Args:
            named: The paths, each with whether a folder is new under this name.

        Raises:
            WalkNeeded: A file has several names, or the limit of the kept content may be exceeded.
            SnapshotTooSlow: The check took too long.
            StoreError: Contents cannot be stored.
        """
        statuses: dict[str, os.stat_result | None] = {}
        folders: set[str] = set()  # these are walked
        replaced: set[str] = set()  # everything below these is replaced
        for name, is_new_folder in named.items():
            status = self._find_status(name)
            statuses[name] = status
            known = self._base.get(name)
            was_folder = known is not None and known.node.kind == "folder"
            if status is None or not stat.S_ISDIR(status.st_mode):
                if was_folder:
                    replaced.add(f"{name}/")
            elif is_new_folder or not was_folder or not self._folder_watch.is_watched(f"{name}/"):
                folders.add(name)
                replaced.add(f"{name}/")
        roots = tuple(replaced)
        if roots:
            # A folder that was moved keeps its watch, which `add` finds again under the new path.
            self._folder_watch.drop(roots)
        removed = self._remove_below(roots)
        for name, status in statuses.items():
            # The walk of the folder above it, which is new, includes this entry.
            if not name.startswith(roots):
                self._check_entry(name, status, removed, is_walked=name in folders)
        self._read_changed()
        self._folder_watch.end_walk()
        if self.hard_linked - self._known_links:
            # Another name of the file may have changed without an event.
            raise WalkNeeded
        if self.total > self._limits.total:
            raise WalkNeeded
        return TreeUpdate(removed, self.tree, find_differences(removed, self.tree), self.total)

    def _find_status(self, name: str) -> os.stat_result | None:
        path = f"{self._root}/{name}"
        try:
            status = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            raise WalkNeeded from None
        if self._has_own and self._is_own(name, path, status):
            return None
        return status

    def _remove_below(self, roots: tuple[str, ...]) -> Tree:
        """Return the earlier entries below some folders."""
        if not roots:
            return Tree()
        return self._base.select(lambda name: name.startswith(roots))

    def _check_entry(
        self, name: str, status: os.stat_result | None, removed: Tree, *, is_walked: bool
    ) -> None:
        known = self._base.get(name)
        if known is not None:
            removed[name] = known
            stamp = read_stamp(known.stamp)
            if stamp is not None and known.node.kind == "file":
                self.total -= stamp.size
        if status is None:
            return
        last_name = name.rpartition("/")[2]
        if not stat.S_ISDIR(status.st_mode):
            self._take_file(name, last_name, status)
            return
        found: TreeEntry = self._take_folder(name, last_name, status)
        self.tree[name] = found
        if is_walked and found.node.kind == "folder":
            self._walk([f"{name}/"])
