"""Read and change rule files: the user's ``permissions.toml``, and a project's.

A project's file can only ask and deny. The rules in both files are combined. Every mistake is
reported with its file and position. Until all mistakes are corrected, no call that makes changes
runs; if a file cannot be read at all, no call runs.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import attrs
from hilum import UsageError
from hilum.settings import explain_invalid_toml

from hilum_guard.foreign.files import find_files, stamp_files
from hilum_guard.rules.tool_names import (
    EFFECTS,
    Effect,
    KnownTool,
    explain_unknown_parameter,
    explain_unknown_tool,
)

if TYPE_CHECKING:  # imported with the first rule file
    from hilum_guard.foreign.rule_list import RuleList
    from hilum_guard.rules.matching import Rule
    from hilum_guard.rules.rule_schema import ProjectRuleLists, ProjectRules, RuleLists, UserRules

FILE = "permissions.toml"
WORKSPACE = "workspace"
SESSION = "session"
MAX_BYTES = 2_000_000
"""Maximum size of a rule file, in bytes."""
MAX_RULES = 5_000
"""Maximum number of rules and other entries in a rule file. Every call is compared with each rule,
which takes about 0.1 ms, so more rules would delay every call noticeably.
"""
Stamp = tuple[object, ...]
Table = TypeVar("Table", "UserRules", "ProjectRules")


class Rules(NamedTuple):
    """All rules that apply in a workspace.

    Attributes:
        rules: The rules.
        mistakes: The mistakes in the files, one line each.
        stamp: The state of the rule files when the rules were read.
        is_unread: Whether no rule could be read from an existing file, for example because it is
            not valid TOML.
        doubts: Rules that ask about every change, for entries in the files of other agents that may
            deny something and cannot be read.
        foreign_problems: The mistakes in the files of other agents, one line each.
        held: The rules that stay in force although no file contains them any more.
        foreign_unapplied: Restrictions in these files that hilum does not apply, one line each.
    """

    rules: tuple[Rule, ...] = ()
    mistakes: tuple[str, ...] = ()
    stamp: Stamp = ()
    is_unread: bool = False
    doubts: tuple[Rule, ...] = ()
    foreign_problems: tuple[str, ...] = ()
    held: tuple[Rule, ...] = ()
    foreign_unapplied: tuple[str, ...] = ()

    @property
    def consequence(self) -> str:
        """The calls that do not run until the mistakes are corrected, as the end of a sentence."""
        # A mistake in one rule leaves the others in force, including those that deny reading.
        return "no call runs" if self.is_unread else "no call that makes changes runs"

    def of(self, effect: Effect) -> Iterator[Rule]:
        """Return the rules that have the given effect."""
        return (rule for rule in self.rules if rule.effect == effect)


def explain_unknown_names(rule: Rule, tools: Mapping[str, KnownTool]) -> str:
    """Return an explanation if a rule names an unknown tool or parameter; otherwise empty."""
    why = explain_unknown_tool(rule.tool, tools)
    return why or explain_unknown_parameter(rule.tool, rule.pattern, tools)


def user_file(config: Path) -> Path:
    """Return the path of the user's rule file in a configuration folder."""
    return config / FILE


def project_file(workspace: Path) -> Path:
    """Return the path of a project's rule file."""
    return workspace / ".hilum" / FILE


def stamp(config: Path, workspace: Path, agents: Sequence[str] = ()) -> Stamp:
    """Return the state of the rule files, which changes whenever one of them changes.

    Args:
        config: The user's configuration folder.
        workspace: Root of the workspace.
        agents: The other agents whose permissions apply (see ``foreign.files.AGENTS``).
    """
    own = (_look(user_file(config)), _look(project_file(workspace)))
    return (*own, *stamp_files(workspace, agents))


def _look(path: Path) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except OSError:
        return (int(os.path.lexists(path)),)
    # An editor that replaces the file may preserve its modification time and size, but not its
    # inode.
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def load(
    config: Path,
    workspace: Path,
    tools: Mapping[str, KnownTool] | None = None,
    kind: str | None = None,
    agents: Sequence[str] = (),
) -> Rules:
    """Read both files, and those of other agents.

    Args:
        config: The user's configuration folder.
        workspace: Root of the workspace, resolved.
        tools: The session's tools. If given, a rule that matches no tool, or names a parameter that
            its tools do not have, is a mistake.
        kind: Kind of session: rules for other kinds are checked but do not apply. If None, the
            rules for all kinds are returned, for listing.
        agents: The other agents whose denials apply (see ``foreign.files.AGENTS``).
    """
    looked = stamp(config, workspace, agents)
    user = _RuleFile(user_file(config), tools)
    data = user.read()
    if data:
        _take_user_rules(user, data, workspace, kind)
    project = _RuleFile(project_file(workspace), tools)
    data = project.read()
    if data:
        _take_project_rules(project, data, kind)
    foreign = _load_foreign(workspace, agents)
    denied = [rule for file in foreign for rule in file.rules]
    return Rules(
        rules=(*user.rules, *project.rules, *denied),
        mistakes=(*user.mistakes, *project.mistakes),
        stamp=looked,
        is_unread=user.is_unread or project.is_unread,
        doubts=tuple(rule for file in foreign for rule in file.doubts),
        foreign_problems=tuple(problem for file in foreign for problem in file.problems),
        foreign_unapplied=tuple(each for file in foreign for each in file.unapplied),
    )


def _load_foreign(workspace: Path, agents: Sequence[str]) -> list[RuleList]:
    """Return the rules in the files of other agents."""
    if next(find_files(workspace, agents), None) is None:
        return []
    # Most sessions have no such file, so they need not import the readers.
    from hilum_guard.foreign.loading import load_foreign_rules

    return load_foreign_rules(workspace, agents)


def _take_user_rules(
    file: _RuleFile, data: dict[str, Any], workspace: Path, kind: str | None
) -> None:
    """Add the rules in the user's file that apply to a workspace and a kind of session."""
    from hilum_guard.rules.rule_schema import UserRules

    found = _take_rules(file, data, UserRules, kind, everywhere=True)
    for path, lists in found.workspace.items():
        is_here = os.path.realpath(os.path.expanduser(path)) == str(workspace)
        file.take(lists, (WORKSPACE, path), applies=is_here, everywhere=False)


def _take_project_rules(file: _RuleFile, data: dict[str, Any], kind: str | None) -> None:
    """Add the rules in a project's file that apply to a kind of session."""
    from hilum_guard.rules.rule_schema import ProjectRules

    _take_rules(file, data, ProjectRules, kind, everywhere=False)


def _take_rules(
    file: _RuleFile,
    data: dict[str, Any],
    schema: type[Table],
    kind: str | None,
    *,
    everywhere: bool,
) -> Table:
    """Add the rules in the tables that every rule file has, and return the file's whole content."""
    from hilum_guard.rules.rule_schema import structure_rules

    found, mistakes = structure_rules(data, schema)
    for mistake in mistakes:
        file.note_mistake(mistake.path, mistake.message)
    file.take(found, (), everywhere=everywhere)
    for name, lists in found.session.items():
        applies = kind in (None, name)
        file.take(lists, (SESSION, name), applies=applies, everywhere=everywhere, kind=name)
    return found


def _read_regular(path: Path) -> bytes:
    """Return a regular file's content.

    Raises:
        OSError: The file does not exist, is not a regular file, or is too large.
    """
    # Without O_NONBLOCK, opening a pipe at this path would wait for a writer.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(path, flags)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is not a regular file")
        if status.st_size > MAX_BYTES:
            raise OSError(0, f"it has more than {MAX_BYTES:,} bytes")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(MAX_BYTES)
    finally:
        os.close(descriptor)


class _RuleFile:
    """Reads one rule file.

    Args:
        path: The file.
        tools: The session's tools, or None if unknown.
    """

    def __init__(self, path: Path, tools: Mapping[str, KnownTool] | None) -> None:
        self.rules: list[Rule] = []
        self.mistakes: list[str] = []
        self.is_unread = False
        self._path = path
        self._tools = tools
        self._text = ""
        self._data: dict[str, Any] = {}

    def read(self) -> dict[str, Any]:
        """Return the rule file as plain data; empty if it does not exist or cannot be read."""
        if not os.path.lexists(self._path):
            return {}
        import tomllib  # the import takes milliseconds, which a session without rules saves

        try:
            # Some editors write a byte order mark, which TOML does not allow.
            self._text = _read_regular(self._path).decode().removeprefix("\ufeff")
            data = tomllib.loads(self._text)
        except OSError as error:
            self._note(f"cannot be read: {error.strerror}; correct or remove it")
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            self._note(f"line {line} is not UTF-8 text; save the file as UTF-8")
        # Deeply nested arrays exceed the interpreter's recursion limit.
        except (ValueError, RecursionError) as error:
            example = 'deny = ["run_terminal_cmd(git push *)"]'
            reason = explain_invalid_toml(error)
            self._note(f"not valid TOML: {reason}; write lists, for example {example}")
        else:
            number = _count_entries(data)
            if number > MAX_RULES:
                self._note(_explain_too_many(number))
            else:
                self._data = data
                return data
        self.is_unread = True
        return {}

    def take(
        self,
        lists: RuleLists | ProjectRuleLists,
        table: tuple[str, ...],
        *,
        applies: bool = True,
        everywhere: bool = True,
        kind: str = "",
    ) -> None:
        """Add the rules in one table, and record those that match no tool.

        Args:
            lists: The table's lists of rules.
            table: The keys that lead to the table.
            applies: Whether the rules apply in this session; otherwise they are only checked.
            everywhere: Whether the rules apply in every workspace.
            kind: The kind of sessions that the rules apply to; empty for all.
        """
        source = str(self._path)
        if kind:
            source += f" [{SESSION}.{kind}]"
        for effect in EFFECTS:
            for number, rule in enumerate(getattr(lists, effect)):
                # The placeholder for an invalid rule, which has already been reported.
                if rule is None:  # a mistake
                    continue
                why = "" if self._tools is None else explain_unknown_names(rule, self._tools)
                if why:
                    self.note_mistake((*table, effect, number), why)
                if applies:
                    changes = {"source": source, "everywhere": everywhere, "kind": kind}
                    self.rules.append(attrs.evolve(rule, effect=effect, **changes))

    def note_mistake(self, path: Sequence[str | int], message: str) -> None:
        """Record a mistake.

        Args:
            path: The keys and indexes that lead to the value.
            message: The found and the expected value.
        """
        number = self._find_line(path)
        line = f"line {number}: " if number else ""
        self._note(f"{line}{_name_place(path)}: {message}")

    def _note(self, message: str) -> None:
        self.mistakes.append(f"{self._path}: {message}")

    def _find_line(self, path: Sequence[str | int]) -> int:
        """Return the number of the first line that contains a key or the text of a rule."""
        wanted: Any = path[-1]
        if isinstance(wanted, int):
            value: Any = self._data
            for key in path:
                value = value[key]
            wanted = value.strip() if isinstance(value, str) else ""
        if not wanted:
            return 0
        at = self._text.find(wanted)
        return 0 if at < 0 else self._text.count("\n", 0, at) + 1


def _count_entries(data: dict[str, Any]) -> int:
    """Return the number of values and empty tables in a rule file."""
    number = 0
    waiting: list[Any] = [data]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict) and value:
            waiting += value.values()
        elif isinstance(value, list) and value:
            waiting += value
        else:
            number += 1
    return number


def _explain_too_many(number: int) -> str:
    return (
        f"has {number:,} rules, and at most {MAX_RULES:,} are supported; combine rules with"
        " wildcards, for example write_file(docs/**)"
    )


def _name_place(path: Sequence[str | int]) -> str:
    """Return a readable form of a position: ``workspace."/home/me".deny[1]``."""
    place = ""
    for number, key in enumerate(path):
        if isinstance(key, int):
            place += f"[{key + 1}]"
        elif number == 1 and path[0] == WORKSPACE:
            place += f'."{key}"'
        else:
            place += f".{key}" if place else key
    return place


def add(config: Path, workspace: Path | None, effect: Effect, rule: str, *, kind: str = "") -> bool:
    """Add a rule to the user's file, and return whether the rule is new. Blocks.

    Args:
        config: The user's configuration folder.
        workspace: The folder that the rule applies to; ``None`` for all.
        effect: The rule's effect.
        rule: The rule.
        kind: The kind of sessions that the rule applies to; empty for all. ``kind`` cannot be
            combined with a folder.

    Raises:
        UsageError: The text is not a rule, or the file cannot be changed safely.
    """
    from hilum_guard.rules.matching import parse  # with the first rule

    try:
        rule = parse(rule, effect).text
    except ValueError as error:
        raise UsageError(f"{error}.".capitalize(), code="E_BAD_ARGS") from None
    keys = _keys(workspace, kind, effect)
    return _change(config, keys, lambda old: old if rule in old else [*old, rule])


def remove(
    config: Path, workspace: Path | None, effect: Effect, rule: str, *, kind: str = ""
) -> bool:
    """Remove a rule from the user's file, and return whether it existed. Blocks.

    This function takes the same arguments and raises the same errors as ``add``.
    """
    keys = _keys(workspace, kind, effect)
    return _change(config, keys, lambda old: [each for each in old if each != rule] or None)


def _keys(workspace: Path | None, kind: str, effect: str) -> list[str]:
    """Return the keys that lead to a list of rules in the user's file."""
    if kind:
        return [SESSION, kind, effect]
    if workspace is not None:
        return [WORKSPACE, str(workspace), effect]
    return [effect]


def _change(config: Path, keys: list[str], change: Callable[[list[str]], list[str] | None]) -> bool:
    # These modules load with the first change to a rule: a session that only reads rules does not
    # need them.
    from hilum.settings import ChangeError
    from hilum.settings import change as change_file

    changed = False
    user = _RuleFile(user_file(config), None)
    number = _count_entries(user.read())

    def new(old: Any) -> Any:
        nonlocal changed
        made = change(list(old or ()))
        changed = (made or None) != (old or None)
        # One more rule would make the whole file invalid.
        if len(made or ()) > len(old or ()) and number >= MAX_RULES:
            raise UsageError(
                f"{user_file(config)} {_explain_too_many(number + 1)}.",
                hint="Remove rules that are no longer needed: hilum permissions list.",
            )
        return made if changed else old

    try:
        change_file(user_file(config), keys, new)
    except ChangeError as error:
        raise UsageError(str(error), hint="Correct the file, or edit it by hand.") from None
    return changed
