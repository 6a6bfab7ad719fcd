"""MCP servers for the agent, and hilum as an MCP server.

Importing this package loads neither the MCP SDK nor an HTTP library. Without a configuration file,
a session only checks whether one exists.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hilum import Interpretation, PromptCommand, UsageError, hookimpl

from hilum_mcp import lazy, paths
from hilum_mcp.editor_servers import find_offered
from hilum_mcp.serving.settings import McpServerSettings
from hilum_mcp.settings import McpSettings

if TYPE_CHECKING:
    from hilum import Session

    from hilum_mcp.catalog import CatalogEntry, ServerCatalog
    from hilum_mcp.config_reader import read_config
    from hilum_mcp.server_config import ConfigFile, ConfigInput, ConfigMistake, ServerConfig
    from hilum_mcp.session_servers import ServerStatus, SessionServers

__all__ = [
    "CatalogEntry",
    "ConfigFile",
    "ConfigInput",
    "ConfigMistake",
    "McpServerSettings",
    "McpSettings",
    "ServerConfig",
    "ServerStatus",
    "SessionServers",
    "interpret_prompt",
    "list_commands",
    "open_session",
    "read_config",
]

MAX_MISTAKES_SHOWN = 5
# The names in ``commands.ACTIONS``, repeated here because importing it loads the parsers of all
# actions.
ACTION_NAMES = (
    "list",
    "enable",
    "disable",
    "approve",
    "add",
    "remove",
    "test",
    "login",
    "logout",
    "logs",
)
MAX_MISTAKES_LOGGED = 50

_MODULES = {
    "CatalogEntry": "catalog",
    "ConfigFile": "server_config",
    "ConfigInput": "server_config",
    "ConfigMistake": "server_config",
    "SessionServers": "session_servers",
    "ServerConfig": "server_config",
    "ServerStatus": "session_servers",
    "read_config": "config_reader",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"hilum_mcp.{_MODULES[name]}"), name)
    return value


@hookimpl
async def open_session(session: Session) -> AsyncIterator[SessionServers | None]:
    """Yield the session's MCP servers, and stop them when the session closes."""
    root = session.workspace.root
    offered = find_offered(session)
    if not offered and not paths.has_config_file(root):
        yield None
        return
    fingerprint = lazy.session_cache.take_fingerprint(root)
    # Offered servers are not in the cache, because no file contains them.
    summaries = None if offered else lazy.session_cache.load_summaries(fingerprint)
    trusted: bool | None = None
    has_mistakes = False
    entries: dict[str, CatalogEntry] = {}
    if summaries is None:
        try:
            catalog = lazy.catalog.load_catalog(Path(root), offered)
        except UsageError as error:
            session.note("mcp.unreadable", say=f"No MCP servers are started. {error}")
            yield None
            return
        _report_mistakes(session, catalog)
        summaries = tuple(lazy.catalog.summarize_all(catalog.entries))
        has_mistakes = bool(catalog.errors)
        trusted = catalog.trusted
        entries = {entry.server.name: entry for entry in catalog.entries}
    if not summaries:
        yield None
        return
    settings = session.settings(McpSettings)
    servers = lazy.session_servers
    async with servers.open_servers(session, settings, summaries, entries) as mcp:
        yield mcp
    # Nothing is cached if a file has mistakes, so that the next session reports the mistakes again.
    if entries and not has_mistakes and not offered:
        lazy.session_cache.save_summaries(fingerprint, trusted, summaries)


def _report_mistakes(session: Session, catalog: ServerCatalog) -> None:
    """Report the mistakes in configuration files to the user."""
    mistakes = [str(mistake) for mistake in catalog.errors]
    if not mistakes:
        return
    lines = mistakes[:MAX_MISTAKES_SHOWN]
    if len(mistakes) > MAX_MISTAKES_SHOWN:
        more = len(mistakes) - MAX_MISTAKES_SHOWN
        lines.append(f"… and {more} more; `hilum mcp list` shows them.")
    session.note("mcp.mistakes", say="\n".join(lines), mistakes=mistakes[:MAX_MISTAKES_LOGGED])


@hookimpl
def list_commands() -> list[PromptCommand]:
    """Return the command ``/mcp``; ``SessionServers`` returns the commands for prompts."""
    summary = "List, add, approve and test MCP servers, and log in to them"
    return [PromptCommand("mcp", summary, "[ACTION]", ACTION_NAMES)]


@hookimpl
async def interpret_prompt(session: Session, text: str) -> Interpretation | None:
    """Run ``/mcp``, even in a session without MCP servers."""
    if text != "/mcp" and not text.startswith("/mcp "):
        return None
    mcp = session.plugin(lazy.session_servers.SessionServers)
    statuses = mcp.statuses() if mcp else []
    return Interpretation(text, reply=await lazy.command.run_slash(session, statuses, text[5:]))
