"""The events in the log that record file changes.

A change is logged twice: as ``files.changing`` before it is made, and as ``files.changed`` after
it. After a crash between the two events, only the first exists, and the disk shows what really
happened.
"""

from __future__ import annotations

import os
from typing import Any, Literal

import msgspec
from hilum import events

from hilum_files.journal.tree_entries import Node

CHANGING = "files.changing"
CHANGED = "files.changed"
COMMAND = "files.command"
SHOWN = "files.shown"
EDITOR = "files.editor"
INERT = "guard.undone"
"""The event with which the guard says that it renamed files that other programs would execute."""
Scope = Literal["call", "turn", "run", "session", "undo", "since"]
_FROM_EVENT = ("agent", "run", "at", "seq")


def spell_path(path: str) -> str:
    """Return a path in a form that JSON can represent.

    A path that is not valid Unicode is encoded as a null character and hexadecimal digits.
    """
    try:
        path.encode()
        return path
    except UnicodeEncodeError:
        return "\0" + os.fsencode(path).hex()


def unspell_path(text: str) -> str:
    """Return the path that ``spell_path`` encoded."""
    if text.startswith("\0"):
        return os.fsdecode(bytes.fromhex(text[1:]))
    return text


class Change(msgspec.Struct, frozen=True, array_like=True):
    """A change at a path.

    Attributes:
        path: The path, as ``spell_path`` returns it.
        before: The state before the change; ``None`` if the path did not exist.
        after: The state after the change; ``None`` if the path does not exist.
    """

    path: str
    before: Node | None
    after: Node | None

    def nodes(self) -> list[Node]:
        """Return the states before and after the change, without ``None``."""
        return [node for node in (self.before, self.after) if node is not None]


def keeps_kind(change: Change) -> bool:
    """Return whether a change replaces an entry with one of the same kind."""
    if change.before is None or change.after is None:
        return False
    return change.before.kind == change.after.kind


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A group of changes that were made together.

    Attributes:
        id: The record's id.
        changes: The changes.
        tool: Name of the tool; ``undo`` for an undo.
        what: The command, or another short description.
        call: Id of the call.
        others: Ids of calls that ran at the same time and may have made some of the changes.
        turn: Number of the turn within the run.
        undoes: The paths that an undo restored, keyed by the id of the record that changed them.
        skipped: The paths that an undo could not restore and left as they were, keyed likewise.
        cut_off: Whether the call was cancelled, or hilum ended before determining the changes, so
            that others may have made some of them.
        found_late: Whether no event reported the changes, and a walk found them after the call, so
            that others may have made them.
        unprotected: Why changes made by the command are unknown or cannot be undone.
        agent: Name of the agent; the event contains this and all following attributes.
        run: Id of the run.
        at: Unix time in seconds.
        seq: Sequence number of the event.
    """

    id: str
    changes: tuple[Change, ...] = ()
    tool: str = ""
    what: str = ""
    call: str = ""
    others: tuple[str, ...] = ()
    turn: int = 0
    undoes: dict[str, tuple[str, ...]] = {}
    skipped: dict[str, tuple[str, ...]] = {}
    cut_off: bool = False
    found_late: bool = False
    unprotected: str = ""
    agent: str = ""
    run: str = ""
    at: float = 0.0
    seq: int = 0

    @property
    def is_undo(self) -> bool:
        """Whether the record is an undo."""
        return self.tool == "undo"

    def to_event(self, name: str) -> events.PluginEvent:
        """Return the event for this record."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        for field in _FROM_EVENT:
            data.pop(field, None)
        return events.PluginEvent(name=name, data=data, agent=self.agent, run=self.run)


def read_record(event: events.PluginEvent) -> Record | None:
    """Return an event's record, or ``None`` if a later version of hilum wrote the event."""
    try:
        record = msgspec.convert(event.data, Record)
    except msgspec.ValidationError:
        return None
    return msgspec.structs.replace(
        record, agent=event.agent, run=event.run, at=event.at, seq=event.seq
    )
