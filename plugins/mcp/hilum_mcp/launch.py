"""Determines how a server is launched: its time limit, sandbox and cache folder."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from hilum import cache_folder as user_cache
from hilum import config_folder

if TYPE_CHECKING:
    from hilum_mcp.server_config import ServerConfig
    from hilum_mcp.settings import McpSettings, Sandbox

# Programs that download a server before they start it.
DOWNLOADERS = frozenset(("bunx", "docker", "npx", "pipx", "pnpm", "podman", "uv", "uvx", "yarn"))

# Time limit in seconds for downloading and starting a server.
DOWNLOAD_TIMEOUT = 120.0


def start_timeout(server: ServerConfig, settings: McpSettings) -> float:
    """Return the maximum number of seconds that a server may take to start."""
    if server.start_seconds:
        return server.start_seconds
    if _is_downloaded(server):
        return max(settings.start_seconds, DOWNLOAD_TIMEOUT)
    return settings.start_seconds


def choose_sandbox(server: ServerConfig, settings: McpSettings) -> Sandbox:
    """Return the sandbox for a server: the user's setting or, without one, a default.

    By default, a project's own program has no network access. A program that must be downloaded
    first needs network access.
    """
    if server.name in settings.sandbox:
        return settings.sandbox[server.name]
    if _is_downloaded(server) or server.file.is_relative_to(config_folder()):
        return "network"
    # A program from a repository could otherwise send the user's files elsewhere.
    return "closed"


def _is_downloaded(server: ServerConfig) -> bool:
    return PurePath(server.command).name in DOWNLOADERS


def cache_folder(server: ServerConfig) -> Path:
    """Return the cache folder of a server.

    Each server has its own cache folder, so that no server can change what another server executes.
    """
    return user_cache() / "mcp" / server.prefix
