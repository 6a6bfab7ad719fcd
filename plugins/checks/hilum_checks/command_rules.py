"""Read rules about commands, tools and hosts: "never run ⟦0⟧", "always pass ⟦0⟧ to ⟦1⟧"."""

from __future__ import annotations

import re
from collections.abc import Sequence

import attrs

from hilum_checks import quoted_names
from hilum_checks import vocabulary as v
from hilum_checks.clauses import ANYWHERE, Clause, beginnings, read_clauses
from hilum_checks.model import Commands, Constraint, Hosts, Tools
from hilum_checks.rule_scope import Scope
from hilum_checks.tokens import Token

RUN_VERBS = ("run", "start", "use", "call", "")


def read_run(verb: str, clause: Clause, scope: Scope) -> Constraint | None:
    """Read "never run ⟦0⟧" and "never use the tool ⟦0⟧"."""
    # "Do not `git commit` anything".
    are_long = not verb and all(" " in name for name in clause.names)
    objects = "|file|changes" if are_long else ""
    if not clause.has_only(
        "names", nouns=f"tool|commands|it|dev server|destructive|risky|git|bare{objects}"
    ):
        return None
    # In "destructive commands (`a`, `b`)", the names say which.
    if clause.nouns & {"destructive", "risky"}:
        clause = attrs.evolve(clause, nouns=clause.nouns - {"destructive", "risky", "git"})
    used = verb in ("use", "call")
    # "Never run `pytest` directly" means that something else may run it.
    is_short = any(len(name.split()) < 2 and name not in v.MANAGERS for name in clause.names)
    if "bare" in clause.nouns or (clause.by_hand and is_short):
        return read_unlaunched(clause.names, scope)
    if "tool" in clause.nouns:
        return read_tools(clause.names)
    # Try tools first, because "use `web_fetch`" cannot refer to a program.
    tools = read_tools(clause.names, known=True) if used else None
    return tools or read_command_names(clause.names, scope, used=used or not verb, many=not verb)


def read_unlaunched(names: list[str], scope: Scope) -> Commands | None:
    """Return programs that must not be run directly, but may be run by others, as by `uv run`."""
    if any(name in ("uv", "uvx", "make", "docker") for name in names):
        return None
    found = read_command_names(names, scope)
    if found is None or not all(name.split()[0] in v.PROGRAMS for name in names):
        return None
    own = {pattern[0] for pattern in found.patterns}
    launchers = tuple(words for words in v.LAUNCHERS if words[0] not in own)
    return attrs.evolve(found, unless=launchers)


def read_commands(tokens: Sequence[Token], scope: Scope, *, used: bool) -> Commands | None:
    """Return the commands that a part of a sentence names."""
    clauses = read_clauses(tokens)
    if len(clauses) != 1 or not clauses[0].has_only("names", nouns="tool|commands|managing"):
        return None
    return read_command_names(clauses[0].names, scope, used=used)


def read_command_names(
    names: list[str], scope: Scope, *, used: bool = False, many: bool = False
) -> Commands | None:
    """Return the commands with the given names; ``None`` if a name may mean something else.

    Args:
        names: The names.
        scope: The scope.
        used: Whether the verb is "use", which may also refer to things other than commands.
        many: Whether a program name alone is not enough, because no verb says that it runs.
    """
    found: list[tuple[str, ...]] = []
    # In "`npm` or `node`", the first name shows that the second one is a program too.
    are_programs = any(name in v.MANAGERS for name in names)
    for name in names:
        if name in v.OPTIONS and used:
            found.append(("*", name))
            if name == "--no-verify":
                # ``-n`` means ``--no-verify`` for ``git commit`` but a dry run for ``git push``.
                found.append(("git", "commit", "-n"))
            continue
        words = quoted_names.command_words(
            name, used=used and not (are_programs and name in v.PROGRAMS)
        )
        is_alone = len(words) < 2 and name not in v.MANAGERS
        if not words or (many and is_alone):
            return None
        found += quoted_names.command_spellings(words)
    return Commands(tuple(dict.fromkeys(found)), str(scope.folder)) if found else None


def read_option(verb: str, clause: Clause, scope: Scope) -> Commands | None:
    """Read "never use `--no-build` with `dotnet test`"."""
    is_plain = clause.has_only("names", "scopes", nouns="commands|option", places="with|in")
    if verb not in (*RUN_VERBS, "pass", "add") or not is_plain:
        return None
    # "Never run ⟦0⟧ with ⟦1⟧" names the command first.
    parts = [clause.names, clause.scopes]
    options, commands = parts if clause.names[0].startswith("-") else parts[::-1]
    return _with_options(options, commands)


def _with_options(options: list[str], commands: list[str]) -> Commands | None:
    """Return commands with each of the given options."""
    words = [quoted_names.command_words(command) for command in commands]
    if not all(words) or not all(map(_LONG_OPTION.match, options)):
        return None
    found = [(*each, option.split()[0]) for each in words for option in options]
    return Commands(
        tuple(spelling for each in found for spelling in quoted_names.command_spellings(each))
    )


# `--no-build`, `-r`, and the properties of Java's programs: `-DskipTests`.
_LONG_OPTION = re.compile(r"(?:--?[a-z][\w-]*|-D[a-z][\w.]*)(?:[ =][\w.-]+)?$")


def read_wanted_option(tokens: Sequence[Token], scope: Scope) -> Commands | None:
    """Read a demand of an option, whatever it is for."""
    found = (_read_wanted_option(part, scope) for part in beginnings(tokens))
    return next(filter(None, found), None)


def _read_wanted_option(tokens: Sequence[Token], scope: Scope) -> Commands | None:
    """Read "always pass ⟦0⟧ to ⟦1⟧" and "always run ⟦0⟧ with ⟦1⟧": commands that need an option."""
    clauses = read_clauses(tokens)
    if len(clauses) != 1 or not clauses[0].verbs or not (scope.binding or scope.hard):
        return None
    clause = clauses[0]
    is_plain = clause.has_only(
        "names", "scopes", nouns="commands|option|file|new", places="with|to"
    )
    if (
        not is_plain
        or not clause.scopes
        or not {"pass", "use", "run", "add"}.issuperset(clause.verbs)
    ):
        return None
    names = [clause.names, clause.scopes]
    options, commands = names if clause.names[0].startswith("-") else names[::-1]
    found = _with_options(options, commands)
    plain = read_command_names(commands, scope)
    return attrs.evolve(plain, unless=found.patterns) if found and plain else None


def read_tools(names: list[str], *, known: bool = False) -> Tools | None:
    """Read tool names; with ``known``, only names that are not commands."""
    found: list[str] = []
    for name in names:
        tools = v.TOOLS.get(name.lower())
        is_sure = not known or "_" in name or name in ("WebFetch", "WebSearch", "MultiEdit")
        if tools and is_sure:
            found += tools
        elif known or not re.fullmatch(r"[A-Za-z][\w*-]*", name):
            return None
        else:
            found.append(name)
    return Tools(tuple(dict.fromkeys(found))) if found else None


def read_hosts(clause: Clause) -> Hosts | None:
    """Read hosts."""
    hosts = [v.read_host(name) for name in clause.names]
    is_plain = clause.has_only("names", nouns="host|data|file", places=ANYWHERE)
    return Hosts(tuple(hosts)) if is_plain and all(hosts) else None
