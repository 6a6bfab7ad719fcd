"""The stable pair through which tools are reached that came after the tool list was sealed."""

from __future__ import annotations

from typing import Any

import msgspec

from hilum.messages import ToolCall
from hilum.tools import Call, Tool, tool


@tool(risk="read", effect="pure", timeout=5.0)
def find_tools(call: Call, query: str = "") -> str:
    """Find tools that are not in your list. Give words of what you need; nothing lists all. Use them with call_tool.

    Args:
        query: Words to look for in names and descriptions.
    """
    words = query.lower().split()
    found = []
    for known in call.agent.tools():
        if all(word in f"{known.name} {known.description}".lower() for word in words):
            spec = known.spec
            found.append(
                f"{spec.name}: {spec.description}\nparameters: {msgspec.json.encode(spec.parameters).decode()}"
            )
    return "\n\n".join(found) or "No tool fits. Try fewer words."


@tool(risk="read", effect="once")
def call_tool(name: str, arguments: dict[str, Any]) -> str:
    """Call a tool that find_tools has shown.

    Args:
        name: Name of the tool.
        arguments: Its arguments.
    """
    raise AssertionError("calls are unwrapped before they run")


PAIR: tuple[Tool, ...] = (find_tools, call_tool)


def unwrap(call: ToolCall) -> ToolCall:
    """Give the call that a ``call_tool`` stands for, under the same id; any other call as it is.

    Raises:
        ToolError: Its own arguments are invalid.
    """
    if call.name != call_tool.name:
        return call
    inner = call_tool.check(call.arguments)
    return ToolCall(call.id, inner["name"], msgspec.json.encode(inner["arguments"]).decode())
