"""Rules in agent files that restrict the agents' calls, and can only narrow the user's rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

from hilum import ToolError, Verdict, Workspace, ask, deny
from hilum_guard import fit_path, fit_words, judge_command, parse_rule, pattern_words

from hilum_agents.arguments import parse_arguments
from hilum_agents.definitions.definition import Permission
from hilum_agents.definitions.tools import KNOWN, RISKS, describe_doubts, translate_tool
from hilum_agents.guest_models import GUEST_TOOLS

Effect = Literal["allow", "ask", "deny"]
Report = Callable[[str], None]
# A function that returns whether a rule matches one part of a call.
Fits = Callable[[Permission], bool]
_EFFECTS: tuple[Effect, ...] = ("allow", "ask", "deny")
_SHELL = "run_terminal_cmd"
# Tools whose calls are distinguished by a name, and the argument that contains the name.
_NAME_ARGUMENTS = {"task": "agent", "handover": "agent", "use_skill": "name"}
# Names that request a copy of the calling agent instead of a defined agent.
_COPY_NAMES = ("general-purpose", "general", "task")
# opencode permissions that do not correspond to tools.
_OTHER_RIGHTS = {"external_directory", "doom_loop"}


# --- reading --------------------------------------------------------------------------------------


def split_entry(entry: str) -> tuple[str, str | None]:
    """Split ``Bash(git:*)`` into the name and the text in parentheses."""
    match = re.fullmatch(r"([^()]+)\((.*)\)", entry.strip(), re.DOTALL)
    if match:
        return match[1].strip(), match[2].strip()
    return entry.strip(), None


def convert_pattern(pattern: str) -> str:
    """Return a Claude Code pattern in the form of ``permissions.toml``: ``git:*`` → ``git *``."""
    return re.sub(r":\*$", " *", pattern.strip())


def read_rules(rules: Sequence[str], effect: Effect, report: Report) -> Iterator[Permission]:
    """Yield permissions from the rules in a file in hilum's dialect.

    Args:
        rules: The rules as written in the file.
        effect: The effect of the rules.
        report: A function to call with each problem.
    """
    for rule in rules:
        name, pattern = split_entry(rule)
        tools, doubt = translate_tool(name, "hilum", deny=True)
        for message in describe_doubts([(doubt, name)]):
            report(message)
        words = None if pattern is None else convert_pattern(pattern)
        for tool in tools:
            try:
                rule_text = tool if words is None else f"{tool}({words})"
                parse_rule(rule_text, effect)
            except ValueError as error:
                # An invalid pattern must not leave calls unrestricted.
                report(f"{error}. The rule applies to every call of {tool}.")
                words = None
            yield Permission(effect, tool, words)


def read_opencode(value: object, report: Report) -> list[Permission]:
    """Return the permissions in the field ``permission`` in an opencode file.

    Args:
        value: One effect for all tools, or a mapping from tools to effects or to mappings from
            patterns to effects.
        report: A function to call with each problem.
    """
    by_tool = value if isinstance(value, dict) else {"*": value}
    found: list[Permission] = []
    doubts = []
    for key, given in by_tool.items():
        name = str(key)
        if name in _OTHER_RIGHTS:
            continue  # the guard asks the user before these calls anyway
        tools, doubt = translate_tool(name, "opencode", deny=True)
        doubts.append((doubt, name))
        by_pattern = given if isinstance(given, dict) else {"*": given}
        for pattern, word in by_pattern.items():
            effect = _read_effect(name, word, report)
            words = _opencode_pattern(str(pattern))
            found += [Permission(effect, tool, words) for tool in tools]
    for message in describe_doubts(doubts):
        report(message)
    return _drop_idle(found)


def _drop_idle(found: list[Permission]) -> list[Permission]:
    """Return permissions, except those that allow a tool that no other permission restricts."""
    restricted = {permission.tool for permission in found if permission.effect != "allow"}
    if "*" in restricted:
        return found
    return [each for each in found if each.effect != "allow" or each.tool in restricted]


def _read_effect(name: str, word: object, report: Report) -> Effect:
    text = str(word).strip().casefold()
    effect = next((effect for effect in _EFFECTS if effect == text), None)
    if effect is None:
        report(f"{name} must be allow, ask or deny, not {word!r}; it is denied.")
        return "deny"
    return effect


def _opencode_pattern(pattern: str) -> str | None:
    return None if pattern.strip() in ("*", "**", "") else convert_pattern(pattern)


# --- judging --------------------------------------------------------------------------------------


def judge_reach(
    agents: Sequence[str] | None,
    skills: Sequence[str] | None,
    tool: str,
    arguments: str,
) -> Verdict | None:
    """Return the verdict on a call that starts an agent or uses a skill.

    Args:
        agents: Names or patterns of the agents that may be started; ``None`` for all.
        skills: Names or patterns of the skills that may be used; ``None`` for all.
        tool: Name of the tool.
        arguments: The call's arguments, as JSON.

    Returns:
        A denial, or ``None`` if the file does not restrict the call.
    """
    if tool not in _NAME_ARGUMENTS:
        return None
    is_skill = tool == "use_skill"
    known = skills if is_skill else agents
    if known is None:
        return None
    patterns = [each.casefold() for each in known]
    for name in _called_names(tool, parse_arguments(arguments)):
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            return None
    listed = ", ".join(known) or "none"
    if is_skill:
        return deny(f"The agent's file allows only these skills: {listed}.")
    return deny(f"The agent's file allows starting only these agents: {listed}.")


def _called_names(tool: str, arguments: dict[str, Any]) -> tuple[str, ...]:
    """Return the agent or skill that a call names, in lowercase."""
    name = arguments.get(_NAME_ARGUMENTS[tool])
    if isinstance(name, str) and name.strip():
        return (name.strip().casefold(),)
    # Without a name, `task` starts a copy of the calling agent, for which agent files use several
    # names.
    return _COPY_NAMES if tool == "task" else ()


def judge(
    permissions: Sequence[Permission],
    tool: str,
    arguments: str,
    workspace: Workspace,
    risk: str = "",
    touched: Sequence[str] = (),
) -> Verdict | None:
    """Return the verdict of an agent's permissions on a call. Blocks.

    Each part of a call (a command in a command line, a path) is judged by the last permission that
    matches it. The strictest verdict on any part applies to the whole call.

    Args:
        permissions: The permissions of the agent's file.
        tool: Name of the tool.
        arguments: The call's arguments, as JSON.
        workspace: The workspace in which paths are resolved.
        risk: The permission category of the tool; empty for that of a standard tool.
        touched: The paths that the call reads or writes according to its tool.

    Returns:
        The verdict, or ``None`` if no permission restricts the call.
    """
    category = risk or KNOWN.get(tool, "")
    # A rule about commands also applies to the commands that a program asks for.
    names = (tool, *GUEST_TOOLS.get(tool, ()))
    matching = [
        permission
        for permission in permissions
        if any(_names_tool(permission.tool, name, category) for name in names)
    ]
    if not matching:
        return None
    # The last matching permission applies.
    matching.reverse()
    deciding: list[Permission] = []
    default = Permission("allow", tool)
    for fits in _parts(tool, parse_arguments(arguments), workspace, touched):
        decides = next((each for each in matching if fits(each)), default)
        deciding.append(decides)
    strictest = max(deciding, key=lambda each: _EFFECTS.index(each.effect), default=None)
    if strictest is None or strictest.effect == "allow":
        return None
    reason = f"The agent's file contains the rule: {strictest.text}."
    return deny(reason) if strictest.effect == "deny" else ask(reason)


def _names_tool(pattern: str, tool: str, risk: str) -> bool:
    """Return whether the tool of a permission is a given one, or its permission category."""
    return pattern == risk if pattern in RISKS else fnmatchcase(tool, pattern)


def _parts(
    tool: str, arguments: dict[str, Any], workspace: Workspace, touched: Sequence[str]
) -> list[Fits]:
    """Return, for each part of a call, a function that checks whether a permission matches it."""
    if tool in _NAME_ARGUMENTS:
        return [_name_fits(_called_names(tool, arguments))]
    if tool == _SHELL or _SHELL in GUEST_TOOLS.get(tool, ()):
        return list(_command_parts(str(arguments.get("command", "")), workspace))
    path = arguments.get("path")
    several = arguments.get("paths")
    paths = [path, *several] if isinstance(several, list) else [path]
    texts = dict.fromkeys(each for each in (*paths, *touched) if isinstance(each, str))
    parts = [_path_fits(each, workspace) for each in texts]
    return parts or [_is_unreadable]


def _is_unreadable(permission: Permission) -> bool:
    """Return whether a permission applies to a part that cannot be compared with patterns.

    A denying pattern applies, because it may refer to this part; an allowing pattern does not.
    """
    return permission.pattern is None or permission.effect != "allow"


def _name_fits(names: Sequence[str]) -> Fits:
    def fits(permission: Permission) -> bool:
        if permission.pattern is None:
            return True
        pattern = permission.pattern.casefold()
        return any(fnmatchcase(name, pattern) for name in names)

    return fits


def _command_parts(text: str, workspace: Workspace) -> Iterator[Fits]:
    line = judge_command(text, workspace=workspace.root)
    for command in line.commands:
        # A wrapper such as `timeout 5 CMD` is judged by the command that it runs.
        if not command.wrapper or not command.literal:
            # A variable that is set for a command, such as `LD_PRELOAD`, may change what the
            # command does.
            yield _command_fits(command.words, command.literal and not command.assigned)
    for command in line.implied:
        yield _implied_fits(command.words)
    # The command line was not parsed completely, so it may contain a command that a rule denies.
    if not line.complete or not line.commands:
        yield _is_unreadable


def _command_fits(words: Sequence[str], is_literal: bool) -> Fits:
    def fits(permission: Permission) -> bool:
        if permission.pattern is None:
            return True
        # The shell can expand words to anything, so no pattern can allow words that it expands.
        strict = permission.effect == "allow"
        if strict and not is_literal:
            return False
        return bool(fit_words(pattern_words(permission.pattern), words, strict=strict))

    return fits


def _implied_fits(words: Sequence[str]) -> Fits:
    """Return the matcher for a command that another one runs, such as the script of ``npm test``.

    The user has allowed the outer command, so only rules about the inner command count.
    """

    def fits(permission: Permission) -> bool:
        pattern = permission.pattern
        if permission.effect == "allow" or pattern is None or pattern in ("*", "**"):
            return False
        return bool(fit_words(pattern_words(pattern), words, strict=False))

    return fits


def _path_fits(path: str, workspace: Workspace) -> Fits:
    try:
        # The path is resolved first, so that `a/../b` cannot evade a rule about `b`.
        name = workspace.relative(workspace.resolve(path))
    except ToolError:
        name = path  # outside the workspace

    def fits(permission: Permission) -> bool:
        if permission.pattern is None:
            return True
        return fit_path(permission.pattern, name, strict=permission.effect == "allow")

    return fits
