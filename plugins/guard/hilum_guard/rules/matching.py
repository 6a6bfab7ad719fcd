"""Parse rules that allow, ask or deny tool calls (``tool`` or ``tool(pattern)``), and match calls.

The tool determines what the pattern is compared with: for a command line, each of its simple
commands, never its text; for a tool with paths, the resolved paths; for other tools, the arguments
by name. An allow rule must match the call exactly. An ask or deny rule also matches in doubtful
cases, and it matches every call with the same effect: a rule about writing to a path matches each
tool and command that writes to the path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Literal

import attrs
from hilum.errors import similar_names

from hilum_guard.effects.git_effects import git_words
from hilum_guard.effects.network_use import hosts_of
from hilum_guard.effects.resolved_effects import Effect as PathEffect
from hilum_guard.effects.resolved_effects import ResolvedEffects, values
from hilum_guard.file_names import folded
from hilum_guard.rules.expressions import Expression, fits_any
from hilum_guard.rules.option_spellings import fit_options, spell_arguments
from hilum_guard.rules.patterns import (
    NAMED,
    UNKNOWN,
    find_control_character,
    fit_arguments,
    fit_host,
    fit_path,
    fit_words,
    fits_word,
    is_within,
    literal_folder,
    pattern_words,
)
from hilum_guard.rules.tool_names import CATEGORIES, STANDARD, Effect, names

if TYPE_CHECKING:
    from hilum_guard.commands.verdicts import CommandVerdict, SimpleCommand

Fit = Literal["", "unread", "maybe", "yes"]
_FITS: tuple[Fit, ...] = ("", "unread", "maybe", "yes")
DOMAIN = "domain:"
"""Prefix of a pattern for hosts."""
EXACT = "="
"""Prefix of a pattern that is a command's exact text."""

_RULE = re.compile(r"([A-Za-z0-9_.*?-]+)(\(.*\))?", re.DOTALL)
_ADDRESS = re.compile(r"https?://", re.IGNORECASE)
# A program or a sub-command, and no option; a rule may abbreviate both with `*`.
_NAME = re.compile(r"[\w./:@+*?][\w./:@+*?-]*")
_HOST = re.compile(r"(\*\.)?[\w-]+(\.[\w-]+)+")
# These programs only run the words that follow: a rule that allows `pytest` also allows `timeout 60
# pytest`.
_HARMLESS_WRAPPERS = frozenset("timeout nice ionice nohup stdbuf time command builtin".split())
_KINDS_OF_CATEGORY = {"write": ("write", "delete"), "read": ("read",)}
_MEANINGS = {
    "allow": "runs without approval",
    "ask": "needs approval each time",
    "deny": "is refused",
}
_ALSO = {
    "network": "; this includes commands that use the network, as far as their text shows",
    "write": "; this includes commands that change files, as far as their text shows",
    "read": "; this includes commands that read files, as far as their text shows",
}
_NOT_HIDDEN = (
    "; this does not hold for programs that a command runs without naming the path, because they"
    " may need it"
)


@attrs.frozen
class Rule:
    """A rule.

    Attributes:
        effect: The effect on calls that the rule matches.
        tool: Name of the tool; ``*`` matches any text and ``?`` any character.
        pattern: The calls of the tool that the rule matches; ``None`` for all.
        source: The file that contains the rule.
        everywhere: Whether the rule applies in every workspace.
        kind: The kind of sessions that the rule applies to; empty for all.
        written: For a rule of another agent: the rule as written in the agent's file.
        agent: For a rule of another agent: the name of the agent.
        unless: For a rule about commands: patterns of commands that the rule does not match.
        later: For a rule about paths: further lines after the pattern, as in a ``.gitignore`` file:
            the last line that matches decides, and ``!`` means no match.
        expression: For a rule about commands without a pattern: the regular expression that the
            commands match.
        hides: Whether the rule also concerns commands that may use its paths without naming them.
            If so, the sandbox hides or protects the paths.
        spares: For a rule about commands: patterns of commands that may run what the rule denies,
            because the same file allows them: ``uv run *`` beside a denied ``pytest``.
    """

    effect: Effect
    tool: str
    pattern: str | None
    source: str = ""
    everywhere: bool = True
    kind: str = ""
    written: str = ""
    agent: str = ""
    unless: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    expression: Expression | None = None
    hides: bool = True
    spares: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The rule as written in a rule file."""
        if self.pattern is None:
            return self.tool
        return f"{self.tool}({self.pattern})"

    @property
    def shown(self) -> str:
        """The rule as its author wrote it, for messages."""
        return self.written or self.text

    @property
    def located(self) -> str:
        """The rule with its agent and file, for messages."""
        shown = f"{self.shown} of {self.agent}" if self.agent else self.text
        return f"{shown}, {self.source}" if self.source else shown

    @property
    def strict(self) -> bool:
        """Whether the rule must match exactly."""
        return self.effect == "allow"

    @property
    def about_all(self) -> bool:
        """Whether the rule matches every call of its tools."""
        return self.expression is None and self.pattern in (None, "*", "**")

    @property
    def about_program(self) -> bool:
        """Whether the rule names at most a command's program and sub-commands.

        Such a rule (`git checkout *`) is what a lasting approval of a command creates. It does not
        show what a dangerous command that it matches does.
        """
        if self.pattern is None or self.about_all:
            return True
        words = pattern_words(self.pattern)
        if words[-1] != "*" or self.pattern.startswith(EXACT):
            return False
        return all(_NAME.fullmatch(word) for word in words)

    @property
    def about_hosts(self) -> bool:
        """Whether the rule's pattern matches hosts."""
        return self.pattern is not None and self.pattern.startswith(DOMAIN)

    @property
    def about_paths(self) -> bool:
        """Whether the rule's pattern may match paths."""
        pattern = self.pattern
        if pattern is None or self.about_all:
            return False
        return not (pattern.startswith((DOMAIN, EXACT)) or NAMED.match(pattern))

    @property
    def literal_folder(self) -> str | None:
        """The folder that contains all paths of the rule, if one is known."""
        return None if self.later else literal_folder(self.pattern or "")

    def fits_path(self, path: str) -> bool:
        """Return whether a path, as in ``fit_path``, is one of the rule's paths."""
        return fit_path(self.pattern or "", path, strict=self.strict, later=self.later)


@attrs.frozen
class CallFacts:
    """The facts about a call that rules are compared with.

    Attributes:
        tool: Name of the tool.
        arguments: The checked arguments as plain data.
        paths: For a tool with paths: the paths that the call accesses, relative to the workspace or
            absolute, with links followed.
        command: For a tool that runs a command line: the verdict on that command line.
        host: For a tool with a URL: the URL's host, in lower case and ASCII.
        category: The permission category: ``read``, ``write``, ``execute`` or ``network``.
        resolved: The effects of the call on paths and hosts.
    """

    tool: str
    arguments: Mapping[str, object]
    paths: tuple[str, ...] = ()
    command: CommandVerdict | None = None
    host: str = ""
    category: str = ""
    resolved: ResolvedEffects = ResolvedEffects()


# --- texts ----------------------------------------------------------------------------------------


def parse(text: str, effect: Effect, source: str = "", *, everywhere: bool = True) -> Rule:
    """Parse a rule.

    Raises:
        ValueError: The text is not a rule; the message describes the correct form.
    """
    text = text.strip()
    found = _RULE.fullmatch(text)
    if found is None:
        raise ValueError(_explain_syntax(text))
    name = found[1]
    if found[2] is None:
        return Rule(effect, name, None, source, everywhere)
    pattern = found[2][1:-1].strip()
    if not pattern:
        raise ValueError(f"{text!r} has an empty pattern; write {name} for every call of the tool")
    if name == "network" or STANDARD.get(name) == "network":
        pattern = _parse_host(text, name, pattern)
    is_about_paths = name in CATEGORIES or STANDARD.get(name) in ("read", "write")
    control = find_control_character(pattern) if is_about_paths else ""
    if control and not NAMED.match(pattern):
        raise ValueError(
            f"{text!r} contains the control character {control}; write one rule for each path"
        )
    if pattern[0] in "!#":
        raise ValueError(
            f"{text!r} begins with {pattern[0]!r}, which no pattern does; instead, use a rule that"
            " denies"
        )
    return Rule(effect, name, pattern, source, everywhere)


def _explain_syntax(text: str) -> str:
    if "(" in text and not text.endswith(")"):
        return (
            f"{text!r} has no closing parenthesis; write tool(pattern), as run_terminal_cmd(git"
            " push *)"
        )
    return f"{text!r} is not a rule; write tool or tool(pattern), for example write_file(docs/**)"


def _parse_host(text: str, name: str, pattern: str) -> str:
    """Return a network tool's pattern, with the prefix for hosts if the pattern is a host."""
    if _ADDRESS.match(pattern):
        host = _ADDRESS.sub("", pattern).partition("/")[0]
        raise ValueError(
            f"{text!r} is about a URL; rules are about hosts: write {name}({DOMAIN}{host})"
        )
    prefix, colon, host = pattern.partition(":")
    if colon and prefix != "domain" and similar_names(prefix, ["domain"]):
        raise ValueError(
            f"{text!r} begins with {prefix}:, which is unknown; did you mean {name}({DOMAIN}{host})?"
        )
    return f"{DOMAIN}{pattern}" if _HOST.fullmatch(pattern) else pattern


def exact_pattern(text: str) -> str:
    """Return the pattern that matches only the given command line."""
    return EXACT + text


def explain(rule: Rule) -> str:
    """Return a description of what a rule means."""
    meaning = _MEANINGS[rule.effect]
    calls = _describe_calls(rule.tool)
    pattern = rule.pattern
    if rule.expression is not None:
        return f"{calls} with a command that matches /{rule.expression.text}/ {meaning}"
    if rule.unless:
        whole = explain(attrs.evolve(rule, unless=()))
        excepted = [each for each in rule.unless if _can_overlap(pattern or "*", each)]
        return f"{whole}, except {', '.join(excepted)}" if excepted else whole
    if pattern is None or rule.about_all:
        also = "" if rule.strict else _ALSO.get(rule.tool, "")
        return f"{calls} {meaning}{also}"
    for each in rule.later:
        # Of the patterns of a rule, the last one that matches decides; `!` takes something out.
        pattern += f", except {each[1:]}" if each.startswith("!") else f", {each}"
    if rule.about_hosts:
        also = "" if rule.strict else ", by any tool or command"
        return f"{calls} to the host {pattern.removeprefix(DOMAIN)} {meaning}{also}"
    if pattern.startswith(EXACT):
        return f"{calls} with exactly this command {meaning}"
    if NAMED.match(pattern):
        return f"{calls} with the arguments {pattern} {meaning}"
    kinds = path_kinds(rule.tool, STANDARD)
    if kinds and rule.tool != "*" and not rule.strict:
        also = "" if rule.hides else _NOT_HIDDEN
        return f"{_describe_kinds(kinds)} {pattern}, by any tool or command, {meaning}{also}"
    if rule.spares:
        whole = explain(attrs.evolve(rule, spares=()))
        return f"{whole}, except if it is run by {', '.join(rule.spares)}"
    if pattern.endswith(" *"):
        return f"{calls} with a command that begins with {pattern[:-2]!r} {meaning}"
    return f"{calls} with the path or command {pattern!r} {meaning}"


def _can_overlap(pattern: str, other: str) -> bool:
    """Return whether two patterns may match the same command, judged by their literal beginnings."""
    for one, two in zip(pattern_words(pattern), pattern_words(other), strict=False):
        if one == "*" or two == "*":
            return True
        if not _is_literal(one) or not _is_literal(two):
            beginnings = (re.split(r"[*?\[]", one)[0], re.split(r"[*?\[]", two)[0])
            shorter, longer = sorted(beginnings, key=len)
            return longer.startswith(shorter)
        if one != two:
            return False
    return True


def _is_literal(word: str) -> bool:
    return not re.search(r"[*?\[]", word)


def _describe_calls(tool: str) -> str:
    if tool == "*":
        return "every call"
    if tool in CATEGORIES:
        return f"every call of the category {tool}"
    return f"every call of {tool}"


def _describe_kinds(kinds: frozenset[str]) -> str:
    if kinds == {"read"}:
        return "reading"
    if kinds == {"delete"}:
        return "deleting"
    return "changing"


def path_kinds(tool: str, catalog: Mapping[str, str]) -> frozenset[str]:
    """Return the effects that a rule about a path covers: ``read``, ``write``, ``delete``.

    A rule about writing to a path also covers deleting it, by any tool. A rule about deleting a
    path does not cover writing to it.

    Args:
        tool: The first part of the rule.
        catalog: The permission categories of the tools, by name.
    """
    tools = list(catalog.items())
    if tool in CATEGORIES:
        tools.append((tool, tool))
    found: set[str] = set()
    for name, category in tools:
        if not names(tool, name, category):
            continue
        if name in ("delete_file", "forget"):
            found.add("delete")
        elif category == "write":
            found |= {"write", "delete"}
        elif name in ("read_file", "read"):
            found.add("read")
    return frozenset(found)


# --- fitting --------------------------------------------------------------------------------------


def fit(rule: Rule, facts: CallFacts, catalog: Mapping[str, str] = STANDARD) -> Fit:
    """Return whether a rule matches a call.

    Args:
        rule: The rule.
        facts: The call.
        catalog: The permission categories of the tools, by name.

    Returns:
        ``yes``, or an empty string for no. For an ask or deny rule, the result may also be
        ``maybe`` (the call might match) or ``unread`` (a part of a command may do anything).
        Compare the result explicitly: ``maybe`` and ``unread`` are also truthy.
    """
    if _is_blanket_question(rule) and facts.command is not None and facts.command.kind == "auto":
        return ""
    direct = _fit_direct(rule, facts)
    if rule.strict:
        return direct
    # An ask or deny rule would be useless if it did not cover other tools with the same effect.
    found = max((direct, *_fit_effects(rule, facts, catalog)), key=_FITS.index)
    return "" if found == "unread" and not rule.hides else found


def _is_blanket_question(rule: Rule) -> bool:
    """Return whether another agent asks about every command.

    Like ``approve = ask_first``, this does not concern commands that only read.
    """
    return bool(rule.agent) and rule.effect == "ask" and rule.about_all


def _fit_direct(rule: Rule, facts: CallFacts) -> Fit:
    """Return whether a rule matches a call of one of the tools that it names."""
    is_named = names(rule.tool, facts.tool, facts.category)
    if not is_named and not _is_about_commands(rule, facts):
        return ""
    if rule.expression is not None:
        return _fit_expression(rule.expression, facts)
    if facts.command is not None and rule.unless:
        return _fit_other_commands(rule, facts, facts.command)
    if rule.pattern is None or rule.about_all:
        return "yes"
    if facts.command is not None:
        return _fit_command(rule, facts, facts.command)
    if NAMED.match(rule.pattern):
        return _YES[fit_arguments(rule.pattern, facts.arguments, rule.strict)]
    if rule.about_hosts:
        return _fit_named_host(rule, facts)
    if facts.paths:
        fits = [rule.fits_path(path) for path in facts.paths]
        return _YES[all(fits) if rule.strict else any(fits)]
    # If a pattern has no meaning for a tool, an allow rule does not allow the call, but a deny rule
    # denies it.
    return _YES[not rule.strict and rule.tool not in CATEGORIES]


_YES: dict[bool, Fit] = {True: "yes", False: ""}


def _is_about_commands(rule: Rule, facts: CallFacts) -> bool:
    """Return whether a rule about commands also covers calls of another shell tool."""
    if facts.command is None or rule.strict or rule.about_all:
        return False
    return names(rule.tool, "run_terminal_cmd", "execute")


def _fit_named_host(rule: Rule, facts: CallFacts) -> Fit:
    """Return whether a rule about a host matches the host that a call names."""
    if facts.host:
        pattern = (rule.pattern or "").removeprefix(DOMAIN)
        return _YES[fit_host(pattern, facts.host, strict=rule.strict)]
    # A URL without a plain host may lead to any host.
    if facts.arguments.get("url") and not rule.strict:
        return "maybe"
    return ""


def _fit_effects(rule: Rule, facts: CallFacts, catalog: Mapping[str, str]) -> Iterator[Fit]:
    """Yield whether a call has the effects that a rule covers, through another tool or command."""
    if rule.about_hosts:
        if _is_about_network(rule, catalog):
            yield _fit_reached_host((rule.pattern or "").removeprefix(DOMAIN), facts)
        return
    if rule.about_all:
        if rule.tool in CATEGORIES:
            yield from _fit_category(rule.tool, facts)
        return
    if rule.about_paths:
        yield from _fit_paths(rule, facts.resolved, path_kinds(rule.tool, catalog))


def _fit_paths(rule: Rule, resolved: ResolvedEffects, kinds: frozenset[str]) -> Iterator[Fit]:
    """Yield whether a call has effects of the given kinds on a rule's paths."""
    if not kinds:
        return
    for effect in resolved.effects:
        yield _fit_path_effect(rule, effect, kinds)
    if resolved.unread:
        yield "unread"


def _is_about_network(rule: Rule, catalog: Mapping[str, str]) -> bool:
    """Return whether a rule names a network tool or the network category."""
    tools = [name for name, category in catalog.items() if category == "network"]
    return any(names(rule.tool, tool, "network") for tool in tools)


def _fit_reached_host(pattern: str, facts: CallFacts) -> Fit:
    """Return whether a call contacts a host."""
    resolved = facts.resolved
    if _fits_any_host(pattern, [*resolved.hosts, facts.host]):
        return "yes"
    if facts.command is None:
        if facts.category != "network":
            return ""
        hosts = chain.from_iterable(map(hosts_of, values(facts.arguments)))
        return _YES[_fits_any_host(pattern, hosts)]
    if resolved.network and not resolved.hosts:
        return "maybe"
    return "unread" if resolved.unread else ""


def _fits_any_host(pattern: str, hosts: Iterable[str]) -> bool:
    return any(fit_host(pattern, host, strict=False) for host in hosts)


def _fit_category(category: str, facts: CallFacts) -> Iterator[Fit]:
    """Yield whether a command does what a permission category covers."""
    if facts.command is None:
        return
    resolved = facts.resolved
    if category == "network" and (resolved.network or resolved.hosts):
        yield "yes"
    kinds = _KINDS_OF_CATEGORY.get(category, ())
    if any(effect.kind in kinds for effect in resolved.effects):
        yield "yes"
    if resolved.unread:
        yield "unread"


def _fit_path_effect(rule: Rule, effect: PathEffect, kinds: frozenset[str]) -> Fit:
    """Return whether an effect concerns a rule's paths and kinds."""
    if effect.kind != "any" and effect.kind not in kinds:
        return ""
    certain: Fit = "yes" if effect.certain else "maybe"
    if rule.fits_path(effect.path):
        return certain
    if not effect.deep:
        return ""
    folder = rule.literal_folder
    if folder is None:  # a path below the folder may match the pattern
        return "maybe" if effect.stored else "unread"
    if not is_within(folder, effect.path):
        return ""
    if effect.stored and folded(folder) != folded(effect.path):
        # The folder also contains other files, and the revision may change any of them.
        return "maybe"
    return certain


# --- commands -------------------------------------------------------------------------------------

# These programs run code in their arguments or standard input.
_INTERPRETERS = re.compile(
    r"(python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|luajit|tclsh|wish|expect|osascript|awk"
    r"|gawk|mawk|nawk|irb|julia|Rscript|groovy|scala|jshell|guile|sbcl|emacs|vim|vi|ex|nvim|ed|gdb"
    r"|sqlite3|psql|mysql|tmux|screen|make|find|tar|rsync)[\d.]*",
    re.IGNORECASE,
)


def _fit_command(rule: Rule, facts: CallFacts, read: CommandVerdict) -> Fit:
    """Return whether a rule matches a command line."""
    pattern = rule.pattern or ""
    if pattern.startswith(EXACT):
        return _YES[facts.arguments.get("command") == pattern[len(EXACT) :]]
    wanted = pattern_words(pattern)
    if rule.strict:
        return _YES[allowed([wanted], read.commands)]
    compared = [command for command in read.all_commands if not _is_spared(rule, command)]
    fits = [_fit_any_spelling(wanted, command.words) for command in compared]
    if "yes" in fits or unresolved_reason(rule, facts):
        return "yes"
    if "maybe" in fits or not read.complete:
        return "maybe"
    return "maybe" if any(_is_in_code(wanted, each) for each in read.commands) else ""


def _is_spared(rule: Rule, command: SimpleCommand) -> bool:
    """Return whether one of the commands that run a command is an exception to a rule."""
    if not rule.spares:
        return False
    patterns = [pattern_words(each) for each in rule.spares]
    return any(
        fit_words(each, words, strict=True) for each in patterns for words in command.runners
    )


def _fit_expression(expression: Expression, facts: CallFacts) -> Fit:
    """Return whether a regular expression matches a command line or one of its commands."""
    read = facts.command
    if read is None:
        return ""
    texts = [str(facts.arguments.get("command", ""))]
    for command in read.all_commands:
        texts += [command.source, " ".join(command.words)]
        if command.program == "git":
            # Options before the sub-command do not change it.
            texts.append(" ".join(git_words(command.words)))
    if fits_any(expression, dict.fromkeys(texts)):
        return "yes"
    is_known = read.complete and not any(_has_unknown_verb(each) for each in read.all_commands)
    return "" if is_known else "maybe"


def _has_unknown_verb(command: SimpleCommand) -> bool:
    """Return whether a command's program or its first argument is known only at run time."""
    return any(UNKNOWN in word for word in command.words[:2])


def _fit_any_spelling(wanted: Sequence[str], words: Sequence[str]) -> Fit:
    """Return whether a command matches a pattern, with its options in any order and spelling."""
    fit = _fit_options_too(wanted, words)
    spelled = (spell_arguments(wanted), spell_arguments(words))
    if fit == "yes" or spelled == (wanted, words):
        return fit
    return _fit_options_too(*spelled) or fit


def _fit_options_too(wanted: Sequence[str], words: Sequence[str]) -> Fit:
    fit = fit_words(wanted, words, strict=False)
    if fit == "yes":
        return fit
    return fit_options(wanted, words) or fit


def _fit_other_commands(rule: Rule, facts: CallFacts, read: CommandVerdict) -> Fit:
    """Return whether a rule matches a command line that it does not except."""
    exceptions = [pattern_words(pattern) for pattern in rule.unless]
    commands = [command for command in read.commands if not harmless_wrapper(command)]
    others = [command for command in commands if not _is_allowed(exceptions, command)]
    if rule.pattern is not None and not rule.about_all:
        # The words of an excepted command may still run another command, as a script does.
        others += [command for command in read.implied if not _is_allowed(exceptions, command)]
        wanted = pattern_words(rule.pattern)
        fits = [_fit_any_spelling(wanted, command.words) for command in others]
        if "yes" in fits:
            return "yes"
        return "maybe" if "maybe" in fits or not read.complete else ""
    if others:
        return "yes"
    return "" if read.complete else "maybe"


def unresolved_reason(rule: Rule, facts: CallFacts) -> str:
    """Return why a rule about a command's program may cover the command.

    An unknown sub-command may be any of the program's sub-commands, so a rule that denies any
    sub-command also denies the unknown one.
    """
    pattern = rule.pattern
    if rule.strict or facts.command is None or pattern is None or pattern.startswith(EXACT):
        return ""
    wanted = pattern_words(pattern)
    if len(wanted) < 2 or wanted[0] == "*":
        return ""
    for command in facts.command.unresolved:
        if fits_word(wanted[0], command.words[0], strict=False, is_program=True):
            return command.reason
    return ""


def _is_in_code(wanted: Sequence[str], command: SimpleCommand) -> bool:
    """Return whether interpreter code contains the literal words of a pattern, in order."""
    plain = [re.escape(folded(word)) for word in wanted if not re.search(r"[*?\[]", word)]
    if not plain or not command.words:
        return False
    if not _INTERPRETERS.fullmatch(command.words[0].rpartition("/")[2]):
        return False
    texts = [word for word in command.words[1:] if len(word) > 1]
    if command.stdin:
        texts.append(command.stdin)
    # The limit keeps the search time from multiplying with each word in the pattern.
    code = re.compile(r"\b" + r"\b\W.{0,200}?\b".join(plain) + r"\b", re.DOTALL)
    return any(code.search(folded(text)) for text in texts)


def allowed(patterns: Sequence[Sequence[str]], commands: Sequence[SimpleCommand]) -> bool:
    """Return whether every simple command is written literally and matches one of the patterns."""
    rest = [command for command in commands if not harmless_wrapper(command)]
    return bool(rest) and all(_is_allowed(patterns, command) for command in rest)


def _is_allowed(patterns: Sequence[Sequence[str]], command: SimpleCommand) -> bool:
    # A variable such as PATH or LD_PRELOAD would change what the allowed program does.
    if not command.literal or command.assigned:
        return False
    return any(fit_words(pattern, command.words, strict=True) for pattern in patterns)


def harmless_wrapper(command: SimpleCommand) -> bool:
    """Return whether a command only runs the command that follows it in the list."""
    if not command.wrapper or not command.literal or command.assigned:
        return False
    return command.words[0] in _HARMLESS_WRAPPERS
