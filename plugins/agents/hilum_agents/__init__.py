"""Agents: defined in Markdown files, called by name.

Importing the package reads no file and loads no YAML.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hilum import hookimpl

from hilum_agents.settings import AgentsSettings

if TYPE_CHECKING:
    from hilum import Session

    from hilum_agents.calls import AgentCall, complete_name, read_call, read_unknown
    from hilum_agents.definitions.catalog import Catalog, Entry, look
    from hilum_agents.definitions.definition import Definition, Permission
    from hilum_agents.definitions.loading import load_definition
    from hilum_agents.half import Agents

__all__ = [
    "AgentCall",
    "Agents",
    "AgentsSettings",
    "Catalog",
    "Definition",
    "Entry",
    "Permission",
    "complete_name",
    "load_definition",
    "look",
    "open_session",
    "read_call",
    "read_unknown",
]

# What the instance of a session implements: without it no call runs.
gates = ("check_answer", "on_tool_call")
# Where what is public stands, loaded at first use.
_HOMES = {
    "AgentCall": "calls",
    "complete_name": "calls",
    "read_call": "calls",
    "read_unknown": "calls",
    "Agents": "half",
    "Definition": "definitions.definition",
    "Permission": "definitions.definition",
    "load_definition": "definitions.loading",
    "Catalog": "definitions.catalog",
    "Entry": "definitions.catalog",
    "look": "definitions.catalog",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"hilum_agents.{_HOMES[name]}"), name)
    return value


@hookimpl
async def open_session(session: Session) -> AsyncIterator[Agents]:
    """Know the session's agents until it closes."""
    from hilum_agents.half import open_agents

    async with open_agents(session) as agents:
        yield agents
