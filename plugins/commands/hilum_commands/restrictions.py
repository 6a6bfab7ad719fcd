"""The tools that a command allows during its run.

The restriction is a line at the beginning of the prompt. The model can read it, it is in the log
like the rest of the prompt, and it still holds after the session is resumed.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import trio
from hilum import Agent, Text, Tool, ToolCall, ToolFilter, UserMessage, Verdict, deny
from hilum.frontmatter import Document, split_tools

from hilum_commands.sources import Dialect

if TYPE_CHECKING:
    from hilum_agents import Permission

_LINE = re.compile(r"\[/(\S+) may use, besides tools that only read: (.*)\]\n")
NOTHING = "nothing"


class Restriction(NamedTuple):
    """What a command allows.

    Attributes:
        command: The name of the command.
        entries: The tools, as files name them: ``Edit``, ``Bash(git diff *)``.
    """

    command: str
    entries: tuple[str, ...]


def make_restriction_line(name: str, tools: Sequence[str], dialect: Dialect) -> str:
    """Return the line that restricts the run of a command.

    Args:
        name: The name of the command.
        tools: The tools that its file allows.
        dialect: The program whose tool names the file uses.
    """
    entries = [_rename(tool, dialect) for tool in tools]
    listed = ", ".join(" ".join(entry.split()) for entry in entries)
    return f"[/{name} may use, besides tools that only read: {listed or NOTHING}]\n"


def _rename(tool: str, dialect: Dialect) -> str:
    # In Copilot, `edit` stands for all tools that change files; elsewhere it is one tool.
    return "editFiles" if dialect == "copilot" and tool.casefold() == "edit" else tool


def find_restrictions(agent: Agent) -> Iterator[Restriction]:
    """Yield the restrictions of an agent's run, and of the agents that started the agent."""
    current: Agent | None = agent
    while current is not None:
        restriction = _read_request(current)
        if restriction is not None:
            yield restriction
        current = agent.session.agents.get(current.parent) if current.parent else None


def _read_request(agent: Agent) -> Restriction | None:
    conversation = agent.conversation
    index = conversation.request
    if conversation.run is None or index is None or index >= len(conversation.messages):
        return None
    request = conversation.messages[index]
    if not isinstance(request, UserMessage) or not request.parts:
        return None
    first = request.parts[0]
    # The line can only narrow what the run may do, so it does not matter who wrote it.
    match = _LINE.match(first.text) if isinstance(first, Text) else None
    if match is None:
        return None
    entries = () if match[2] == NOTHING else split_tools(match[2])
    return Restriction(match[1], tuple(entries))


def _is_of_user(agent: Agent, call: ToolCall) -> bool:
    """Return whether a call was judged for the user, who typed it, and is no call of the agent."""
    run = agent.conversation.run
    return call.id.startswith("judged") and (run is None or call.id not in run.calls)


async def judge_restricted_call(agent: Agent, call: ToolCall, tool: Tool) -> Verdict | None:
    """Return a denial if the command that began the run does not allow a call that is no reading."""
    if _is_of_user(agent, call):
        return None
    for restriction in find_restrictions(agent):
        reason = await _find_denial(restriction, agent, call, tool)
        if reason:
            return deny(reason)
    return None


async def _find_denial(restriction: Restriction, agent: Agent, call: ToolCall, tool: Tool) -> str:
    from hilum_agents.definitions.permissions import judge

    tools, permissions = _fit(restriction.entries)
    listed = ", ".join(restriction.entries) or NOTHING
    allowed = f"the command /{restriction.command} allows only {listed}, and reading."
    if not tools.admits(tool.name, tool.risk):
        return f"{tool.name} may not be used: {allowed}"
    workspace = agent.session.workspace
    verdict = await trio.to_thread.run_sync(
        judge, permissions, tool.name, call.arguments, workspace
    )
    return f"This call may not be made: {allowed}" if verdict is not None else ""


@functools.lru_cache(64)
def _fit(entries: tuple[str, ...]) -> tuple[ToolFilter, tuple[Permission, ...]]:
    """Return a tool filter and the permissions for the entries of a tool list."""
    from hilum_agents.definitions.fitting import fit_tools
    from hilum_agents.definitions.schema import PermissionRules

    document = Document({"tools": list(entries)}, "", 1)
    fitted = fit_tools(document, "hilum", PermissionRules(), lambda key, message: None)
    return fitted.tools, fitted.permissions
