"""Takes snapshots of a session's workspace to find the changes that commands make."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence, Set
from pathlib import Path

import msgspec
from hilum import HilumError, errors

from hilum_files.journal.content_store import hash_content
from hilum_files.journal.folder_watch import FolderWatch
from hilum_files.journal.journal import Journal, contents_folder
from hilum_files.journal.partial_walk import PartialWalk, WalkNeeded
from hilum_files.journal.records import CHANGED, Change, Record, spell_path, unspell_path
from hilum_files.journal.saved_trees import SavedTree, read_tree
from hilum_files.journal.shared_changes import subtract_others
from hilum_files.journal.tracked_workspace import lock_workspace, try_workspace_lock
from hilum_files.journal.tree import (
    Difference,
    HilumPaths,
    SnapshotLimits,
    SnapshotTooSlow,
    TreeWalk,
    find_differences,
    find_hilum_paths,
    is_empty,
)
from hilum_files.journal.tree_entries import Tree, TreeEntry, make_stamp
from hilum_files.journal.unused_memory import return_unused_memory

SNAPSHOT_ERRORS = (SnapshotTooSlow, HilumError, OSError)
# Named paths up to which the whole tree is not walked, in addition to a tenth of the tree.
_MAX_NAMED = 1_000
# Named paths that are compared without a thread.
_MAX_QUICK = 50


def _continue() -> None:
    """Do not cancel."""


class Snapshots:
    """The last snapshot of a workspace. All methods block, except ``is_unchanged``.

    A snapshot is a walk of the whole tree, or only a check of what inotify has named since the
    previous snapshot. ``FolderWatch`` says what inotify does not report; then the tree is walked.

    Args:
        journal: The session's journal.
        session: Id of the session.
        limits: The limits on the size and time of a snapshot.
        incremental: Whether a snapshot may check only the paths that inotify has reported.
        may_miss: A function that returns whether processes run whose changes inotify may report
            late, because they may write through memory mappings.
    """

    def __init__(
        self,
        journal: Journal,
        session: str,
        limits: SnapshotLimits,
        *,
        incremental: bool = False,
        may_miss: Callable[[], bool] = lambda: False,
    ) -> None:
        self._journal = journal
        self._session = session
        self._limits = limits
        self._root = journal.workspace.root
        self._watch = FolderWatch(str(self._root)) if incremental else None
        self._may_miss = may_miss
        self._tree: Tree | None = None
        self._hard_linked: set[str] = set()
        self._placeholders: frozenset[str] = frozenset()
        self._total = 0
        self._saved = SavedTree(self._folder, session)
        self._is_saved = False
        self._is_unconfirmed = False
        self._missed: list[Change] = []
        # What has changed since the snapshot was saved.
        self._unsaved: set[str] = set()
        # Number of the last change that any session made before the last snapshot.
        self._last_number = 0

    def take(
        self,
        check_cancelled: Callable[[], object] = _continue,
        *,
        save: bool = False,
    ) -> list[Difference]:
        """Take a snapshot, and return its differences from the previous one.

        Args:
            check_cancelled: A function that is called regularly and may raise an exception to end
                the walk.
            save: Whether to write the snapshot to disk.

        Raises:
            SnapshotTooSlow: The snapshot takes too long.
            HilumError: Contents cannot be stored, or another session holds the lock.
        """
        # While the lock is held, no session is in the middle of a change.
        with self._journal.tree_lock, lock_workspace(self._root):
            differences = self._take(check_cancelled)
            if save:
                self._save()
            return differences

    def take_ahead(self, check_cancelled: Callable[[], object]) -> None:
        """Take the first snapshot while no command is about to begin, and write it to disk.

        The walk, which takes most of the time, does not hold the locks: what others change meanwhile
        is named by inotify, and checked under the locks. Without inotify, nothing is done, because
        the next snapshot would be a walk, too.

        Args:
            check_cancelled: A function that is called regularly and may raise an exception to end
                the walk.

        Raises:
            SnapshotTooSlow: The snapshot takes too long.
            HilumError: Contents cannot be stored, or another session holds the lock.
        """
        if self._watch is None or self._tree is not None:
            return
        self._walk_tree(check_cancelled, find_hilum_paths(str(self._root)))
        with self._journal.tree_lock, lock_workspace(self._root):
            self._take(check_cancelled)
            self._save()
        # The walk of a large tree used memory that nothing needs now.
        self._journal.store.release_memory()
        return_unused_memory()

    def _take(self, check_cancelled: Callable[[], object]) -> list[Difference]:
        """Take a snapshot. The caller holds the locks."""
        own = find_hilum_paths(str(self._root))
        differences = None
        named = self._collect_names()
        if named is not None and not self._may_miss():
            differences = self._check_named(check_cancelled, own)
        if differences is None:
            was_unconfirmed = self._is_unconfirmed
            differences = self._walk(check_cancelled, own)
            if was_unconfirmed and named is not None and self._watch is not None:
                named |= self._watch.outdated
                self._missed += self._select_unnamed(differences, named)
        self._placeholders = own.placeholders
        # The number is read under the lock, so that no change can happen between the snapshot and
        # its number.
        self._last_number = self._journal.shared.last_number()
        return differences

    def _walk(self, check_cancelled: Callable[[], object], own: HilumPaths) -> list[Difference]:
        """Walk the whole tree, and return the differences."""
        before, after = self._walk_tree(check_cancelled, own)
        differences = find_differences(before, after)
        self._unsaved.update(name for name, _, _ in differences)
        return differences

    def _walk_tree(
        self, check_cancelled: Callable[[], object], own: HilumPaths
    ) -> tuple[Tree, Tree]:
        """Walk the whole tree, and return the previous snapshot and the new one."""
        known = self._load_newest() if self._tree is None else self._tree
        before = own.remove_from(known)
        watch = self._watch
        if watch is not None:
            watch.begin_walk()
        add = watch.add if watch is not None else lambda prefix: None
        walk = TreeWalk(
            str(self._root), before, self._journal.store, self._limits, check_cancelled, own, add
        )
        try:
            tree = walk.run()
        except BaseException:
            if watch is not None:
                watch.reliable = False
            raise
        if watch is not None:
            watch.end_walk()
        self._tree = tree
        self._hard_linked = walk.hard_linked
        self._total = walk.total
        self._is_unconfirmed = False
        return before, tree

    # --- with inotify -----------------------------------------------------------------------------

    def _collect_names(self) -> set[str] | None:
        """Return the paths that events have named since the last snapshot.

        The result is ``None`` if something else may have changed, too.
        """
        watch = self._watch
        if watch is None or self._tree is None or not watch.reliable:
            return None
        watch.collect()
        return set(watch.named) if watch.reliable else None

    def _select_unnamed(self, differences: list[Difference], named: Set[str]) -> list[Change]:
        """Return the differences that no event named, before or during the walk that found them."""
        watch = self._watch
        if watch is None:
            return []
        watch.collect()
        unnamed: list[Change] = []
        for path, before, after in differences:
            if not _is_named(path, named) and not _is_named(path, watch.named):
                unnamed.append(Change(spell_path(path), before, after))
        return unnamed

    def pop_missed(self) -> list[Change]:
        """Return the changes that no event reported before a snapshot that had to be a walk."""
        missed = self._missed
        self._missed = []
        return missed

    def _check_named(
        self, check_cancelled: Callable[[], object], own: HilumPaths
    ) -> list[Difference] | None:
        """Check what inotify has named, and return the differences; ``None`` to walk instead."""
        watch = self._watch
        tree = self._tree
        if watch is None or tree is None:
            return None
        named = dict(watch.named)
        # A file with several names may have changed under a name that is not watched. Empty folders
        # that a sandbox created are not watched either.
        for name in self._hard_linked | self._placeholders | own.placeholders:
            named.setdefault(name, False)
        if len(named) > _MAX_NAMED + len(tree) // 10:
            return None
        walk = PartialWalk(
            str(self._root),
            tree,
            self._journal.store,
            self._limits,
            check_cancelled,
            own,
            watch,
            self._hard_linked,
            self._total,
        )
        watch.named.clear()
        try:
            update = walk.check(named)
        except WalkNeeded:
            return None
        except BaseException:
            watch.reliable = False  # the names are lost
            raise
        for name in update.removed:
            if name not in update.entries:
                tree.pop(name, None)
                self._hard_linked.discard(name)
        tree.copy_all(update.entries)
        self._total = update.total
        self._is_unconfirmed = True
        self._unsaved.update(name for name, _, _ in update.differences)
        return update.differences

    def is_unchanged(self) -> bool:
        """Return whether inotify confirms that nothing has changed since the last snapshot.

        This takes a few microseconds, so no thread is needed; it never waits.
        """
        if not self._is_saved or self._unsaved:
            return False
        if not self._journal.tree_lock.acquire(blocking=False):
            return False
        try:
            with try_workspace_lock(self._root) as is_locked:
                if not is_locked or self._may_miss() or self._collect_names() is None:
                    return False
                return self._forget_unchanged()
        finally:
            self._journal.tree_lock.release()

    def _forget_unchanged(self) -> bool:
        """Forget the named paths whose entries are as they were; return whether that is all."""
        watch = self._watch
        tree = self._tree
        if watch is None or tree is None:
            return False
        names = {*watch.named, *self._hard_linked, *self._placeholders}
        if len(names) > _MAX_QUICK:
            return False
        for name in names:
            if not self._is_entry_unchanged(name, tree.get(name)):
                return False
        watch.named.clear()
        self._is_unconfirmed = True
        return True

    def _is_entry_unchanged(self, name: str, known: TreeEntry | None) -> bool:
        try:
            status = os.lstat(self._root / name)
        except (FileNotFoundError, NotADirectoryError):
            return known is None
        except OSError:
            return False
        if known is None:
            return name in self._placeholders and is_empty(os.fspath(self._root / name), status)
        if known.stamp != make_stamp(status):
            return False
        # A new name of a file may be anywhere in the tree.
        return status.st_nlink == 1 or name in self._hard_linked

    def close(self) -> None:
        """Stop watching the workspace."""
        if self._watch is not None:
            self._watch.close()

    def find_changes(self, began: float) -> list[Change]:
        """Take a snapshot, and return the differences that no other session made.

        Args:
            began: When the command began, as Unix time in seconds.
        """
        # Read this number before `take`, which replaces it.
        since = self._last_number
        changes: list[Change] = []
        differences = self.take()
        # They are among the differences, and earlier commands cannot be told from this one.
        self.pop_missed()
        for path, before, after in differences:
            found = Change(spell_path(path), before, after)
            others = self._journal.shared.since(since, found.path)
            # If two commands overlap, either may have made the change, so both sessions record it.
            # A change by a file tool, or by a command that ran entirely within this one, was
            # certainly not made by this command.
            certain = [other for other in others if other.began >= began]
            changes += subtract_others(found, certain)
        return changes

    @property
    def is_unconfirmed(self) -> bool:
        """Whether changes may have been missed since the whole tree was walked."""
        return self._is_unconfirmed

    def find_missed_changes(self, check_cancelled: Callable[[], object]) -> list[Change]:
        """Walk the whole tree, and return the differences that inotify did not name.

        The walk does not hold the locks, so that it keeps nobody from changing files.

        Args:
            check_cancelled: A function that is called regularly, and must raise an exception if a
                command has begun.
        """
        with self._journal.tree_lock, lock_workspace(self._root):
            # A command that begins after this line takes its own snapshot after this one.
            check_cancelled()
            self._take(_continue)
            tree = self._tree
            watch = self._watch
            if tree is None or watch is None or not self._is_unconfirmed:
                return self.pop_missed()  # the snapshot was a walk
            base = tree.copy()
        own = find_hilum_paths(str(self._root))
        walk = TreeWalk(
            str(self._root), base, self._journal.store, self._limits, check_cancelled, own
        )
        found = walk.run()
        with self._journal.tree_lock, lock_workspace(self._root):
            check_cancelled()
            if self._collect_names() is None:
                return []  # others have changed so much that nothing can be told apart
            # What events name was changed by the user or a tool during the walk.
            missed = self._select_unnamed(find_differences(base, found), set())
            for change in missed:
                path = unspell_path(change.path)
                if path in found:
                    tree.copy_entry(path, found)
                else:
                    tree.pop(path, None)
                self._unsaved.add(path)
                if any(node.kind == "folder" for node in change.nodes()):
                    watch.reliable = False  # the folders that are watched are not those there are
            if walk.hard_linked - self._hard_linked:
                watch.reliable = False
            self._is_unconfirmed = False
            return self.pop_missed() + missed

    def apply(self, changes: Sequence[Change]) -> None:
        """Add recorded changes to the last snapshot, so that no command appears to make them."""
        if self._tree is None:
            return
        for change in changes:
            name = unspell_path(change.path)
            if change.after is None:
                self._tree.pop(name, None)
            else:
                self._tree[name] = TreeEntry(change.after)
            self._unsaved.add(name)

    def recover(self) -> None:
        """Record the outcome of changes and commands that were interrupted when hilum ended."""
        ledger = self._journal.ledger
        if not ledger.is_interrupted:
            return
        with self._journal.tree_lock, lock_workspace(self._root):
            self._journal.finish_interrupted()
        commands = sorted(ledger.commands.values(), key=lambda command: command.seq)
        pending = [command for command in commands if ledger.has_started(command)]
        for command in commands:
            if command not in pending:  # hilum ended while the call waited for approval
                self._journal.emit(command.to_event(CHANGED))
        if not pending:
            return
        changes: list[Change] = []
        problem = ""
        try:
            if any(not command.unprotected for command in pending):
                changes = self._find_changes_since(pending[0])
        except (*SNAPSHOT_ERRORS, msgspec.DecodeError) as error:
            problem = errors.end_once(f"Its changes are unknown: {error}.")
        # The changes cannot be distinguished, so they are attributed to the last command.
        for command in reversed(pending):
            problem = command.unprotected or problem
            record = msgspec.structs.replace(
                command, changes=tuple(changes), unprotected=problem, cut_off=True
            )
            self._journal.emit(record.to_event(CHANGED))
            self._journal.share(record, command.at)
            changes = []

    def _find_changes_since(self, command: Record) -> list[Change]:
        """Return the unrecorded changes since a command that an earlier process ran."""
        self._tree = self._saved.read()
        for record in self._journal.ledger.records.values():
            if record.seq > command.seq:
                self.apply(record.changes)
        return [Change(spell_path(path), before, after) for path, before, after in self.take()]

    # --- on disk ----------------------------------------------------------------------------------

    @property
    def _folder(self) -> Path:
        """The folder that contains the last snapshot of each session in this workspace."""
        return contents_folder() / "trees" / hash_content(os.fsencode(self._root))

    def _load_newest(self) -> Tree:
        """Read the latest snapshot of any session, without entries whose content was deleted."""
        try:
            # Any session's snapshot is sufficient, because it only serves to avoid reading
            # unchanged files.
            newest = max(self._folder.iterdir(), key=_modification_time, default=None)
            tree = read_tree(newest) if newest else Tree()
        except (OSError, msgspec.DecodeError):
            return Tree()
        return tree.select_hashes(self._journal.store.touch(tree.hashes()))

    def _save(self) -> None:
        """Write the snapshot to disk, so that a command's changes are found even after a crash."""
        if self._tree is None or (self._is_saved and not self._unsaved):
            return
        # If hilum were killed now, the changes that this snapshot contains would be found nowhere
        # else.
        self._journal.flush()
        if not self._is_saved:
            self._saved.write(self._tree)
        else:
            self._saved.update(self._unsaved, self._tree)
        self._is_saved = True
        self._unsaved.clear()


def _is_named(path: str, named: Collection[str]) -> bool:
    """Return whether a path, or a folder above it, is among some paths."""
    while path:
        if path in named:
            return True
        path = path.rpartition("/")[0]
    return False


def _modification_time(path: Path) -> int:
    return path.stat().st_mtime_ns
