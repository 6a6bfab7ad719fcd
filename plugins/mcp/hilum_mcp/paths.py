"""The paths of files in which MCP servers may be configured.

Every session imports this module, so it must not import slow modules.
"""

from __future__ import annotations

import os
from pathlib import Path

from hilum import config_folder

FILE = "mcp.json"
PROJECT_FILE = f".hilum/{FILE}"
DECISIONS_FILE = "mcp.toml"
CLAUDE_SETTINGS = (".claude/settings.json", ".claude/settings.local.json")

# If several files configure a server with the same name, the first file takes precedence.
PROJECT_FILES = (
    PROJECT_FILE,
    ".mcp.json",
    ".cursor/mcp.json",
    ".vscode/mcp.json",
    ".roo/mcp.json",
    ".agents/mcp.json",
)

# These files also contain other settings, so it is not a mistake if they configure no server.
SHARED_FILES = (
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


def user_file() -> Path:
    """Return the path of the user's own file of servers."""
    return config_folder() / FILE


def has_config_file(workspace: str | os.PathLike[str]) -> bool:
    """Return whether a file exists in which the user or the project may configure servers."""
    names = (*PROJECT_FILES, *SHARED_FILES)
    if os.path.lexists(user_file()):
        return True
    return any(os.path.lexists(os.path.join(workspace, name)) for name in names)
