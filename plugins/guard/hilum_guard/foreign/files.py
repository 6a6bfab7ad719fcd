"""The files in which other agents keep their permissions.

This module is imported by every session, so it must not import the code that parses these files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from hilum import environment, home_folder

from hilum_guard.file_names import folded

AGENTS = {
    "claude": "Claude Code",
    "codex": "Codex",
    "gemini": "Gemini CLI",
    "opencode": "opencode",
    "cursor": "Cursor",
    "copilot": "Copilot",
    "aider": "aider",
    "windsurf": "Windsurf",
}
"""The agents whose permissions hilum reads, each with its name for people."""
MAX_FILES = 50
"""Maximum number of files that are read in one folder."""
MAX_LEVELS = 30

_DENIES = (b"deny", b"ask")
_CODEX = (b"deny", b"none", b"read", b"false")
_OPENCODE = (b"deny", b"ask", b"false")
_GEMINI = (b"exclude", b"core")


class _Known(NamedTuple):
    """A file at a known place.

    Attributes:
        path: The path, relative to the project or the home folder; ``*`` in its name stands for any
            text.
        agent: The agent.
        format: The format.
        marks: The words of which a file that denies something contains at least one.
    """

    path: str
    agent: str
    format: str
    marks: tuple[bytes, ...]


_PROJECT = (
    _Known(".claude/settings.json", "claude", "claude", _DENIES),
    _Known(".claude/settings.local.json", "claude", "claude", _DENIES),
    _Known(".codex/config.toml", "codex", "codex", _CODEX),
    _Known(".codex/rules/*.rules", "codex", "codex rules", ()),
    _Known(".gemini/settings.json", "gemini", "gemini", _GEMINI),
    _Known(".gemini/policies/*.toml", "gemini", "gemini policies", _DENIES),
    _Known("opencode.json", "opencode", "opencode", _OPENCODE),
    _Known("opencode.jsonc", "opencode", "opencode", _OPENCODE),
    _Known(".opencode/opencode.json", "opencode", "opencode", _OPENCODE),
    _Known(".opencode/opencode.jsonc", "opencode", "opencode", _OPENCODE),
    _Known(".cursor/cli.json", "cursor", "cursor", (b"deny",)),
    _Known(".cursorignore", "cursor", "ignored files", ()),
    _Known(".geminiignore", "gemini", "ignored files", ()),
    _Known(".aiderignore", "aider", "ignored files", ()),
    _Known(".codeiumignore", "windsurf", "ignored files", ()),
    _Known(".vscode/settings.json", "copilot", "copilot", (b"false",)),
)
# Relative to the folder of each agent in the home folder.
_USER = (
    _Known("settings.json", "claude", "claude", _DENIES),
    _Known("config.toml", "codex", "codex", _CODEX),
    _Known("rules/*.rules", "codex", "codex rules", ()),
    _Known("settings.json", "gemini", "gemini", _GEMINI),
    _Known("policies/*.toml", "gemini", "gemini policies", _DENIES),
    _Known("opencode.json", "opencode", "opencode", _OPENCODE),
    _Known("opencode.jsonc", "opencode", "opencode", _OPENCODE),
    _Known("cli-config.json", "cursor", "cursor", (b"deny",)),
)
# Each call of a tool looks for these files, and most users and projects have none of their folders.
_USER_FILES = {agent: tuple(known for known in _USER if known.agent == agent) for agent in AGENTS}
_PROJECT_FILES = tuple(
    (known.path.partition("/")[0] if "/" in known.path else "", known) for known in _PROJECT
)


class PermissionFile(NamedTuple):
    """An existing file with the permissions of another agent.

    Attributes:
        path: The file.
        agent: The key of the agent in ``AGENTS``.
        format: The format.
        marks: The words of which a file that denies something contains at least one.
        base: The folder that paths in the file are relative to.
        fence: The folder that links must not lead out of; None for the user's own files.
    """

    path: Path
    agent: str
    format: str
    marks: tuple[bytes, ...]
    base: Path
    fence: Path | None


def find_files(workspace: Path, agents: Sequence[str]) -> Iterator[PermissionFile]:
    """Yield the existing files of the given agents: the user's, then the project's. Blocks."""
    if not agents:
        return
    seen: set[str] = set()
    for agent, folder in _agent_folders().items():
        if agent not in agents or not os.path.isdir(folder):
            continue
        for known in _USER_FILES[agent]:
            for path in _expand(folder, known.path):
                seen.add(os.path.realpath(path))
                yield PermissionFile(
                    Path(path), known.agent, known.format, known.marks, workspace, None
                )
    fence = find_project_folder(workspace)
    for folder in _project_folders(str(workspace)):
        existing = {"": True}
        for inner, known in _PROJECT_FILES:
            if known.agent not in agents:
                continue
            if inner not in existing:
                existing[inner] = os.path.isdir(f"{folder}/{inner}")
            if not existing[inner]:
                continue
            for path in _expand(folder, known.path):
                # In the home folder, the project's files are the user's own.
                if os.path.realpath(path) not in seen:
                    base = Path(folder)
                    yield PermissionFile(
                        Path(path), known.agent, known.format, known.marks, base, fence
                    )


def find_project_folder(workspace: Path) -> Path:
    """Return the root of the repository that a workspace belongs to, or the workspace. Blocks."""
    return Path(_project_folders(str(workspace))[0])


def find_restricted_agent(path: str) -> str:
    """Return the agent that a file or folder contains restrictions for; empty if it has none.

    Args:
        path: A path relative to the workspace; the file need not exist.
    """
    parts = [folded(part) for part in path.split("/") if part]
    for known in _PROJECT:
        wanted = known.path.lower().split("/")
        # With its folder, the file is removed as well.
        for size in range(1, len(wanted) + 1):
            end = parts[-size:]
            if len(end) == size and all(map(fnmatchcase, end, wanted[:size])):
                return AGENTS[known.agent]
    return ""


def stamp_files(workspace: Path, agents: Sequence[str]) -> tuple[object, ...]:
    """Return the state of the files, which changes whenever one of them changes. Blocks."""
    return tuple(_look(file.path) for file in find_files(workspace, agents))


def _look(path: Path) -> tuple[object, ...]:
    try:
        status = os.stat(path)
    except OSError:
        return (str(path),)
    return (str(path), status.st_mtime_ns, status.st_size, status.st_ino)


def _agent_folders() -> dict[str, str]:
    """Return the folder of each agent in the home folder."""
    home = home_folder()
    environ = environment()
    config = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    return {
        "claude": environ.get("CLAUDE_CONFIG_DIR") or f"{home}/.claude",
        "codex": environ.get("CODEX_HOME") or f"{home}/.codex",
        "gemini": f"{home}/.gemini",
        "opencode": f"{config}/opencode",
        "cursor": f"{home}/.cursor",
    }


def _expand(folder: str, name: str) -> Iterator[str]:
    """Yield the existing files at a known place."""
    path = f"{folder}/{name}"
    if "*" not in name:
        if os.path.lexists(path):
            yield path
        return
    parent, _, last = path.rpartition("/")
    ending = last.removeprefix("*")
    try:
        names = sorted(os.listdir(parent))
    except OSError:
        return
    for each in [each for each in names if each.endswith(ending)][:MAX_FILES]:
        yield f"{parent}/{each}"


@lru_cache(maxsize=64)
def _project_folders(workspace: str) -> tuple[str, ...]:
    """Return the folders from the root of the repository down to the workspace."""
    home = str(home_folder())
    found = [workspace]
    folder = workspace
    for _ in range(MAX_LEVELS):
        if os.path.lexists(f"{folder}/.git"):
            return tuple(reversed(found))
        above = os.path.dirname(folder)
        # A folder of another owner is not the user's project.
        if above in (folder, home) or not _is_of_same_owner(workspace, above):
            break
        found.append(above)
        folder = above
    return (workspace,)


def _is_of_same_owner(one: str, other: str) -> bool:
    try:
        return os.stat(one).st_uid == os.stat(other).st_uid
    except OSError:
        return False
