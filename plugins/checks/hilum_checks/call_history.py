"""Remember which commands of a session have succeeded, and which files it has read and written."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from hilum_guard import FileAccess, filter_tracked, is_tracked

from hilum_checks import call_steps, command_kinds, command_matcher
from hilum_checks.call_facts import CallFacts
from hilum_checks.command_facts import CommandFacts
from hilum_checks.ignored_files import is_ignored
from hilum_checks.model import (
    WRITES,
    Action,
    ChangedTogether,
    CommandBefore,
    Commands,
    Paths,
    ReadFirst,
    RunFirst,
)
from hilum_checks.path_matcher import PathMatcher

if TYPE_CHECKING:
    from hilum import Tool, ToolResult

MAX_REMEMBERED = 200
"""Maximum number of commands to remember."""
MAX_COVERED = 20
"""Maximum number of commands to remember of which something hid whether they succeeded."""
MAX_READS = 5_000
"""Maximum number of files that were read to remember."""
_NOT_BEGUN = frozenset(("E_BAD_ARGS", "E_DENIED", "E_STALE"))
_STEPS = 1_000_000
"""The distance between the places of two calls in the order of all that a session does."""


class CallHistory:
    """What all agents of a session have written, and which of their commands have succeeded.

    Args:
        given: Files whose text is in the prompt, so that they need not be read.

    Attributes:
        last_write: The place of the last write in the order of all that the session has done; 0 if
            there was none.
    """

    def __init__(self, given: Iterable[Path] = ()) -> None:
        self.last_write = 0
        self._given = frozenset(given)
        self._calls = 0
        self._answered = 0
        self._succeeded: list[tuple[int, CommandFacts]] = []
        # The places of the commands, which increase; those of the last writes of each kind.
        self._writes: dict[FileAccess, int] = {}
        self._reads: dict[FileAccess, None] = {}
        # Where the writes are that a call does not name, and the calls that only check the project.
        self._begins: dict[str, int] = {}
        self._checking: set[str] = set()
        # The formatters of the calls that only format, and the writes that come from nothing else.
        self._formatting: dict[str, tuple[CommandFacts, ...]] = {}
        self._formatted: dict[FileAccess, int] = {}
        self._formatters: dict[int, tuple[CommandFacts, ...]] = {}
        self._last_edit = 0
        # The files that Git ignored when they were written, with the places of the writes.
        self._ignored: dict[str, int] = {}
        # The commands of which something hid whether they succeeded.
        self._covered: list[tuple[int, CommandFacts, str]] = []

    def add(self, tool: Tool, arguments: str, root: Path, result: ToolResult) -> None:
        """Add a call that has ended. Blocks.

        Args:
            tool: The tool.
            arguments: The arguments of the call.
            root: The root of the workspace.
            result: The result of the call.
        """
        if tool.risk not in ("read", "write", "execute"):
            return
        facts = CallFacts.parse(tool, arguments, root)
        if not result.code and result.data.get("exit_code", 0) == 0:
            self._add_reads(command_kinds.list_shown_files(facts))
        if tool.risk == "read":
            return
        self._calls += 1
        begin = self._calls * _STEPS
        self._begins[result.call_id] = begin
        # A call that failed may have written a part, so it counts as well, unless it never began.
        if result.code in _NOT_BEGUN:
            return
        if tool.risk == "execute":
            self._add_commands(facts, result, begin)
        elif result.changed:
            inside = [each for each in facts.accesses if call_steps.is_inside(each, str(root))]
            counting = [each for each in inside if not self._note_ignored(each, root, begin)]
            if counting:
                self._add_writes(counting, begin)

    def _add_commands(self, facts: CallFacts, result: ToolResult, begin: int) -> None:
        """Add the writes of commands, and the commands that have succeeded."""
        formatters = list(filter(command_kinds.is_formatter, facts.commands))
        for place, access, ignored in call_steps.find_writes(facts):
            if ignored and self._note_ignored(access, facts.matcher.root, begin + place):
                continue
            found = tuple(each for each in formatters if access in each.effects.files)
            self._add_writes([access], begin + place, formatters=found)
        self._note_unseen(facts, result, begin)
        if result.data.get("exit_code") == 0:
            proven = call_steps.find_proven(facts)
            self._succeeded += [(begin + place, command) for place, command in proven]
            del self._succeeded[:-MAX_REMEMBERED]
            covered = call_steps.find_covered(facts)
            self._covered += [(begin, command, cover) for command, cover in covered]
            del self._covered[:-MAX_COVERED]

    def _note_ignored(self, access: FileAccess, root: Path, place: int) -> bool:
        """Remember a write of a file that Git ignores; return whether it does."""
        if access.kind in ("read", "any") or not is_ignored(access, root):
            return False
        self._writes[access] = max(self._writes.get(access, 0), place)
        for cwd in access.cwds or (None,):
            path = os.path.normpath(os.path.join(cwd or root, access.path))
            self._ignored[path] = place
        while len(self._ignored) > MAX_READS:
            del self._ignored[next(iter(self._ignored))]
        return True

    def _has_revealed(self, place: int, root: Path, *, every: bool = False) -> bool:
        """Return whether Git tracks a file that it ignored when it was written after a place.

        Args:
            place: The place.
            root: The root of the workspace.
            every: Whether Git may be about to track each of them.
        """
        newer = [path for path, at in self._ignored.items() if at > place]
        return bool(newer) and (every or bool(filter_tracked(newer, str(root))))

    def _note_unseen(self, facts: CallFacts, result: ToolResult, begin: int) -> None:
        """Remember where the writes of commands are that their words do not name."""
        unseen = call_steps.find_unseen(facts)
        # What a program has written is known after the call, but not which of its commands did it.
        self._begins[result.call_id] = begin + max(unseen, default=0)
        if call_steps.only_checks(facts):
            self._checking.add(result.call_id)
        if call_steps.only_formats(facts):
            self._formatting[result.call_id] = call_steps.list_formatters(facts)
        is_done = "exit_code" in result.data
        if unseen and not is_done and not result.code:
            # A command in the background may write at any time.
            self.last_write = max(self.last_write, begin)
            self._last_edit = max(self._last_edit, begin)

    def add_changes(self, call_id: str, paths: Sequence[str], root: Path) -> None:
        """Add the files that a call has changed, which its arguments need not name. Blocks.

        Args:
            call_id: The id of the call.
            paths: The paths, relative to the root of the workspace.
            root: The root of the workspace.
        """
        if call_id in self._checking:
            # Reports and caches of the tests are no change of the project.
            paths = [path for path in paths if is_tracked(str(root / path), str(root))]
        if not paths:
            return
        place = self._begins.get(call_id, self._calls * _STEPS + _STEPS - 1)
        cwds = (str(root),)
        accesses = [FileAccess("write", path, cwds=cwds) for path in paths]
        self._add_writes(accesses, place, formatters=self._formatting.get(call_id, ()))

    def _add_writes(
        self,
        accesses: Iterable[FileAccess],
        place: int,
        *,
        formatters: tuple[CommandFacts, ...] = (),
    ) -> None:
        """Add writes.

        Args:
            accesses: The writes, perhaps with other accesses.
            place: The place of the writes.
            formatters: The formatters that write; empty if something else may write.
        """
        self.last_write = max(self.last_write, place)
        if formatters:
            self._formatters[place] = (*self._formatters.get(place, ()), *formatters)
            while len(self._formatters) > MAX_REMEMBERED:
                oldest = min(self._formatters)
                del self._formatters[oldest]
                self._last_edit = max(self._last_edit, oldest)
        else:
            self._last_edit = max(self._last_edit, place)
        for access in accesses:
            if access.kind not in ("read", "any"):
                writes = self._formatted if formatters else self._writes
                writes[access] = max(writes.get(access, 0), place)

    def _list_newer(self, place: int, *, formats: bool) -> list[FileAccess]:
        """Return the writes after a place; those of formatters only if they count."""
        found = [self._writes, self._formatted] if formats else [self._writes]
        return [access for writes in found for access, each in writes.items() if each > place]

    def _add_reads(self, accesses: Iterable[FileAccess]) -> None:
        for access in accesses:
            if access.kind == "read" and access.certain:
                self._reads[access] = None
        while len(self._reads) > MAX_READS:
            del self._reads[next(iter(self._reads))]

    def has_read(self, needed: Paths, root: Path) -> bool:
        """Return whether a file was read in this session, or does not exist. Blocks.

        Args:
            needed: The file, or a pattern for several of which one is enough.
            root: The root of the workspace.
        """
        names = [pattern.strip("/") for pattern in needed.patterns]
        is_name = not any(char in name for name in names for char in "*?[{~")
        # A rule about a file that was renamed would otherwise stop all work.
        if is_name and not any((root / name).exists() for name in names):
            return True
        if not self._given.isdisjoint((root / name).resolve() for name in names):
            return True
        matcher = PathMatcher(root)
        return any(matcher.match(needed, access) == "yes" for access in self._reads)

    def find_covered(self, commands: Commands, root: Path) -> tuple[CommandFacts, str] | None:
        """Return a required command that ran, although something hid whether it succeeded. Blocks.

        Args:
            commands: The commands of which one must succeed.
            root: The root of the workspace.

        Returns:
            The command with what hides its success: `|`, `||` or `;`.
        """
        for begin, command, cover in reversed(self._covered):
            # A later write makes it necessary in any case.
            if begin + _STEPS <= self._last_edit:
                return None
            if call_steps.is_needed(commands, command, root):
                return command, cover
        return None

    def has_succeeded(
        self, commands: Commands, root: Path, required: Sequence[Commands] = ()
    ) -> bool:
        """Return whether one of the commands has succeeded since the last write. Blocks.

        Args:
            commands: The commands.
            root: The root of the workspace.
            required: The commands that any rule requires.
        """
        last, command = self._find_last(commands, root)
        if command is None or self._has_revealed(last, root):
            return False
        return last >= self._find_last_write(command, root, required)

    def _find_last_write(
        self, command: CommandFacts, root: Path, required: Sequence[Commands]
    ) -> int:
        """Return the place of the last write after which a command has to succeed again.

        Two formatters would otherwise make each other necessary for ever, and so would a check and
        a formatter that the rules name in this order.
        """
        if command_kinds.is_formatter(command):
            return self._last_edit
        places = [
            place
            for place, formatters in self._formatters.items()
            if place > self._last_edit and not call_steps.are_required(formatters, required, root)
        ]
        return max(places, default=self._last_edit)

    def is_met(
        self,
        constraint: CommandBefore | ChangedTogether | ReadFirst | RunFirst,
        facts: CallFacts,
        required: Sequence[Commands] = (),
    ) -> bool:
        """Return whether a call may run, because what must be done first has been done. Blocks.

        Args:
            constraint: What must wait, and what must be done first.
            facts: The call.
            required: The commands that any rule requires first; they check the project, so that
                one of them does not make another one necessary again.
        """
        root = facts.matcher.root
        if isinstance(constraint, ReadFirst):
            return self.has_read(constraint.needed, root)
        if isinstance(constraint, RunFirst):
            return self.has_run(constraint.needed, root)
        return not self.must_wait(constraint, facts, required)

    def must_wait(
        self,
        constraint: CommandBefore | ChangedTogether,
        facts: CallFacts,
        required: Sequence[Commands] = (),
    ) -> bool:
        """Return whether a call runs a command before something that must be done first. Blocks.

        Args:
            constraint: The commands that must wait, and what must be done first.
            facts: The call.
            required: The commands that any rule requires first.
        """
        waiting = constraint.before
        if waiting is None:
            return False
        found: list[tuple[int, CommandFacts | None]] = [
            (2 * index, command)
            for index, command in enumerate(facts.commands)
            if command_matcher.match_command(waiting, command)
            and not call_steps.only_runs_text(command, facts)
        ]
        if found:
            found = [
                (place, each)
                for place, each in found
                if each is None or not call_steps.is_in_other_repository(each, facts)
            ]
        else:
            # What a tool or a recipe does comes last.
            found = [(2 * len(facts.commands) + 1, None)]
        return any(
            self._waits_at(constraint, facts, place, each, required) for place, each in found
        )

    def _waits_at(
        self,
        constraint: CommandBefore | ChangedTogether,
        facts: CallFacts,
        place: int,
        command: CommandFacts | None,
        required: Sequence[Commands],
    ) -> bool:
        """Return whether something must be done before a command of a call."""
        root = facts.matcher.root
        changed = constraint.changed
        matcher = PathMatcher(root)
        steps = [step for step in call_steps.find_writes(facts) if step.place < place]
        if isinstance(constraint, ChangedTogether):
            begin = self._find_last(constraint.before, root)[0] if constraint.before else 0
            inner = [step.access for step in steps]
            return self._lacks_change(constraint.needed, changed, matcher, begin, inner)
        formatters = list(filter(command_kinds.is_formatter, facts.commands))
        writes = [
            (step.place, [each for each in formatters if step.access in each.effects.files])
            for step in steps
            if (not step.ignored if changed is None else _covers(matcher, changed, step.access))
        ]
        if changed is None:
            writes += [
                (each, [writer] if command_kinds.is_formatter(writer) else [])
                for each, writer in call_steps.find_writers(facts, required)
                if each < place
            ]
        last_edit = max((each for each, found in writes if not found), default=-1)
        counting = [
            each
            for each, found in writes
            if not found or not call_steps.are_required(found, required, root)
        ]
        last = max(counting, default=-1)
        done = [
            (each, last_edit if command_kinds.is_formatter(earlier) else last)
            for each, earlier in call_steps.find_proven(facts, command)
            if command is not None
            and each < place
            and call_steps.is_needed(constraint.needed, earlier, root)
        ]
        if done:
            return all(each < limit for each, limit in done)
        if last >= 0:
            return True
        if changed is not None:
            return self.is_due(constraint, root, required)
        if call_steps.reveals_ignored(facts):
            done_before = self._find_last(constraint.needed, root)[0]
            if self._has_revealed(done_before, root, every=True):
                return True
        return not self.has_succeeded(constraint.needed, root, required)

    def has_run(self, commands: Commands, root: Path) -> bool:
        """Return whether one of the commands has succeeded in this session. Blocks.

        Args:
            commands: The commands.
            root: The root of the workspace.
        """
        return self._find_last(commands, root)[0] > 0

    def note_answer(self) -> None:
        """Note that an agent has given its final answer, with which a piece of work ends."""
        self._answered = self._calls * _STEPS + _STEPS - 1

    def is_due(
        self,
        constraint: CommandBefore | ChangedTogether,
        root: Path,
        required: Sequence[Commands] = (),
    ) -> bool:
        """Return whether something must still be done, because files have changed. Blocks.

        Args:
            constraint: The command that must succeed, or the files that must change, too.
            root: The root of the workspace.
            required: The commands that any rule requires.
        """
        matcher = PathMatcher(root)
        changed = constraint.changed
        if isinstance(constraint, ChangedTogether):
            # A piece of work ends with a final answer, or with the command, such as a commit.
            begin = self._answered
            if constraint.before is not None:
                begin = self._find_last(constraint.before, root)[0]
            return self._lacks_change(constraint.needed, changed, matcher, begin)
        last, command = self._find_last(constraint.needed, root)
        if changed is None:
            if command is None:
                return self.last_write > last
            return self._find_last_write(command, root, required) > last
        formats = command is None or not command_kinds.is_formatter(command)
        newer = self._list_newer(last, formats=formats)
        return any(_covers(matcher, changed, access) for access in newer)

    def _lacks_change(
        self,
        needed: Paths,
        changed: Paths | None,
        matcher: PathMatcher,
        begin: int,
        inner: Iterable[FileAccess] = (),
    ) -> bool:
        """Return whether files have changed since a command, but none of those needed.

        Args:
            needed: The files of which one must have changed.
            changed: The files whose change makes that necessary; ``None`` for all files.
            matcher: The matcher for paths.
            begin: The place of the command.
            inner: Writes of a call that has not begun.
        """
        newer = [*self._list_newer(begin, formats=True), *inner]
        if any(_covers(matcher, needed, access) for access in newer):
            return False
        return any(changed is None or _covers(matcher, changed, access) for access in newer)

    def _find_last(self, commands: Commands, root: Path) -> tuple[int, CommandFacts | None]:
        """Return where one of the commands has succeeded last, and which; 0 if none has."""
        for place, command in reversed(self._succeeded):
            if call_steps.is_needed(commands, command, root):
                return place, command
        return 0, None


def _covers(matcher: PathMatcher, changed: Paths, access: FileAccess) -> bool:
    """Return whether a write has changed one of some files."""
    # The file exists now, so that a write of a new file would look like a change.
    actions: frozenset[Action] = WRITES
    return matcher.match(attrs.evolve(changed, actions=actions), access) != ""
