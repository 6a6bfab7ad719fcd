"""Judges calls by the checks of rules.

The strictest rule wins; what cannot be told for certain is asked, not waved through.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from hilum_guard import server_tools

from hilum_rules.checks import code, matching, network
from hilum_rules.checks.facts import Facts
from hilum_rules.checks.model import Ban, Check, Commands, Hosts, Paths, Tools
from hilum_rules.checks.touches import Fit

if TYPE_CHECKING:
    from hilum import Agent, Tool, ToolCall, Verdict


class Ruled(Protocol):
    """What is needed of a rule."""

    @property
    def sentence(self) -> str:
        """Its text, as it is quoted."""

    @property
    def path(self) -> str:
        """The file it stands in."""

    @property
    def line(self) -> int:
        """Its line there."""

    @property
    def check(self) -> Check | None:
        """What enforces it."""


_NEXT = {
    Paths: "Leave those files as they are, or tell the user what should be changed in them.",
    Commands: "Do without this command; if it is needed, ask the user to run it.",
    Tools: "Do without this tool.",
    Hosts: "Do without this host; if it is needed, tell the user.",
}


def judge_call(rules: Iterable[Ruled], agent: Agent, call: ToolCall, tool: Tool) -> Verdict | None:
    """Judge a call by all rules that are enforced.

    Gives none where no rule has anything against it.

    Looks at the disk for links and for scripts that are run, so it may take some milliseconds.

    Args:
        rules: The rules.
        agent: Who calls.
        call: The call.
        tool: The tool.
    """
    return judge(rules, call.arguments, tool, agent.session.workspace.root)


def judge(rules: Iterable[Ruled], arguments: str, tool: Tool, root: Path) -> Verdict | None:
    """Judge a call by its arguments. See ``judge_call``."""
    from hilum import ask, deny

    facts = Facts.read(tool, arguments, root)
    asked: tuple[Ruled, str] | None = None
    for rule in rules:
        for effect, ban in rule.check.parts if rule.check else ():
            fit, what = _fits(ban, facts)
            if not fit:
                continue
            if effect == "deny" and fit == "yes":
                return deny(f"{quoted(rule)} forbids it: {what}. {_NEXT[type(ban)]}")
            if asked is None or (effect == "ask" and fit == "yes"):
                if effect == "ask":
                    wants = "wants it confirmed"
                else:
                    wants = "may forbid it, which cannot be told before it runs"
                asked = rule, f"{wants}: {what}."
    if asked is None:
        return None
    rule, what = asked
    return ask(f"{quoted(rule)} {what}", scope=f"rule {rule.path}:{rule.line}")


def rewrites(paths: Iterable[str], agent: Agent, call: ToolCall, tool: Tool) -> str:
    """Return how a call is certain to write one of some files, deleting and moving included.

    Empty if it is not.

    Args:
        paths: The files, relative to the workspace.
        agent: Who calls.
        call: The call.
        tool: The tool.
    """
    patterns = tuple("/" + re.sub(r"([\\*?\[\] ])", r"\\\1", path) for path in paths)
    ban = Paths(patterns)
    facts = Facts.read(tool, call.arguments, agent.session.workspace.root)
    fit, what = _paths(ban, facts)
    if fit == "yes":
        return what
    # Of what is found or cleaned away, that it may be one of them is enough.
    found = [
        facts.ground.reached(ban, touch, touch.reach)[1] for touch in facts.touches if touch.reach
    ]
    return next((f"it may change or delete {path[:200]}" for path in found if path), "")


def quoted(rule: Ruled) -> str:
    """Name a rule with its place and its own words."""
    text = rule.sentence
    text = text if len(text) <= 300 else text[:299] + "…"
    return f"The rule “{text}” ({rule.path}:{rule.line})"


def _fits(ban: Ban, facts: Facts) -> tuple[Fit, str]:
    judged = _JUDGES.get(type(ban))
    return judged(ban, facts) if judged else ("", "")


def _paths(ban: Paths, facts: Facts) -> tuple[Fit, str]:
    doubt = ""
    for touch in facts.touches:
        found = facts.ground.fit(ban, touch)
        if not found or (found == "maybe" and doubt):
            continue
        if touch.reach:
            path = facts.ground.reached(ban, touch, touch.reach)[1] or touch.path
        else:
            path = touch.path
        what = f"{_DOES.get(touch.action, touch.action)} {path[:200]}"
        if found == "yes":
            return "yes", what
        doubt = what
    if not ban.outside and ban.patterns != ("**",) and (why := _in_code(ban, facts)):
        return "yes", why
    if doubt:
        return "maybe", doubt
    if facts.unread and facts.tool.risk == "execute":
        return "maybe", facts.unread
    return "", ""


_DOES = {
    "read": "it reads",
    "write": "it writes",
    "create": "it creates",
    "change": "it changes",
    "delete": "it deletes or moves",
}


def _in_code(ban: Paths, facts: Facts) -> str:
    """Return which path of a ban code names that may write it.

    The sandbox holds what code does not name.
    """
    from hilum_rules.checks.touches import Touch

    for command in facts.commands:
        for text in code.texts(command):
            writes = ("delete" in ban.actions and code.may_delete(text)) or (
                {"create", "change"} & ban.actions and code.may_write(text)
            )
            if not (writes or ("read" in ban.actions and code.may_read(text))):
                continue
            action = (
                "read"
                if not writes
                else "change"
                if "change" in ban.actions
                else next(iter(ban.actions - {"read"}))
            )
            for path in code.named_paths(text):
                for cwd in dict.fromkeys((command.cwd, str(facts.ground.root))):
                    if (
                        "." in path
                        or "/" in path
                        or os.path.lexists(os.path.join(cwd or "/", path))
                    ) and facts.ground.fit(
                        ban,
                        Touch(path, action, cwd),
                    ) == "yes":
                        return f"code that it runs names {path[:200]}"
    return ""


def _commands(ban: Commands, facts: Facts) -> tuple[Fit, str]:
    best: Fit = ""
    what = ""
    for number, command in enumerate(facts.commands):
        if not _in_folder(ban, facts, command.cwds or (command.cwd,)):
            continue
        found = matching.fit(ban, command, facts.commands[:number])
        if found == "yes":
            return "yes", f"it runs `{command.source[:200]}`"
        if found == "maybe" and not best:
            best = "maybe"
            what = f"it runs `{command.source[:200]}`"
    if not best and facts.unread:
        return "maybe", facts.unread
    return best, what


def _in_folder(ban: Commands, facts: Facts, cwds: tuple[str | None, ...]) -> bool:
    if ban.folder == ".":
        return True
    wanted = os.path.realpath(os.path.join(facts.ground.real, ban.folder))
    return any(
        cwd is None or (os.path.realpath(cwd) + "/").startswith(wanted + "/") for cwd in cwds
    )


def _tools(ban: Tools, facts: Facts) -> tuple[Fit, str]:
    name = facts.tool.name
    if ban.risk and facts.tool.risk == ban.risk:
        return "yes", f"{name} can {ban.risk}"
    last = name.rpartition("__")[2]
    patterns = {
        written.lower() for pattern in ban.names for written in (pattern, server_tools(pattern))
    }
    fits = any(fnmatchcase(each.lower(), pattern) for pattern in patterns for each in (name, last))
    return ("yes", f"it calls {name}") if fits else ("", "")


def _hosts(ban: Hosts, facts: Facts) -> tuple[Fit, str]:
    for host in sorted(facts.hosts):
        if network.bans(ban, host):
            return "yes", f"it contacts {host}"
    if facts.tool.risk == "network" and "*" in ban.names and not facts.hosts:
        return "yes", f"{facts.tool.name} uses the network"
    best: Fit = ""
    what = ""
    for command in facts.commands:
        found = network.fit(ban, command)
        if found == "yes":
            return "yes", f"it runs `{command.source[:200]}`"
        if found == "maybe" and not best:
            best = "maybe"
            what = f"it runs `{command.source[:200]}`"
    if not best and facts.unread:
        return "maybe", facts.unread
    return best, what


_JUDGES: dict[type[Any], Callable[[Any, Facts], tuple[Fit, str]]] = {
    Paths: _paths,
    Commands: _commands,
    Tools: _tools,
    Hosts: _hosts,
}
