"""Remembers which commands of a session have succeeded, and which files it has read and written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from hilum_guard import FileAccess

from hilum_checks import command_matcher
from hilum_checks.call_facts import CallFacts
from hilum_checks.command_facts import CommandFacts
from hilum_checks.model import WRITES, Accompanied, Action, Commands, Paths, Preceded
from hilum_checks.path_matcher import PathMatcher

if TYPE_CHECKING:
    from hilum import Tool, ToolResult

MAX_REMEMBERED = 200
"""Maximum number of commands to remember."""
MAX_READS = 5_000
"""Maximum number of files that were read to remember."""
_NOT_BEGUN = frozenset(("E_BAD_ARGS", "E_DENIED", "E_STALE"))
# Options with which a program does not do its work.
_IDLE = re.compile(r"--help|-h|--version|-V|--dry-run|--collect-only|--co")
# The same for single programs; elsewhere, `-n` is often a number.
_IDLE_SHELL = re.compile(r"-n|--help|--version")
_IDLE_OF = {
    **dict.fromkeys("sh bash dash zsh ksh".split(), _IDLE_SHELL),
    "cargo": re.compile(rf"{_IDLE.pattern}|--no-run|--list"),
    # `-V` lists what happens, and does it.
    "ctest": re.compile(r"--help.*|-h|--version|-N|--show-only.*|--print-labels"),
    "git": re.compile(r"--help|-h|--version|--dry-run|-n"),
    "go": re.compile(rf"{_IDLE.pattern}|-n|-list(?:=.*)?"),
    "gradle": re.compile(rf"{_IDLE.pattern}|-m"),
    "jest": re.compile(rf"{_IDLE.pattern}|--listTests"),
    "just": re.compile(rf"{_IDLE.pattern}|-n|-l|--list|-s|--show|--summary|--evaluate"),
    "ninja": re.compile(rf"{_IDLE.pattern}|-n|-t"),
    "pytest": re.compile(
        rf"{_IDLE.pattern}|--collectonly|--fixtures|--markers|--setup-(?:plan|only)"
    ),
    "rake": re.compile(rf"{_IDLE.pattern}|-n|-T|--tasks|-P|-D"),
    "rsync": re.compile(rf"{_IDLE.pattern}|-n"),
    "scons": re.compile(rf"{_IDLE.pattern}|-n"),
    "task": re.compile(rf"{_IDLE.pattern}|-n|--dry|-l|--list|--summary"),
    "tox": re.compile(rf"{_IDLE.pattern}|-n|--notest|-l|--listenvs"),
}
# Words of `make` with which it runs the recipes of the project, and reports their failure.
_MAKE_WORKS = re.compile(
    r"[\w./%][\w./%-]*|-[ksBwj]+\d*|-j|\d+|--(?:silent|quiet|keep-going|jobs(?:=\d+)?)"
)
# Commands that end the shell, or change what the name of a later command means.
_CHANGES_SHELL = re.compile(
    r"(?:exit|exec|return|kill|logout|trap|alias|export|declare|typeset|local|readonly|hash|enable"
    r"|set|shopt|source|\.|eval|function|builtin|unset|test|\[|false|ln|\w+=)(?:\s|$|\S*=)"
)
# Programs that run a command for each of some words, perhaps for none.
_REPEATERS = frozenset("xargs gxargs parallel find gfind fd watch".split())
_REDIRECTION = re.compile(r"\s*(?:\d?>{1,2}|&>|<)\s*(?:&\d|[\w./-]+)")
_RUNNER = re.compile(r"(?:time|timeout|nice|uv|poetry|pdm|hatch|pipenv|npx|rye|env)(?:\s|$)")


class CallHistory:
    """What all agents of a session have written, and which of their commands have succeeded.

    Args:
        given: Files whose text is in the prompt, so that they need not be read.

    Attributes:
        last_write: The number of the call that has written a file last; 0 if none has.
    """

    def __init__(self, given: Iterable[Path] = ()) -> None:
        self.last_write = 0
        self._given = frozenset(given)
        self._calls = 0
        self._answered = 0
        self._succeeded: list[tuple[int, CommandFacts]] = []
        # The number of the last call that wrote, for each write.
        self._writes: dict[FileAccess, int] = {}
        self._reads: dict[FileAccess, None] = {}

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
            self._add_reads(facts.accesses)
        if tool.risk == "read":
            return
        self._calls += 1
        # A call that failed may have written a part, so it counts as well, unless it never began.
        if tool.risk == "write" and result.changed and result.code not in _NOT_BEGUN:
            self._add_writes(facts.accesses)
        if tool.risk != "execute":
            return
        written = list(_find_writes(facts))
        if written:
            self._add_writes(written)
        elif result.data.get("exit_code") == 0:
            self._succeeded += [(self._calls, command) for command in _find_proven(facts)]
            del self._succeeded[:-MAX_REMEMBERED]

    def _add_writes(self, accesses: Iterable[FileAccess]) -> None:
        self.last_write = self._calls
        for access in accesses:
            if access.kind not in ("read", "any"):
                self._writes[access] = self._calls

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

    def has_succeeded(self, commands: Commands) -> bool:
        """Return whether one of the commands has succeeded since the last write."""
        return self._find_last(commands) > self.last_write

    def has_run(self, commands: Commands) -> bool:
        """Return whether one of the commands has succeeded in this session."""
        return self._find_last(commands) > 0

    def note_answer(self) -> None:
        """Note that an agent has given its final answer, with which a piece of work ends."""
        self._answered = self._calls

    def is_due(self, constraint: Preceded | Accompanied, root: Path) -> bool:
        """Return whether something must still be done, because files have changed. Blocks.

        Args:
            constraint: The command that must succeed, or the files that must change, too.
            root: The root of the workspace.
        """
        matcher = PathMatcher(root)
        changed = constraint.changed
        if isinstance(constraint, Accompanied):
            # A piece of work ends with a final answer, or with the command, such as a commit.
            begin = self._answered
            if constraint.before is not None:
                begin = self._find_last(constraint.before)
            return self._lacks_change(constraint.needed, changed, matcher, begin)
        last = self._find_last(constraint.needed)
        if changed is None:
            return self.last_write > last
        newer = [access for access, number in self._writes.items() if number > last]
        return any(_covers(matcher, changed, access) for access in newer)

    def _lacks_change(
        self, needed: Paths, changed: Paths | None, matcher: PathMatcher, begin: int
    ) -> bool:
        """Return whether files have changed since a call, but none of those needed."""
        newer = [access for access, number in self._writes.items() if number > begin]
        if any(_covers(matcher, needed, access) for access in newer):
            return False
        return any(changed is None or _covers(matcher, changed, access) for access in newer)

    def _find_last(self, commands: Commands) -> int:
        """Return the number of the last call in which one of the commands has succeeded."""
        for number, command in reversed(self._succeeded):
            is_meant = command_matcher.match_command(commands, command) == "yes"
            if is_meant and _does_its_work(command, commands):
                return number
        return 0


def _covers(matcher: PathMatcher, changed: Paths, access: FileAccess) -> bool:
    """Return whether a write has changed one of some files."""
    # The file exists now, so that a write of a new file would look like a change.
    actions: frozenset[Action] = WRITES
    return matcher.match(attrs.evolve(changed, actions=actions), access) != ""


def _find_writes(facts: CallFacts) -> Iterator[FileAccess]:
    """Yield the certain writes of a command to files of the workspace."""
    root = str(facts.matcher.root)
    for access in facts.accesses:
        if access.kind not in ("read", "any"):
            folder = (access.cwds[0] if access.cwds else "") or root
            if str(Path(folder, access.path)).startswith(f"{root}/"):
                yield access


def _find_proven(facts: CallFacts) -> Iterator[CommandFacts]:
    """Yield the commands that certainly ran and succeeded if the call's exit code is 0.

    These are the parts of ``A && B``: not what a substitution, a shell text or code runs, and
    nothing after a command that ends the shell or changes what a name runs.
    """
    for text in facts.command_texts:
        text = _REDIRECTION.sub("", text).strip()
        if re.search(r"[;|&\n`!{}]|\$\(|[<>]\(|\(\)", text.replace("&&", "")):
            continue
        parts = [part.strip() for part in text.split("&&")]
        if any(_CHANGES_SHELL.match(part) for part in parts):
            continue
        for command in facts.commands:
            if any(_is_part(command, part) for part in parts):
                yield command


def _is_part(command: CommandFacts, part: str) -> bool:
    """Return whether a part of a line is a command, perhaps behind a runner such as ``timeout``."""
    if command.command.assigned or command.command.wrapper or command.effects.code:
        return False
    if command.effects.program in _REPEATERS:
        return False
    source = _REDIRECTION.sub("", command.source).strip()
    if not part.endswith(source):
        return False
    runner = part.removesuffix(source).strip()
    return not runner or ("=" not in runner and _RUNNER.match(runner) is not None)


def _does_its_work(command: CommandFacts, needed: Commands) -> bool:
    """Return whether a command has no option with which its program only pretends to work.

    Args:
        command: The command.
        needed: The commands that are required; an option in them is the work.
    """
    named = {word for pattern in needed.patterns for word in pattern}
    arguments = [word for word in command.words[1:] if word not in named]
    idle = _IDLE_OF.get(command.effects.program, _IDLE)
    if any(idle.fullmatch(word) for word in arguments):
        return False
    if command.effects.program not in ("make", "gmake"):
        return True
    return all(_MAKE_WORKS.fullmatch(word) for word in arguments)
