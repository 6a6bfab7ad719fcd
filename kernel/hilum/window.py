"""Measurement of what fills an agent's context window, for faces that show it.

The figures are the estimates, corrected by the provider's counts, that the kernel uses to decide
when to compact a conversation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from hilum.compaction import reserve, room
from hilum.messages import (
    AssistantMessage,
    Image,
    Layer,
    Message,
    NoteMessage,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hilum.prompt import encode_conversation, layers, specs
from hilum.tokens import IMAGE, TokenCalibrator, compute_text_stats, estimate, join

if TYPE_CHECKING:
    from hilum.agents import Agent
    from hilum.models import Model

Kind = Literal[
    "instructions", "tools", "prompts", "context", "answers", "calls", "results", "notes"
]


class WindowPart(msgspec.Struct, frozen=True):
    """A part of a request to the model.

    Attributes:
        kind: The kind of part; ``notes`` are reminders, changed rules and summaries.
        name: The name of the layer, the tool or the source of context; empty for other kinds.
        tokens: The estimated number of tokens.
    """

    kind: Kind
    name: str
    tokens: int


class WindowUse(msgspec.Struct, frozen=True):
    """A summary of what fills an agent's context window.

    Attributes:
        model: The name of the model, ``provider/name``.
        window: The size of the model's context window in tokens.
        reserved: Tokens that are reserved for the response.
        compact_at: Number of tokens in a request at which the conversation is compacted.
        parts: The parts of the next request, in order. Parts of the same kind and name are
            combined.
        counted: Whether the provider's counts correct the estimates.
    """

    model: str
    window: int
    reserved: int
    compact_at: int
    parts: tuple[WindowPart, ...]
    counted: bool = False

    @property
    def total(self) -> int:
        """The number of tokens in the next request."""
        return sum(part.tokens for part in self.parts)

    @property
    def free(self) -> int:
        """The number of tokens that can be added before the conversation is compacted."""
        return max(self.compact_at - self.total, 0)


async def measure_window(agent: Agent) -> WindowUse:
    """Return what fills an agent's context window.

    Before the first request, the result contains the instructions and tools that the request would
    contain.

    Raises:
        UsageError: The agent has no model that can be called.
    """
    router = agent.session.kernel.router
    await router.ready(agent)
    name = router.current(agent)
    model = router.model(name)
    calibrator = agent.conversation.calibrator(name)
    frozen = agent.conversation.frozen
    prompt: Sequence[Layer] = frozen.layers
    tools: Sequence[ToolSpec] = frozen.tools
    if not prompt and not tools:
        prompt = await layers(agent)
        tools = specs(agent)
    # The conversation is encoded after the last await, so that all figures are from the same
    # moment.
    encoded = encode_conversation(agent, model)
    head_size = compute_text_stats(model.wire.head(prompt, tools))
    total = calibrator.total(join(head_size, encoded.size))
    message_tokens = calibrator.tokens(encoded.size)
    fixed = max(total - message_tokens, 0)
    parts = _share(fixed, [*_layer_parts(prompt), *_tool_parts(tools)])
    for message, size in zip(agent.conversation.messages, encoded.sizes, strict=True):
        parts += _share(calibrator.tokens(size), list(_message_parts(message)))
    return _make_use(model, parts, fixed, calibrator)


def _make_use(
    model: Model, parts: Sequence[WindowPart], fixed: int, calibrator: TokenCalibrator
) -> WindowUse:
    info = model.info
    return WindowUse(
        info.name,
        info.window,
        reserve(info),
        fixed + room(info, fixed),
        tuple(_add_up(parts)),
        bool(calibrator.counted),
    )


def _layer_parts(prompt: Sequence[Layer]) -> Iterator[WindowPart]:
    for layer in prompt:
        yield WindowPart("instructions", layer.name, estimate(layer.text))


def _tool_parts(tools: Sequence[ToolSpec]) -> Iterator[WindowPart]:
    for tool in tools:
        yield WindowPart("tools", tool.name, estimate(msgspec.json.encode(tool)))


def _message_parts(message: Message) -> Iterator[WindowPart]:
    """Yield the parts of a message with uncorrected estimates."""
    if isinstance(message, NoteMessage):
        yield WindowPart("notes", "", estimate(message.text))
    elif isinstance(message, UserMessage):
        for part in message.parts:
            if part.source.startswith("context:"):
                source = part.source.removeprefix("context:")
                yield WindowPart("context", source, _estimate_part(part))
            else:
                yield WindowPart("prompts", "", _estimate_part(part))
    elif isinstance(message, ToolMessage):
        for result in message.results:
            tokens = sum(_estimate_part(part) for part in result.parts)
            yield WindowPart("results", result.name, tokens)
    else:
        yield from _answer_parts(message)


def _answer_parts(message: AssistantMessage) -> Iterator[WindowPart]:
    for part in message.parts:
        if isinstance(part, ToolCall):
            yield WindowPart("calls", part.name, estimate(part.arguments))
        else:
            yield WindowPart("answers", "", _estimate_part(part))


def _estimate_part(part: object) -> int:
    if isinstance(part, Image):
        return IMAGE
    if isinstance(part, Text | Thinking):
        return estimate(part.text)
    return 1


def _share(tokens: int, parts: Sequence[WindowPart]) -> list[WindowPart]:
    """Return parts whose estimates are scaled so that they add up to a total.

    The markup between the parts is thus distributed among them.
    """
    estimated = sum(part.tokens for part in parts)
    shared = []
    used = 0
    seen = 0
    for part in parts:
        seen += part.tokens
        # Running totals are rounded, not the parts, so that no token is lost.
        upto = tokens * seen // max(estimated, 1)
        shared.append(msgspec.structs.replace(part, tokens=upto - used))
        used = upto
    return shared


def _add_up(parts: Sequence[WindowPart]) -> Iterator[WindowPart]:
    """Yield one part for each kind and name, in order of first occurrence."""
    totals: dict[tuple[Kind, str], int] = {}
    for part in parts:
        key = (part.kind, part.name)
        totals[key] = totals.get(key, 0) + part.tokens
    for (kind, name), tokens in totals.items():
        yield WindowPart(kind, name, tokens)
