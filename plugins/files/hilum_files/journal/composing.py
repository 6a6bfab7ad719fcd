"""Joins successive changes to a path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hilum_files.journal.records import Change


class Entry(NamedTuple):
    """One change to a path, and the id of the change's record."""

    record: str
    change: Change


def join_changes(
    entries: Sequence[Entry], selected: set[str], cancelled: dict[str, set[str]]
) -> list[Change]:
    """Join successive selected changes to a path if each starts from the previous result.

    Args:
        entries: All changes to the path, oldest first.
        selected: The records to join.
        cancelled: Undos, each with the records that it undid. An undo and these records together
            change nothing and are skipped as a group.
    """
    present = {entry.record for entry in entries}
    groups: list[set[str]] = []
    written: set[str] = set()
    for undo, targets in cancelled.items():
        members = {undo} | targets
        groups.append(members & present)
        if undo in present:
            written |= members
    parts = _split_passing_over(entries, selected, groups)
    joined: list[Change] = []
    for part in parts:
        if not any(entry.record in selected for entry in part):
            continue
        # An undo that wrote nothing does not cancel a change on disk, so it is dropped at both
        # ends.
        kept = [entry for entry in part if entry.record in selected or entry.record in written]
        first = kept[0].change
        joined.append(Change(first.path, first.before, kept[-1].change.after))
    return joined


def _split_passing_over(
    entries: Sequence[Entry], selected: set[str], groups: list[set[str]]
) -> list[list[Entry]]:
    """Split the selected changes into parts that span as many groups as possible.

    A part may span a group only if it contains all of the group's changes.
    """
    while True:
        parts = _split(entries, selected.union(*groups))
        records = [{entry.record for entry in part} for part in parts]
        whole = [group for group in groups if any(group <= names for names in records)]
        if len(whole) == len(groups):
            return parts
        groups = whole


def _split(entries: Sequence[Entry], members: set[str]) -> list[list[Entry]]:
    """Split the members' changes into parts in which each starts from the previous result."""
    parts: list[list[Entry]] = []
    previous: Change | None = None
    for entry in entries:
        if entry.record not in members:
            previous = None
            continue
        if previous is None or previous.after != entry.change.before:
            parts.append([])
        parts[-1].append(entry)
        previous = entry.change
    return parts
