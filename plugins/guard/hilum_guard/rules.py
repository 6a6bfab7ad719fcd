"""Rules that allow, ask or deny tool calls: ``tool`` or ``tool(pattern)``, and whether one fits a
call.

What the pattern is compared with depends on the tool: for a command every simple command that the
reader finds in it, never its text; for a tool with paths the resolved path; otherwise the arguments
by name. A rule that allows must fit exactly what is called. A rule that asks or denies also fits in
doubt, and it fits every call that has the same effect: a rule about writing a path fits each tool
and command that writes it.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import attrs

from hilum_guard.effects import Effect as PathEffect
from hilum_guard.effects import Reach, hosts_of, values
from hilum_guard.tool_names import CATEGORIES, STANDARD, names, server_tools

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

    from hilum_guard.commands import CommandVerdict, SimpleCommand

Effect = Literal["allow", "ask", "deny"]
Fit = Literal["", "unread", "maybe", "yes"]
_FITS: tuple[Fit, ...] = ("", "unread", "maybe", "yes")
__all__ = [
    "DOMAIN",
    "EXACT",
    "UNKNOWN",
    "Case",
    "Effect",
    "Fit",
    "Rule",
    "allowed",
    "exact",
    "exact_path",
    "explain",
    "fit",
    "fit_host",
    "fit_path",
    "fit_words",
    "folded",
    "harmless_wrapper",
    "literal_folder",
    "names",
    "parse",
    "path_kinds",
    "pattern_words",
    "server_tools",
    "unresolved_reason",
]
UNKNOWN = "…"
DOMAIN = "domain:"
EXACT = "="

_RULE = re.compile(r"([A-Za-z0-9_.*?-]+)(\(.*\))?", re.DOTALL)
_ADDRESS = re.compile(r"https?://", re.IGNORECASE)
_HOST = re.compile(r"(\*\.)?[\w-]+(\.[\w-]+)+")
_NAMED = re.compile(r"[A-Za-z_]\w*=")
# They only run what follows, in the same way: a rule that allows `pytest` allows `timeout 60
# pytest`.
_HARMLESS_WRAPPERS = frozenset("timeout nice ionice nohup stdbuf time command builtin".split())


@attrs.frozen
class Rule:
    """A rule.

    Attributes:
        effect: What it does with calls that it fits.
        tool: Name of the tool; ``*`` and ``?`` stand for any text and any character.
        pattern: What the call must be like; ``None`` takes every call of the tool.
        source: The file it stands in.
        everywhere: Whether it holds in every workspace.
    """

    effect: Effect
    tool: str
    pattern: str | None
    source: str = ""
    everywhere: bool = True

    @property
    def text(self) -> str:
        """The rule as it is written."""
        if self.pattern is None:
            return self.tool
        return f"{self.tool}({self.pattern})"

    @property
    def strict(self) -> bool:
        """Whether it has to fit exactly."""
        return self.effect == "allow"

    @property
    def about_all(self) -> bool:
        """Whether it takes every call of its tools."""
        return self.pattern in (None, "*", "**")

    @property
    def about_hosts(self) -> bool:
        """Whether its pattern is for hosts."""
        return self.pattern is not None and self.pattern.startswith(DOMAIN)

    @property
    def about_paths(self) -> bool:
        """Whether its pattern can be one for paths."""
        return not (
            self.about_all
            or self.about_hosts
            or self.pattern is None
            or _NAMED.match(self.pattern)
            or self.pattern.startswith(EXACT)
        )


@attrs.frozen
class Case:
    """A call as rules see it.

    Attributes:
        tool: Name of the tool.
        arguments: The checked arguments as plain data.
        paths: Of a tool with paths: those it reaches, relative to the workspace or absolute, links
            followed.
        command: Of a tool that runs a command line: what reading it gave.
        host: Of a tool with an address: the host that it names, in lower case and ASCII.
        category: Its permission category: ``read``, ``write``, ``execute`` or ``network``.
        reach: What it does to which paths and hosts.
    """

    tool: str
    arguments: Mapping[str, object]
    paths: tuple[str, ...] = ()
    command: CommandVerdict | None = None
    host: str = ""
    category: str = ""
    reach: Reach = Reach()


def parse(text: str, effect: Effect, source: str = "", *, everywhere: bool = True) -> Rule:
    """Read a rule.

    Raises:
        ValueError: It is none; says what would be right.
    """
    text = text.strip()
    found = _RULE.fullmatch(text)
    if found is None:
        if "(" in text and not text.endswith(")"):
            raise ValueError(
                f"{text!r} has no closing parenthesis; write tool(pattern), as run_terminal_cmd(git"
                " push *)"
            )
        raise ValueError(
            f"{text!r} is no rule; write tool or tool(pattern), as write_file(docs/**)"
        )
    name = found[1]
    pattern = found[2]
    if pattern is None:
        return Rule(effect, name, None, source, everywhere)
    pattern = pattern[1:-1].strip()
    if not pattern:
        raise ValueError(f"{text!r} has an empty pattern; write {name} for every call of the tool")
    if name == "network" or STANDARD.get(name) == "network":
        if _ADDRESS.match(pattern):
            host = _ADDRESS.sub("", pattern).partition("/")[0]
            raise ValueError(
                f"{text!r} names an address; rules name hosts: write {name}({DOMAIN}{host})"
            )
        if _HOST.fullmatch(pattern):
            pattern = f"{DOMAIN}{pattern}"
    if pattern[0] in "!#":
        raise ValueError(
            f"{text!r} begins with {pattern[0]!r}, which no pattern does; say it with a rule that"
            " denies"
        )
    return Rule(effect, name, pattern, source, everywhere)


def explain(rule: Rule) -> str:
    """Return what a rule means, in words."""
    does = {"allow": "runs without a question", "ask": "is asked each time", "deny": "is refused"}[
        rule.effect
    ]
    calls = _calls(rule.tool)
    pattern = rule.pattern
    if rule.about_all:
        more = _ALSO.get(rule.tool, "") if rule.effect != "allow" else ""
        return f"{calls} {does}{more}"
    assert pattern is not None
    if rule.about_hosts:
        also = "" if rule.strict else ", by whatever tool or command"
        return f"{calls} to the host {pattern.removeprefix(DOMAIN)} {does}{also}"
    if pattern.startswith(EXACT):
        return f"{calls} with exactly this command {does}"
    if _NAMED.match(pattern):
        return f"{calls} with these arguments {does}"
    kinds = path_kinds(rule.tool, STANDARD)
    if kinds and rule.tool != "*" and not rule.strict:
        doing = (
            "reading" if kinds == {"read"} else "deleting" if kinds == {"delete"} else "changing"
        )
        return f"{doing} {pattern}, by whatever tool or command, {does}"
    if pattern.endswith(" *"):
        return f"{calls} with a command that begins with {pattern[:-2]!r} {does}"
    return f"{calls} with the path or command {pattern!r} {does}"


_ALSO = {
    "network": "; so is a command that uses the network, as far as reading it tells",
    "write": "; so is a command that changes files, as far as reading it tells",
    "read": "; so is a command that reads files, as far as reading it tells",
}


def _calls(tool: str) -> str:
    if tool == "*":
        return "every call"
    if tool in CATEGORIES:
        return f"every call of the category {tool}"
    return f"every call of {tool}"


def path_kinds(tool: str, catalog: Mapping[str, str]) -> frozenset[str]:
    """Return what a rule about a path is about: ``read``, ``write``, ``delete``.

    Who may not write a path may not delete it either, by whatever tool; who may not delete it may
    still write it.

    Args:
        tool: The first part of the rule.
        catalog: The permission categories of the tools, by name.
    """
    found: set[str] = set()
    for name, category in (
        *catalog.items(),
        *((tool, tool) for _ in (tool,) if tool in CATEGORIES),
    ):
        if not names(tool, name, category):
            continue
        if name in ("delete_file", "forget"):
            found.add("delete")
        elif category == "write":
            found |= {"write", "delete"}
        elif name in ("read_file", "read"):
            found.add("read")
    return frozenset(found)


def fit(rule: Rule, case: Case, catalog: Mapping[str, str] = STANDARD) -> Fit:
    """Return whether a rule fits a call.

    Args:
        rule: The rule.
        case: The call.
        catalog: The permission categories of the tools, by name.

    Returns:
        ``yes``; empty for no; of a rule that asks or denies also ``maybe``, where the call may turn
        out to be what it says, and ``unread``, where a part of a command may do anything.
    """
    direct = _fit_direct(rule, case)
    if rule.strict:
        return direct
    return max(direct, _fit_effects(rule, case, catalog), key=_FITS.index)


def _fit_direct(rule: Rule, case: Case) -> Fit:
    """Return whether a rule fits a call of the tools that it names."""
    shell = (
        case.command is not None
        and names(rule.tool, "run_terminal_cmd", "execute")
        and not rule.strict
    )
    if not names(rule.tool, case.tool, case.category) and not (shell and not rule.about_all):
        return ""
    if rule.about_all:
        return "yes"
    assert rule.pattern is not None
    if case.command is not None:
        return _fit_command(rule, case, case.command)
    if _NAMED.match(rule.pattern):
        return "yes" if _fit_named(rule, case) else ""
    if rule.about_hosts:
        if not case.host:
            if case.arguments.get("url") and not rule.strict:
                return "maybe"
            return ""
        if fit_host(rule.pattern.removeprefix(DOMAIN), case.host, strict=rule.strict):
            return "yes"
        return ""
    if case.paths:
        fits = [fit_path(rule.pattern, path, strict=rule.strict) for path in case.paths]
        if all(fits) if rule.strict else any(fits):
            return "yes"
        return ""
    # A pattern that says nothing about such a tool: who allows has allowed nothing, who denies has
    # denied it.
    if rule.strict or rule.tool in CATEGORIES:
        return ""
    return "yes"


def _fit_effects(rule: Rule, case: Case, catalog: Mapping[str, str]) -> Fit:
    """Return whether a call does what a rule about a path, a host or a category is about, by
    another way.
    """
    return max((fit for fit in _fits_by_effect(rule, case, catalog)), key=_FITS.index, default="")


def _fits_by_effect(rule: Rule, case: Case, catalog: Mapping[str, str]) -> Iterator[Fit]:
    if rule.about_hosts:
        if any(
            names(rule.tool, name, category) and category == "network"
            for name, category in catalog.items()
        ):
            yield from _fits_host((rule.pattern or "").removeprefix(DOMAIN), case)
        return
    if rule.about_all:
        if rule.tool in CATEGORIES:
            yield from _fits_category(rule.tool, case)
        return
    if rule.about_paths and (kinds := path_kinds(rule.tool, catalog)):
        yield from (_fit_effect(rule.pattern or "", effect, kinds) for effect in case.reach.effects)
        if case.reach.unread:
            yield "unread"


def _fits_host(pattern: str, case: Case) -> Iterator[Fit]:
    named = (*case.reach.hosts, *([case.host] if case.host else []))
    if any(fit_host(pattern, host, strict=False) for host in named):
        yield "yes"
    elif case.command is not None:
        yield (
            "maybe"
            if case.reach.network and not case.reach.hosts
            else "unread"
            if case.reach.unread
            else ""
        )
    elif case.category == "network":
        found = (host for text in values(case.arguments) for host in hosts_of(text))
        yield "yes" if any(fit_host(pattern, host, strict=False) for host in found) else ""


def _fits_category(category: str, case: Case) -> Iterator[Fit]:
    if case.command is None:
        return
    if category == "network":
        yield "yes" if case.reach.network or case.reach.hosts else ""
    for effect in case.reach.effects:
        kinds = {"write": ("write", "delete"), "read": ("read",)}.get(category, ())
        if effect.kind in kinds:
            yield "yes"
    if case.reach.unread:
        yield "unread"


def _fit_effect(pattern: str, effect: PathEffect, kinds: frozenset[str]) -> Fit:
    if effect.kind != "any" and effect.kind not in kinds:
        return ""
    if not fit_path(pattern, effect.path, strict=False):
        if not effect.deep:
            return ""
        prefix = literal_folder(pattern)
        if prefix is None:  # something below may have such a name
            return "maybe" if effect.stored else "unread"
        if not within(prefix, effect.path):
            return ""
        if effect.stored and folded(prefix) != folded(effect.path):
            # A folder with other files in it, and nobody knows which of them a revision changes
            return "maybe"
    return "yes" if effect.certain else "maybe"


def literal_folder(pattern: str) -> str | None:
    """Return the path that all paths which fit a pattern are at or below.

    ``None`` where they can be anywhere.

    ``docs/**`` gives ``docs``, ``/src/*.py`` gives ``src``, ``*.lock`` gives ``None``.
    """
    if pattern.startswith("~/"):
        pattern = f"/{Path.home()}{pattern[1:]}"
    absolute = pattern.startswith("//")
    body = pattern.strip("/")
    if "/" not in pattern.rstrip("/"):
        return None
    parts: list[str] = []
    for part in body.split("/"):
        if re.search(r"[*?\[\\]", part):
            break
        parts.append(part)
    if not parts:
        return None
    return ("/" if absolute else "") + "/".join(parts)


def within(path: str, folder: str) -> bool:
    """Return whether a path is a folder or in it, in the most forgiving spelling.

    ``.`` is the workspace.
    """
    path = folded(path)
    folder = folded(folder)
    if folder == ".":
        return not path.startswith("/")
    return (
        path == folder
        or path.startswith(folder.rstrip("/") + "/")
        or (folder == "/" and path.startswith("/"))
    )


# --- commands -------------------------------------------------------------------------------------


def exact(text: str) -> str:
    """Return the pattern that fits a command line as it stands, and no other."""
    return EXACT + text


@lru_cache(maxsize=1024)
def pattern_words(pattern: str) -> tuple[str, ...]:
    """Split the pattern for a command into words.

    Each may have ``*`` in it, and ``*`` alone is any number of words.
    """
    try:
        return tuple(shlex.split(pattern))
    except ValueError:
        return tuple(pattern.split())


def fit_words(
    pattern: Sequence[str], words: Sequence[str], *, strict: bool
) -> Literal["", "maybe", "yes"]:
    """Return whether words fit a pattern.

    Args:
        pattern: Words of the pattern.
        words: Program and arguments; ``…`` is in those that only the run would tell.
        strict: Whether they must fit exactly. If not, options may stand anywhere between, more
            words may follow, the program may be named by its path, and unknown words may be any.
    """
    if _walk(pattern, words, strict, doubtful=False):
        return "yes"
    if not strict and _walk(pattern, words, strict, doubtful=True):
        return "maybe"
    return ""


def _walk(pattern: Sequence[str], words: Sequence[str], strict: bool, doubtful: bool) -> bool:
    """Follow all ways to lay the words over the pattern at once.

    A place is an index, and whether an option came last.
    """
    end = len(pattern)
    places = {(0, False)}
    for number, word in enumerate(words):
        after: set[tuple[int, bool]] = set()
        for at, option in _past_stars(places, pattern):
            if at == end:
                after |= set() if strict else {(end, False)}
            elif UNKNOWN in word and doubtful:
                after |= {(later, False) for later in range(at, end + 1)}
            elif pattern[at] == "*":
                after.add((at, False))
            elif _word_fits(pattern[at], word, strict, program=number == 0):
                after.add((at + 1, False))
            if not strict and at and (option or word.startswith("-")):
                after.add((at, word.startswith("-")))
        places = after
    return any(at == end for at, _ in _past_stars(places, pattern))


def _past_stars(places: set[tuple[int, bool]], pattern: Sequence[str]) -> set[tuple[int, bool]]:
    found = set(places)
    for at, option in places:
        while at < len(pattern) and pattern[at] == "*":
            at += 1
            found.add((at, option))
    return found


def _word_fits(pattern: str, word: str, strict: bool, program: bool) -> bool:
    if UNKNOWN in word:
        return False
    if strict:
        return fnmatchcase(word, pattern)
    word = folded(word)
    pattern = folded(pattern)
    return fnmatchcase(word, pattern) or (
        program
        and "/" not in pattern
        and fnmatchcase(word.replace("\\", "/").rpartition("/")[2], pattern)
    )


def _fit_command(rule: Rule, case: Case, read: CommandVerdict) -> Fit:
    pattern = rule.pattern or ""
    if pattern.startswith(EXACT):
        if case.arguments.get("command") == pattern[len(EXACT) :]:
            return "yes"
        return ""
    wanted = pattern_words(pattern)
    if rule.strict:
        return "yes" if allowed([wanted], read.commands) else ""
    fits = [fit_words(wanted, command.words, strict=False) for command in read.all_commands]
    if "yes" in fits or unresolved_reason(rule, case):
        return "yes"
    in_doubt = (
        "maybe" in fits
        or not read.complete
        or any(_names_in_code(wanted, c) for c in read.commands)
    )
    return "maybe" if in_doubt else ""


def unresolved_reason(rule: Rule, case: Case) -> str:
    """Return why a command may be what a rule about its program is about.

    Empty if that can be told.

    An unknown sub-command of a program may be any of its sub-commands: who denies one of them has
    denied it.
    """
    if rule.strict or case.command is None or not case.command.unresolved:
        return ""
    if rule.pattern is None or rule.pattern.startswith(EXACT):
        return ""
    wanted = pattern_words(rule.pattern)
    if len(wanted) < 2 or wanted[0] == "*":
        return ""
    for command in case.command.unresolved:
        if _word_fits(wanted[0], command.words[0], strict=False, program=True):
            return command.reason
    return ""


# They run a program that is one of their words, or their input.
_INTERPRETERS = re.compile(
    r"(python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|luajit|tclsh|wish|expect|osascript|awk|gawk|mawk|nawk|irb|julia|Rscript"
    r"|groovy|scala|jshell|guile|sbcl|emacs|vim|vi|ex|nvim|ed|gdb|sqlite3|psql|mysql|tmux|screen|make|find|tar|rsync)[\d.]*",
    re.IGNORECASE,
)


def _names_in_code(wanted: Sequence[str], command: SimpleCommand) -> bool:
    """Return whether code that an interpreter is given has all plain words of a pattern in it, in
    their order.
    """
    plain = [re.escape(folded(word)) for word in wanted if not re.search(r"[*?\[]", word)]
    if (
        not plain
        or not command.words
        or not _INTERPRETERS.fullmatch(command.words[0].rpartition("/")[2])
    ):
        return False
    texts = [word for word in command.words[1:] if len(word) > 1]
    texts += [command.stdin] if command.stdin else []
    code = re.compile(r"\b" + r"\b\W.{0,200}?\b".join(plain) + r"\b", re.DOTALL)
    return any(code.search(folded(text)) for text in texts)


def allowed(patterns: Sequence[Sequence[str]], commands: Sequence[SimpleCommand]) -> bool:
    """Return whether every simple command fits one of the patterns, word by word, as it stands in
    the text.
    """
    rest = [command for command in commands if not harmless_wrapper(command)]
    return bool(rest) and all(
        command.literal
        and not command.assigned
        and any(fit_words(pattern, command.words, strict=True) for pattern in patterns)
        for command in rest
    )


def harmless_wrapper(command: SimpleCommand) -> bool:
    """Return whether a command only runs the one that follows it in the list."""
    return (
        command.wrapper
        and command.literal
        and not command.assigned
        and command.words[0] in _HARMLESS_WRAPPERS
    )


# --- paths and arguments --------------------------------------------------------------------------


def folded(text: str) -> str:
    """Fold a name the way the most forgiving file system would."""
    return unicodedata.normalize("NFKC", text).casefold()


def exact_path(path: str) -> str:
    """Return the pattern that fits one path and no other."""
    text = re.sub(r"([\\*?\[\]!#])", r"\\\1", path)
    if path.startswith("/"):
        return f"/{text}"
    return f"/{text.removesuffix(' ')}" + ("\\ " if path.endswith(" ") else "")


def fit_path(pattern: str, path: str, *, strict: bool) -> bool:
    """Return whether a path fits a pattern, which is written as in ``.gitignore``: ``docs/**``,
    ``*.lock``, ``/setup.py``.

    Args:
        pattern: The pattern; one with two slashes in front, or with ``~/``, is for absolute paths.
        path: Relative to the workspace; absolute where it is outside.
        strict: Whether letters must be the same, too.
    """
    if pattern.startswith("~/"):
        pattern = f"/{Path.home()}{pattern[1:]}"
    if path.startswith("/") != pattern.startswith("//") and (strict or "/" in pattern.strip("/")):
        return False
    pattern = "/" + pattern.lstrip("/") if pattern.startswith("//") else pattern
    if not strict:
        pattern = folded(pattern)
        path = folded(path)
    return _spec(pattern).match_file(path.lstrip("/"))


@cache
def _spec(pattern: str) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines([pattern])


def fit_host(pattern: str, host: str, *, strict: bool) -> bool:
    """Return whether a host fits a pattern: ``example.com``, or ``*.example.com`` for what is below
    it. Whole labels count.

    Args:
        pattern: The pattern.
        host: The host; empty for none.
        strict: Whether it must fit exactly; a rule that denies a host denies what is below it, too.
    """
    pattern = pattern.strip().lower().rstrip(".")
    host = host.rstrip(".")
    if pattern.startswith("*."):
        return bool(host) and host.endswith(pattern[1:])
    return bool(host) and (host == pattern or (not strict and host.endswith(f".{pattern}")))


def _fit_named(rule: Rule, case: Case) -> bool:
    """``url=https://docs.python.org/**, method=GET``: every named argument there is and fits."""
    parts = re.split(r",\s*(?=[A-Za-z_]\w*=)", rule.pattern or "")
    return all(_fit_argument(part, case, rule.strict) for part in parts)


def _fit_argument(part: str, case: Case, strict: bool) -> bool:
    name, _, pattern = part.partition("=")
    value = case.arguments.get(name)
    if value is None:
        return False
    text = (
        value
        if isinstance(value, str)
        else repr(value).lower()
        if isinstance(value, bool)
        else str(value)
    )
    if not strict:
        text = folded(text)
        pattern = folded(pattern)
    return re.fullmatch(_glob(pattern), text, re.DOTALL) is not None


@cache
def _glob(pattern: str) -> str:
    """``**`` is any text.

    ``*`` is text without what parts an address, so that no host can pass for another.
    """
    parts = re.split(r"(\*\*|\*|\?)", pattern)
    return "".join(
        {"**": ".*", "*": r"[^/?#@\\]*", "?": r"[^/?#@\\]"}.get(part, re.escape(part))
        for part in parts
    )
