"""Where servers may be described: names of files, and whether there is one.

Kept small, for every session looks.
"""

from __future__ import annotations

import os

from hilum import config_folder

FILE = "mcp.json"
OWN = f".hilum/{FILE}"
DECISIONS = "mcp.toml"
CHOICES = (".claude/settings.json", ".claude/settings.local.json")
# The first that describes a server of a name counts. Of the others a file may be about something
# else than servers.
PROJECT = (
    OWN,
    ".mcp.json",
    ".cursor/mcp.json",
    ".vscode/mcp.json",
    ".roo/mcp.json",
    ".agents/mcp.json",
)
SHARED = (
    "mcp.json",
    ".gemini/settings.json",
    "gemini-extension.json",
    "opencode.json",
    "opencode.jsonc",
    ".opencode/opencode.json",
    ".opencode/opencode.jsonc",
    ".codex/config.toml",
    ".zed/settings.json",
)


def described(workspace: str | os.PathLike[str]) -> bool:
    """Return whether the user or a project has a file in which servers may be described.

    Args:
        workspace: The project.
    """
    names = (os.path.join(workspace, name) for name in (*PROJECT, *SHARED))
    return os.path.lexists(config_folder() / FILE) or any(map(os.path.lexists, names))
