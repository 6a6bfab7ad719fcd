"""Describes what an undo would do and what runs have changed, as data for faces."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from hilum import UsageError

from hilum_files.journal.file_diffs import FileDiff, diff_change, diff_records
from hilum_files.journal.journal import Journal
from hilum_files.journal.origins import call_name
from hilum_files.journal.records import Record, Scope, unspell_path
from hilum_files.text import show


class UndoPreview(msgspec.Struct, frozen=True):
    """A preview of an undo. All texts are safe to display in a terminal.

    Attributes:
        diffs: The files that would change, from their current to their new content.
        merged: The restored files that others changed later; these later changes are kept.
        skipped: The files that would not be restored, each with the reason.
        unrecorded: Commands whose changes are unknown and therefore not undone.
    """

    diffs: tuple[FileDiff, ...]
    merged: tuple[str, ...]
    skipped: dict[str, str]
    unrecorded: tuple[str, ...]


class RunChanges(msgspec.Struct, frozen=True):
    """The files that a run changed, and the numbers of added and removed lines.

    Attributes:
        files: The paths of the files.
        added: Number of added lines.
        removed: Number of removed lines.
        unrecorded: Number of commands whose changes are unknown.
    """

    files: tuple[str, ...] = ()
    added: int = 0
    removed: int = 0
    unrecorded: int = 0


class CallChanges(msgspec.Struct, frozen=True):
    """The changes by one call that are still in effect. See ``hilum.services.CallChanges``."""

    name: str
    call: str
    agent: str
    run: str
    tool: str
    what: str
    at: float
    files: tuple[str, ...]
    added: int
    removed: int


def preview_undo(journal: Journal, scope: Scope, name: str, merge: bool) -> UndoPreview:
    """Return what an undo with ``keep_going`` would do. Blocks.

    Args:
        journal: The journal.
        scope: The kind of unit.
        name: The unit's id.
        merge: Whether to restore files that others changed later.

    Raises:
        UsageError: Nothing matches.
    """
    try:
        records = journal.ledger.select(scope, name)
    except UsageError:
        # There may be commands whose changes are unknown, even if no change is recorded.
        unrecorded = tuple(_describe_unrecorded(journal, scope, name, []))
        if scope == "since" and name.isdecimal() and unrecorded:
            return UndoPreview((), (), {}, unrecorded)
        raise
    plan = journal.plan(scope, name, merge=merge)
    skipped = {show(unspell_path(path)): why for path, why in plan.conflicts.items()}
    for path in plan.left:
        skipped[show(unspell_path(path)) + "/"] = "such folders are not recorded"
    # The plan has stored the current contents, so that the journal can compare them.
    return UndoPreview(
        tuple(diff_change(journal, step) for step in plan.steps),
        tuple(show(unspell_path(path)) for path in plan.merged),
        skipped,
        tuple(_describe_unrecorded(journal, scope, name, records)),
    )


def _describe_unrecorded(
    journal: Journal, scope: Scope, name: str, records: Sequence[Record]
) -> list[str]:
    """Return the commands in a unit whose changes are unknown."""
    if scope == "since":
        after = int(name) if name.isdecimal() else journal.ledger.last
        found = [record for record in journal.ledger.unprotected if record.seq > after]
    else:
        runs = {record.run for record in records}
        found = [
            record for record in journal.ledger.unprotected if _traces_to(journal, record, runs)
        ]
    return [show(record.what or record.tool) for record in found]


def _traces_to(journal: Journal, record: Record, runs: set[str]) -> bool:
    return any(origin.run in runs for origin in journal.ledger.origins.trace(record))


def summarize_runs(journal: Journal, runs: Sequence[str]) -> dict[str, RunChanges]:
    """Return what each of several runs changed, including changes by sub-agents. Blocks."""
    wanted = set(runs)
    records: dict[str, list[Record]] = {}
    unrecorded: dict[str, int] = {}
    ledger = journal.ledger
    for record in ledger.select("session"):
        # The last origin is the run that the user prompted.
        run = ledger.origins.trace(record)[-1].run
        if run in wanted:
            records.setdefault(run, []).append(record)
    for record in ledger.unprotected:
        run = ledger.origins.trace(record)[-1].run
        if run in wanted:
            unrecorded[run] = unrecorded.get(run, 0) + 1
    found: dict[str, RunChanges] = {}
    for run in runs:
        if run not in records and run not in unrecorded:
            continue
        diffs = diff_records(journal, records.get(run, []))
        found[run] = RunChanges(
            tuple(diff.path for diff in diffs),
            sum(diff.added for diff in diffs),
            sum(diff.removed for diff in diffs),
            unrecorded.get(run, 0),
        )
    return found


def list_calls(journal: Journal, limit: int) -> list[CallChanges]:
    """Return the last calls whose changes are still in effect, newest first. Blocks."""
    origins = journal.ledger.origins
    records: dict[str, list[Record]] = {}
    for record in journal.ledger.select("session"):
        records.setdefault(call_name(origins.trace(record)[0]), []).append(record)
    found: list[CallChanges] = []
    for name, group in reversed(records.items()):
        if len(found) == limit:
            break
        diffs = diff_records(journal, group)
        if not diffs:
            continue
        last = group[-1]
        trace = origins.trace(last)
        found.append(
            CallChanges(
                name=name,
                call=trace[0].call,
                agent=show(last.agent),
                # The last origin is the run that the user prompted.
                run=trace[-1].run,
                tool=show(last.tool),
                what=show(last.what),
                at=last.at,
                files=tuple(diff.path for diff in diffs),
                added=sum(diff.added for diff in diffs),
                removed=sum(diff.removed for diff in diffs),
            )
        )
    return found
