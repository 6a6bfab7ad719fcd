"""What the log tells of files: which agent has seen which content, what was changed, what was
undone. A fold over events.

A change is written down twice: ``files.changing`` before it is made, ``files.changed`` after. A
crash in between leaves the first alone; what really happened is then read off the disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple

import msgspec
from hilum import Text, UsageError, UserMessage, errors, events
from hilum.messages import writable

from hilum_files.journal.tree import Node

CHANGING = "files.changing"
CHANGED = "files.changed"
COMMAND = "files.command"
SHOWN = "files.shown"
QUEUED = "agents.queued"
"""What the plugin that runs agents writes when one agent starts another."""
RESULT = "agents.result"
"""What it writes when that is over, begun or not."""
WHOLE = "context:open_file", "context:recently_edited"
Scope = Literal["call", "turn", "run", "session", "undo"]


def spell(path: str) -> str:
    """Write a path so that JSON can hold it: one that is not Unicode becomes NUL and hexadecimal
    digits.
    """
    try:
        path.encode()
        return path
    except UnicodeEncodeError:
        return "\0" + os.fsencode(path).hex()


def unspell(text: str) -> str:
    """Read what ``spell`` wrote."""
    if text.startswith("\0"):
        return os.fsdecode(bytes.fromhex(text[1:]))
    return text


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
        cut_off: The call was cut off, or hilum ended before the changes were looked for: others may
            have had a part.
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
        """Return the event that tells it."""
        raw: dict[str, Any] = msgspec.to_builtins(self)
        data = {
            key: value for key, value in raw.items() if key not in ("agent", "run", "at", "seq")
        }
        return events.PluginEvent(name=name, data=data, agent=self.agent, run=self.run)


class Place(NamedTuple):
    """Where in a session something was done: by which agent, in which run and turn, by which
    call.
    """

    agent: str
    run: str
    turn: int = 0
    call: str = ""

    def key(self, scope: Scope) -> tuple[object, ...]:
        """Return what names the call, turn or run."""
        count = {"call": 4, "turn": 3, "run": 2}[scope]
        return tuple(self)[:count]


class Ledger:
    """The fold.

    Args:
        is_own: Returns whether a path relative to the workspace is in a folder of hilum's own.

    Attributes:
        last: Sequence number of the last event that was folded.
        records: What was changed, oldest first; undos too.
        undone: What is undone now, as pairs of record and path.
        undos: Every undo, also one that had nothing to write.
        open: Changes that were begun and whose end is not written.
        commands: Commands that were begun and whose changes were not looked for, by agent and call.
        seen: The hash of each file's content as each agent last saw it, by agent and spelled path.
        names: Under which name an agent sees, where it is not its own.
        causes: The record that last changed a path.
        unprotected: Commands whose changes are not known.
        news: Undos since the last run began.
        shown: The hash of each file that is to come whole with a run's prompt, by run and spelled
            path.
        started: What started the run of a sub-agent, by that run.
    """

    def __init__(self, is_own: Callable[[str], bool] = lambda path: False) -> None:
        self._is_own = is_own
        self.last = 0
        self.records: dict[str, Record] = {}
        self.undone: set[tuple[str, str]] = set()
        self.undos: dict[str, Record] = {}
        self.open: dict[str, Record] = {}
        self.commands: dict[tuple[str, str], Record] = {}
        self.seen: dict[str, dict[str, str]] = {}
        self.names: dict[str, str] = {}
        self.causes: dict[str, str] = {}
        self.unprotected: list[Record] = []
        self.news: list[Record] = []
        self.shown: dict[str, dict[str, str]] = {}
        self.started: dict[str, Place] = {}
        self._waiting: dict[str, list[_Start]] = {}
        self._parents: dict[str, str] = {}
        self._runs: dict[str, str] = {}

    def who(self, agent: str) -> str:
        """Return the name under which an agent sees."""
        return self.names.get(agent, agent)

    def apply(self, event: events.AnyEvent) -> None:
        """Fold one event."""
        self.last = event.seq
        if isinstance(event, events.CallDone):
            data = event.result.data
            if event.result.name == "read_file" and isinstance(data.get("hash"), str):
                self.seen.setdefault(self.who(event.agent), {})[str(data.get("file"))] = data[
                    "hash"
                ]
        elif isinstance(event, events.AgentStarted):
            self._parents[event.agent] = event.parent
        elif isinstance(event, events.PromptQueued):
            self._prompted(event)
        elif isinstance(event, events.RunEnded):
            self._runs.pop(event.agent, None)
        elif isinstance(event, events.PluginEvent) and event.name == QUEUED:
            self._queued(event)
        elif isinstance(event, events.PluginEvent) and event.name == RESULT:
            for waiting in self._waiting.values():
                waiting[:] = [
                    start for start in waiting if start.agent_id != event.data.get("agent_id")
                ]
        elif isinstance(event, events.RunStarted):
            self._runs[event.agent] = event.run
            self.news = []
            shown = self.shown.pop(event.run, None)
            if shown:
                sent = set(
                    _paths_in(event.message)
                )  # the kernel may have left something out for want of room
                self.seen.setdefault(event.agent, {}).update(
                    {path: shown[path] for path in shown.keys() & sent}
                )
        elif isinstance(event, events.PluginEvent) and event.name == SHOWN:
            with suppress(msgspec.ValidationError):
                self.shown[event.run] = msgspec.convert(event.data.get("files"), dict[str, str])
        elif isinstance(event, events.PluginEvent) and event.name in (CHANGING, CHANGED, COMMAND):
            try:
                record = msgspec.convert(event.data, Record)
            except msgspec.ValidationError:
                return  # not ours, or of a version to come
            record = msgspec.structs.replace(
                record, agent=event.agent, run=event.run, at=event.at, seq=event.seq
            )
            if event.name == CHANGING:
                self.open[record.id] = record
            elif event.name == COMMAND:
                self.commands[record.agent, record.call] = record
            else:
                self._changed(record)

    def _queued(self, event: events.PluginEvent) -> None:
        """Note what started an agent's next run, as the plugin that runs agents says."""
        with suppress(msgspec.ValidationError):
            start = msgspec.convert(event.data, _Start)
            self._waiting.setdefault(start.actor, []).append(start)

    def _prompted(self, event: events.PromptQueued) -> None:
        """Note which run of an agent it is that another agent started."""
        waiting = self._waiting.get(event.agent)
        if waiting is not None:
            for start in waiting:
                if writable(start.prompt) == event.text:
                    waiting.remove(start)
                    if start.owner_run:
                        self.started[event.run] = start.place()
                    return
            return
        parent = self._parents.get(event.agent, "")
        if (
            parent in self._runs
        ):  # an agent that a program added: it works for its parent, while that works
            self.started[event.run] = Place(parent, self._runs[parent])

    def lineage(self, record: Record) -> list[Place]:
        """Return where a record was made, then what started that agent, and so on up to the user's
        prompt.
        """
        places = [Place(record.agent, record.run, record.turn, record.call or record.id)]
        runs = {record.run}
        while (above := self.started.get(places[-1].run)) is not None and above.run not in runs:
            places.append(above)
            runs.add(above.run)
        return places

    def _changed(self, record: Record) -> None:
        self.open.pop(record.id, None)
        self.commands.pop((record.agent, record.call), None)
        if record.unprotected:
            self.unprotected.append(record)
        record = self._without_own(record)
        if record.changes:
            self.records[record.id] = record
            if record.tool == "undo":
                self.news.append(record)
        if record.undoes:
            self.undos[record.id] = record
        for name, paths in record.undoes.items():
            self._mark_undone(name, set(paths))
        for change in record.changes:
            self.causes[change.path] = record.id
            if (
                record.tool not in ("undo", "")
                and not record.what
                and change.after
                and change.after.kind == "file"
            ):
                self.seen.setdefault(self.who(record.agent), {})[change.path] = change.after.hash

    def _without_own(self, record: Record) -> Record:
        """Return a record without what hilum itself wrote while a command ran.

        An older hilum logged it. Its databases change all the time, so that such a change conflicts
        with every undo. What a file tool wrote there stays, as the user agreed to it, and so does
        what undoes that.
        """
        if record.tool == "undo":
            undone = {
                change.path
                for name in record.undoes
                if name in self.records
                for change in self.records[name].changes
            }
        elif record.what:
            undone = set()
        else:
            return record
        kept = tuple(
            c for c in record.changes if c.path in undone or not self._is_own(unspell(c.path))
        )
        return msgspec.structs.replace(record, changes=kept)

    def _mark_undone(self, name: str, paths: set[str]) -> None:
        """Note that a record is undone at these paths.

        If it was an undo itself, what it had undone holds again.
        """
        self.undone.update((name, path) for path in paths)
        for inner, inner_paths in self._targets(name):
            self._mark_holding(inner, inner_paths & paths)

    def _mark_holding(self, name: str, paths: set[str]) -> None:
        """Note that a record holds again at these paths.

        If it was an undo, what it had undone is undone again.
        """
        self.undone.difference_update((name, path) for path in paths)
        for inner, inner_paths in self._targets(name):
            self._mark_undone(inner, inner_paths & paths)

    def _targets(self, name: str) -> list[tuple[str, set[str]]]:
        """Return the records that an undo took back, each with its paths.

        Nothing for a record that is no undo.
        """
        record = self.undos.get(name)
        if record is None:
            return []
        return [(target, set(paths)) for target, paths in record.undoes.items()]

    def _is_redo(self, record: Record) -> bool:
        """Return whether a record brought back what an undo had taken: it took back an undo, not a
        change.
        """
        return any(
            name in self.undos and not self._is_redo(self.undos[name]) for name in record.undoes
        )

    def compose(self, records: Sequence[Record]) -> dict[str, list[Change]]:
        """Join the selected changes of each path to as few as the log allows, oldest first.

        What was undone between two changes leaves a gap: the later one begins with a content that
        holds no more. A change and the undo of it together change nothing, so that both can be
        passed over where nothing else came between.

        Args:
            records: What is selected, oldest first.

        Returns:
            The joined changes by path.
        """
        selected: dict[str, set[str]] = {}
        for record in records:
            for change in record.changes:
                selected.setdefault(change.path, set()).add(record.id)
        entries: dict[str, list[_Entry]] = {path: [] for path in selected}
        for record in self.records.values():
            for change in record.changes:
                if change.path in entries:
                    entries[change.path].append(_Entry(record.id, change))
        return {
            path: _join(found, selected[path], self._cancelled(path, selected[path]))
            for path, found in entries.items()
        }

    def _cancelled(self, path: str, selected: set[str]) -> dict[str, set[str]]:
        """Return the undos that hold at a path, each with what it undid there."""
        groups = {}
        for name, record in self.undos.items():
            targets = {target for target, paths in record.undoes.items() if path in paths}
            if targets and name not in selected and (name, path) not in self.undone:
                groups[name] = targets
        return groups

    def is_last(self, path: str, records: Sequence[Record]) -> bool:
        """Return whether no change that holds came at this path after the selected ones."""
        selected = {record.id for record in records}
        for record in reversed(self.records.values()):
            if any(change.path == path for change in record.changes):
                if record.id in selected:
                    return True
                if record.tool != "undo" and (record.id, path) not in self.undone:
                    return False
        return True

    def left(self, record: Record) -> tuple[Change, ...]:
        """The changes of a record that are not undone."""
        return tuple(
            change for change in record.changes if (record.id, change.path) not in self.undone
        )

    def select(self, scope: Scope, name: str = "") -> list[Record]:
        """Return the records of a call, turn or run, oldest first, each with the changes that are
        not undone.

        What sub-agents changed belongs to the call, turn and run that started them, and to those
        above.

        Args:
            scope: What to look for; ``undo`` is an undo itself, ``session`` everything.
            name: Its id or the beginning of it; a turn is ``RUN:NUMBER`` or the number in the last
                run. Without it the last one that changed something and is not undone: a run and a
                turn are those that the user prompted.

        Raises:
            UsageError: There is none, or the name fits several.
        """
        there = [
            r
            for r in self.records.values()
            if (r.tool == "undo") == (scope == "undo") and self.left(r)
        ]
        if (
            scope == "undo"
        ):  # what a redo brought back is undone as the call, turn or run that it is
            there = [record for record in there if not self._is_redo(record)]
        if scope == "session":
            chosen = there
        elif scope == "undo":
            chosen = _named_undo(there, name)
        else:
            chosen = self._within(there, scope, name)
        if not chosen and scope != "session":
            which = f"{scope} {name}" if name else scope
            what = f"No {which} has changes to show or undo."
            if scope == "undo":
                what = "There is no undo that could be undone."
            raise UsageError(
                what, code=errors.E_NOT_FOUND, hint="hilum diff --list shows what was changed."
            )
        return [msgspec.structs.replace(record, changes=self.left(record)) for record in chosen]

    def _within(self, there: Sequence[Record], scope: Scope, name: str) -> list[Record]:
        """Return the records that were made in a call, turn or run, or by agents that it
        started.
        """
        lineages = [self.lineage(record) for record in there]
        if not there:
            return []
        if not name:
            wanted = lineages[-1][0 if scope == "call" else -1].key(scope)
        else:
            places = [place for lineage in lineages for place in _named(lineage, scope, name)]
            if scope == "turn" and ":" not in name:  # of the last run that has it
                places = [place for place in places if place.run == places[-1].run]
            exact = [place for place in places if name in (place.run, place.call)]
            if len({place.key(scope) for place in places}) > 1 and not exact:
                raise UsageError(
                    f"More than one {scope} begins with {name!r}.",
                    code=errors.E_BAD_ARGS,
                    hint="Give more of it.",
                )
            if not places:
                return []
            wanted = (exact or places)[-1].key(scope)
        pairs = zip(there, lineages, strict=True)
        return [
            record
            for record, lineage in pairs
            if any(place.key(scope) == wanted for place in lineage)
        ]


class _Entry(NamedTuple):
    """One change of a path, and the record that it is in."""

    record: str
    change: Change


def _join(
    entries: Sequence[_Entry], selected: set[str], cancelled: dict[str, set[str]]
) -> list[Change]:
    """Join the selected changes of one path where each begins with what the one before it left.

    Args:
        entries: All changes of the path, oldest first.
        selected: The records to join.
        cancelled: Undos, each with what it undid: together these change nothing.
            They are passed over, each as a whole or not at all.
    """
    there = {entry.record for entry in entries}
    groups = [({name} | targets) & there for name, targets in cancelled.items()]
    written = {
        record
        for name, targets in cancelled.items()
        if name in there
        for record in {name} | targets
    }
    while True:
        parts = _parts(entries, selected.union(*groups))
        whole = [
            group
            for group in groups
            if any(group <= {entry.record for entry in part} for part in parts)
        ]
        if len(whole) == len(groups):
            break
        groups = whole
    joined = []
    for part in parts:
        chosen = [index for index, entry in enumerate(part) if entry.record in selected]
        if not chosen:
            continue
        # At either end, what was undone by an undo that wrote nothing is no pair that changes
        # nothing: leave it out.
        kept = [index for index, entry in enumerate(part) if entry.record in selected | written]
        used = part[kept[0] : kept[-1] + 1]
        joined.append(Change(used[0].change.path, used[0].change.before, used[-1].change.after))
    return joined


def _parts(entries: Sequence[_Entry], members: set[str]) -> list[list[_Entry]]:
    """Split the changes of a path into parts of members, each beginning with what the one before it
    left.
    """
    parts: list[list[_Entry]] = []
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


class _Start(msgspec.Struct, frozen=True):
    """What the plugin that runs agents says of a start, as far as it matters here."""

    actor: str
    prompt: str
    agent_id: str = ""
    owner: str = ""
    owner_run: str = ""
    key: str = ""

    def place(self) -> Place:
        """Return the call that started it; only its run where the call is not known."""
        _, run, turn, call = (self.key.rsplit("/", 3) + [""] * 4)[:4]
        if run != self.owner_run or not turn.isdecimal():
            return Place(self.owner, self.owner_run)
        return Place(self.owner, self.owner_run, int(turn), call)


def _paths_in(message: UserMessage) -> Iterator[str]:
    """Yield the paths of the files that came with a prompt."""
    from html import unescape

    for part in message.parts:
        if isinstance(part, Text) and part.source in WHOLE:
            yield unescape(part.text.partition("\n")[0].partition(' path="')[2].partition('"')[0])


def _named(lineage: Sequence[Place], scope: Scope, name: str) -> list[Place]:
    """Return the places that a name fits."""
    if scope == "call":
        return [place for place in lineage if place.call.startswith(name)]
    if scope == "run":
        return [place for place in lineage if place.run.startswith(name)]
    run, _, number = name.rpartition(":")
    places = lineage if run else lineage[-1:]
    return [place for place in places if place.run.startswith(run) and str(place.turn) == number]


def _named_undo(there: Sequence[Record], name: str) -> list[Record]:
    """Return the undo of that name, or the last one."""
    found = [record for record in there if record.id.startswith(name)]
    exact = [record for record in found if record.id == name] or found
    if name and len(exact) > 1:
        raise UsageError(
            f"More than one undo begins with {name!r}.",
            code=errors.E_BAD_ARGS,
            hint="Give more of it.",
        )
    return exact[-1:]
