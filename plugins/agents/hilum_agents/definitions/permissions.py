"""What an agent's calls meet on top of the user's rules: read from its file, and judged.

They narrow, and never widen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Literal

from hilum import ToolError, Verdict, Workspace, ask, deny

from hilum_agents.definitions.definition import Permission
from hilum_agents.definitions.tools import ours, tell_doubts

Effect = Literal["allow", "ask", "deny"]
Tell = Callable[[str], None]
_EFFECTS: tuple[Effect, ...] = ("allow", "ask", "deny")
_SHELL = "run_terminal_cmd"
# Tools whose calls are told apart by a name: which argument has it. A task without one is a copy of
# the agent itself.
_NAMING = {"task": "agent", "handover": "agent", "use_skill": "name"}
_COPY = ("general-purpose", "general", "task")
# What has rights in opencode, and is not called like a tool.
_OTHER_RIGHTS = {"external_directory", "doom_loop"}


def split_entry(entry: str) -> tuple[str, str | None]:
    """Split ``Bash(git:*)`` into the name and what stands in parentheses."""
    match = re.fullmatch(r"([^()]+)\((.*)\)", entry.strip(), re.DOTALL)
    if match:
        return (match[1].strip(), match[2].strip())
    return (entry.strip(), None)


def words_pattern(pattern: str) -> str:
    """Return a pattern as ``permissions.toml`` has it: ``git:*`` of Claude Code is ``git *``
    here.
    """
    return re.sub(r":\*$", " *", pattern.strip())


def narrowed(names: Sequence[str], pattern: str) -> Iterator[Permission]:
    """Yield permissions that leave of some tools only the calls that fit a pattern.

    The first of them refuses all.
    """
    for name in names:
        yield Permission("allow", name, words_pattern(pattern))


def read_own(value: object, tell: Tell) -> list[Permission]:
    """Read ``permissions`` of a file written for hilum: ``deny`` and ``ask``, each with rules."""
    if not isinstance(value, dict):
        tell("permissions must have deny and ask, each a list of rules; none of them holds.")
        return []
    found: list[Permission] = []
    for effect in ("ask", "deny"):  # the last one that fits counts, so that deny wins
        entries = value.get(effect)
        listed = entries if isinstance(entries, list) else [] if entries is None else [entries]
        for entry in listed:
            found += _rule(str(entry), effect, tell)
    if "allow" in value:
        tell("An agent cannot allow itself anything; permissions.allow is ignored.")
    odd = [key for key in value if key not in _EFFECTS]
    if odd:
        tell(f"permissions has no {', '.join(map(repr, odd))}; deny and ask are what there is.")
    return found


def _rule(text: str, effect: Effect, tell: Tell) -> Iterator[Permission]:
    from hilum_guard import parse_rule

    name, pattern = split_entry(text)
    tools, doubt = ours(name, "hilum", deny=True)
    for message in tell_doubts([(doubt, name)]):
        tell(message)
    for tool in tools:
        try:
            parse_rule(tool if pattern is None else f"{tool}({words_pattern(pattern)})", effect)
        except ValueError as error:
            # In doubt the tool as a whole: what was to be narrowed stays narrow.
            tell(f"{error}. It holds for every call of {tool}.")
            pattern = None
        yield Permission(effect, tool, None if pattern is None else words_pattern(pattern))


def read_opencode(value: object, tell: Tell) -> list[Permission]:
    """Read ``permission`` of an opencode file: a word for all, or by tool a word or a mapping of
    patterns to words.
    """
    if not isinstance(value, dict):
        value = {"*": value}
    found: list[Permission] = []
    doubts = []
    for name, given in value.items():
        if str(name) in _OTHER_RIGHTS:
            continue  # the guard asks for these anyway
        tools, doubt = ours(str(name), "opencode", deny=True)
        doubts.append((doubt, str(name)))
        if str(name) == "edit":
            tools = tuple(dict.fromkeys(("write_file", *tools)))
        for pattern, word in (given if isinstance(given, dict) else {"*": given}).items():
            effect = _effect(word)
            if effect is None:
                tell(f"{word!r} is neither allow, ask nor deny; {name} is refused.")
            for tool in tools:
                whole = str(pattern).strip() in ("*", "**", "")
                found.append(
                    Permission(
                        effect or "deny", tool, None if whole else words_pattern(str(pattern))
                    )
                )
    for message in tell_doubts(doubts):
        tell(message)
    # What only allows takes nothing back and says nothing.
    narrow = {permission.tool for permission in found if permission.effect != "allow"}
    return [
        each for each in found if each.effect != "allow" or each.tool in narrow or "*" in narrow
    ]


def _effect(word: object) -> Effect | None:
    text = str(word).strip().casefold()
    return next((effect for effect in _EFFECTS if effect == text), None)


# --- judging --------------------------------------------------------------------------------------


def judge_reach(
    agents: Sequence[str] | None, skills: Sequence[str] | None, tool: str, arguments: str
) -> Verdict | None:
    """Hold a call to the agents and skills that an agent's file names.

    ``None`` where it says nothing of such a call.

    Args:
        agents: Names or patterns of the agents it may start; ``None`` for all.
        skills: Those of the skills it may use; ``None`` for all.
        tool: Name of the tool.
        arguments: Its arguments, as JSON.
    """
    known = skills if tool == "use_skill" else agents if tool in _NAMING else None
    called = _called(tool, _arguments(arguments))
    if known is None or any(
        fnmatchcase(name, each.casefold()) for name in called for each in known
    ):
        return None
    if tool == "use_skill":
        return deny(
            f"The agent's own file names the skills it may use: {', '.join(known) or 'none'}."
        )
    return deny(
        f"The agent's own file names the agents it may start: {', '.join(known) or 'none'}."
    )


def _called(tool: str, given: dict[str, object]) -> tuple[str, ...]:
    """What a call of a tool that takes a name calls by it, in small letters."""
    name = given.get(_NAMING.get(tool, ""))
    if isinstance(name, str) and name.strip():
        return (name.strip().casefold(),)
    return _COPY if tool == "task" else ()


def _arguments(text: str) -> dict[str, object]:
    try:
        given = json.loads(text or "{}")
    except ValueError:
        return {}
    return given if isinstance(given, dict) else {}


def judge(
    permissions: Sequence[Permission], tool: str, arguments: str, workspace: Workspace
) -> Verdict | None:
    """Return what an agent's own permissions make of a call; ``None`` where they say nothing.

    Args:
        permissions: The agent's.
        tool: Name of the tool.
        arguments: Its arguments, as JSON.
        workspace: Where paths are resolved.
    """
    mine = [permission for permission in permissions if fnmatchcase(tool, permission.tool)]
    if not mine:
        return None
    ruling: Permission | None = None
    for fits in _units(tool, arguments, workspace):
        last = next((each for each in reversed(mine) if fits(each)), None)
        if last is not None and (ruling is None or _rank(last) > _rank(ruling)):
            ruling = last
    if ruling is None or ruling.effect == "allow":
        return None
    reason = f"The agent's own file says: {ruling.text}."
    if ruling.effect == "deny":
        return deny(reason)
    return ask(reason)


def _rank(permission: Permission) -> int:
    return _EFFECTS.index(permission.effect)


def _units(
    tool: str, arguments: str, workspace: Workspace
) -> Iterator[Callable[[Permission], bool]]:
    """Yield for each part of a call (each command of a command line, each path) what tells whether
    a permission fits it.
    """
    given = _arguments(arguments)
    if tool in _NAMING:
        called = _called(tool, given)
        yield (
            lambda each: (
                each.pattern is None
                or any(fnmatchcase(name, each.pattern.casefold()) for name in called)
            )
        )
        return
    if tool == _SHELL:
        yield from _commands(str(given.get("command", "")), workspace)
        return
    path = given.get("path")
    paths: list[str] = [path] if isinstance(path, str) else []
    several = given.get("paths")
    paths += (
        [path for path in several if isinstance(path, str)] if isinstance(several, list) else []
    )
    if not paths:
        # A pattern says nothing about such a call: who allows has allowed nothing, who denies has
        # denied it.
        yield lambda each: each.pattern is None or each.effect != "allow"
    for each in paths:
        yield from _path(each, workspace)


def _commands(text: str, workspace: Workspace) -> Iterator[Callable[[Permission], bool]]:
    from hilum_guard import fit_words, judge_command, pattern_words

    read = judge_command(text, workspace=workspace.root)

    def unread(each: Permission) -> bool:
        return each.pattern is None or each.effect != "allow"

    for command in read.commands:

        def fits(each: Permission, command: object = command) -> bool:
            words, literal = command.words, command.literal and not command.assigned  # type: ignore[attr-defined]
            strict = each.effect == "allow"
            if each.pattern is None:
                return True
            return (literal or not strict) and bool(
                fit_words(pattern_words(each.pattern), words, strict=strict)
            )

        if not command.wrapper or not command.literal:
            yield fits
    for command in read.implied:

        def narrows(each: Permission, words: tuple[str, ...] = command.words) -> bool:
            # What an alias or a script stands for is not what the file allows, and only a rule
            # about it counts.
            if each.effect == "allow" or each.pattern in (None, "*", "**"):
                return False
            return bool(fit_words(pattern_words(each.pattern or ""), words, strict=False))

        yield narrows
    if not read.complete or not read.commands:
        yield unread


def _path(path: str, workspace: Workspace) -> Iterator[Callable[[Permission], bool]]:
    from hilum_guard import fit_path

    try:
        name = workspace.relative(workspace.resolve(path))
    except ToolError:
        name = path

    def fits(each: Permission) -> bool:
        return each.pattern is None or fit_path(each.pattern, name, strict=each.effect == "allow")

    yield fits
