"""What the guard renamed because other programs would execute it.

A command's changes are often recorded before the guard renames what the command wrote. Without the
new names, an undo could not delete it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

import msgspec
from hilum import events
from hilum.store import unspell_folder

from hilum_files.journal.composing import Entry
from hilum_files.journal.content_store import hash_content
from hilum_files.journal.records import Change, Record, spell_path, unspell_path

_WHAT = "made inert by hilum"


class Rename(msgspec.Struct, frozen=True):
    """A file or folder that was renamed.

    Attributes:
        old: The former path, relative to the workspace.
        new: The new path, relative to the workspace.
        at: When it was renamed, as Unix time in seconds.
        seq: Sequence number of the event.
    """

    old: str
    new: str
    at: float
    seq: int


class Renames:
    """The files that the guard renamed in a workspace.

    Args:
        root: The workspace, resolved; if empty, nothing is found.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        # The changes by which files got their names, until the paths change again: a snapshot may
        # find them, too.
        self._known: dict[str, Change] = {}
        # Renamed files of which no record is known yet.
        self._early: dict[str, Rename] = {}

    def read(self, event: events.PluginEvent) -> Iterator[Rename]:
        """Yield the files that an event names."""
        pairs: list[tuple[str, str]] = []
        with suppress(msgspec.ValidationError):  # written by a later version of hilum
            pairs = msgspec.convert(event.data.get("renamed", []), list[tuple[str, str]])
        for pair in pairs:
            old, new = (self._make_relative(unspell_folder(path)) for path in pair)
            if old and new:
                yield Rename(old, new, event.at, event.seq)

    def _make_relative(self, path: str) -> str:
        """Return a path relative to the workspace; empty if it is elsewhere."""
        start = os.path.join(self._root, "")
        return path[len(start) :] if self._root and path.startswith(start) else ""

    def describe(
        self,
        renamed: Rename,
        records: Mapping[str, Record],
        find_entries: Callable[[str], Sequence[Entry]],
    ) -> Record | None:
        """Return a record of a rename as a change by the call that created the file.

        Args:
            renamed: What was renamed.
            records: All records.
            find_entries: Returns the changes to a path, oldest first.

        Returns:
            The record; ``None`` if no record is known that left the file.
        """
        entries = find_entries(spell_path(renamed.old))
        if not entries or entries[-1].change.after is None:
            self._early[renamed.old] = renamed
            return None
        cause = records[entries[-1].record]
        paths = {change.path for record in records.values() for change in record.changes}
        changes: list[Change] = []
        for path in sorted(paths, key=unspell_path):
            name = unspell_path(path)
            if name != renamed.old and not name.startswith(f"{renamed.old}/"):
                continue
            node = find_entries(path)[-1].change.after
            if node is not None:
                new = spell_path(renamed.new + name[len(renamed.old) :])
                changes += [Change(path, node, None), Change(new, None, node)]
        self._known.update((change.path, change) for change in changes)
        return msgspec.structs.replace(
            cause,
            id=f"renamed-{renamed.seq}-{hash_content(os.fsencode(renamed.old))[:8]}",
            changes=tuple(changes),
            tool="rename",
            what=_WHAT,
            undoes={},
            skipped={},
            unprotected="",
            at=renamed.at,
            seq=renamed.seq,
        )

    def without_known(self, record: Record) -> Record:
        """Return a record without the changes by which renamed files got their names."""
        if not self._known or record.what == _WHAT:
            return record
        kept: list[Change] = []
        for change in record.changes:
            if self._known.pop(change.path, None) != change:
                kept.append(change)
        return msgspec.structs.replace(record, changes=tuple(kept))

    def pop_early(self, record: Record) -> Iterator[Rename]:
        """Yield what was renamed before the record of the call that created it was written."""
        if not self._early or record.what == _WHAT:
            return
        after = {unspell_path(change.path): change.after for change in record.changes}
        for old, renamed in list(self._early.items()):
            if old not in after:
                continue
            del self._early[old]
            if after[old] is not None and renamed.new not in after:
                yield renamed
