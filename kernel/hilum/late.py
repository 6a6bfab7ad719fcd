"""The stable pair of tools through which deferred tools are reached: those that are not in the tool
list.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import trio

from hilum.errors import ToolError
from hilum.messages import ToolCall, ToolSpec
from hilum.tools import Call, Tool, tool

MAX_DESCRIBED = 8
MAX_NAMED = 60


@tool(risk="read", effect="pure", timeout=60.0)
async def find_tools(call: Call, query: str = "") -> str:
    """Show how tools that are not in your list are called, best match first. Then use call_tool.

    Args:
        query: Words from names or descriptions; all tools without.
    """
    agent = call.agent
    coming = agent.session.coming
    if coming is not None:
        with trio.move_on_after(30):
            await coming.wait()
    words = query.lower().split()
    found = []
    for each in agent.tools():
        text = f"{each.name} {each.description}".lower()
        score = sum(word in text for word in words)
        if score or not words:
            found.append((not each.is_deferred(agent), -score, each))
    best = [each.spec for _, _, each in sorted(found, key=lambda entry: entry[:2])]
    described = [_describe(spec) for spec in best[:MAX_DESCRIBED]]
    if len(best) > MAX_DESCRIBED:
        described.append(f"Also: {', '.join(spec.name for spec in best[MAX_DESCRIBED:])}.")
    return "\n\n".join(described) or "No tool fits. Try other words."


def _describe(spec: ToolSpec) -> str:
    return (
        f"{spec.name}: {spec.description}\nparameters:"
        f" {msgspec.json.encode(spec.parameters).decode()}"
    )


@tool(risk="read", effect="once")
def call_tool(name: str, arguments: dict[str, Any]) -> str:
    """Call a tool that is not in your list.

    Args:
        name: Its name.
        arguments: Its arguments, as find_tools shows them.
    """
    raise AssertionError("calls are unwrapped before they run")


PAIR: dict[str, Tool] = {find_tools.name: find_tools, call_tool.name: call_tool}


def pair_specs(deferred: Sequence[str]) -> list[ToolSpec]:
    """Return the pair as a model sees it; ``find_tools`` names the deferred tools.

    Args:
        deferred: Names of the tools that are not in the tool list.
    """
    names = list(deferred[:MAX_NAMED])
    if len(deferred) > MAX_NAMED:
        names.append(f"{len(deferred) - MAX_NAMED} more")
    found = find_tools.spec
    if names:
        found = msgspec.structs.replace(
            found, description=f"{found.description}\n\nThere are: {', '.join(names)}."
        )
    return [found, call_tool.spec]


def unwrap(call: ToolCall) -> ToolCall:
    """Return the call that a ``call_tool`` stands for, under the same id; any other call as it is.

    Raises:
        ToolError: Its own arguments are invalid, or it stands for another ``call_tool``.
    """
    if call.name != call_tool.name:
        return call
    inner = call_tool.check(call.arguments)
    if inner["name"] in PAIR:
        problem = f"{inner['name']} is in your list, and call_tool calls only tools that are not."
        raise ToolError(problem, code="E_BAD_ARGS", hint="Call it itself.")
    return ToolCall(call.id, inner["name"], msgspec.json.encode(inner["arguments"]).decode())


def wrap(outer: ToolCall, inner: ToolCall) -> ToolCall:
    """Return the call as its model would have written it to have ``inner`` run: the reverse of
    ``unwrap``.
    """
    if outer.name != call_tool.name:
        return inner
    arguments = {"name": inner.name, "arguments": msgspec.Raw(inner.arguments.encode() or b"{}")}
    return ToolCall(outer.id, outer.name, msgspec.json.encode(arguments).decode(), outer.vendor)
