"""Collect the rules in one file of another agent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

import attrs
from hilum.command import escape_terminal
from hilum.errors import similar_names

from hilum_guard.foreign.braces import expand_braces, has_braces
from hilum_guard.foreign.patterns import (
    convert_command,
    convert_path,
    is_ambiguous_path,
    is_used_by_programs,
    split_command,
    widen_command,
)
from hilum_guard.rules.expressions import Expression, explain_invalid
from hilum_guard.rules.matching import DOMAIN, Rule, parse
from hilum_guard.rules.patterns import find_control_character, fit_path, pattern_words
from hilum_guard.rules.tool_names import Effect, server_tools

Kind = Literal["shell", "read", "edit", "write", "delete", "list", "fetch", "tool"]
MAX_RULES = 2_000
"""Maximum number of entries that are read from one file."""
MAX_ENTRY = 2_000
"""Maximum length of an entry in characters; longer ones are not read."""
MAX_EXPRESSIONS = 100
"""Maximum number of regular expressions in one file: each is compared with every command."""
MAX_WRITTEN = 200
_SIMILARITY = 0.85
WITHOUT_CHANGES = "to work without changes, use hilum run --approve readonly, or set approve"
"""What the user can do instead of a mode without changes of another agent."""
FindLine = Callable[[Sequence[str]], int]
_SHELL = ("run_terminal_cmd", "write_service")
_READ = ("read_file", "search_files", "semantic_search")
_EDIT = ("write_file", "edit_file", "multi_edit", "delete_file")
_ALL_OF: dict[Kind, tuple[str, ...]] = {
    "shell": _SHELL,
    "read": _READ,
    "edit": _EDIT,
    "write": ("write_file", "delete_file"),
    "delete": ("delete_file",),
    "list": ("list_directory", "glob_search"),
    "fetch": ("web_fetch", "browser_use"),
}
# The rule about all paths, which also covers commands that name them.
_EVERY_PATH: dict[Kind, str] = {"read": "read_file", "edit": "write_file", "delete": "delete_file"}
_TOOL_OF_PATHS: dict[Kind, str] = {
    "read": "read_file",
    "list": "read_file",
    "edit": "write_file",
    "write": "write_file",
    "delete": "delete_file",
}
# The agents in whose patterns for paths braces stand for alternatives.
_WITH_BRACES = ("Cursor", "Copilot")
# Tools that projects install in their environment, and the programs that run them there. People deny
# `pytest` and allow `uv run`, so that an agent uses the versions of the project.
_ENVIRONMENT_TOOLS = frozenset(
    """python python3 pytest py.test ruff mypy pyright basedpyright ty black isort flake8 pylint
    bandit pre-commit prek tox nox coverage ipython jupyter sphinx-build mkdocs""".split()
)
_ENVIRONMENT_RUNNERS = frozenset("uv poetry pipenv hatch pdm rye pixi".split())
_TOOL = re.compile(r"[A-Za-z0-9_.*?-]{1,128}")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_HOST = re.compile(r"(?:https?://)?((?:\*\.)?[\w*-]+(?:\.[\w-]+)*)(?:[:/].*)?", re.IGNORECASE)


@attrs.frozen
class Place:
    """A file of another agent, and what its rules are relative to.

    Attributes:
        path: The file.
        agent: The program that the file was written for.
        base: The folder that the paths in the file are relative to.
        workspace: Root of the workspace, resolved.
        home: The user's home folder.
        user: Whether the file belongs to the user and not to the project.
    """

    path: Path
    agent: str
    base: Path
    workspace: Path
    home: Path
    user: bool


class Entry(NamedTuple):
    """One entry of a file.

    Attributes:
        effect: What the entry does.
        kind: The calls that it is about.
        pattern: The calls of this kind, in the notation of the file; None for all.
        written: The entry as written.
        line: Its line number; 0 if unknown.
        tool: For the kind ``tool``: the name of the tool in hilum.
        expression: For the kind ``shell`` without a pattern: a regular expression for the commands.
        is_permission: Whether an entry that allows is a permission that the user can take over, and
            not just an exception to an earlier entry.
    """

    effect: Effect
    kind: Kind
    pattern: str | None
    written: str
    line: int
    tool: str = ""
    expression: Expression | None = None
    is_permission: bool = True


class AllowedRule(NamedTuple):
    """An entry that allows calls, which hilum only uses once the user takes it over.

    Attributes:
        rules: The rules that the entry becomes, in hilum's notation.
        written: The entry as written.
        line: Its line number; 0 if unknown.
        refusal: Why the entry cannot be taken over; empty if it can.
    """

    rules: tuple[str, ...]
    written: str
    line: int
    refusal: str = ""


class RuleList:
    """The rules in one file.

    Args:
        place: The file.
        text: Its content, in which the lines of entries are found.

    Attributes:
        rules: The rules that deny or ask.
        doubts: Rules that ask about every change, for entries that may deny something and cannot be
            read.
        allowed: The entries that allow.
        left: What hilum does not use, with the reason.
        problems: Mistakes, each with the file and the line.
        unapplied: Restrictions that hilum does not apply, each with the file, the line and what the
            user can do instead.
    """

    def __init__(self, place: Place, text: str) -> None:
        self.place = place
        self.rules: list[Rule] = []
        self.doubts: list[Rule] = []
        self.allowed: list[AllowedRule] = []
        self.left: list[str] = []
        self.problems: list[str] = []
        self.unapplied: list[str] = []
        self._lines = text.split("\n")
        self._number = 0
        self._expressions = 0

    @property
    def is_full(self) -> bool:
        """Whether the file has more entries than are read."""
        return self._number > MAX_RULES

    # --- positions --------------------------------------------------------------------------------

    def find_line(self, written: str, after: int = 0) -> int:
        """Return the number of the first line that contains an entry; ``after`` if none does."""
        if self.is_full:
            return after  # the entry is not read, and a file may have very many
        first = written.partition("\n")[0]
        wanted = (json.dumps(written, ensure_ascii=False)[1:-1], json.dumps(written)[1:-1], first)
        for number, line in enumerate(self._lines[max(after - 1, 0) :], max(after, 1)):
            if any(each in line for each in wanted):
                return number
        return after

    def name_line(self, line: int) -> str:
        """Return the file, with a line number if it is known."""
        return f"{self.place.path}:{line}" if line else str(self.place.path)

    # --- entries ----------------------------------------------------------------------------------

    def add(self, entry: Entry, unless: Sequence[str] = ()) -> None:
        """Add an entry.

        Args:
            entry: The entry.
            unless: For a rule about commands: patterns of the commands that it does not match; for
                a rule about paths: patterns of the paths.
        """
        self._number += 1
        if self._number > MAX_RULES:
            if self._number == MAX_RULES + 1:
                self.doubt(f"There are more than {MAX_RULES:,} entries.", entry.line)
            return
        if len(entry.written) > MAX_ENTRY or len(entry.pattern or "") > MAX_ENTRY:
            self.doubt(f"An entry has more than {MAX_ENTRY:,} characters.", entry.line)
            return
        if entry.kind == "shell" and entry.pattern is not None:
            # A tab separates the words of a command, as a space does.
            entry = entry._replace(pattern=entry.pattern.replace("\t", " "))
        hidden = find_hidden_character(f"{entry.tool}{(entry.pattern or '').strip()}")
        if entry.effect == "allow":
            self._add_allowed(entry, hidden)
            return
        if hidden:
            reason = f"{_shorten(entry.written)} contains the character {hidden}."
            self.doubt(reason, entry.line, entry.written)
        rules = []
        for part in _read_hidden(entry) if hidden else [entry]:
            rules += self._list_denials(part, unless)
        if not rules:
            self.left.append(
                f"{_shorten(entry.written)} (line {entry.line}): hilum has no such tool"
            )
        self.rules += rules

    def _add_allowed(self, entry: Entry, hidden: str) -> None:
        """Add an entry that allows, which must have just one meaning."""
        refusal = ""
        if hidden:
            refusal = f"it contains the character {hidden}"
        elif entry.kind in _TOOL_OF_PATHS and not self._is_plain_path(entry):
            refusal = (
                "agents disagree about its brackets, braces or backslashes; use hilum permissions"
                " allow"
            )
        texts: tuple[str, ...] = ()
        if not refusal:
            texts = tuple(rule.text for rule in self._convert(entry, ()))
        self.allowed.append(AllowedRule(texts, _shorten(entry.written), entry.line, refusal))

    def _is_plain_path(self, entry: Entry) -> bool:
        """Return whether all agents understand the paths of an entry in the same way."""
        try:
            patterns = self._expand(entry)
        except ValueError:
            return False
        return not any(map(is_ambiguous_path, patterns))

    def _list_denials(self, entry: Entry, unless: Sequence[str]) -> list[Rule]:
        """Return the rules for an entry that denies or asks, and report what cannot be read."""
        rules = []
        try:
            for rule in self._convert(entry, unless):
                if _is_comparable(rule):
                    rules.append(rule)
                else:
                    self.doubt(f"{rule.shown!r} is not a pattern.", entry.line, entry.written)
        except ValueError as error:
            reason = f"{_shorten(entry.written)} cannot be read: {error}."
            self.doubt(reason, entry.line, entry.written)
        return rules

    def doubt(self, reason: str, line: int = 0, written: str = "") -> None:
        """Record that a part of the file cannot be read, although it may deny something."""
        self.problem(reason, line)
        shown = _shorten(written) or f"a part that cannot be read ({reason})"
        self.doubts.append(
            Rule(
                "ask",
                "*",
                None,
                self.name_line(line),
                everywhere=self.place.user,
                written=shown,
                agent=self.place.agent,
            )
        )

    def skip_restriction(self, reason: str, line: int = 0) -> None:
        """Record a restriction that hilum does not apply."""
        self.unapplied.append(f"{self.name_line(line)}: {reason}")

    def doubt_misspelt(
        self, given: Mapping[str, Any], known: Collection[str], prefix: str, find_line: FindLine
    ) -> None:
        """Doubt the keys that may be slips for keys that deny something.

        Args:
            given: A mapping in the file.
            known: The keys that deny or ask in such a mapping.
            prefix: The path of the mapping, with a dot at the end; empty for the whole file.
            find_line: Returns the line of a path of keys.
        """
        for key in given.keys() - set(known):
            # Short names differ in more of their letters.
            cutoff = min(_SIMILARITY if len(name) > 4 else 0.6 for name in known)
            near = similar_names(str(key), known, 1, cutoff=cutoff)
            if near and isinstance(given[key], dict | list):
                line = find_line((*prefix.split(".")[:-1], str(key)))
                shown = _shorten(f"{prefix}{key}")
                self.doubt(f"{shown} is unknown; did you mean {prefix}{near[0]}?", line)

    def problem(self, reason: str, line: int = 0) -> None:
        """Record a mistake."""
        self.problems.append(f"{self.name_line(line)}: {reason}")

    def check_expression(self, entry: Entry, expression: Expression) -> Entry:
        """Return an entry with an expression; if the expression is invalid, one that asks."""
        self._expressions += 1
        invalid = explain_invalid(expression)
        if self._expressions > MAX_EXPRESSIONS:
            invalid = f"there are more than {MAX_EXPRESSIONS}"
        if not invalid:
            return entry._replace(pattern=None, expression=expression)
        reason = (
            f"hilum cannot compare the expression {_shorten(expression.text)} ({invalid}), so every"
            " command needs approval. Name the commands instead, or write hilum permissions deny"
            ' "run_terminal_cmd(PROGRAM *)".'
        )
        self.problem(reason, entry.line)
        return entry._replace(effect="ask", pattern=None)

    def spare_runners(self) -> None:
        """Let the runners that the file allows run the tools that it denies by their bare names.

        In other agents, a rule about `pytest` does not concern `uv run pytest`. In hilum, it does,
        unless the same file allows `uv run`: then the rule only says how to run the tool. Rules that
        name arguments (`python manage.py migrate`) are not changed, because they are about what the
        command does.
        """
        allowed = []
        for entry in self.allowed:
            allowed += [parse(rule, "allow").pattern or "" for rule in entry.rules]
        runners = [each for each in allowed if _allows_runner(pattern_words(each))]
        if not runners:
            return
        for number, rule in enumerate(self.rules):
            if _denies_bare_tool(rule):
                self.rules[number] = attrs.evolve(rule, spares=tuple(dict.fromkeys(runners)))

    def spare_installers(self) -> None:
        """Remove what denials of `pip install` say about `uv pip install`, if the file allows that.

        A denial of one installer also covers the other, unless the same file allows the other: then
        it only says which of them to use. The same holds the other way round.
        """
        allowed = []
        for entry in self.allowed:
            allowed += [pattern_words(parse(rule, "allow").pattern or "") for rule in entry.rules]
        installers = {_find_installer(words, or_all=True) for words in allowed} - {""}
        self.rules = [rule for rule in self.rules if _find_added_installer(rule) not in installers]

    # --- conversion -------------------------------------------------------------------------------

    def _convert(self, entry: Entry, unless: Sequence[str]) -> Iterator[Rule]:
        """Yield the rules that an entry becomes."""
        if entry.kind == "tool":
            yield from self._convert_tool(entry)
        elif entry.expression is not None:
            yield self._rule(entry, "run_terminal_cmd", None)
        elif entry.pattern is None or entry.pattern.strip() in ("", "*", "**"):
            yield from self._convert_all(entry, unless)
        elif entry.kind == "shell":
            yield from self._convert_command(entry, unless)
        elif entry.kind == "fetch":
            yield from self._convert_host(entry)
        else:
            yield from self._convert_paths(entry, unless)

    def _convert_all(self, entry: Entry, unless: Sequence[str]) -> Iterator[Rule]:
        if unless and entry.kind != "shell":
            yield from self._convert_paths(entry._replace(pattern="/**"), unless)
            return
        for tool in _ALL_OF[entry.kind]:
            if unless and tool != "run_terminal_cmd":
                continue
            yield self._rule(entry, tool, None, unless=self._commands(unless))
        tool = _EVERY_PATH.get(entry.kind, "")
        if tool and entry.effect != "allow":
            # Programs must run even for an agent that may not edit, so nothing is hidden from them.
            yield self._rule(entry, tool, "/**", hides=False)

    def _convert_command(self, entry: Entry, unless: Sequence[str]) -> Iterator[Rule]:
        text = entry.pattern or ""
        command, redirection, target = text.partition(">")
        if redirection:
            if entry.effect == "allow":
                return  # a rule that allows never covers a redirection
            text = command
            path = target.strip(" >*:")
            if path and not command.strip(" *"):
                yield from self._convert_paths(entry._replace(kind="write", pattern=path), ())
                return
        parts = split_command(text)
        if len(parts) > 1 and entry.effect == "allow":
            return  # hilum judges each command by itself
        if len(parts) > 1:
            # hilum compares single commands: it asks about the last one, for example `sh` in
            # `curl * | sh`.
            entry = entry._replace(effect="ask")
        texts: Iterable[str] = parts[-1:]
        if parts and entry.effect != "allow":
            texts = widen_command(parts[-1], self.place.home)
        patterns = [pattern for each in texts for pattern in convert_command(each)]
        for pattern in dict.fromkeys(patterns):
            yield self._rule(entry, "run_terminal_cmd", pattern, unless=self._commands(unless))

    def _commands(self, patterns: Sequence[str]) -> tuple[str, ...]:
        return tuple(
            converted
            for pattern in patterns
            if len(split_command(pattern)) == 1
            for converted in convert_command(pattern)
        )

    def _convert_host(self, entry: Entry) -> Iterator[Rule]:
        text = (entry.pattern or "").strip().removeprefix(DOMAIN).strip()
        found = _HOST.fullmatch(text)
        if found is None:
            # An unreadable host may be any host.
            if entry.effect != "allow":
                yield from self._convert_all(entry._replace(pattern=None), ())
            return
        host = found[1].lower()
        if not host.strip("*."):
            yield from self._convert_all(entry._replace(pattern=None), ())
            return
        yield self._rule(entry, "web_fetch", f"{DOMAIN}{host}")

    def _convert_paths(self, entry: Entry, unless: Sequence[str]) -> Iterator[Rule]:
        tool = _TOOL_OF_PATHS.get(entry.kind, entry.tool)
        patterns = list(dict.fromkeys(chain.from_iterable(map(self._relate, self._expand(entry)))))
        excepted = tuple(
            f"!{each}"
            for pattern in unless
            # An exception that may be meant in another way could be too wide.
            if not is_ambiguous_path(pattern)
            for each in self._relate(pattern)
            if not each.startswith(("//", "~"))
        )
        if entry.effect == "allow":
            patterns = self._select_allowed(entry.pattern or "", patterns)
        for pattern in patterns:
            hides = "/**" not in patterns and self._can_hide(pattern)
            later = () if pattern.startswith("//") else excepted
            yield self._rule(entry, tool, pattern, hides=hides, later=later)
            if entry.kind == "list" and entry.effect != "allow":
                # Files must not be listed either, neither in the folder nor in one below it.
                folder = pattern.removesuffix("/**") or pattern
                for each in _ALL_OF["list"]:
                    yield self._rule(entry, each, folder, later=later)
                    if folder != pattern:
                        yield self._rule(entry, each, pattern, later=later)

    def _relate(self, pattern: str) -> Iterator[str]:
        """Yield the patterns of hilum for a pattern for paths without braces."""
        place = self.place
        return convert_path(pattern, place.base, place.workspace, place.home)

    def _expand(self, entry: Entry) -> list[str]:
        """Return what the pattern for paths of an entry can mean.

        Raises:
            ValueError: Its braces stand for too many patterns.
        """
        pattern = entry.pattern or ""
        if not has_braces(pattern):
            return [pattern]
        if self.place.agent in _WITH_BRACES:
            return expand_braces(pattern)
        # In other agents, braces are part of a name, but people write them all the same.
        return [pattern] if entry.effect == "allow" else [pattern, *expand_braces(pattern)]

    def _select_allowed(self, text: str, patterns: list[str]) -> list[str]:
        """Return the patterns that match no more paths than an entry that allows.

        A user's rule is stored for all folders, so it must not contain a path that is relative to
        this workspace although the entry names another folder.
        """
        is_absolute = text.startswith(("//", "~", "$"))
        if is_absolute and self.place.user:
            return [pattern for pattern in patterns if pattern.startswith("//")]
        if text.startswith(("/", "..")) and not is_absolute:
            if self.place.user:
                return []  # agents disagree about what one slash means
            return [pattern for pattern in patterns if not pattern.startswith("//")]
        return patterns

    def _can_hide(self, pattern: str) -> bool:
        """Return whether the sandbox can hide a pattern's paths without breaking programs."""
        home = f"/{self.place.home}/"
        if pattern.startswith("//") and not pattern.startswith(home):
            return False  # for example, no program runs without /etc
        return not is_used_by_programs(pattern.removeprefix(home))

    def _convert_tool(self, entry: Entry) -> Iterator[Rule]:
        if _TOOL.fullmatch(entry.tool):
            yield self._rule(entry, server_tools(entry.tool), entry.pattern)

    def _rule(
        self,
        entry: Entry,
        tool: str,
        pattern: str | None,
        *,
        unless: tuple[str, ...] = (),
        later: tuple[str, ...] = (),
        hides: bool = True,
    ) -> Rule:
        if pattern is not None and pattern[:1] in ("!", "#"):
            pattern = f"\\{pattern}"
        return Rule(
            entry.effect,
            tool,
            pattern,
            self.name_line(entry.line),
            everywhere=self.place.user,
            written=_shorten(entry.written),
            agent=self.place.agent,
            unless=unless,
            later=later,
            expression=entry.expression,
            hides=hides,
        )


def find_hidden_character(text: str) -> str:
    """Return the first character that a text does not show, escaped; empty if there is none."""
    plain = escape_terminal(text)
    if plain == text:
        return find_control_character(text)
    hidden = next(each for each in text if escape_terminal(each) != each)
    return escape_terminal(hidden)


def _read_hidden(entry: Entry) -> list[Entry]:
    """Return what an entry with hidden characters can mean: one entry for each of its lines."""
    if entry.pattern is None:
        return [entry]
    pattern = "".join(each for each in entry.pattern if not _is_invisible(each))
    return [entry._replace(pattern=part) for part in _CONTROLS.split(pattern) if part.strip()]


def _is_invisible(character: str) -> bool:
    is_control = _CONTROLS.match(character) is not None
    return escape_terminal(character) != character and not is_control


def _shorten(text: str) -> str:
    """Return an entry on one line, with hidden characters escaped, and not too long."""
    shown = escape_terminal(text.strip()).replace("\n", "\\n").replace("\t", "\\t")
    return shown if len(shown) <= MAX_WRITTEN else shown[: MAX_WRITTEN - 1] + "…"


def _allows_runner(words: Sequence[str]) -> bool:
    """Return whether the words of a pattern begin with a program that runs a project's tools."""
    if not words or words[0] not in _ENVIRONMENT_RUNNERS:
        return False
    return len(words) > 1 and words[1] in ("run", "*")


def _denies_bare_tool(rule: Rule) -> bool:
    """Return whether a rule is about each command of a tool that projects install."""
    if rule.tool != "run_terminal_cmd" or rule.pattern is None or rule.unless:
        return False
    words = pattern_words(rule.pattern)
    return words[0] in _ENVIRONMENT_TOOLS and all(word == "*" for word in words[1:])


def _find_installer(words: Sequence[str], *, or_all: bool = False) -> str:
    """Return which installer the words of a pattern run: `pip`, `uv pip`, or none.

    Args:
        words: The words.
        or_all: Whether `uv *` counts as `uv pip`.
    """
    program, verb = (*words, "", "")[:2]
    if program == "uv" and (verb == "pip" or (or_all and verb == "*")):
        return "uv pip"
    return "pip" if program in ("pip", "pip3") else ""


def _find_added_installer(rule: Rule) -> str | None:
    """Return the installer of a rule if the entry that it comes from names only the other one."""
    if rule.tool != "run_terminal_cmd" or rule.pattern is None or "pip" not in rule.written:
        return None
    installer = _find_installer(pattern_words(rule.pattern))
    names_uv = "uv pip" in rule.written
    return installer if installer and names_uv != (installer == "uv pip") else None


def _is_comparable(rule: Rule) -> bool:
    """Return whether the pattern of a rule can be compared with what the rule is about."""
    if rule.pattern is None or not rule.about_paths or rule.tool in _SHELL:
        return True
    return is_path_pattern(rule.pattern)


def is_path_pattern(pattern: str) -> bool:
    """Return whether a pattern can be compared with paths."""
    try:
        for path in ("a/b", "/a/b"):
            fit_path(pattern, path, strict=False)
    except ValueError:  # invalid in `.gitignore`
        return False
    return True


def is_valid(rule: str) -> bool:
    """Return whether a text is a rule that a rule file may contain."""
    try:
        parse(rule, "allow")
    except ValueError:
        return False
    return True


def apply_in_order(
    entries: Sequence[Entry],
    rules: RuleList,
    *,
    offers: bool = True,
    add: Callable[[Entry, RuleList], None] | None = None,
) -> None:
    """Add entries of which the last one that matches a call decides.

    In hilum, the strictest rule decides. An entry that denies or asks is therefore limited to what
    no later entry with a weaker effect matches.

    Args:
        entries: The entries, from weak to strong.
        rules: The list to add them to.
        offers: Whether the entries that allow can be taken over.
        add: Adds an entry that allows; by default, `RuleList.add`.
    """
    strictness = {"allow": 0, "ask": 1, "deny": 2}
    for number, entry in enumerate(entries):
        later = [
            each
            for each in entries[number + 1 :]
            if (each.kind, each.tool) == (entry.kind, entry.tool)
        ]
        weaker = [each for each in later if strictness[each.effect] < strictness[entry.effect]]
        # What a later entry replaces as a whole has no effect.
        is_replaced = any(_covers(each, entry) for each in later)
        if is_replaced and entry.effect != "allow":
            continue
        if entry.effect == "allow":
            stricter = [each for each in later if each.effect != "allow"]
            is_offered = offers and entry.is_permission
            if is_offered and not any(_covers(each, entry) for each in stricter):
                if add is None:
                    rules.add(entry)
                else:
                    add(entry, rules)
            continue
        rules.add(entry, [each.pattern for each in weaker if each.pattern])


def _covers(later: Entry, earlier: Entry) -> bool:
    if later.expression is not None:
        return later.expression == earlier.expression
    is_all = later.pattern is None or later.pattern.strip() in ("*", "**")
    return is_all or later.pattern == earlier.pattern
