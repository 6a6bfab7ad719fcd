"""The stable pair through which tools are reached that came after the tool list was sealed."""

from __future__ import annotations

from typing import Any

import msgspec
import trio

from hilum.messages import ToolCall
from hilum.tools import Call, Tool, tool


@tool(risk="read", effect="pure", timeout=60.0)
async def find_tools(call: Call, query: str = "") -> str:
    """Find tools that are not in your list, best first. Give words of what you need; none lists all. Use them with call_tool.

    Args:
        query: Words to look for in names and descriptions.
    """
    if (coming := call.agent.session.coming) is not None:
        with trio.move_on_after(30):
            await coming.wait()
    words = query.lower().split()
    found = [(not t.late, -sum(w in f"{t.name} {t.description}".lower() for w in words), t) for t in call.agent.tools()]
    best = [t.spec for _, score, t in sorted(found, key=lambda each: each[:2]) if score or not words]
    told = [f"{s.name}: {s.description}\nparameters: {msgspec.json.encode(s.parameters).decode()}" for s in best[:8]]
    told += [f"Also: {', '.join(s.name for s in best[8:])}."] * (len(best) > 8)
    return "\n\n".join(told) or "No tool fits. Try other words."


@tool(risk="read", effect="once")
def call_tool(name: str, arguments: dict[str, Any]) -> str:
    """Call a tool that find_tools has shown.

    Args:
        name: Name of the tool.
        arguments: Its arguments.
    """
    raise AssertionError("calls are unwrapped before they run")


PAIR: dict[str, Tool] = {find_tools.name: find_tools, call_tool.name: call_tool}


def unwrap(call: ToolCall) -> ToolCall:
    """Give the call that a ``call_tool`` stands for, under the same id; any other call as it is.

    Raises:
        ToolError: Its own arguments are invalid.
    """
    if call.name != call_tool.name:
        return call
    inner = call_tool.check(call.arguments)
    return ToolCall(call.id, inner["name"], msgspec.json.encode(inner["arguments"]).decode())
