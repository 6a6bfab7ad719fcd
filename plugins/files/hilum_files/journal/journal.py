"""The journal of a session, which records changes and undoes them.

The journal does not require an open session, because ``hilum diff`` and ``hilum undo`` also use it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from hilum import StoreError, ToolError, Workspace, data_folder, errors, events, make_id

from hilum_files.journal.content_store import ContentStore
from hilum_files.journal.ledger import Ledger
from hilum_files.journal.records import CHANGED, CHANGING, Change, Record, Scope, unspell_path
from hilum_files.journal.shared_changes import SharedChanges
from hilum_files.journal.tracked_workspace import find_made_changes, lock_workspace
from hilum_files.journal.tree import TEMPORARY, HilumPaths, find_hilum_folders
from hilum_files.journal.tree_entries import Node
from hilum_files.text import show

if TYPE_CHECKING:
    from hilum_files.journal.undo_plan import Plan

Emit = Callable[[events.PluginEvent], None]
MAX_CONFLICTS_SHOWN = 20
NAMED_SCOPES = ("call", "turn", "run")
"""The scopes of units that are undone one after another."""


def contents_folder() -> Path:
    """Return the folder in which contents are stored."""
    return data_folder() / "objects"


class Journal:
    """The journal of one session.

    Args:
        workspace: The session's workspace.
        store: The store of contents.
        emit: Writes an event.
        session: Id of the session.
        flush: Waits until what was written is durable, in the thread that calls it.

    Attributes:
        shared: The changes of all sessions.
        ledger: The state computed from the log.
        tree_lock: The lock held during each change and each walk over the whole tree.
    """

    def __init__(
        self,
        workspace: Workspace,
        store: ContentStore,
        emit: Emit,
        session: str,
        flush: Callable[[], None] = lambda: None,
    ) -> None:
        self.workspace = workspace
        self.session = session
        self.store = store
        self.emit = emit
        self.flush = flush
        own = HilumPaths(find_hilum_folders(os.path.realpath(workspace.root)))
        self.ledger = Ledger(own.contains, os.path.realpath(workspace.root))
        self.tree_lock = threading.Lock()
        self.shared = SharedChanges(store, session, workspace.root)

    def apply_events(self, events: Sequence[events.AnyEvent]) -> None:
        """Update the ledger with events."""
        for event in events:
            self.ledger.apply(event)

    def finish_interrupted(self) -> None:
        """Record the outcome of changes that were interrupted when hilum ended. Blocks."""
        for record in list(self.ledger.open.values()):
            self._finish(record, include_doubtful=not record.is_undo)

    def _finish(self, record: Record, *, include_doubtful: bool) -> None:
        """Record the outcome of an interrupted change, as found on disk."""
        root = self.workspace.root
        changes = find_made_changes(root, record.changes, include_doubtful=include_doubtful)
        paths = [root / unspell_path(change.path) for change in record.changes]
        for folder in {path.parent for path in paths}:
            # A crash during a write may leave a temporary file if the file system lacks unnamed
            # files.
            for temporary in folder.glob(f"{TEMPORARY}*.tmp"):
                temporary.unlink(missing_ok=True)
        finished = msgspec.structs.replace(
            record,
            changes=changes,
            undoes=_made_undoes(record, changes),
            # An undo that failed will be tried again.
            skipped=record.skipped if changes else {},
            cut_off=True,
        )
        self.emit(finished.to_event(CHANGED))
        self.share(finished)

    def plan(
        self, scope: Scope, name: str = "", *, shared: bool = False, merge: bool = True
    ) -> Plan:
        """Plan an undo with the arguments of ``undo``, without changing anything. Blocks.

        Raises:
            UsageError: Nothing matches.
        """
        from hilum_files.journal.undo_plan import make_plan  # imported at the first undo

        records = self.ledger.select(scope, name)
        return make_plan(
            self.workspace,
            self.store,
            self.ledger,
            records,
            self.shared,
            include_shared=shared,
            merge=merge,
        )

    def undo(
        self,
        scope: Scope,
        name: str = "",
        *,
        keep_going: bool = False,
        shared: bool = False,
        merge: bool = True,
    ) -> Plan:
        """Undo a call, turn, run or undo, either completely or not at all. Blocks.

        An undo can be undone.

        Args:
            scope: ``call``, ``turn``, ``run``, ``since`` for everything after an event, or
                ``undo`` to undo an undo.
            name: The id of the call, turn, run or undo, or the number of the event; by default, the
                last unit that changed something.
            keep_going: Whether to restore the other files if a file cannot be restored.
            shared: Whether to also undo changes that another session may have made at the same
                time.
            merge: Whether to merge changes that others made later; if not, files with such changes
                cannot be restored.

        Returns:
            The result of the undo.

        Raises:
            UsageError: Nothing matches.
            ToolError: A file changed later and cannot be merged (``E_STALE``), or the undo failed;
                nothing is undone in either case.
        """
        from hilum_files.journal.undo_steps import carry_out  # imported at the first undo

        with self.tree_lock, lock_workspace(self.workspace.root):
            plan = self.plan(scope, name, shared=shared, merge=merge)
            if plan.obstacles and not keep_going:
                raise self.conflict_error(plan, scope, name, shared=shared)
            if not plan.steps and not plan.undoes and not self._leaves_more(plan):
                return plan
            record = Record(
                id=make_id("undo"),
                changes=(*plan.steps, *plan.kept),
                tool="undo",
                what=f"undo {scope} {name}".strip(),
                undoes=plan.undoes,
                skipped=plan.skipped,
            )
            # The record is begun before the first step, so that the next session can finish it
            # after a crash.
            self.emit(record.to_event(CHANGING))
            try:
                self.flush()
                filled = carry_out(self.workspace, self.store, plan.steps)
            # Even if the undo is cancelled or interrupted, the log must describe what was written.
            except BaseException:
                self._finish(record, include_doubtful=False)
                raise
            if filled:  # somebody created files in these folders after the plan was made
                plan = plan.keep_folders(filled)
                changes = (*plan.steps, *plan.kept)
                record = msgspec.structs.replace(record, changes=changes)
            self.emit(record.to_event(CHANGED))
            self.share(record)
            self._share_taken(plan, record)
            return plan

    def _leaves_more(self, plan: Plan) -> bool:
        """Return whether a plan leaves changes in effect that no earlier undo has left."""
        left = {(name, path) for name, paths in plan.skipped.items() for path in paths}
        return not left <= self.ledger.skipped.keys()

    def conflict_error(self, plan: Plan, scope: Scope, name: str, *, shared: bool) -> ToolError:
        """Create the error for an undo that would destroy changes made by others.

        Args:
            plan: The plan.
            scope: The kind of unit that would be undone.
            name: The id of the unit.
            shared: Whether changes that another session may have made are undone, too.
        """
        older = ""
        if scope in NAMED_SCOPES:
            older = self.ledger.name_older(scope, self.ledger.select(scope, name))
        return conflict_error(plan, shared=shared, older=f"{scope} {older}" if older else "")

    def _share_taken(self, plan: Plan, undo: Record) -> None:
        """Publish which changes of other sessions an undo undid, or restored. Blocks."""
        with suppress(StoreError):
            for path, keys in plan.taken.items():
                self.shared.mark_undone(undo.id, path, keys)
            for name, paths in undo.undoes.items():
                if name in self.ledger.undos:
                    self.shared.unmark_undone(name, paths)

    def share(self, record: Record, began: float | None = None) -> None:
        """Publish a record's changes, and those that it undid, to other sessions. Blocks.

        Args:
            record: The record, which the ledger contains or will contain.
            began: When the record's call began, as Unix time in seconds; by default, the current
                time.
        """
        if began is None:
            began = time.time()
        # The change is already made and logged. If publishing fails, another session may attribute
        # the change to its own command.
        with suppress(StoreError):
            self.shared.add(record.id, record.changes, began, undo=record.is_undo)
            if record.undoes:
                self.shared.set_undone(self._undone_states(record))

    def _undone_states(self, undo: Record) -> Iterator[tuple[str, str, bool]]:
        """Yield each change at the paths affected by an undo, and whether it is now undone."""
        paths = set().union(*undo.undoes.values())
        for name, record in self.ledger.records.items():
            for change in record.changes:
                if change.path in paths and not record.is_undo:
                    yield name, change.path, (name, change.path) in self.ledger.undone

    def content(self, node: Node | None) -> bytes | None:
        """Return a file's content or a link's target; ``None`` if it was not kept."""
        if node is None or node.kind in ("folder", "skipped"):
            return b""
        return self.store.get(node.hash) if node.kept else None


def _made_undoes(record: Record, made: Sequence[Change]) -> dict[str, tuple[str, ...]]:
    """Return what an interrupted undo reverted, according to the changes it made."""
    if not made:
        return {}
    # A path that the undo did not have to change also counts as undone.
    made_paths = {change.path for change in made}
    not_made = {change.path for change in record.changes} - made_paths
    undoes: dict[str, tuple[str, ...]] = {}
    for name, paths in record.undoes.items():
        undone = tuple(path for path in paths if path not in not_made)
        if undone:
            undoes[name] = undone
    return undoes


def conflict_error(plan: Plan, *, shared: bool, older: str = "") -> ToolError:
    """Create the error for an undo that would destroy changes made by others.

    Args:
        plan: The plan.
        shared: Whether changes that another session may have made are undone, too.
        older: The scope and name of what could be undone instead; empty if there is nothing older.
    """
    listed = [f"  {show(unspell_path(path))}: {why}" for path, why in plan.obstacles.items()]
    shown = ["Nothing was undone, because of:", *listed[:MAX_CONFLICTS_SHOWN]]
    if len(listed) > MAX_CONFLICTS_SHOWN:
        shown.append(f"  … and {len(listed) - MAX_CONFLICTS_SHOWN} more")
    hints: list[str] = []
    if plan.sessions:
        other = plan.sessions[0]
        hints.append(
            f"Undo the later changes first (hilum undo --session {other}), or undo the changes of"
            " both sessions to these files with --shared."
        )
    elif plan.shared and not shared:
        hints.append("To undo changes that either session may have made, use --shared.")
    hints.append("Restore these files yourself, or undo the rest with --keep-going.")
    if older:
        hints.append(f"To undo only what was changed before that: hilum undo {older}.")
    return ToolError("\n".join(shown), code=errors.E_STALE, hint=" ".join(hints))
