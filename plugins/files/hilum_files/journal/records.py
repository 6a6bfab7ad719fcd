"""What the log tells of files: which agent has seen which content, what was changed, what was undone. A fold over events.

A change is written down twice: ``files.changing`` before it is made, ``files.changed`` after. A crash in between leaves the
first alone; what really happened is then read off the disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal

import msgspec
from hilum import Text, UsageError, UserMessage, errors, events

from hilum_files.journal.tree import Node

CHANGING, CHANGED, COMMAND = "files.changing", "files.changed", "files.command"
SHOWN = "files.shown"
WHOLE = "context:open_file", "context:recently_edited"
Scope = Literal["call", "turn", "run", "session", "undo"]


def spell(path: str) -> str:
    """Write a path so that JSON can hold it: one that is not Unicode becomes NUL and hexadecimal digits."""
    try:
        path.encode()
        return path
    except UnicodeEncodeError:
        return "\0" + os.fsencode(path).hex()


def unspell(text: str) -> str:
    """Read what ``spell`` wrote."""
    return os.fsdecode(bytes.fromhex(text[1:])) if text.startswith("\0") else text


class Change(msgspec.Struct, frozen=True, array_like=True):
    """What was at a path (spelled), and what is there then; ``None`` for nothing."""

    path: str
    before: Node | None
    after: Node | None


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Changes that were made together.

    Args:
        id: Names the record.
        changes: What was changed.
        tool: Name of the tool; ``undo`` for an undo.
        what: The command, or other words that say what was done.
        call: Id of the call.
        others: Ids of calls that ran beside it and may have had a part in it.
        turn: Number of the turn in its run.
        undoes: Ids of records, each with the paths that were put back.
        cut_off: The call was cut off, or hilum ended before the changes were looked for: others may have had a part.
        unprotected: Why changes of the command are not known, or cannot be undone.
        agent: Its agent; from the event, as are the rest.
        run: Its run.
        at: When, Unix time in seconds.
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
    cut_off: bool = False
    unprotected: str = ""
    agent: str = ""
    run: str = ""
    at: float = 0.0
    seq: int = 0

    def event(self, name: str) -> events.PluginEvent:
        """Give the event that tells it."""
        raw: dict[str, Any] = msgspec.to_builtins(self)
        data = {key: value for key, value in raw.items() if key not in ("agent", "run", "at", "seq")}
        return events.PluginEvent(name=name, data=data, agent=self.agent, run=self.run)

    def key(self, scope: Scope) -> tuple[object, ...]:
        """Name the call, turn or run it belongs to."""
        whole: dict[Scope, tuple[object, ...]] = {
            "call": (self.agent, self.run, self.turn, self.call or self.id),
            "turn": (self.agent, self.run, self.turn),
            "run": (self.agent, self.run),
            "session": (),
            "undo": (self.id,),
        }
        return whole[scope]


class Ledger:
    """The fold.

    Attributes:
        last: Sequence number of the last event that was folded.
        records: What was changed, oldest first; undos too.
        undone: What is undone now, as pairs of record and path.
        open: Changes that were begun and whose end is not written.
        commands: Commands that were begun and whose changes were not looked for, by agent and call.
        seen: The hash of each file's content as each agent last saw it, by agent and spelled path.
        causes: The record that last changed a path.
        unprotected: Commands whose changes are not known.
        news: Undos since the last run began.
        shown: The hash of each file that is to come whole with a run's prompt, by run and spelled path.
    """

    def __init__(self) -> None:
        self.last = 0
        self.records: dict[str, Record] = {}
        self.undone: set[tuple[str, str]] = set()
        self.open: dict[str, Record] = {}
        self.commands: dict[tuple[str, str], Record] = {}
        self.seen: dict[str, dict[str, str]] = {}
        self.causes: dict[str, str] = {}
        self.unprotected: list[Record] = []
        self.news: list[Record] = []
        self.shown: dict[str, dict[str, str]] = {}

    def apply(self, event: events.AnyEvent) -> None:
        """Fold one event."""
        self.last = event.seq
        if isinstance(event, events.CallDone):
            data = event.result.data
            if event.result.name == "read_file" and isinstance(data.get("hash"), str):
                self.seen.setdefault(event.agent, {})[str(data.get("file"))] = data["hash"]
        elif isinstance(event, events.RunStarted):
            self.news = []
            if shown := self.shown.pop(event.run, None):
                sent = set(_paths_in(event.message))  # the kernel may have left something out for want of room
                self.seen.setdefault(event.agent, {}).update({path: shown[path] for path in shown.keys() & sent})
        elif isinstance(event, events.PluginEvent) and event.name == SHOWN:
            with suppress(msgspec.ValidationError):
                self.shown[event.run] = msgspec.convert(event.data.get("files"), dict[str, str])
        elif isinstance(event, events.PluginEvent) and event.name in (CHANGING, CHANGED, COMMAND):
            try:
                record = msgspec.convert(event.data, Record)
            except msgspec.ValidationError:
                return  # not ours, or of a version to come
            record = msgspec.structs.replace(record, agent=event.agent, run=event.run, at=event.at, seq=event.seq)
            if event.name == CHANGING:
                self.open[record.id] = record
            elif event.name == COMMAND:
                self.commands[record.agent, record.call] = record
            else:
                self._changed(record)

    def _changed(self, record: Record) -> None:
        self.open.pop(record.id, None)
        self.commands.pop((record.agent, record.call), None)
        if record.unprotected:
            self.unprotected.append(record)
        if record.changes:
            self.records[record.id] = record
            if record.tool == "undo":
                self.news.append(record)
        for name, paths in record.undoes.items():
            self._put_back(name, paths)
        for change in record.changes:
            self.causes[change.path] = record.id
            if record.tool not in ("undo", "") and not record.what and change.after and change.after.kind == "file":
                self.seen.setdefault(record.agent, {})[change.path] = change.after.hash

    def _put_back(self, name: str, paths: Sequence[str]) -> None:
        """Note that a record is undone at these paths; if it was an undo itself, what it had undone holds again."""
        self.undone.update((name, path) for path in paths)
        if (record := self.records.get(name)) is not None:
            for inner, inner_paths in record.undoes.items():
                for path in set(inner_paths) & set(paths):
                    self.undone.discard((inner, path))

    def left(self, record: Record) -> tuple[Change, ...]:
        """The changes of a record that are not undone."""
        return tuple(change for change in record.changes if (record.id, change.path) not in self.undone)

    def select(self, scope: Scope, name: str = "") -> list[Record]:
        """Give the records of a call, turn or run, oldest first, each with the changes that are not undone.

        Args:
            scope: What to look for; ``undo`` is an undo itself, ``session`` everything.
            name: Its id or the beginning of it; a turn is ``RUN:NUMBER`` or the number in the last run. Without it the last
                one that changed something and is not undone.

        Raises:
            UsageError: There is none, or the name fits several.
        """
        there = [r for r in self.records.values() if (r.tool == "undo") == (scope == "undo") and self.left(r)]
        if name:
            there = _named(there, scope, name)
        if not there and scope == "session":
            return []
        if not there:
            which = f"{scope} {name}" if name else scope
            what = (
                "There is no undo that could be undone."
                if scope == "undo"
                else f"No {which} has changes to show or undo."
            )
            raise UsageError(what, code=errors.E_NOT_FOUND, hint="hilum diff --list shows what was changed.")
        key = there[-1].key(scope)
        chosen = [record for record in there if record.key(scope) == key]
        return [msgspec.structs.replace(record, changes=self.left(record)) for record in chosen]


def _paths_in(message: UserMessage) -> Iterator[str]:
    """Give the paths of the files that came with a prompt."""
    from html import unescape

    for part in message.parts:
        if isinstance(part, Text) and part.source in WHOLE:
            yield unescape(part.text.partition("\n")[0].partition(' path="')[2].partition('"')[0])


def _named(records: Iterable[Record], scope: Scope, name: str) -> list[Record]:
    def fits(record: Record) -> bool:
        if scope == "turn":
            run, _, number = name.rpartition(":")
            return record.run.startswith(run) and str(record.turn) == number
        return {"call": record.call or record.id, "run": record.run, "undo": record.id}.get(scope, "").startswith(name)

    found = [record for record in records if fits(record)]
    if scope == "turn" and ":" not in name:  # of the last run that has it
        found = [record for record in found if record.run == found[-1].run]
    exact = [record for record in found if name in (record.call, record.run, record.id)]
    found = exact or found
    if len({record.key(scope) for record in found}) > 1 and not exact:
        raise UsageError(
            f"More than one {scope} begins with {name!r}.", code=errors.E_BAD_ARGS, hint="Give more of it."
        )
    return found
