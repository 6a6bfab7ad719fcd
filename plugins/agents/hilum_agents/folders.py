"""The folders in which agents are defined.

Every session with a prompt imports this module, so it must not import the code that parses agent
files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hilum import config_folder, home_folder

if TYPE_CHECKING:
    from hilum_agents.definitions.definition import Dialect, Scope

# Built-in agents come last, so that a user's file with the same name overrides a built-in agent.
BUILTIN = Path(__file__).resolve().parent / "builtin"
OWN = ".hilum/agents"
# The folders in order of precedence: hilum's own folder, then those of other programs.
PROJECT_FOLDERS: tuple[tuple[str, Dialect], ...] = (
    (OWN, "hilum"),
    (".claude/agents", "claude"),
    (".gemini/agents", "gemini"),
    (".opencode/agents", "opencode"),
    (".opencode/agent", "opencode"),
    (".github/agents", "copilot"),
    (".github/chatmodes", "copilot"),
    (".cursor/agents", "cursor"),
    (".codex/agents", "codex"),
)
_HOME_FOLDERS: tuple[tuple[str, Dialect], ...] = (
    (".claude/agents", "claude"),
    (".gemini/agents", "gemini"),
    (".config/opencode/agents", "opencode"),
    (".config/opencode/agent", "opencode"),
    (".copilot/agents", "copilot"),
    (".cursor/agents", "cursor"),
    (".codex/agents", "codex"),
)


class AgentFolder(NamedTuple):
    """A folder that contains agent files.

    Attributes:
        path: The folder.
        source: Description of the folder for the user.
        scope: Scope of the agents in the folder.
        dialect: Program whose file format is used in the folder.
        inside: Folder that symbolic links must not lead out of; ``None`` for the user's own
            folders.
    """

    path: Path
    source: str
    scope: Scope
    dialect: Dialect
    inside: Path | None = None


def user_folder() -> Path:
    """Return the folder that contains the user's own agents."""
    return config_folder() / "agents"


def list_folders(workspace: Path | None, others: bool) -> Iterator[AgentFolder]:
    """Yield all agent folders in order of precedence.

    Args:
        workspace: The project; ``None`` if there is none.
        others: Whether to include the folders of other programs.
    """
    home = home_folder()
    if workspace is not None:
        for name, dialect in PROJECT_FOLDERS if others else PROJECT_FOLDERS[:1]:
            # The home folder has no project agents: its files are the user's own agents, which need
            # no trust.
            own = (os.path.realpath(home / name), os.path.realpath(user_folder()))
            if os.path.realpath(workspace / name) not in own:
                yield AgentFolder(
                    workspace / name,
                    f"project {name}",
                    "project",
                    dialect,
                    workspace,
                )
    yield AgentFolder(user_folder(), "user agents", "user", "hilum")
    for name, dialect in _HOME_FOLDERS if others else ():
        yield AgentFolder(home / name, f"user ~/{name}", "user", dialect)
    yield AgentFolder(BUILTIN, "built in", "builtin", "hilum")


def has_agents(workspace: Path | None, others: bool) -> bool:
    """Return whether agents other than the built-in agents may exist. Blocks.

    Args:
        workspace: The project; ``None`` if there is none.
        others: Whether to include the folders of other programs.
    """
    folders = list_folders(workspace, others)
    return any(os.path.isdir(folder.path) for folder in folders if folder.scope != "builtin")
