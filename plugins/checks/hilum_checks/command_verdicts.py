"""Find how a call breaks a rule about commands, hosts or tools."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

from hilum_guard import UNKNOWN, resolve_links, server_tools

from hilum_checks import command_matcher, host_matcher, own_scripts
from hilum_checks.call_facts import CallFacts
from hilum_checks.command_facts import CommandFacts
from hilum_checks.lasting_commands import select_lasting
from hilum_checks.model import Commands, Hosts, Tools
from hilum_checks.path_matcher import Fit


def match_commands(constraint: Commands, facts: CallFacts, sentence: str) -> tuple[Fit, str]:
    """Return whether a call runs a forbidden command, and how.

    Args:
        constraint: The constraint.
        facts: The call.
        sentence: The rule.
    """
    commands = [command for command in facts.commands if _runs_in(constraint, facts, command)]
    return _match_each(
        commands,
        lambda command: own_scripts.match_command(constraint, command, facts, sentence),
        facts,
    )


def match_recipes(
    constraint: Commands, facts: CallFacts, sentence: str, otherwise: tuple[Fit, str]
) -> tuple[Fit, str]:
    """Return whether a recipe or npm script of the project runs a forbidden command.

    Args:
        constraint: The constraint.
        facts: The call.
        sentence: The rule, which may recommend a target: "never run `pip publish`, use `make publish`".
        otherwise: The result without recipes.
    """
    lasting = select_lasting(constraint) if facts.recipes else None
    if lasting is None:
        return otherwise
    best = otherwise
    for command in facts.recipes:
        if not _runs_in(constraint, facts, command) or _is_recommended(sentence, command):
            continue
        fit = command_matcher.match_command(lasting, command)
        runner = " ".join(command.command.runners[-1]) if command.command.runners else "the script"
        action = f"`{runner[:100]}` runs `{command.source[:200]}`"
        # `make $TARGET` may run any recipe.
        if fit and any(UNKNOWN in word for words in command.command.runners for word in words):
            fit = "maybe"
        if fit == "yes":
            return "yes", action
        if fit and not best[0]:
            best = fit, action
    return best


def _is_recommended(sentence: str, command: CommandFacts) -> bool:
    """Return whether a rule names a command that runs another one, as what to use instead."""
    for words in command.command.runners:
        text = " ".join((os.path.basename(words[0]), *words[1:]))
        named = rf"(?<![\w./-]){re.escape(text)}(?![\w:/-]|\.\w)"
        if len(words) > 1 and re.search(named, sentence):
            return True
    return False


def _runs_in(constraint: Commands, facts: CallFacts, command: CommandFacts) -> bool:
    """Return whether a command may run in the folder of a constraint."""
    if constraint.folder == "." or command.command.elsewhere:
        return True
    wanted = resolve_links(os.path.join(facts.matcher.real_root, constraint.folder))
    # An unknown folder is treated as the rule's folder, so that the rule fails closed.
    folders = [wanted if cwd is None else resolve_links(cwd) for cwd in command.cwds]
    return any(f"{folder}/".startswith(f"{wanted}/") for folder in folders)


def match_hosts(constraint: Hosts, facts: CallFacts) -> tuple[Fit, str]:
    """Return whether a call contacts a forbidden host, and how."""
    for host in sorted(facts.hosts):
        if host_matcher.is_meant(constraint, host):
            return "yes", f"it contacts {host}"
    # A tool such as a web search uses the network although no argument names a host.
    if facts.tool.risk == "network" and "*" in constraint.names and not facts.hosts:
        return "yes", f"{facts.tool.name} uses the network"
    return _match_each(
        facts.commands, lambda command: host_matcher.match_command(constraint, command), facts
    )


def _match_each(
    commands: Iterable[CommandFacts], match: Callable[[CommandFacts], Fit], facts: CallFacts
) -> tuple[Fit, str]:
    """Return the first command that certainly matches, or else the first one that may match."""
    doubt = ""
    for command in commands:
        fit = match(command)
        is_shown = command.shown == command.source
        action = f"it runs `{command.source[:200]}`" if is_shown else command.doubt
        if fit == "yes":
            return "yes", action
        if fit:
            doubt = doubt or action
    doubt = doubt or facts.unknown_command
    return ("maybe", doubt) if doubt else ("", "")


def match_tools(constraint: Tools, facts: CallFacts) -> tuple[Fit, str]:
    """Return whether a call is one of a forbidden tool, and how."""
    name = facts.tool.name
    if constraint.risk and facts.tool.risk == constraint.risk:
        return "yes", f"{name} can {constraint.risk}"
    # Tools of MCP servers also match without the server's name.
    names = {name.lower(), name.lower().removeprefix("mcp__"), name.rpartition("__")[2].lower()}
    for written in constraint.names:
        for pattern in (written.lower(), server_tools(written).lower()):
            if any(fnmatchcase(each, pattern) for each in names):
                return "yes", f"it calls {name}"
    return "", ""
