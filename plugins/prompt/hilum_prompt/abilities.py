"""The abilities of an agent, which determine the contents of its prompt."""

from __future__ import annotations

import attrs
from hilum import Agent


@attrs.frozen
class Abilities:
    """The abilities of an agent.

    Attributes:
        edits: Whether the agent can change files.
        runs_commands: Whether the agent can run commands.
        sub_agent: Whether another agent started this one and reads its result.
    """

    edits: bool = True
    runs_commands: bool = True
    sub_agent: bool = False


def get_abilities(agent: Agent) -> Abilities:
    """Return what an agent can do in its mode, under its policy and with its tool filter."""
    # A tool may be filtered out by the mode, the policy or the agent's definition.
    tools = {tool.name for tool in agent.tools()}
    return Abilities(
        edits=bool(tools & {"edit_file", "write_file"}),
        runs_commands="run_terminal_cmd" in tools,
        sub_agent=bool(agent.parent),
    )
