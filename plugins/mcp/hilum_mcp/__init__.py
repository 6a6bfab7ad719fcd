"""MCP servers for the agent, and hilum as an MCP server.

Importing it loads neither the SDK nor anything of HTTP; with no file of servers a session costs a
few looks at the disk.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hilum import Interpretation, UsageError, hookimpl

from hilum_mcp import places
from hilum_mcp.serving.settings import McpServerSettings
from hilum_mcp.settings import McpSettings

if TYPE_CHECKING:
    from hilum import Session

    from hilum_mcp.dialects import read_config
    from hilum_mcp.half import Mcp, Row
    from hilum_mcp.server import Config, Input, Mistake, Server
    from hilum_mcp.sources import Entry

__all__ = [
    "Config",
    "Entry",
    "Input",
    "Mcp",
    "McpServerSettings",
    "McpSettings",
    "Mistake",
    "Row",
    "Server",
    "interpret_prompt",
    "open_session",
    "read_config",
]

_HOMES = {
    "Config": "server",
    "Input": "server",
    "Mistake": "server",
    "Server": "server",
    "read_config": "dialects",
    "Entry": "sources",
    "Mcp": "half",
    "Row": "half",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"hilum_mcp.{_HOMES[name]}"), name)
    return value


@hookimpl
async def open_session(session: Session) -> AsyncIterator[Mcp | None]:
    """Have the session's MCP servers at hand until it closes; all of them are ended with it."""
    if not places.described(session.workspace.root):
        yield None
        return
    from hilum_mcp import quick

    seal = quick.seal_of(session.workspace.root)
    trusts: bool | None = None
    entries: dict[str, Entry] = {}
    briefs = quick.load(seal)
    if briefs is None:
        from hilum_mcp import sources

        try:
            catalog = sources.look(Path(session.workspace.root))
        except UsageError as error:
            session.note("mcp.unreadable", say=f"No MCP server is started. {error}")
            yield None
            return
        briefs = tuple(sources.briefs(catalog.entries))
        trusts = catalog.trusts
        entries = {entry.server.name: entry for entry in catalog.entries}
    if not briefs:
        yield None
        return
    import trio

    from hilum_mcp.half import Mcp

    async with trio.open_nursery() as nursery:
        mcp = Mcp(session, session.settings(McpSettings), briefs, nursery, entries)
        mcp.start()
        yield mcp
        nursery.cancel_scope.cancel()
        if entries:
            quick.keep(seal, trusts, briefs)


@hookimpl
async def interpret_prompt(session: Session, text: str) -> Interpretation | None:
    """Answer ``/mcp``, also in a session without servers."""
    if text != "/mcp" and not text.startswith("/mcp "):
        return None
    from hilum_mcp.command import reply
    from hilum_mcp.half import Mcp

    half = session.half(Mcp)
    return Interpretation(text, reply=await reply(session, half.rows if half else list, text[5:]))
