"""The folders in which agents are defined.

Apart, so that a session that calls none need not load what reads them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hilum import config_folder, home_folder

if TYPE_CHECKING:
    from hilum_agents.definitions.definition import Dialect, Scope

BUILTIN = Path(__file__).resolve().parent / "builtin"
OWN = ".hilum/agents"
# Hilum's own come first, then those of other programs.
_PROJECT: tuple[tuple[str, Dialect], ...] = (
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
_HOME: tuple[tuple[str, Dialect], ...] = (
    (".claude/agents", "claude"),
    (".gemini/agents", "gemini"),
    (".config/opencode/agents", "opencode"),
    (".config/opencode/agent", "opencode"),
    (".copilot/agents", "copilot"),
    (".cursor/agents", "cursor"),
    (".codex/agents", "codex"),
)


def user_folder() -> Path:
    """Where the user's own agents are."""
    return config_folder() / "agents"


def places(
    workspace: Path | None, folders: bool
) -> Iterator[tuple[Path, str, Scope, Dialect, Path | None]]:
    """Yield folder, words for it, scope, dialect, and the folder that links may not lead out of.

    Args:
        workspace: The project; ``None`` for none.
        folders: Whether the folders of other programs count, too.
    """
    home = home_folder()
    if workspace is not None:
        for name, dialect in _PROJECT if folders else _PROJECT[:1]:
            if os.path.realpath(workspace / name) not in (
                os.path.realpath(home / name),
                os.path.realpath(user_folder()),
            ):
                yield workspace / name, f"project {name}", "project", dialect, workspace
    yield user_folder(), "user agents", "user", "hilum", None
    for name, dialect in _HOME if folders else ():
        yield home / name, f"user ~/{name}", "user", dialect, None
    yield BUILTIN, "built in", "builtin", "hilum", None


def any_written(workspace: Path | None, folders: bool) -> bool:
    """Return whether there may be agents besides the built-in ones.

    Takes what ``places`` takes. Blocks.
    """
    return any(
        os.path.isdir(root)
        for root, _, scope, *_ in places(workspace, folders)
        if scope != "builtin"
    )
