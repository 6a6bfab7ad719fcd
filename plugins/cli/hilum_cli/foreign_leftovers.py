"""Name the files of other agents that no plugin has reported."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from hilum import home_folder
from hilum.config_files import UnreadableFile, load_file
from hilum.foreign_files import ForeignFile

MAX_ENTRIES = 200
"""Maximum number of entries of a folder that are named one by one."""


class _Leftover(NamedTuple):
    """Files of another agent that only a plugin can read.

    Attributes:
        path: The path, relative to the project or the home folder.
        agent: The agent.
        kind: What the files contain.
        reason: Why they are not used; empty if a plugin could read them.
    """

    path: str
    agent: str
    kind: str
    reason: str = ""


MAX_HOOKS = 50
"""Maximum number of hooks of an event that are named."""
MAX_COMMAND = 80
"""Maximum number of characters of a command that are shown."""
_NO_HOOKS = "no installed plugin runs the hooks of {agent}"
_SCRIPTS = "no installed plugin runs the hooks of Claude Code"
_INDEX = "it concerns only the index of {agent}; .cursorignore denies files"
_LEFTOVERS = (
    _Leftover(".claude/commands", "Claude Code", "commands"),
    _Leftover(".gemini/commands", "Gemini CLI", "commands"),
    _Leftover(".opencode/command", "opencode", "commands"),
    _Leftover(".opencode/commands", "opencode", "commands"),
    _Leftover(".github/prompts", "Copilot", "commands"),
    _Leftover(".cursor/commands", "Cursor", "commands"),
    _Leftover(".codex/prompts", "Codex", "commands"),
    _Leftover(".windsurf/workflows", "Windsurf", "commands"),
    _Leftover(".clinerules/workflows", "Cline", "commands"),
    _Leftover(".claude/hooks", "Claude Code", "hooks", _SCRIPTS),
    _Leftover(".cursor/hooks.json", "Cursor", "hooks"),
    _Leftover(".codex/hooks.json", "Codex", "hooks"),
    _Leftover(".github/hooks", "Copilot", "hooks"),
    _Leftover(".clinerules/hooks", "Cline", "hooks"),
    _Leftover(".kiro/hooks", "Kiro", "hooks"),
    _Leftover(".claude/output-styles", "Claude Code", "output styles"),
    _Leftover(".opencode/plugin", "opencode", "plugins"),
    _Leftover(".opencode/plugins", "opencode", "plugins"),
    _Leftover(".continue", "Continue", "settings"),
    _Leftover(".junie", "Junie", "settings"),
    _Leftover(".amazonq", "Amazon Q", "settings"),
    _Leftover(".cursorindexingignore", "Cursor", "ignored files", _INDEX),
    _Leftover(".aiignore", "JetBrains AI", "ignored files"),
    _Leftover(".copilotignore", "Copilot", "ignored files"),
    _Leftover(".rooignore", "Roo Code", "ignored files"),
    _Leftover(".clineignore", "Cline", "ignored files"),
)
# The folders of other agents in a project; everything in them is named.
_FOLDERS = {
    ".agents": "several agents",
    ".claude": "Claude Code",
    ".clinerules": "Cline",
    ".codex": "Codex",
    ".cursor": "Cursor",
    ".gemini": "Gemini CLI",
    ".kiro": "Kiro",
    ".opencode": "opencode",
    ".roo": "Roo Code",
    ".windsurf": "Windsurf",
}


def find_leftovers(folder: Path, found: Sequence[ForeignFile]) -> Iterator[ForeignFile]:
    """Yield the known files that no plugin has reported. Blocks.

    Args:
        folder: The workspace.
        found: What has been reported.
    """
    reported = [(file.path, file.kind) for file in found]
    bases = {False: folder, True: home_folder()}
    if os.path.realpath(bases[True]) == os.path.realpath(folder):
        del bases[True]
    named = [path for path, _ in reported]
    for leftover in _LEFTOVERS:
        for is_user, base in bases.items():
            path = base / leftover.path
            is_reported = any(
                kind == leftover.kind and each.is_relative_to(path) for each, kind in reported
            )
            if os.path.lexists(path) and not is_reported:
                named.append(path)
                reasons = tuple(_list_hooks(path, leftover)) or (_explain(path, leftover),)
                yield ForeignFile(path, leftover.agent, leftover.kind, is_user, left=reasons)
    for name, agent in _FOLDERS.items():
        yield from _find_others(folder / name, agent, named)


def _list_hooks(path: Path, leftover: _Leftover) -> Iterator[str]:
    """Yield the hooks in a file, which no plugin runs, and its other keys."""
    if leftover.kind != "hooks" or path.suffix != ".json":
        return
    try:
        loaded = load_file(path)
    except UnreadableFile:
        return
    for key in loaded.data.keys() - {"hooks"}:
        line = loaded.find_line((key,))
        yield f"{key} (line {line}): it concerns {leftover.agent} itself"
    events = loaded.data.get("hooks")
    for event, entries in events.items() if isinstance(events, dict) else ():
        commands = list(_list_commands(entries))
        for command in commands[:MAX_HOOKS]:
            shown = command if len(command) <= MAX_COMMAND else f"{command[: MAX_COMMAND - 1]}…"
            line = loaded.find_line(("hooks", event))
            yield f"{event}: {shown} (line {line}): {_NO_HOOKS.format(agent=leftover.agent)}"


def _list_commands(entries: object) -> Iterator[str]:
    """Yield the commands of an event, in entries or in groups of entries."""
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("command"), str):
            yield " ".join(entry["command"].split())
        elif isinstance(entry, dict):
            yield from _list_commands(entry.get("hooks"))


def _explain(path: Path, leftover: _Leftover) -> str:
    try:
        if path.is_dir() and not any(path.iterdir()):
            return "it is empty"
    except OSError as error:
        return f"it cannot be read: {error.strerror or error}"
    if leftover.reason:
        return leftover.reason.format(agent=leftover.agent)
    return f"no installed plugin reads the {leftover.kind} of {leftover.agent}"


def _find_others(path: Path, agent: str, named: Sequence[Path]) -> Iterator[ForeignFile]:
    """Yield the entries of an agent's folder of which nothing is reported."""
    try:
        entries = sorted(path.iterdir())
    except OSError:
        return
    for entry in entries[:MAX_ENTRIES]:
        # A reported folder covers its content, and a reported file its folder.
        is_named = any(
            each == entry or each.is_relative_to(entry) or entry.is_relative_to(each)
            for each in named
        )
        if not is_named:
            yield ForeignFile(entry, agent, "other files", left=("hilum does not use it",))
    if len(entries) > MAX_ENTRIES:
        reason = f"hilum does not use its other {len(entries) - MAX_ENTRIES} entries"
        yield ForeignFile(path, agent, "other files", left=(reason,))
