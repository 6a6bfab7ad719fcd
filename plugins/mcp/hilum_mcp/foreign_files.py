"""Reports the MCP servers in the files of other clients, for ``hilum import``."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from hilum import UsageError, environment, home_folder
from hilum.foreign_files import ForeignFile, Offer

from hilum_mcp.approvals import describe_config
from hilum_mcp.catalog import CatalogEntry, load_catalog
from hilum_mcp.config_reader import read_config
from hilum_mcp.formatting import redact
from hilum_mcp.own_file import add_servers
from hilum_mcp.paths import PROJECT_FILES, SHARED_FILES, user_file
from hilum_mcp.server_config import ConfigFile, ConfigInput, ServerConfig

_AGENTS = {
    ".mcp.json": "Claude Code",
    ".claude.json": "Claude Code",
    ".cursor/mcp.json": "Cursor",
    ".vscode/mcp.json": "Copilot",
    ".copilot/mcp-config.json": "Copilot",
    ".roo/mcp.json": "Roo Code",
    ".gemini/settings.json": "Gemini CLI",
    "gemini-extension.json": "Gemini CLI",
    "opencode.json": "opencode",
    "opencode.jsonc": "opencode",
    ".opencode/opencode.json": "opencode",
    ".opencode/opencode.jsonc": "opencode",
    ".codex/config.toml": "Codex",
    ".zed/settings.json": "Zed",
    ".codeium/windsurf/mcp_config.json": "Windsurf",
}
# Files of other clients in the home folder; a session never reads them.
_HOME_FILES = (
    ".claude.json",
    ".cursor/mcp.json",
    ".copilot/mcp-config.json",
    ".gemini/settings.json",
    ".codex/config.toml",
    ".codeium/windsurf/mcp_config.json",
)
_DANGER = "it starts a program, or contacts a server, in every session"


def find_foreign_files(folder: Path) -> Iterator[ForeignFile]:
    """Yield the files of other clients that configure servers. Blocks.

    Args:
        folder: The workspace.
    """
    catalog = load_catalog(folder)
    known = {entry.server.name: entry for entry in catalog.entries}
    for name in (*PROJECT_FILES[1:], *SHARED_FILES):
        path = folder / name
        entries = [entry for entry in catalog.entries if entry.server.file == path]
        problems = [str(each) for each in catalog.errors if each.file == path]
        hidden = _list_hidden(path, folder, known) if os.path.lexists(path) else []
        if entries or problems or hidden:
            yield _describe_project_file(path, name, entries, problems, hidden)
    home = home_folder()
    config = environment().get("XDG_CONFIG_HOME") or home / ".config"
    paths = {home / name: _AGENTS[name] for name in _HOME_FILES}
    paths |= {
        Path(config) / "opencode" / name: "opencode" for name in ("opencode.json", "opencode.jsonc")
    }
    offered: dict[str, tuple[Path, str]] = {}
    for path, agent in paths.items():
        # In the home folder, these are the files of the workspace itself.
        if os.path.lexists(path):
            file = _describe_user_file(path, agent, read_config(path), known, offered)
            if file.works or file.offers or file.left:
                yield file


def _list_hidden(path: Path, folder: Path, known: Mapping[str, CatalogEntry]) -> list[str]:
    """Return the servers of a file whose names the servers of other files have."""
    found = []
    for name in read_config(path).servers:
        entry = known.get(name)
        if entry is not None and entry.server.file != path:
            winner = os.path.relpath(entry.server.file, folder)
            if entry.scope == "user":
                winner = str(entry.server.file)
            found.append(f"the server {name}: {winner} also defines it, and takes precedence")
    return found


def _describe_project_file(
    path: Path,
    name: str,
    entries: list[CatalogEntry],
    problems: list[str],
    hidden: list[str],
) -> ForeignFile:
    works = [f"the server {each.server.name} is on" for each in entries if each.state == "on"]
    left = []
    for entry in entries:
        server = entry.server.name
        if entry.state == "unapproved":
            command = f"hilum mcp approve {shlex.quote(server)}"
            left.append(f"the server {server} waits for approval: {command}")
        elif entry.state != "on":
            left.append(f"the server {server} is {entry.state}: {entry.reason}")
    left += hidden
    return ForeignFile(
        path,
        _AGENTS.get(name, "other agents"),
        "MCP servers",
        works=tuple(works),
        left=tuple(left),
        problems=tuple(problems),
    )


def _describe_user_file(
    path: Path,
    agent: str,
    config: ConfigFile,
    known: Mapping[str, CatalogEntry],
    offered: dict[str, tuple[Path, str]],
) -> ForeignFile:
    """Return a file in the home folder, and add the servers that it offers to ``offered``."""
    works = []
    offers = []
    left = []
    for server in config.servers.values():
        entry = known.get(server.name)
        if entry is None and server.name in offered:
            other, described = offered[server.name]
            is_same = described == _describe(server)
            hint = "in the same way" if is_same else "in another way; rename one of them"
            left.append(f"the server {server.name}: {other} also defines it {hint}")
        elif entry is None:
            offered[server.name] = (path, _describe(server))
            take = partial(_take, server, config.inputs)
            becomes = f"your server {server.name}, in {user_file()}"
            details = tuple(row.strip() for row in describe_config(server))
            offers.append(Offer(_describe(server), becomes, take, _DANGER, details=details))
        elif entry.scope == "user":
            works.append(f"the server {server.name} is in your {user_file().name}")
        else:
            left.append(f"the server {server.name}: the project has a server with this name")
    return ForeignFile(
        path,
        agent,
        "MCP servers",
        user=True,
        works=tuple(works),
        offers=tuple(offers),
        left=tuple(left),
    )


def _describe(server: ServerConfig) -> str:
    # The path of a URL may contain keys. The question whether to take it over shows everything.
    target = urlsplit(server.url).hostname or server.url
    if server.command:
        target = redact(server, shlex.join((server.command, *server.args)))
    return f"server {server.name}: {target}"


def _take(server: ServerConfig, inputs: Mapping[str, ConfigInput], user: bool) -> str:
    """Add a server to the user's own file, and return the file."""
    if not user:
        raise UsageError(
            f"{server.name} is your own server.", hint="Take it over with hilum import --user."
        )
    add_servers(user_file(), [server], inputs)
    return str(user_file())
