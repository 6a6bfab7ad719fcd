"""The parts of a request, each with its origin and its estimated size in tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec
from hilum import (
    AssistantMessage,
    Image,
    Message,
    NoteMessage,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    UserMessage,
    estimate,
)
from hilum.tokens import IMAGE

Kind = Literal[
    "layer",
    "definition",
    "prompt",
    "context",
    "answer",
    "call",
    "result",
    "note",
    "summary",
    "own request",
    "unknown",
]


class Origin(NamedTuple):
    """Where a part of a request comes from.

    Attributes:
        kind: The kind of part.
        plugin: The plugin that is responsible for the part; empty for the user, the model and the
            kernel; ``None`` if the log does not name it.
        tool: The tool that the part belongs to; empty if it belongs to none.
    """

    kind: Kind
    plugin: str | None = ""
    tool: str = ""


class Part(NamedTuple):
    """A part of a request.

    Attributes:
        origin: Where the part comes from.
        size: Its estimated number of tokens.
        call: Id of the call whose result the part is; empty for other parts.
    """

    origin: Origin
    size: int
    call: str = ""


UNKNOWN = Origin("unknown", None)
# The plugin whose tools come from servers of other authors, each of which is charged by itself.
MCP = "mcp"
_SERVER_END = "__"


def name_provider(plugin: str, tool: str) -> str:
    """Return who is charged for a tool: its plugin, or its MCP server as ``mcp SERVER``.

    The names of a server's tools begin with the name of the server.
    """
    server, end, _ = tool.partition(_SERVER_END)
    return f"{MCP} {server}" if plugin == MCP and end and server else plugin


class ToolPlugins:
    """The plugins of tools and of calls, as far as the log has named them."""

    def __init__(self) -> None:
        self._by_tool: dict[str, str] = {}
        self._by_call: dict[tuple[str, str], str] = {}

    def add_sources(self, sources: Mapping[str, str]) -> None:
        """Add the plugins of the tools in a prompt (see ``PromptFrozen.sources``)."""
        for name, plugin in sources.items():
            kind, _, tool = name.partition(" ")
            if kind == "tool":
                self._by_tool[tool] = name_provider(plugin, tool)

    def add_call(self, agent: str, call: ToolCall, plugin: str) -> None:
        """Add the plugin of a call that has started."""
        provider = name_provider(plugin, call.name)
        self._by_call[agent, call.id] = provider
        if provider:
            self._by_tool.setdefault(call.name, provider)

    def of_tool(self, tool: str) -> str | None:
        """Return the plugin of a tool; ``None`` if it is not known."""
        return self._by_tool.get(tool)

    def of_result(self, agent: str, result: ToolResult) -> str | None:
        """Return the plugin of the tool whose call has ended; ``None`` if it is not known."""
        plugin = self._by_call.pop((agent, result.call_id), None)
        return plugin or self.of_tool(result.name)


def layer_parts(
    layers: Iterable[tuple[str, str]], sources: Mapping[str, str], *, named: bool
) -> list[Part]:
    """Return the parts of a system prompt.

    Args:
        layers: The names and texts of its layers.
        sources: The plugins of the layers and tools.
        named: Whether ``sources`` is complete, so that a layer without a plugin is the kernel's.
    """
    parts = []
    for name, text in layers:
        plugin = sources.get(f"layer {name}", "" if named else None)
        parts.append(Part(Origin("layer", plugin), estimate(text)))
    return parts


def definition_parts(specs: Iterable[ToolSpec], plugins: ToolPlugins, *, named: bool) -> list[Part]:
    """Return the parts of a tool list; ``named`` is as for ``layer_parts``."""
    parts = []
    for spec in specs:
        plugin = plugins.of_tool(spec.name)
        if plugin is None and named:
            plugin = ""
        size = estimate(msgspec.json.encode(spec))
        parts.append(Part(Origin("definition", plugin, spec.name), size))
    return parts


def prompt_parts(parts: Iterable[Text | Image], gathered_by: Sequence[str] = ()) -> list[Part]:
    """Return the parts of a user's message.

    Args:
        parts: The parts of the message.
        gathered_by: The plugins that gathered the blocks of context, in order.
    """
    found = []
    names = iter(gathered_by)
    for part in parts:
        if isinstance(part, Image):
            found.append(Part(Origin("prompt"), IMAGE))
            continue
        origin = Origin("prompt")
        if part.source.startswith("context:"):
            origin = Origin("context", next(names, None))
        found.append(Part(origin, estimate(part.text)))
    return found


def answer_parts(message: AssistantMessage, plugins: ToolPlugins) -> list[Part]:
    """Return the parts of a model's response."""
    parts = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            origin = Origin("call", plugins.of_tool(part.name), part.name)
            parts.append(Part(origin, estimate(part.name) + estimate(part.arguments)))
        elif part.text:
            parts.append(Part(Origin("answer"), estimate(part.text)))
    return parts


def result_part(
    result: ToolResult, plugin: str | None, shortened: Mapping[str, str] | None = None
) -> Part:
    """Return the part of a request that is the result of a call.

    Args:
        result: The result.
        plugin: The plugin of the tool.
        shortened: Shorter texts for some results, by the id of the call.
    """
    text = (shortened or {}).get(result.call_id, result.text)
    images = sum(isinstance(part, Image) for part in result.parts)
    size = estimate(text) + images * IMAGE
    return Part(Origin("result", plugin, result.name), size, result.call_id)


def message_parts(message: Message, plugins: ToolPlugins) -> list[Part]:
    """Return the parts of a message with which an agent's conversation began."""
    if isinstance(message, UserMessage):
        return prompt_parts(message.parts)
    if isinstance(message, AssistantMessage):
        return answer_parts(message, plugins)
    if isinstance(message, ToolMessage):
        return [result_part(each, plugins.of_tool(each.name)) for each in message.results]
    assert isinstance(message, NoteMessage)
    return [Part(Origin("note", None), estimate(message.text))]
