"""Computes state from the log: the contents that agents have seen, changes and undos."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import suppress

import msgspec
from hilum import Text, UsageError, UserMessage, errors, events

from hilum_files.journal.composing import Entry, join_changes
from hilum_files.journal.origins import Origin, OriginTracker, call_name, find_named
from hilum_files.journal.records import (
    CHANGED,
    CHANGING,
    COMMAND,
    INERT,
    SHOWN,
    Change,
    Record,
    Scope,
    read_record,
    unspell_path,
)
from hilum_files.journal.renames import Rename, Renames

WHOLE_FILE_SOURCES = ("context:open_file", "context:recently_edited")
"""The sources of prompt parts that contain a whole file."""


class Ledger:
    """The state of a session's files, updated event by event.

    Args:
        is_own: A function that returns whether a path, relative to the workspace, is in one of
            hilum's own folders.
        root: The workspace, resolved, to find the files that the guard renamed; if empty, these are
            ignored.

    Attributes:
        last: Sequence number of the last event that was applied.
        records: The changes, oldest first, including undos.
        undone: The changes that are currently undone, as pairs of record and path.
        skipped: The changes that an undo could not restore and left in effect, as pairs of record and
            path, each with the sequence number of the undo.
        undos: All undos, including those that wrote nothing.
        open: Changes that were begun but have no recorded end.
        commands: Commands that have begun and whose changes have not been determined, keyed by
            agent and call.
        seen: The hash of each file's content as each agent last saw it, keyed by agent and spelled
            path.
        names: The name under which the files that an agent has seen are recorded, if it is not the
            agent's own name.
        causes: The record that last changed each path.
        unprotected: Commands whose changes are unknown.
        news: Undos made since the last run began.
        shown: The hash of each file that a run's prompt will contain in full, keyed by run and
            spelled path.
        origins: The origin of each run.
    """

    def __init__(self, is_own: Callable[[str], bool] = lambda path: False, root: str = "") -> None:
        self._is_own = is_own
        self._renames = Renames(root)
        self.last = 0
        self.records: dict[str, Record] = {}
        self.undone: set[tuple[str, str]] = set()
        self.skipped: dict[tuple[str, str], int] = {}
        self.undos: dict[str, Record] = {}
        self.open: dict[str, Record] = {}
        self.commands: dict[tuple[str, str], Record] = {}
        # Those of the commands that were allowed to run.
        self._started: set[tuple[str, str]] = set()
        self.seen: dict[str, dict[str, str]] = {}
        self.names: dict[str, str] = {}
        self.causes: dict[str, str] = {}
        self.unprotected: list[Record] = []
        self.news: list[Record] = []
        self.shown: dict[str, dict[str, str]] = {}
        self.origins = OriginTracker()
        # These are computed at first use: an undo of thousands of files looks up each path.
        self._entries: dict[str, list[Entry]] | None = None
        self._undone_at: dict[str, set[str]] | None = None
        self._paths_undone_by: dict[str, dict[str, frozenset[str]]] = {}

    # --- events -----------------------------------------------------------------------------------

    def apply(self, event: events.AnyEvent) -> None:
        """Update the state with an event."""
        self.last = event.seq
        self.origins.apply(event)
        if isinstance(event, events.CallDone):
            self._apply_read(event)
        elif isinstance(event, events.CallStarted):
            if (event.agent, event.call.id) in self.commands:
                self._started.add((event.agent, event.call.id))
        elif isinstance(event, events.RunStarted):
            self._apply_run(event)
        elif isinstance(event, events.PluginEvent):
            self._apply_own(event)

    @property
    def is_interrupted(self) -> bool:
        """Whether changes or commands have no recorded end."""
        return bool(self.open or self.commands)

    def has_started(self, command: Record) -> bool:
        """Return whether a command that has not ended was allowed to run."""
        # A program that no call started has begun when its record is written.
        return not command.tool or (command.agent, command.call) in self._started

    def seen_by(self, agent: str) -> dict[str, str]:
        """Return the hashes of the files that an agent saw, keyed by spelled path."""
        return self.seen.setdefault(self.names.get(agent, agent), {})

    def _apply_read(self, event: events.CallDone) -> None:
        hashed = event.result.data.get("hash")
        if event.result.name == "read_file" and isinstance(hashed, str):
            self.seen_by(event.agent)[str(event.result.data.get("file"))] = hashed

    def _apply_run(self, event: events.RunStarted) -> None:
        # The prompt of the run has informed the agent of the undos since the last run.
        self.news = []
        shown = self.shown.pop(event.run, None)
        if not shown:
            return
        # The kernel may have omitted a file for lack of space.
        seen = self.seen.setdefault(event.agent, {})
        for path in _whole_files(event.message):
            if path in shown:
                seen[path] = shown[path]

    def _apply_own(self, event: events.PluginEvent) -> None:
        """Update the state with an event of this plugin."""
        if event.name == SHOWN:
            with suppress(msgspec.ValidationError):  # written by a later version of hilum
                self.shown[event.run] = msgspec.convert(event.data.get("files"), dict[str, str])
        elif event.name in (CHANGING, CHANGED, COMMAND):
            record = read_record(event)
            if record is None:
                return
            if event.name == CHANGING:
                self.open[record.id] = record
            elif event.name == COMMAND:
                self.commands[record.agent, record.call] = record
            else:
                self._apply_changed(record)
        elif event.name == INERT:
            for renamed in self._renames.read(event):
                self._apply_rename(renamed)

    def _apply_rename(self, renamed: Rename) -> None:
        """Record that what the session wrote has another name now."""
        record = self._renames.describe(renamed, self.records, self.entries)
        if record is not None:
            self._apply_changed(record)

    def _apply_changed(self, record: Record) -> None:
        self._entries = None
        self._undone_at = None
        self._paths_undone_by.pop(record.id, None)
        self.open.pop(record.id, None)
        self.commands.pop((record.agent, record.call), None)
        self._started.discard((record.agent, record.call))
        if record.unprotected:
            self.unprotected.append(record)
        record = self._without_own(self._renames.without_known(record))
        if record.changes:
            self.records[record.id] = record
            if record.is_undo:
                self.news.append(record)
        if record.undoes:
            self.undos[record.id] = record
        for name, paths in record.undoes.items():
            self._mark_undone(self.undone, name, set(paths))
        self._note_skipped(record)
        self._note_contents(record)
        for renamed in self._renames.pop_early(record):
            self._apply_rename(renamed)

    def _note_skipped(self, record: Record) -> None:
        """Store what an undo left in effect."""
        reverted = [self.undos[name].seq for name in record.undoes if name in self.undos]
        if reverted:
            # What the reverted undo and later ones left will be tried again.
            first = min(reverted)
            for (name, path), seq in list(self.skipped.items()):
                if seq >= first and name not in self.undos:
                    del self.skipped[name, path]
        for name, paths in record.skipped.items():
            self.skipped.update(((name, path), record.seq) for path in paths)

    def _note_contents(self, record: Record) -> None:
        """Store which record last changed a path, and which content the record's agent has seen."""
        # An agent has seen the contents that it wrote with a tool, but not those written by its
        # commands.
        is_own_writing = not record.is_undo and record.tool and not record.what
        for change in record.changes:
            self.causes[change.path] = record.id
            if is_own_writing and change.after and change.after.kind == "file":
                self.seen_by(record.agent)[change.path] = change.after.hash

    def _without_own(self, record: Record) -> Record:
        """Return a record without the files that hilum itself wrote while a command ran.

        Older versions of hilum recorded these files. hilum's databases change all the time, so such
        a change would conflict with every undo. Changes that a file tool made in hilum's folders,
        and undos of these changes, are kept because the user approved them.
        """
        if not record.is_undo and not record.what:
            return record
        undone: set[str] = set()
        for name in record.undoes:
            if name in self.records:
                undone.update(change.path for change in self.records[name].changes)
        kept: list[Change] = []
        for change in record.changes:
            if change.path in undone or not self._is_own(unspell_path(change.path)):
                kept.append(change)
        return msgspec.structs.replace(record, changes=tuple(kept))

    # --- what is undone ---------------------------------------------------------------------------

    def _mark_undone(self, undone: set[tuple[str, str]], name: str, paths: Set[str]) -> None:
        """Mark a record as undone at the given paths.

        If the record was itself an undo, the changes that it had undone are in effect again.
        """
        undone.update((name, path) for path in paths)
        for target, target_paths in self._targets(name):
            self._mark_in_effect(undone, target, target_paths & paths)

    def _mark_in_effect(self, undone: set[tuple[str, str]], name: str, paths: Set[str]) -> None:
        """Mark a record as in effect again at the given paths.

        If the record was an undo, the changes that it had undone are undone again.
        """
        undone.difference_update((name, path) for path in paths)
        for target, target_paths in self._targets(name):
            self._mark_undone(undone, target, target_paths & paths)

    def _targets(self, name: str) -> Iterable[tuple[str, frozenset[str]]]:
        """Return the records that an undo reverted, each with its paths.

        There are none for a record that is not an undo.
        """
        record = self.undos.get(name)
        if record is None:
            return ()
        found = self._paths_undone_by.get(name)
        if found is None:
            found = {target: frozenset(paths) for target, paths in record.undoes.items()}
            self._paths_undone_by[name] = found
        return found.items()

    def undone_with(self, path: str, names: Iterable[str]) -> set[str]:
        """Return the records that will be undone at a path after an undo of the given records."""
        if self._undone_at is None:
            self._undone_at = {}
            for name, changed in self.undone:
                self._undone_at.setdefault(changed, set()).add(name)
        # A copy is used, because the state itself must not change.
        undone = {(name, path) for name in self._undone_at.get(path, ())}
        for name in names:
            self._mark_undone(undone, name, {path})
        return {name for name, _ in undone}

    def changes_in_effect(self, record: Record) -> tuple[Change, ...]:
        """Return a record's changes that are not undone."""
        return tuple(
            change for change in record.changes if (record.id, change.path) not in self.undone
        )

    def changes_to_undo(self, record: Record) -> tuple[Change, ...]:
        """Return a record's changes that are neither undone nor left in effect by an undo."""
        return tuple(
            change
            for change in self.changes_in_effect(record)
            if (record.id, change.path) not in self.skipped
        )

    def is_last(self, path: str, records: Sequence[Record]) -> bool:
        """Return whether no other change in effect follows the selected changes to a path.

        A change that an undo left in effect does not count.
        """
        selected = {record.id for record in records}
        for entry in reversed(self.entries(path)):
            if entry.record in selected:
                return True
            is_undo = self.records[entry.record].is_undo
            key = entry.record, path
            if not is_undo and key not in self.undone and key not in self.skipped:
                return False
        return True

    # --- joined changes ---------------------------------------------------------------------------

    def entries(self, path: str) -> list[Entry]:
        """Return all changes to a path, oldest first."""
        if self._entries is None:
            self._entries = {}
            for record in self.records.values():
                for change in record.changes:
                    self._entries.setdefault(change.path, []).append(Entry(record.id, change))
        return self._entries.get(path, [])

    def compose(self, records: Sequence[Record]) -> dict[str, list[Change]]:
        """Join the selected changes to each path into as few as possible, oldest first.

        A change that was undone between two others leaves a gap: the later change begins with
        content that is no longer in effect. A change and its undo together change nothing, and are
        skipped if no other change is between them.

        Args:
            records: The selected records, oldest first.

        Returns:
            The joined changes by path.
        """
        selected: dict[str, set[str]] = {}
        for record in records:
            for change in record.changes:
                selected.setdefault(change.path, set()).add(record.id)
        composed: dict[str, list[Change]] = {}
        for path, names in selected.items():
            undos = self._undos_in_effect(path, names)
            composed[path] = join_changes(self.entries(path), names, undos)
        return composed

    def _undos_in_effect(self, path: str, selected: set[str]) -> dict[str, set[str]]:
        """Return the unselected undos in effect at a path, each with the records it undid."""
        undos: dict[str, set[str]] = {}
        for name in self.undos:
            if name in selected or (name, path) in self.undone:
                continue
            targets = {target for target, paths in self._targets(name) if path in paths}
            if targets:
                undos[name] = targets
        return undos

    # --- selection --------------------------------------------------------------------------------

    def select(self, scope: Scope, name: str = "") -> list[Record]:
        """Return the records of a call, turn or run, oldest first, with the changes in effect.

        Changes made by sub-agents belong to the call, turn and run that started these agents, and
        to the enclosing ones.

        Args:
            scope: The kind of unit; ``undo`` means an undo itself, ``session`` the whole session,
                ``since`` everything after an event.
            name: The unit's id or a prefix of the id; for a turn, ``RUN:NUMBER`` or the number in
                the last run; for ``since``, the number of the event. By default, the last unit that
                changed something and is not undone, as far as it can be; a default run or turn is
                one that the user prompted.

        Raises:
            UsageError: No unit matches the name, or several do.
        """
        all_records = self.records.values()
        candidates = [record for record in all_records if self._is_candidate(record, scope)]
        is_default = not name and scope != "session"
        if is_default:
            candidates = [record for record in candidates if self.changes_to_undo(record)]
        if scope == "session":
            chosen = candidates
        elif scope == "undo":
            chosen = _select_undo(candidates, name)
        elif scope == "since":
            after = _parse_event_number(name)
            chosen = [record for record in candidates if record.seq > after]
        else:
            chosen = self._select_within(candidates, scope, name)
        if not chosen and scope != "session":
            raise _nothing_found_error(scope, name)
        selected: list[Record] = []
        for record in chosen:
            changes = self.changes_in_effect(record)
            if is_default:
                changes = self.changes_to_undo(record)
            selected.append(msgspec.structs.replace(record, changes=changes))
        return selected

    def name_unit(self, scope: Scope, records: Sequence[Record]) -> str:
        """Return the name with which ``select`` finds the unit that records belong to.

        Args:
            scope: ``call``, ``turn``, ``run`` or ``undo``.
            records: The records, oldest first.
        """
        if scope == "undo":
            return records[-1].id
        trace = self.origins.trace(records[-1])
        if scope == "call":
            return call_name(trace[0])
        origin = trace[-1]
        return f"{origin.run}:{origin.turn}" if scope == "turn" else origin.run

    def name_older(self, scope: Scope, records: Sequence[Record]) -> str:
        """Return the name of the unit before some records that can be undone next; "" if none.

        Args:
            scope: As in ``name_unit``.
            records: The records, oldest first.
        """
        older: list[Record] = []
        for record in self.records.values():
            if record.seq >= records[0].seq:
                break
            if self._is_candidate(record, scope) and self.changes_to_undo(record):
                older.append(record)
        return self.name_unit(scope, older) if older else ""

    def _is_candidate(self, record: Record, scope: Scope) -> bool:
        if record.is_undo != (scope == "undo") or not self.changes_in_effect(record):
            return False
        # Changes that a redo restored are undone with the call, turn or run to which they belong.
        return scope != "undo" or not self._is_redo(record)

    def _is_redo(self, record: Record) -> bool:
        """Return whether a record reverted an undo instead of a change."""
        undos = [self.undos[name] for name in record.undoes if name in self.undos]
        return any(not self._is_redo(undo) for undo in undos)

    def _select_within(self, candidates: Sequence[Record], scope: Scope, name: str) -> list[Record]:
        """Return the records of a call, turn or run, and of the agents that it started."""
        traces = [self.origins.trace(record) for record in candidates]
        if not traces:
            return []
        if name:
            wanted = _find_named_unit(traces, scope, name)
        else:
            # Without a name, select the last call, or the last run or turn that the user prompted.
            last = traces[-1]
            wanted = (last[0] if scope == "call" else last[-1]).key(scope)
        chosen: list[Record] = []
        for record, trace in zip(candidates, traces, strict=True):
            if any(origin.key(scope) == wanted for origin in trace):
                chosen.append(record)
        return chosen


def _find_named_unit(
    traces: Sequence[list[Origin]], scope: Scope, name: str
) -> tuple[object, ...] | None:
    """Return the key of the call, turn or run that matches a name, or ``None``.

    Raises:
        UsageError: The name matches several.
    """
    named: list[Origin] = []
    for trace in traces:
        named += find_named(trace, scope, name)
    if not named:
        return None
    if scope == "turn" and ":" not in name:  # keep the last run that has this turn
        named = [origin for origin in named if origin.run == named[-1].run]
    exact = [origin for origin in named if name in (origin.run, origin.call, call_name(origin))]
    keys = [origin.key(scope) for origin in exact or named]
    if not exact and len(set(keys)) > 1:
        raise _ambiguous_name_error(scope, name)
    return keys[-1]


def _select_undo(candidates: Sequence[Record], name: str) -> list[Record]:
    """Return the undo with a given name, or the last undo."""
    named = [record for record in candidates if record.id.startswith(name)]
    chosen = [record for record in named if record.id == name] or named
    if name and len(chosen) > 1:
        raise _ambiguous_name_error("undo", name)
    return chosen[-1:]


def _parse_event_number(name: str) -> int:
    """Return the number of an event.

    Raises:
        UsageError: The text is not a number.
    """
    if not name.isdecimal():
        raise UsageError(
            f"{name!r} is not the number of an event.",
            code=errors.E_BAD_ARGS,
            hint="hilum sessions show ID --events shows the numbers.",
        )
    return int(name)


def _nothing_found_error(scope: Scope, name: str) -> UsageError:
    problem = f"No {scope} {name}".rstrip() + " has changes to show or undo."
    if scope == "undo":
        problem = "There is no undo to revert."
    elif scope == "since":
        problem = f"Nothing was changed after event {name}."
    return UsageError(problem, code=errors.E_NOT_FOUND, hint="hilum diff --list shows all changes.")


def _ambiguous_name_error(scope: Scope, name: str) -> UsageError:
    return UsageError(
        f"More than one {scope} begins with {name!r}.",
        code=errors.E_BAD_ARGS,
        hint="Use a longer prefix of its id.",
    )


def _whole_files(message: UserMessage) -> Iterator[str]:
    """Yield the paths of the files that a prompt contained in full."""
    for part in message.parts:
        if isinstance(part, Text) and part.source in WHOLE_FILE_SOURCES:
            first_line, _, _ = part.text.partition("\n")
            _, _, rest = first_line.partition(' path="')
            path, _, _ = rest.partition('"')
            yield _unescape(path)


def _unescape(path: str) -> str:
    """Return a path as it was before the kernel escaped it in a tag."""
    from html import unescape  # the import takes 1 ms, which the first request need not wait for

    return unescape(path)
