"""The agents of the session as tools: one each, so that a client's model reads what each is for."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import mcp_types as t
from hilum_agents import Agents

if TYPE_CHECKING:
    from hilum import Session

PREFIX = "agent_"
LONGEST = 64
INPUT = {
    "type": "object",
    "properties": {
        "prompt": {
            "type": "string",
            "minLength": 1,
            "description": (
                "What it is to do. It sees nothing of your conversation: say all it must know."
            ),
        }
    },
    "required": ["prompt"],
    "additionalProperties": False,
}
_LIST = {"type": "array", "items": {"type": "string"}}
OUTPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "status": {
            "type": "string",
            "description": "completed, partial_success, failed, stopped, timed_out",
        },
        "text": {"type": "string", "description": "What it said."},
        "files_made": _LIST,
        "files_changed": _LIST,
        "files_deleted": _LIST,
        "done": _LIST,
        "not_done": _LIST,
        "turns": {"type": "integer"},
        "seconds": {"type": "number"},
    },
    "required": ["status", "text"],
}


class AgentTools:
    """See the module.

    Args:
        session: The session.
        patterns: Names and patterns of agents to offer.
    """

    def __init__(self, session: Session, patterns: Sequence[str]) -> None:
        self._session = session
        self._patterns = patterns

    async def _offered(self) -> dict[str, tuple[str, str]]:
        """Return name and description of the agents by the name of their tool."""
        agents = self._session.half(Agents)
        if agents is None or not self._patterns:
            return {}
        catalog = await agents.refresh()
        named = {
            entry.definition.name: entry.definition.description for entry in reversed(catalog.on())
        }
        return {
            f"{PREFIX}{name}"[:LONGEST]: (name, about)
            for name, about in sorted(named.items())
            if any(fnmatchcase(name, pattern) for pattern in self._patterns)
        }

    async def find(self, tool: str) -> str | None:
        """Return the agent that a tool stands for, ``None`` if it stands for none."""
        found = (await self._offered()).get(tool)
        return found[0] if found is not None else None

    async def tools(self) -> list[t.Tool]:
        """Describe the tools."""
        hints = t.ToolAnnotations(read_only_hint=False, idempotent_hint=False, open_world_hint=True)
        return [
            t.Tool(
                name=tool,
                title=f"Agent {name}",
                description=f"Have hilum's agent {name} work on a task on its own. {about}".strip(),
                input_schema=INPUT,
                output_schema=OUTPUT,
                annotations=hints,
            )
            for tool, (name, about) in (await self._offered()).items()
        ]
