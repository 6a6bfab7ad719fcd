"""Offers the session's agents as tools, so that a client's model sees the agents' descriptions."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import mcp_types as t
from hilum_agents import Agents

if TYPE_CHECKING:
    from hilum import Session

PREFIX = "agent_"
MAX_NAME = 64
INPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "prompt": {
            "type": "string",
            "minLength": 1,
            "description": (
                "The task. The agent does not see your conversation: include all it needs to know."
            ),
        }
    },
    "required": ["prompt"],
    "additionalProperties": False,
}
_TEXTS = {"type": "array", "items": {"type": "string"}}
OUTPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "status": {
            "type": "string",
            "description": "completed, partial_success, failed, stopped, timed_out",
        },
        "text": {"type": "string", "description": "The agent's answer."},
        "files_made": _TEXTS,
        "files_changed": _TEXTS,
        "files_deleted": _TEXTS,
        "done": _TEXTS,
        "not_done": _TEXTS,
        "turns": {"type": "integer"},
        "seconds": {"type": "number"},
    },
    "required": ["status", "text"],
}


class AgentTools:
    """The agents that are offered as tools.

    Args:
        session: The session.
        patterns: Names and patterns of the agents.
    """

    def __init__(self, session: Session, patterns: Sequence[str]) -> None:
        self._session = session
        self._patterns = patterns

    async def _offered(self) -> dict[str, tuple[str, str]]:
        """Return the agents' names and descriptions, by tool name."""
        agents = self._session.plugin(Agents)
        if agents is None or not self._patterns:
            return {}
        catalog = await agents.refresh()
        # If several agents have the same name, the first one takes precedence, so it is added last.
        descriptions = {
            entry.definition.name: entry.definition.description for entry in reversed(catalog.on())
        }
        return {
            f"{PREFIX}{name}"[:MAX_NAME]: (name, description)
            for name, description in sorted(descriptions.items())
            if any(fnmatchcase(name, pattern) for pattern in self._patterns)
        }

    async def find_agent(self, tool: str) -> str | None:
        """Return the name of the agent that a tool offers, or ``None`` for any other tool."""
        found = (await self._offered()).get(tool)
        return found[0] if found is not None else None

    async def list_tools(self) -> list[t.Tool]:
        """Return the agents as tools."""
        hints = t.ToolAnnotations(read_only_hint=False, idempotent_hint=False, open_world_hint=True)
        return [
            t.Tool(
                name=tool,
                title=f"Agent {name}",
                description=f"Let hilum's agent {name} work on a task. {description}".strip(),
                input_schema=INPUT_SCHEMA,
                output_schema=OUTPUT_SCHEMA,
                annotations=hints,
            )
            for tool, (name, description) in (await self._offered()).items()
        ]
