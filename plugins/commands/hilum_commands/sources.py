"""The folders and files in which commands are defined, in order of precedence."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from hilum import config_folder, home_folder

Dialect = Literal["hilum", "claude", "gemini", "opencode", "copilot", "cursor", "codex"]
Scope = Literal["project", "user"]
OWN = ".hilum/commands"
# hilum's own folder comes first, then those of other programs.
PROJECT_FOLDERS: tuple[tuple[str, Dialect], ...] = (
    (OWN, "hilum"),
    (".claude/commands", "claude"),
    (".gemini/commands", "gemini"),
    (".opencode/commands", "opencode"),
    (".opencode/command", "opencode"),
    (".github/prompts", "copilot"),
    (".cursor/commands", "cursor"),
)
_HOME_FOLDERS: tuple[tuple[str, Dialect], ...] = (
    (".claude/commands", "claude"),
    (".gemini/commands", "gemini"),
    (".config/opencode/commands", "opencode"),
    (".config/opencode/command", "opencode"),
    (".cursor/commands", "cursor"),
    (".codex/prompts", "codex"),
)
CONFIG_FILES = ("opencode.json", "opencode.jsonc")
_PROJECT_CONFIGS = (*CONFIG_FILES, *(f".opencode/{name}" for name in CONFIG_FILES))
_HOME_CONFIGS = tuple(f".config/opencode/{name}" for name in CONFIG_FILES)
_ENDINGS: dict[Dialect, tuple[str, ...]] = {
    "gemini": (".toml",),
    "copilot": (".prompt.md",),
}


class CommandSource(NamedTuple):
    """A folder with command files, or a configuration file with commands.

    Attributes:
        path: The folder or file.
        shown: The path as users know it.
        scope: Whether the project or the user defines the commands.
        dialect: The program whose format is used.
        is_file: Whether the source is a configuration file.
        inside: The folder that links must not lead out of; ``None`` for the user's own folders.
    """

    path: Path
    shown: str
    scope: Scope
    dialect: Dialect
    is_file: bool = False
    inside: Path | None = None

    @property
    def endings(self) -> tuple[str, ...]:
        """The endings of command files in this folder."""
        return _ENDINGS.get(self.dialect, (".md", ".markdown"))


def list_sources(workspace: Path, others: bool) -> Iterator[CommandSource]:
    """Yield all sources, the one that takes precedence first.

    Args:
        workspace: The project.
        others: Whether to include the commands of other programs.
    """
    home = home_folder()
    # If the home folder is the workspace, its files are the user's own and need no trust.
    is_home = os.path.realpath(workspace) == os.path.realpath(home)
    if not is_home:
        for name, dialect in PROJECT_FOLDERS if others else PROJECT_FOLDERS[:1]:
            yield CommandSource(workspace / name, name, "project", dialect, inside=workspace)
        for name in _PROJECT_CONFIGS if others else ():
            yield CommandSource(
                workspace / name, name, "project", "opencode", is_file=True, inside=workspace
            )
    yield CommandSource(config_folder() / "commands", "your commands folder", "user", "hilum")
    for name, dialect in _HOME_FOLDERS if others else ():
        yield CommandSource(home / name, f"~/{name}", "user", dialect)
    for name in _HOME_CONFIGS if others else ():
        yield CommandSource(home / name, f"~/{name}", "user", "opencode", is_file=True)
