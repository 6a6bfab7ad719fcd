"""Agents that are defined in Markdown files and called by name.

Importing the package reads no agent files and does not import the YAML parser.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hilum import PromptCommand, hookimpl

from hilum_agents.settings import AgentsSettings

if TYPE_CHECKING:
    from hilum import Interpretation, Session

    from hilum_agents.agents import Agents
    from hilum_agents.calls import AgentCall, complete_name, read_call, read_unknown
    from hilum_agents.definitions.catalog import Catalog, CatalogEntry, find_agents
    from hilum_agents.definitions.definition import Definition, Permission
    from hilum_agents.definitions.loading import load_definition

__all__ = [
    "AgentCall",
    "Agents",
    "AgentsSettings",
    "Catalog",
    "CatalogEntry",
    "Definition",
    "Permission",
    "complete_name",
    "find_agents",
    "interpret_prompt",
    "list_commands",
    "load_definition",
    "open_session",
    "read_call",
    "read_unknown",
]

# The names in ``dispatch.ACTIONS``, repeated here because importing it loads the parsers of all
# actions.
ACTION_NAMES = (
    "list",
    "info",
    "validate",
    "create",
    "delete",
    "run",
    "results",
    "result",
    "retry",
    "clear",
    "fork",
    "stop",
)
# Hooks that gate tool calls: if a session's plugin instance has failed, no tool call runs.
gates = ("check_answer", "on_tool_call")
# The module of each public name, imported at first use.
_MODULES = {
    "AgentCall": "calls",
    "complete_name": "calls",
    "read_call": "calls",
    "read_unknown": "calls",
    "Agents": "agents",
    "Definition": "definitions.definition",
    "Permission": "definitions.definition",
    "load_definition": "definitions.loading",
    "Catalog": "definitions.catalog",
    "CatalogEntry": "definitions.catalog",
    "find_agents": "definitions.catalog",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # The value is stored, so that this function runs only once for each name.
    value = globals()[name] = getattr(_load(_MODULES[name]), name)
    return value


def _load(name: str) -> Any:
    """Return a module of this package, imported at first use."""
    return import_module(f"hilum_agents.{name}")


@hookimpl
async def open_session(session: Session) -> AsyncIterator[Agents]:
    """Yield the plugin instance that manages the defined agents."""
    # What the first agent needs.
    session.import_later(
        "hilum_agents.definitions.catalog",
        "hilum_agents.history",
        "hilum.frontmatter.reader",
        "yaml",
    )
    async with _load("agents").open_agents(session) as agents:
        yield agents


@hookimpl
def list_commands() -> list[PromptCommand]:
    """Return the command ``/agents``."""
    summary = "List, show, start and stop agents, and show their results"
    return [PromptCommand("agents", summary, "[ACTION]", ACTION_NAMES)]


@hookimpl
async def interpret_prompt(session: Session, text: str) -> Interpretation | None:
    """Interpret prompts that call an agent or contain the command ``/agents``."""
    agents: Agents | None = session.plugin(_load("agents").Agents)
    if agents is None or _load("authoring").prompts_are_literal():
        return None
    found: Interpretation | None = await _load("prompts").interpret(agents, text)
    return found
