"""What an agent can do, so that its prompt speaks only of that."""

from __future__ import annotations

import attrs
from hilum import Agent


@attrs.frozen
class Abilities:
    """What an agent can do.

    Attributes:
        edits: It can change files.
        runs_commands: It can run commands.
        sub_agent: Another agent started it and reads its result.
    """

    edits: bool = True
    runs_commands: bool = True
    sub_agent: bool = False


def abilities_of(agent: Agent) -> Abilities:
    """Return what an agent can do in its mode, under its policy and with its tool filter."""
    tools = {tool.name for tool in agent.tools()}
    return Abilities(
        edits=bool(tools & {"edit_file", "write_file"}),
        runs_commands="run_terminal_cmd" in tools,
        sub_agent=bool(agent.parent),
    )
