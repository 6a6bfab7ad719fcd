"""The two tools through which the model reaches deferred tools.

Deferred tools are not in the tool list; these two tools are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import trio
from msgspec.structs import replace

from hilum.arguments import encode_arguments
from hilum.errors import ToolError
from hilum.messages import ToolCall, ToolSpec
from hilum.tools import Call, Tool, tool

MAX_DESCRIBED = 8
MAX_NAMED = 60


@tool(risk="read", effect="pure", timeout=60.0)
async def find_tools(call: Call, query: str = "") -> str:
    """Show how tools that are not in your list are called, best match first. Then use call_tool.

    Args:
        query: Words from names or descriptions; empty for all tools.
    """
    agent = call.agent
    ready = agent.session.deferred_tools_ready
    if ready is not None:
        # After half of this tool's time limit, only the tools that are known so far are searched.
        with trio.move_on_after(30):
            await ready.wait()
    words = query.lower().split()
    found = []
    for each in agent.tools():
        text = f"{each.name} {each.description}".lower()
        score = sum(word in text for word in words)
        if score or not words:
            # Deferred tools come first: the model already has the schemas of the others.
            found.append((not each.is_deferred(agent), -score, each))
    best = [each.spec for _, _, each in sorted(found, key=lambda entry: entry[:2])]
    described = [_describe(spec) for spec in best[:MAX_DESCRIBED]]
    if len(best) > MAX_DESCRIBED:
        described.append(f"Also: {', '.join(spec.name for spec in best[MAX_DESCRIBED:])}.")
    return "\n\n".join(described) or "No tool fits. Try other words."


def _describe(spec: ToolSpec) -> str:
    """Describe to the model how a tool is called."""
    parameters = encode_arguments(spec.parameters)
    return f"{spec.name}: {spec.description}\nparameters: {parameters}"


@tool(risk="read", effect="once")
def call_tool(name: str, arguments: dict[str, Any]) -> str:
    """Call a tool that is not in your list.

    Args:
        name: Its name.
        arguments: Its arguments, as find_tools shows them.
    """
    raise AssertionError("calls are unwrapped before they run")


ACCESS_TOOLS: dict[str, Tool] = {find_tools.name: find_tools, call_tool.name: call_tool}


def access_tool_specs(deferred: Sequence[str]) -> list[ToolSpec]:
    """Return both tools as a model sees them; ``find_tools`` lists the deferred tools.

    Args:
        deferred: Names of the tools that are not in the tool list.
    """
    names = list(deferred[:MAX_NAMED])
    if len(deferred) > MAX_NAMED:
        names.append(f"{len(deferred) - MAX_NAMED} more")
    found = find_tools.spec
    if names:
        found = replace(found, description=f"{found.description}\n\nThere are: {', '.join(names)}.")
    return [found, call_tool.spec]


def unwrap(call: ToolCall) -> ToolCall:
    """Return the call inside a ``call_tool`` call, with the same id; return other calls unchanged.

    Raises:
        ToolError: The arguments of ``call_tool`` are invalid, or the inner call is to ``call_tool``
            or ``find_tools``.
    """
    if call.name != call_tool.name:
        return call
    inner = call_tool.check(call.arguments)
    # Only one level is unwrapped: gates would judge a nested call under the name call_tool.
    if inner["name"] in ACCESS_TOOLS:
        problem = f"{inner['name']} is in your tool list; call_tool is only for tools that are not."
        raise ToolError(problem, code="E_BAD_ARGS", hint="Call it directly.")
    return ToolCall(call.id, inner["name"], encode_arguments(inner["arguments"]))


def wrap(outer: ToolCall, inner: ToolCall) -> ToolCall:
    """Return the ``call_tool`` call that a model would write to run ``inner``.

    The function reverses ``unwrap``.
    """
    if outer.name != call_tool.name:
        return inner
    # Raw keeps the exact text of the arguments that the gates judged.
    arguments = {"name": inner.name, "arguments": msgspec.Raw(inner.arguments.encode() or b"{}")}
    return ToolCall(outer.id, outer.name, encode_arguments(arguments), outer.vendor)
