"""Computes the state of a path without some of the changes made to it.

This works like a rebase: starting from the first content, all other changes are applied again in
order. The writes of an undo are not changes; they only show which changes are not in effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from hilum_files.journal.composing import Entry
from hilum_files.journal.content_store import ContentStore
from hilum_files.journal.ledger import Ledger
from hilum_files.journal.merging import Conflict, reapply
from hilum_files.journal.records import Change, Record
from hilum_files.journal.tree_entries import Node

NOT_KEPT = "its content was not kept: it was too large or could not be read"


class Step(NamedTuple):
    """A change that remains in effect.

    Attributes:
        base: The state when the change was made.
        goal: The result of the change.
        early: Whether all undone or redone changes were made after this change.
        foreign: Whether the user, another session or another program made the change.
    """

    base: Node | None
    goal: Node | None
    early: bool
    foreign: bool


def replay(
    store: ContentStore, ledger: Ledger, path: str, now: Node | None, records: Sequence[Record]
) -> tuple[Node | None, bool]:
    """Return the state of a path without the selected records.

    A change made by this session takes precedence over earlier changes that were undone, because
    the user accepted that when undoing them. No change takes precedence over changes made by
    others, or over changes that were made after the selected ones.

    Args:
        store: The store of contents.
        ledger: The session's ledger.
        path: The path, as ``spell_path`` returns it.
        now: The current state of the path.
        records: The records to undo. For an undo, the changes that it undid are restored.

    Returns:
        The new state of the path, and whether later changes were merged into it.

    Raises:
        Conflict: A change that remains in effect affects the same lines as an undone change.
    """
    entries = ledger.entries(path)
    check_changes_kept([entry.change for entry in entries])
    selected = {record.id for record in records}
    undone = ledger.undone_with(path, selected)
    # An undo among the selected records also affects the changes that it undid.
    moving = selected | (undone ^ ledger.undone_with(path, ()))
    content = entries[0].change.before
    merged = False
    for step in _join_steps(_list_steps(ledger, entries, now, undone, moving)):
        if not step.early and content not in (step.base, step.goal):
            merged = True
        force = step.early and not step.foreign
        content = reapply(store, content, step.base, step.goal, force=force)
    return content, merged


def check_changes_kept(changes: Iterable[Change]) -> None:
    """Check that snapshots kept the contents of changes.

    Raises:
        Conflict: One of the contents was not kept.
    """
    for change in changes:
        if not all(node.kept for node in change.nodes()):
            raise Conflict(NOT_KEPT)


def _list_steps(
    ledger: Ledger, entries: Sequence[Entry], now: Node | None, undone: set[str], moving: set[str]
) -> Iterator[Step]:
    """Yield the changes that are kept, oldest first.

    If a change does not start from the result of the previous one, somebody else made a change
    between the two.
    """
    early = True
    there = entries[0].change.before
    for record, change in entries:
        if change.before != there:
            yield Step(there, change.before, early, foreign=True)
        if record not in ledger.undos and record not in undone:
            yield Step(change.before, change.after, early, foreign=False)
        if record in moving:
            early = False
        there = change.after
    if now != there:
        yield Step(there, now, early, foreign=True)


def _join_steps(steps: Iterator[Step]) -> list[Step]:
    """Join successive steps if each starts from the previous result."""
    joined: list[Step] = []
    for step in steps:
        last = joined[-1] if joined else None
        if last is not None and last.goal == step.base and _can_join(last, step):
            joined[-1] = last._replace(goal=step.goal, foreign=last.foreign or step.foreign)
        else:
            joined.append(step)
    return joined


def _can_join(first: Step, second: Step) -> bool:
    """Return whether two steps have the same precedence."""
    if not first.early and not second.early:
        return True
    return (first.early, first.foreign) == (second.early, second.foreign)
