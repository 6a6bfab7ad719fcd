"""What an agent's calls meet on top of the user's rules: read from its file, and judged. They narrow, and never widen."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Literal

from hilum import ToolError, Verdict, Workspace, ask, deny

from hilum_agents.definitions.definition import Permission
from hilum_agents.definitions.tools import ours

Effect = Literal["allow", "ask", "deny"]
Tell = Callable[[str], None]
_EFFECTS: tuple[Effect, ...] = ("allow", "ask", "deny")
_SHELL = "run_terminal_cmd"
# What has rights in opencode, and is not called like a tool.
_OTHER_RIGHTS = {"external_directory", "doom_loop"}


def split_entry(entry: str) -> tuple[str, str | None]:
    """Split ``Bash(git:*)`` into the name and what stands in parentheses."""
    match = re.fullmatch(r"([^()]+?)\s*\((.*)\)", entry.strip(), re.DOTALL)
    return (match[1].strip(), match[2].strip()) if match else (entry.strip(), None)


def words_pattern(pattern: str) -> str:
    """Give a pattern as ``permissions.toml`` has it: ``git:*`` of Claude Code is ``git *`` here."""
    return re.sub(r":\*$", " *", pattern.strip())


def narrowed(names: Sequence[str], pattern: str) -> Iterator[Permission]:
    """Give permissions that leave of some tools only the calls that fit a pattern; the first of them refuses all."""
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
    if odd := [key for key in value if key not in _EFFECTS]:
        tell(f"permissions has no {', '.join(map(repr, odd))}; deny and ask are what there is.")
    return found


def _rule(text: str, effect: Effect, tell: Tell) -> Iterator[Permission]:
    from hilum_guard import parse_rule

    name, pattern = split_entry(text)
    tools, warning = ours(name, "hilum", deny=True)
    if warning:
        tell(warning)
    for tool in tools:
        try:
            parse_rule(tool if pattern is None else f"{tool}({words_pattern(pattern)})", effect)
        except ValueError as error:
            # In doubt the tool as a whole: what was to be narrowed stays narrow.
            tell(f"{error}. It holds for every call of {tool}.")
            pattern = None
        yield Permission(effect, tool, None if pattern is None else words_pattern(pattern))


def read_opencode(value: object, tell: Tell) -> list[Permission]:
    """Read ``permission`` of an opencode file: a word for all, or by tool a word or a mapping of patterns to words."""
    if not isinstance(value, dict):
        value = {"*": value}
    found: list[Permission] = []
    for name, given in value.items():
        if str(name) in _OTHER_RIGHTS:
            continue  # the guard asks for these anyway
        tools, warning = ours(str(name), "opencode", deny=True)
        if str(name) == "edit":
            tools = tuple(dict.fromkeys(("write_file", *tools)))
        if warning:
            tell(warning)
        for pattern, word in (given if isinstance(given, dict) else {"*": given}).items():
            effect = _effect(word)
            if effect is None:
                tell(f"{word!r} is neither allow, ask nor deny; {name} is refused.")
            for tool in tools:
                whole = str(pattern).strip() in ("*", "**", "")
                found.append(Permission(effect or "deny", tool, None if whole else words_pattern(str(pattern))))
    # What only allows takes nothing back and says nothing.
    narrow = {permission.tool for permission in found if permission.effect != "allow"}
    return [each for each in found if each.effect != "allow" or each.tool in narrow or "*" in narrow]


def _effect(word: object) -> Effect | None:
    text = str(word).strip().casefold()
    return next((effect for effect in _EFFECTS if effect == text), None)


# --- judging ------------------------------------------------------------------------------------------------------------


def judge(permissions: Sequence[Permission], tool: str, arguments: str, workspace: Workspace) -> Verdict | None:
    """Say what an agent's own permissions make of a call; ``None`` where they say nothing.

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
    return deny(reason) if ruling.effect == "deny" else ask(reason)


def _rank(permission: Permission) -> int:
    return _EFFECTS.index(permission.effect)


def _units(tool: str, arguments: str, workspace: Workspace) -> Iterator[Callable[[Permission], bool]]:
    """Give for each part of a call (each command of a command line, each path) what tells whether a permission fits it."""
    try:
        given = json.loads(arguments or "{}")
    except ValueError:
        given = {}
    given = given if isinstance(given, dict) else {}
    if tool == _SHELL:
        yield from _commands(str(given.get("command", "")), workspace)
        return
    paths = [given["path"]] if isinstance(given.get("path"), str) else []
    paths += [path for path in given.get("paths") or () if isinstance(path, str)]
    if not paths:
        # A pattern says nothing about such a call: who allows has allowed nothing, who denies has denied it.
        yield lambda each: each.pattern is None or each.effect != "allow"
    for path in paths:
        yield from _path(path, workspace)


def _commands(text: str, workspace: Workspace) -> Iterator[Callable[[Permission], bool]]:
    from hilum_guard import fit_words, judge_command
    from hilum_guard.rules import pattern_words

    read = judge_command(text, workspace=workspace.root)

    def unread(each: Permission) -> bool:
        return each.pattern is None or each.effect != "allow"

    for command in read.commands:

        def fits(each: Permission, command: object = command) -> bool:
            words, literal = command.words, command.literal and not command.assigned  # type: ignore[attr-defined]
            strict = each.effect == "allow"
            if each.pattern is None:
                return True
            return (literal or not strict) and bool(fit_words(pattern_words(each.pattern), words, strict=strict))

        if not command.wrapper or not command.literal:
            yield fits
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
