"""The journal of a session's changes: what it says, and undoing it.

Needs no session that is open: a command uses it, too.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from hilum import StoreError, ToolError, Workspace, data_folder, errors, events

from hilum_files.journal.guard import happened, locked
from hilum_files.journal.objects import Objects
from hilum_files.journal.records import CHANGED, CHANGING, Ledger, Record, Scope, unspell
from hilum_files.journal.sessions import SharedChanges
from hilum_files.journal.tree import TEMPORARY, Node, Own, find_own_folders
from hilum_files.text import show

if TYPE_CHECKING:
    from hilum_files.journal.undo import Plan

Emit = Callable[[events.PluginEvent], None]


def objects_folder() -> Path:
    """The folder in which contents are kept."""
    return data_folder() / "objects"


class Journal:
    """The journal of one session.

    Args:
        workspace: Where its files are.
        objects: The contents.
        emit: Writes an event.
        session: Id of the session.

    Attributes:
        shared: What this and other sessions changed.
        ledger: What the log says.
        alone: Held during a change, and during every look at the whole tree.
    """

    def __init__(self, workspace: Workspace, objects: Objects, emit: Emit, session: str) -> None:
        self.workspace = workspace
        self.objects = objects
        self.emit = emit
        own = Own(find_own_folders(os.path.realpath(workspace.root)), frozenset())
        self.ledger = Ledger(own.has)
        self.alone = threading.Lock()
        self.shared = SharedChanges(objects, session, workspace.root)

    def fold(self, events: Sequence[events.AnyEvent]) -> None:
        """Take in events."""
        for event in events:
            self.ledger.apply(event)

    def settle(self) -> None:
        """Write down what became of changes in whose middle hilum ended. Blocks."""
        for record in list(self.ledger.open.values()):
            self._settle(record, doubt=record.tool != "undo")

    def _settle(self, record: Record, *, doubt: bool) -> None:
        """Write down what became of a change: what is on disk says it."""
        changes = happened(self.workspace.root, record.changes, doubt=doubt)
        for folder in {
            (self.workspace.root / unspell(change.path)).parent for change in record.changes
        }:
            for left_behind in folder.glob(f"{TEMPORARY}*.tmp"):
                left_behind.unlink(missing_ok=True)
        paths = {change.path for change in changes}
        stayed = {change.path for change in record.changes}
        # A path that an undo need not change is put back all the same.
        undoes = {
            n: tuple(p for p in listed if p in paths or p not in stayed)
            for n, listed in record.undoes.items()
        }
        kept = {name: listed for name, listed in undoes.items() if listed and paths}
        ended = msgspec.structs.replace(record, changes=changes, undoes=kept, cut_off=True)
        self.emit(ended.event(CHANGED))
        self.note(ended)

    def plan(self, scope: Scope, name: str = "") -> Plan:
        """Plan an undo and do nothing. Blocks.

        Raises:
            UsageError: Nothing fits.
        """
        from hilum_files.journal.undo import make_plan  # with the first undo

        return make_plan(
            self.workspace, self.objects, self.ledger, self.ledger.select(scope, name), self.shared
        )

    def undo(self, scope: Scope, name: str = "", *, keep_going: bool = False) -> Plan:
        """Undo a call, turn or run, or an undo.

        Blocks. All of it or nothing; what is undone can be brought back.

        Args:
            scope: ``call``, ``turn``, ``run``, or ``undo`` to undo an undo.
            name: Which; the last one without.
            keep_going: Put back what can be where something cannot.

        Returns:
            What was done.

        Raises:
            UsageError: Nothing fits.
            ToolError: ``E_STALE``: a file was changed since and cannot be merged. Or it failed.
                Nothing is undone then.
        """
        from hilum_files.journal.undo import carry_out, undone

        with self.alone, locked(self.workspace.root):
            plan = self.plan(scope, name)
            if plan.conflicts and not keep_going:
                raise stale(plan)
            if not plan.steps and not plan.undoes:
                return plan
            record = undone(plan, os.urandom(6).hex(), f"undo {scope} {name}".strip())
            self.emit(record.event(CHANGING))
            try:
                carry_out(self.workspace, self.objects, plan.steps)
            except BaseException:
                self._settle(record, doubt=False)
                raise
            self.emit(record.event(CHANGED))
            self.note(record)
            return plan

    def note(self, record: Record, began: float | None = None) -> None:
        """Note for other sessions what a record changed, and what is undone by it. Blocks.

        Args:
            record: The record, which the ledger has or will get.
            began: When its call began, Unix time in seconds; now without.
        """
        with suppress(
            StoreError
        ):  # the change is made and logged: without the note it may only be charged to another session
            self.shared.note(record.id, record.changes, time.time() if began is None else began)
            if record.undoes:
                paths = {path for listed in record.undoes.values() for path in listed}
                self.shared.mark(
                    (name, change.path, (name, change.path) in self.ledger.undone)
                    for name, other in self.ledger.records.items()
                    for change in other.changes
                    if change.path in paths
                )

    def content(self, node: Node | None) -> bytes | None:
        """Return the content of a file or the target of a link; ``None`` if it is not kept."""
        if node is None or node.kind in ("folder", "skipped"):
            return b""
        return self.objects.get(node.hash) if node.kept else None


def stale(plan: Plan) -> ToolError:
    """Build the error for an undo that would destroy what others did."""
    listed = [f"  {show(unspell(path))}: {why}" for path, why in plan.conflicts.items()]
    more = f"\n  … and {len(listed) - 20} more" if len(listed) > 20 else ""
    return ToolError(
        f"Nothing was undone, because of:\n{chr(10).join(listed[:20])}{more}",
        code=errors.E_STALE,
        hint="Put these right yourself, or undo the rest with --keep-going.",
    )
