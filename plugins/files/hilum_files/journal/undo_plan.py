"""Plans an undo. Later changes by others are merged, or their paths are left unchanged."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import attrs
from hilum import ToolError, Workspace

from hilum_files.journal.content_store import ContentStore, hash_content
from hilum_files.journal.held_folder import HeldFolder
from hilum_files.journal.joint_history import JointHistory
from hilum_files.journal.ledger import Ledger
from hilum_files.journal.merging import Conflict, revert
from hilum_files.journal.records import Change, Record, keeps_kind, spell_path, unspell_path
from hilum_files.journal.replay import NOT_KEPT, check_changes_kept, replay
from hilum_files.journal.shared_changes import Key, SharedChange, SharedChanges
from hilum_files.journal.tracked_workspace import MAX_KEPT_BYTES
from hilum_files.journal.tree import node_at
from hilum_files.journal.tree_entries import Node
from hilum_files.paths import open_unreadable
from hilum_files.text import show

CHANGED_SINCE = "it was changed since"
NEW_AND_NOT_KEPT = (
    "it is new, but its content was not kept, so that its deletion could not be undone; delete it"
    " yourself if you do not need it"
)
_EMPTY = hash_content(b"")


@attrs.frozen
class Plan:
    """The plan for an undo. Paths are in the form that ``spell_path`` returns.

    Attributes:
        steps: The paths that change, with their current and their new content.
        kept: The folders that would be deleted if no other files were in them. Each is recorded as a
            change from its current state to the same state.
        merged: Paths where later changes by others are kept and merged with the undo.
        conflicts: Paths that cannot be restored, each with the reason.
        harmless: Those of these paths that do not prevent an undo of the rest.
        left: Paths of folders that are not recorded and are therefore left unchanged.
        undoes: The paths of each record that is undone, keyed by the record's id.
        skipped: The paths of each record that cannot be restored, and that no later changes of the
            session keep from being restored, keyed likewise.
        shared: Paths that another session may have changed at the same time, each with the ids of
            such sessions. Such paths are also in ``conflicts`` unless the other sessions' changes
            are undone, too.
        sessions: Ids of the sessions whose later changes cause conflicts.
        taken: For paths that cannot be undone otherwise, the changes of other sessions that are
            undone, too, as pairs of session and record.
    """

    steps: tuple[Change, ...] = ()
    kept: tuple[Change, ...] = ()
    merged: tuple[str, ...] = ()
    conflicts: dict[str, str] = attrs.field(factory=dict)
    harmless: frozenset[str] = frozenset()
    left: tuple[str, ...] = ()
    undoes: dict[str, tuple[str, ...]] = attrs.field(factory=dict)
    skipped: dict[str, tuple[str, ...]] = attrs.field(factory=dict)
    shared: dict[str, tuple[str, ...]] = attrs.field(factory=dict)
    sessions: tuple[str, ...] = ()
    taken: dict[str, tuple[Key, ...]] = attrs.field(factory=dict)

    @property
    def obstacles(self) -> dict[str, str]:
        """The paths that prevent an undo of the rest, each with the reason."""
        return {path: why for path, why in self.conflicts.items() if path not in self.harmless}

    def keep_folders(self, paths: Collection[str]) -> Plan:
        """Return the plan without deleting the folders at the given paths."""
        steps = tuple(step for step in self.steps if step.path not in paths)
        kept = [
            Change(step.path, step.before, step.before) for step in self.steps if step.path in paths
        ]
        return attrs.evolve(self, steps=steps, kept=(*self.kept, *kept))


def make_plan(
    workspace: Workspace,
    store: ContentStore,
    ledger: Ledger,
    records: Sequence[Record],
    shared: SharedChanges,
    *,
    include_shared: bool = False,
    merge: bool = True,
) -> Plan:
    """Plan to undo records, and store the current contents so that the undo can be undone.

    Args:
        workspace: The workspace.
        store: The store of contents.
        ledger: The session's ledger.
        records: The records, oldest first, with the changes to undo.
        shared: The changes that other sessions made.
        include_shared: Whether to undo changes that another session may have made at the same time.
        merge: Whether to merge changes that others made later; if not, files with such changes are
            not restored.

    Raises:
        StoreError: The current contents cannot be stored.
    """
    composed = ledger.compose(records)
    planner = _Planner(workspace, store, ledger, records, shared, include_shared, merge, composed)
    by_path: dict[str, list[tuple[Record, Change]]] = {}
    for record in records:
        for change in record.changes:
            by_path.setdefault(change.path, []).append((record, change))
    # A folder comes before its content, which may be below a link that the undo removes.
    for path in sorted(by_path, key=unspell_path):
        planner.plan_path(path, by_path[path])
    return planner.plan()


@attrs.define(eq=False)
class _Planner:
    """Plans an undo path by path. See ``make_plan`` for the arguments."""

    _workspace: Workspace
    _store: ContentStore
    _ledger: Ledger
    _records: Sequence[Record]
    _shared: SharedChanges
    _include_shared: bool
    _merge: bool
    _composed: dict[str, list[Change]]
    _steps: list[Change] = attrs.Factory(list)
    _merged: list[str] = attrs.Factory(list)
    _conflicts: dict[str, str] = attrs.Factory(dict)
    _harmless: set[str] = attrs.Factory(set)
    _left: list[str] = attrs.Factory(list)
    _unchanged: set[str] = attrs.Factory(set)
    _claimed: dict[str, tuple[str, ...]] = attrs.Factory(dict)
    _taken: dict[str, tuple[Key, ...]] = attrs.Factory(dict)
    _blocking: dict[str, None] = attrs.Factory(dict)  # a dict, because it keeps the order
    _removed_links: set[str] = attrs.Factory(set)
    # The outermost link that each folder is or is below.
    _links_above: dict[str, str | None] = attrs.Factory(dict)
    # The content of each path before the changes to undo.
    _original: dict[str, Node | None] = attrs.Factory(dict)

    def plan(self) -> Plan:
        """Return the plan for all paths that have been planned so far."""
        self._drop_impossible_steps()
        filled = self._plan_folders()
        undoes: dict[str, tuple[str, ...]] = {}
        skipped: dict[str, tuple[str, ...]] = {}
        for record in self._records:
            paths = [change.path for change in record.changes]
            undone = tuple(path for path in paths if self._is_undone(path))
            if undone:
                undoes[record.id] = undone
            left = tuple(path for path in paths if self._is_left(path))
            if left:
                skipped[record.id] = left
        plan = Plan(
            steps=tuple(self._steps),
            merged=tuple(self._merged),
            conflicts=self._conflicts,
            harmless=frozenset(self._harmless | self._find_left_before()),
            left=tuple(self._left),
            undoes=undoes,
            skipped=skipped,
            shared=self._claimed,
            sessions=tuple(self._blocking),
            taken=self._taken,
        )
        return plan.keep_folders(filled)

    def _is_undone(self, path: str) -> bool:
        return path not in self._conflicts and path not in self._unchanged

    def _is_left(self, path: str) -> bool:
        """Return whether a path counts as undone as far as it can be.

        A path that later changes of the session keep from being restored is tried again when these
        are undone.
        """
        return path in self._conflicts and self._ledger.is_last(path, self._records)

    def _find_left_before(self) -> set[str]:
        """Return the conflicting paths that an undo of later changes has already left as they are.

        The user has accepted that these paths are not restored.
        """
        if not self._conflicts:
            return set()
        latest: dict[str, int] = {}
        for record in self._records:
            for change in record.changes:
                latest[change.path] = record.seq
        found: set[str] = set()
        for name, path in self._ledger.skipped:
            later = self._ledger.records.get(name)
            if path in self._conflicts and later is not None and later.seq > latest[path]:
                found.add(path)
        return found

    def plan_path(self, path: str, made: Sequence[tuple[Record, Change]]) -> None:
        """Plan the undo at one path.

        Args:
            path: The path.
            made: The changes to undo at this path, oldest first, each with its record.
        """
        changes = [change for _, change in made]
        self._original[path] = changes[0].before
        kinds = _kinds_of(changes)
        if "skipped" in kinds:
            self._left.append(path)
            return
        records = list({record.id: record for record, _ in made}.values())
        others = self._shared.during(path, [record.id for record in records])
        if others.doubtful and not self._claim(path, others.doubtful):
            return
        try:
            now = self._read(path)
            target, was_merged = self._find_target_unless_deleted(path, now, records, changes)
        except Conflict as conflict:
            if self._is_new_and_not_kept(path, records, changes):
                self._conflicts[path] = NEW_AND_NOT_KEPT
                self._harmless.add(path)
                return
            # With the others' changes undone, too, only the user can be in the way.
            self._note_conflict(path, conflict, () if self._include_shared else others.changes)
            return
        if was_merged and kinds != {"folder"} and not self._accept_merge(path):
            return
        self._plan_step(path, now, target)

    def _is_new_and_not_kept(
        self, path: str, records: Sequence[Record], changes: Sequence[Change]
    ) -> bool:
        """Return whether an undo would delete a file that could then not be recreated."""
        if changes[0].before is not None or any(record.is_undo for record in records):
            return False
        is_kept = all(node.kept for change in changes for node in change.nodes())
        return not is_kept and self._ledger.is_last(path, records)

    def _note_conflict(self, path: str, conflict: Conflict, others: Sequence[SharedChange]) -> None:
        """Record why a path cannot be undone, and which sessions' changes are in the way."""
        sessions = _sessions_of(others)
        self._blocking.update(dict.fromkeys(sessions))
        self._conflicts[path] = str(conflict)
        if sessions:
            self._conflicts[path] += f" by session {', '.join(sessions)}"

    def _accept_merge(self, path: str) -> bool:
        """Record that later changes of a path are kept; return whether that is wanted."""
        if self._merge:
            self._merged.append(path)
        else:
            self._conflicts[path] = CHANGED_SINCE
        return self._merge

    def _plan_step(self, path: str, now: Node | None, target: Node | None) -> None:
        """Plan the change of a path from its current to its target state, if they differ."""
        if target != now:
            step = Change(path, now, target)
            self._steps.append(step)
            if now is not None and now.kind == "link" and not keeps_kind(step):
                self._removed_links.add(path)
        elif not self._ledger.is_last(path, self._records):
            # Later changes have already reverted this change, which stays in the chain of changes
            # so that the later changes can be undone.
            self._unchanged.add(path)

    # --- steps that cannot be carried out ---------------------------------------------------------

    def _drop_impossible_steps(self) -> None:
        """Replace steps with conflicts if they could not be carried out or would lose content."""
        while True:
            found = {
                **self._find_only_copies(),
                **self._find_filled_folders(),
                **self._find_without_folder(),
            }
            if not found:
                return
            self._conflicts.update(found)
            # Each conflict may prevent further steps.
            self._steps = [step for step in self._steps if step.path not in found]
            self._merged = [path for path in self._merged if path not in found]

    def _find_only_copies(self) -> dict[str, str]:
        """Return the paths that have the only copy of what cannot be restored, with the reasons.

        A command may have moved a file to such a path.
        """
        missing: dict[str, str] = {}
        for path in self._conflicts:
            node = self._original.get(path)
            if node is not None and self._is_missing(path, node):
                missing[node.hash] = path
        for step in self._steps:
            if step.after is not None:
                missing.pop(step.after.hash, None)
        found: dict[str, str] = {}
        for step in self._steps:
            if step.before is not None and step.before.hash in missing:
                origin = show(unspell_path(missing[step.before.hash]))
                found[step.path] = f"it is the only copy of {origin}, which cannot be restored"
        return found

    def _is_missing(self, path: str, node: Node) -> bool:
        """Return whether a path does not have the content of a file that was there."""
        if node.kind != "file" or not node.kept or node.hash == _EMPTY:
            return False
        try:
            now = self._read(path)
        except Conflict:
            return True
        return now is None or now.hash != node.hash

    def _find_filled_folders(self) -> dict[str, str]:
        """Return the folders that are to be replaced although other files are in them."""
        folders: dict[str, Change] = {}
        for step in self._steps:
            if step.before is not None and step.before.kind == "folder" and not keeps_kind(step):
                folders[unspell_path(step.path)] = step
        deleted = {unspell_path(step.path) for step in self._steps if step.after is None}
        found: dict[str, str] = {}
        # The contents of a folder come before the folder itself.
        for name in sorted(folders, reverse=True):
            if self._is_left_empty(name, deleted):
                continue
            deleted.discard(name)
            if folders[name].after is not None:
                found[folders[name].path] = "other files are in it"
        return found

    def _find_without_folder(self) -> dict[str, str]:
        """Return the paths that cannot be created because a parent folder is none."""
        after = {unspell_path(step.path): step.after for step in self._steps}
        others: dict[str, str] = {}
        found: dict[str, str] = {}
        for step in self._steps:
            if step.after is None:
                continue
            other = self._find_other_above(unspell_path(step.path), after, others)
            if other:
                found[step.path] = f"{show(other)} is not a folder"
        return found

    def _find_other_above(
        self, name: str, after: dict[str, Node | None], others: dict[str, str]
    ) -> str:
        """Return the outermost entry above a path that is no folder after the undo; "" if none.

        Args:
            name: The path.
            after: The nodes after the undo, to which this method adds.
            others: What this method has found for folders, to which it adds.
        """
        unknown: list[str] = []
        found = ""
        for parent in _find_parents(name):
            if parent in others:
                found = others[parent]
                break
            unknown.append(parent)
        for parent in reversed(unknown):
            if parent not in after:
                after[parent] = self._look_at(parent)
            node = after[parent]
            if not found and node is not None and node.kind != "folder":
                found = parent
            others[parent] = found
        return found

    def _look_at(self, name: str) -> Node | None:
        """Return the node of a path whose content does not matter; ``None`` if there is none."""
        try:
            status = os.lstat(self._workspace.root / name)
        except OSError:
            return None
        return Node("folder" if stat.S_ISDIR(status.st_mode) else "file")

    # --- folders ----------------------------------------------------------------------------------

    def _plan_folders(self) -> set[str]:
        """Plan to delete the folders that an earlier undo kept and that this one leaves empty.

        Returns:
            The paths of the folders that are planned to be deleted but are not left empty.
        """
        planned = {unspell_path(step.path) for step in self._steps}
        deleted = {unspell_path(step.path) for step in self._steps if step.after is None}
        folders = {
            unspell_path(step.path): step.before
            for step in self._steps
            if step.after is None and step.before and step.before.kind == "folder"
        }
        for name in find_all_parents(deleted) - planned:
            node = self._find_left_over(spell_path(name))
            if node is not None:
                folders[name] = node
        filled: set[str] = set()
        # The contents of a folder come before the folder itself.
        for name in sorted(folders, reverse=True):
            is_empty = self._is_left_empty(name, deleted)
            if name in planned and not is_empty:
                deleted.discard(name)
                filled.add(spell_path(name))
            elif name not in planned and is_empty:
                deleted.add(name)
                self._steps.append(Change(spell_path(name), folders[name], None))
        return filled

    def _find_left_over(self, path: str) -> Node | None:
        """Return the node of a folder whose creation has already been undone, if it still exists."""
        if path in self._conflicts or not self._ledger.entries(path):
            return None
        try:
            now = self._read(path)
            if now is None or now.kind != "folder":
                return None
            target, _ = replay(self._store, self._ledger, path, now, ())
        except Conflict:
            return None
        return None if target else now

    def _is_left_empty(self, name: str, deleted: Collection[str]) -> bool:
        """Return whether a folder contains nothing but deleted paths, as far as can be seen."""
        try:
            found = os.listdir(self._workspace.root / name)
        except OSError:  # if something else is in the folder, it cannot be deleted
            return True
        return all(f"{name}/{each}" in deleted for each in found)

    # --- other sessions ---------------------------------------------------------------------------

    def _claim(self, path: str, doubtful: Sequence[SharedChange]) -> bool:
        """Record that other sessions may have changed a path; return whether to undo it anyway."""
        sessions = _sessions_of(doubtful)
        self._claimed[path] = sessions
        if not self._include_shared:
            names = ", ".join(sessions)
            self._conflicts[path] = f"session {names} may have changed it at the same time"
        return self._include_shared

    # --- the current state ------------------------------------------------------------------------

    def _read(self, path: str) -> Node | None:
        """Return the node at a path, and store its content."""
        real = self._workspace.root / unspell_path(path)
        try:
            # An undo must not write through a link that replaced a folder.
            if not self._is_in_place(real, path):
                self._check_below_removed_link(path)
                return None
            status = os.lstat(real)
            if stat.S_ISREG(status.st_mode) and status.st_size > MAX_KEPT_BYTES:
                raise Conflict(
                    f"it is larger than {MAX_KEPT_BYTES:,} bytes now, too large to be kept"
                )
            return self._read_node(path, real, status)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except ToolError:
            self._check_below_removed_link(path)
            return None
        except OSError as error:
            raise Conflict(f"it cannot be read: {error.strerror}") from None

    def _read_node(self, path: str, real: Path, status: os.stat_result) -> Node | None:
        try:
            return node_at(real, self._keep)
        except PermissionError:
            if not stat.S_ISREG(status.st_mode):
                raise
        held = HeldFolder(self._workspace)
        try:
            with held.open(unspell_path(path)) as place, open_unreadable(place) as file:
                return Node("file", stat.S_IMODE(status.st_mode), self._keep(file.read()))
        finally:
            held.close()

    def _is_in_place(self, real: Path, path: str) -> bool:
        """Return whether no link leads to a path.

        Raises:
            ToolError: The path leads out of the workspace.
        """
        name = unspell_path(path)
        if os.path.isabs(name):  # in another root of the workspace
            return self._workspace.resolve(real, follow=False) == real
        return self._find_link_above(name) is None

    def _find_link_above(self, name: str) -> str | None:
        """Return the outermost parent folder of a path that is a link, or ``None``.

        Each folder is examined once: a path may be below a thousand of them.
        """
        if os.path.isabs(name):
            return None
        unknown: list[str] = []
        found: str | None = None
        for parent in _find_parents(name):
            if parent in self._links_above:
                found = self._links_above[parent]
                break
            unknown.append(parent)
        for parent in reversed(unknown):
            if found is None and os.path.islink(self._workspace.root / parent):
                found = parent
            self._links_above[parent] = found
        return found

    def _check_below_removed_link(self, path: str) -> None:
        """Check that the link above a path is removed by the undo, so that nothing is at the path.

        Raises:
            Conflict: The link stays.
        """
        link = self._find_link_above(unspell_path(path))
        if link is None or spell_path(link) not in self._removed_links:
            raise Conflict("one of its parent folders is now a link")

    def _keep(self, data: bytes) -> str:
        return self._store.put([data])[0]

    # --- the target -------------------------------------------------------------------------------

    def _find_target_unless_deleted(
        self,
        path: str,
        now: Node | None,
        records: Sequence[Record],
        changes: Sequence[Change],
    ) -> tuple[Node | None, bool]:
        """Return the same as ``_find_target``; a file of the session that was deleted stays deleted.

        An undo of all changes to the file would delete it, too.

        Raises:
            Conflict: The path cannot be restored.
        """
        try:
            return self._find_target(path, now, records, changes)
        except Conflict:
            is_redo = any(record.is_undo for record in records)
            was_there = changes[-1].after is not None
            is_new = self._ledger.entries(path)[0].change.before is None
            if now is not None or is_redo or not was_there or not is_new:
                raise
            return None, False

    def _find_target(
        self,
        path: str,
        now: Node | None,
        records: Sequence[Record],
        changes: Sequence[Change],
    ) -> tuple[Node | None, bool]:
        """Return the target state of a path, and whether later changes were merged into it.

        A redo restores the exact former state if nothing was changed after the undo. Otherwise, the
        target is the state without the records. If that cannot be determined, the records' changes
        are reverted in the current content.

        Raises:
            Conflict: The path cannot be restored.
        """
        is_redo = all(record.is_undo for record in records)
        if is_redo and len(changes) == 1 and changes[0].after == now:
            self._check_kept(changes[0].before)
            return changes[0].before, False
        history = JointHistory(self._shared.session, self._shared.read_history(path))
        if is_redo or not history.others:
            return self._replay(path, now, records, changes)
        names = [record.id for record in records]
        if history.overlaps(names):
            # This session's own records have gaps, where the other sessions' calls ended.
            with suppress(Conflict):
                return self._replay_jointly(history, now, names)
        try:
            return self._replay(path, now, records, changes)
        except Conflict as conflict:
            return self._replay_despite_conflict(path, history, now, names, conflict)

    def _replay_despite_conflict(
        self,
        path: str,
        history: JointHistory,
        now: Node | None,
        names: Sequence[str],
        conflict: Conflict,
    ) -> tuple[Node | None, bool]:
        """Return the target state of a path whose own records cannot be undone alone.

        Raises:
            Conflict: The changes of the other sessions do not help, either.
        """
        try:
            return self._replay_jointly(history, now, names)
        except Conflict:
            if not self._include_shared:
                raise conflict from None
        found = history.replay_without_others(self._store, now, names)
        self._check_kept(found.state)
        sessions = (*self._claimed.get(path, ()), *(session for session, _ in found.taken))
        self._claimed[path] = tuple(dict.fromkeys(sessions))
        self._taken[path] = found.taken
        return found.state, found.merged

    def _replay_jointly(
        self, history: JointHistory, now: Node | None, names: Sequence[str]
    ) -> tuple[Node | None, bool]:
        """Return the target state of a path that other sessions changed, too, as `_find_target`."""
        target, merged = history.replay_without(self._store, now, names)
        self._check_kept(target)
        return target, merged

    def _replay(
        self,
        path: str,
        now: Node | None,
        records: Sequence[Record],
        changes: Sequence[Change],
    ) -> tuple[Node | None, bool]:
        """Return the target state of a path by this session's own records, as `_find_target`."""
        try:
            target, merged = replay(self._store, self._ledger, path, now, records)
        except Conflict:
            return self._revert(now, self._composed[path], changes)
        self._check_kept(target)
        return target, merged

    def _check_kept(self, target: Node | None) -> None:
        """Check that content was kept and is still stored.

        Raises:
            Conflict: The content is not stored.
        """
        if target is None:
            return
        if not target.kept:
            raise Conflict(NOT_KEPT)
        if target.hash and self._store.get(target.hash) is None:
            raise Conflict("its content is no longer kept")

    def _revert(
        self, now: Node | None, composed: Sequence[Change], changes: Sequence[Change]
    ) -> tuple[Node | None, bool]:
        """Revert changes in the current content, and return whether other changes were merged.

        Args:
            now: The current node.
            composed: The changes, joined as far as possible.
            changes: The same changes one by one, in case the joined ones cannot be reverted.

        Raises:
            Conflict: The path cannot be restored.
        """
        try:
            return self._revert_each(now, composed)
        except Conflict as conflict:
            try:
                return self._revert_each(now, changes)
            except Conflict:
                raise conflict from None

    def _revert_each(self, now: Node | None, changes: Sequence[Change]) -> tuple[Node | None, bool]:
        target = now
        merged = False
        for change in reversed(changes):
            check_changes_kept([change])
            if change.before == change.after:
                continue
            if target not in (change.after, change.before):
                merged = True
            target = revert(self._store, target, change)
        self._check_kept(target)
        return target, merged


def find_all_parents(paths: Iterable[str]) -> set[str]:
    """Return the folders in the workspace that contain relative paths."""
    found: set[str] = set()
    for path in paths:
        for parent in _find_parents(path):
            # What contains a known folder is known, too.
            if parent in found:
                break
            found.add(parent)
    return found


def _find_parents(path: str) -> Iterator[str]:
    """Yield the folders in the workspace that contain a relative path."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _sessions_of(changes: Sequence[SharedChange]) -> tuple[str, ...]:
    """Return the ids of the sessions that made the changes, in order."""
    return tuple(dict.fromkeys(change.session for change in changes))


def _kinds_of(changes: Iterable[Change]) -> set[str]:
    """Return the kinds of all nodes before and after the changes."""
    kinds: set[str] = set()
    for change in changes:
        kinds.update(node.kind for node in change.nodes())
    return kinds
