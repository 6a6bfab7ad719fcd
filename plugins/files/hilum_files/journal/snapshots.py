"""Takes snapshots of a session's workspace to find the changes that commands make."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from hilum import HilumError, errors

from hilum_files.journal.content_store import hash_content
from hilum_files.journal.journal import Journal, contents_folder
from hilum_files.journal.records import CHANGED, Change, Record, spell_path, unspell_path
from hilum_files.journal.shared_changes import subtract_others
from hilum_files.journal.tracked_workspace import lock_workspace
from hilum_files.journal.tree import (
    Difference,
    SnapshotLimits,
    Tree,
    TreeEntry,
    TreeTooLarge,
    TreeWalk,
    decode_tree,
    encode_tree,
    find_differences,
    find_hilum_paths,
)

SNAPSHOT_ERRORS = (TreeTooLarge, HilumError, OSError)


class Snapshots:
    """The last snapshot of a workspace. All methods block.

    Args:
        journal: The session's journal.
        session: Id of the session.
        limits: The limits on the size and time of a snapshot.
    """

    def __init__(self, journal: Journal, session: str, limits: SnapshotLimits) -> None:
        self._journal = journal
        self._session = session
        self._limits = limits
        self._root = journal.workspace.root
        self._tree: Tree | None = None
        self._is_saved = False
        # Number of the last change that any session made before the last snapshot.
        self._last_number = 0

    def take(
        self, check_cancelled: Callable[[], object] = lambda: None, *, save: bool = False
    ) -> list[Difference]:
        """Take a snapshot, and return its differences from the previous one.

        Args:
            check_cancelled: A function that is called regularly and may raise an exception to end
                the walk.
            save: Whether to write the snapshot to disk.

        Raises:
            TreeTooLarge: The snapshot takes too long.
            HilumError: Contents cannot be stored, or another session holds the lock.
        """
        # While the lock is held, no session is in the middle of a change.
        with self._journal.tree_lock, lock_workspace(self._root):
            root = str(self._root)
            own = find_hilum_paths(root)
            known = self._load_newest() if self._tree is None else self._tree
            before = own.remove_from(known)
            walk = TreeWalk(root, before, self._journal.store, self._limits, check_cancelled, own)
            tree = walk.run()
            differences = find_differences(before, tree)
            if save and (differences or not self._is_saved):
                self._save(tree)
            self._tree = tree
            self._is_saved = save or (self._is_saved and not differences)
            # The number is read under the lock, so that no change can happen between the snapshot
            # and its number.
            self._last_number = self._journal.shared.last_number()
            return differences

    def find_changes(self, began: float) -> list[Change]:
        """Take a snapshot, and return the differences that no other session made.

        Args:
            began: When the command began, as Unix time in seconds.
        """
        # Read this number before `take`, which replaces it.
        since = self._last_number
        changes: list[Change] = []
        for path, before, after in self.take():
            found = Change(spell_path(path), before, after)
            others = self._journal.shared.since(since, found.path)
            # If two commands overlap, either may have made the change, so both sessions record it.
            # A change by a file tool, or by a command that ran entirely within this one, was
            # certainly not made by this command.
            certain = [other for other in others if other.began >= began]
            changes += subtract_others(found, certain)
        return changes

    def apply(self, changes: Sequence[Change]) -> None:
        """Add recorded changes to the last snapshot, so that no command appears to make them."""
        if self._tree is None:
            return
        for change in changes:
            name = unspell_path(change.path)
            if change.after is None:
                self._tree.pop(name, None)
            else:
                self._tree[name] = TreeEntry(change.after, ())

    def recover(self) -> None:
        """Record the outcome of changes and commands that were interrupted when hilum ended."""
        ledger = self._journal.ledger
        if not ledger.open and not ledger.commands:
            return
        with self._journal.tree_lock, lock_workspace(self._root):
            self._journal.finish_interrupted()
        pending = sorted(ledger.commands.values(), key=lambda command: command.seq)
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
        self._tree = decode_tree((self._folder / self._session).read_bytes())
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
            tree = decode_tree(newest.read_bytes()) if newest else {}
        except (OSError, msgspec.DecodeError):
            return {}
        hashes = [entry.node.hash for entry in tree.values() if entry.node.hash]
        kept = self._journal.store.touch(hashes)
        kept.add("")  # folders have no content
        return {name: entry for name, entry in tree.items() if entry.node.hash in kept}

    def _save(self, tree: Tree) -> None:
        """Write a snapshot to disk, so that a command's changes are found even after a crash."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = self._folder / f".{self._session}.tmp"
        with open(temporary, "wb", opener=_open_private) as file:
            file.write(encode_tree(tree))
        # A crash must not leave a partial snapshot from which an undo would be computed.
        os.replace(temporary, self._folder / self._session)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _modification_time(path: Path) -> int:
    return path.stat().st_mtime_ns
