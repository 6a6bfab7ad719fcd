"""The prompt: layers and messages, sealed and encoded once.

What was sent stays byte for byte. Within a run a changed layer or tool becomes a note at the tail;
the prompt itself is built anew only at the next run, at a trim, or when mode or model is switched.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from hilum_hooks import Fault, is_failure
from hilum_tokens import NOTHING, Size, join, opaque, weigh

from hilum.events import LayersSealed, RoundEnded
from hilum.late import PAIR, pair_specs
from hilum.messages import (
    AssistantMessage,
    Image,
    Layer,
    Message,
    NoteMessage,
    Text,
    ToolMessage,
    ToolSpec,
    UserMessage,
    escape_notes,
)
from hilum.models import Model, Request

if TYPE_CHECKING:
    from hilum.agents import Agent


class Pieces(msgspec.Struct):
    """The encoded pieces of one conversation in one wire format, and what they take by estimate, in
    tokens.
    """

    epoch: int
    sealed: LayersSealed | None = None
    head: bytes = b""
    head_size: Size = NOTHING
    messages: list[bytes] = msgspec.field(default_factory=list)
    sizes: list[Size] = msgspec.field(default_factory=list)
    size: Size = NOTHING

    @property
    def total(self) -> Size:
        """What the whole request takes."""
        return join(self.head_size, self.size)


def pieces(agent: Agent, model: Model) -> Pieces:
    """Encode what is not encoded yet; the past is left as it is."""
    conversation = agent.conversation
    wire = model.wire
    known = agent.pieces.get(wire.key)
    if known is None or known.epoch != conversation.epoch:
        agent.pieces.clear()
        known = agent.pieces[wire.key] = Pieces(conversation.epoch)
    if known.sealed is not conversation.sealed:
        known.sealed = sealed = conversation.sealed
        known.head = wire.head(sealed.layers, sealed.tools)
        known.head_size = weigh(known.head)
    for message in conversation.messages[len(known.messages) :]:
        known.messages.append(wire.message(_without_forged_notes(message)))
        known.sizes.append(_size(known.messages[-1], message))
        known.size = join(known.size, known.sizes[-1])
    return known


def _without_forged_notes(message: Message) -> Message:
    """Return a message as it is sent: whatever came from outside the program holds no tag of a
    note.
    """
    if isinstance(message, UserMessage):
        return UserMessage(_escape_parts(message.parts))
    if isinstance(message, ToolMessage):
        results = [
            msgspec.structs.replace(result, parts=_escape_parts(result.parts))
            for result in message.results
        ]
        return ToolMessage(tuple(results))
    if isinstance(message, NoteMessage):  # a note that quotes data holds no other note
        return NoteMessage(escape_notes(message.text))
    return message


def _escape_parts(parts: Iterable[Text | Image]) -> tuple[Text | Image, ...]:
    return tuple(
        Text(escape_notes(part.text), part.source) if isinstance(part, Text) else part
        for part in parts
    )


def _size(piece: bytes, message: Message) -> Size:
    """Estimate an encoded message, its images and what only its vendor can read apart from its
    text.
    """
    parts: Iterable[Any] = (
        message.parts if isinstance(message, UserMessage | AssistantMessage) else ()
    )
    if isinstance(message, ToolMessage):
        parts = [part for result in message.results for part in result.parts]
    images = [b64encode(part.data) for part in parts if isinstance(part, Image)]
    return weigh(
        piece, images, [text for part in parts for text in opaque(getattr(part, "vendor", {}))]
    )


def request(agent: Agent, model: Model, attempt: int) -> Request:
    """Build the request for the next model call."""
    sealed = agent.conversation.sealed
    messages = agent.conversation.messages
    known = pieces(agent, model)
    body = model.wire.body(known.head, known.messages)
    return Request(
        body, sealed.layers, sealed.tools, messages, agent.session.id, agent.name, attempt
    )


async def layers(agent: Agent) -> list[Layer]:
    """Ask all plugins for their layers; a plugin that fails keeps its last good ones."""
    found = [Layer(5, "agent", agent.profile.prompt)] if agent.profile.prompt else []
    for plugin, value in await agent.session.hooks.gather("build_prompt_layer", agent=agent):
        if not isinstance(value, Fault):
            agent.good_layers[plugin] = (value,) if isinstance(value, Layer) else tuple(value)
        found += agent.good_layers.get(plugin, ())
    # A layer may quote a file or a server: no more than any other data can it hold a note.
    found = [msgspec.structs.replace(layer, text=escape_notes(layer.text)) for layer in found]
    # Here and not only when they are logged: they are compared with those that were sealed.
    texts = await agent.session.redaction.texts([layer.text for layer in found])
    found = [
        msgspec.structs.replace(layer, text=text) for layer, text in zip(found, texts, strict=True)
    ]
    return sorted(found, key=lambda layer: layer.rank)


def specs(agent: Agent) -> list[ToolSpec]:
    """Return the agent's tool list as a model sees it.

    A tool that cannot be described is taken out of the session.

    Deferred tools are not in it. ``find_tools`` names them, and they are reached through it and
    ``call_tool``.
    """
    listed = []
    deferred = []
    for tool in agent.tools():
        try:
            if tool.is_deferred(agent):
                # Tools of other systems come and go, and would change the list with them; their
                # plugin names them in a layer.
                if tool.schema is None:
                    deferred.append(tool.name)
            else:
                listed.append(tool.spec)
        except BaseException as error:
            if not is_failure(error):
                raise
            agent.session.hooks.report(Fault(tool.plugin, f"tool {tool.name}", error))
            del agent.session.tools[tool.name]
    if deferred or agent.session.expects_tools:
        listed += pair_specs(deferred)
    return listed


async def seal(
    agent: Agent, cause: Literal["run", "trim", "mode", "model"], model: str
) -> LayersSealed:
    """Build the system prompt and the tool list anew."""
    built = tuple(await layers(agent))
    tools = tuple(specs(agent))
    old = agent.conversation.sealed
    was = _named(old.layers, old.tools)
    now = _named(built, tools)
    changed = tuple(name for name in was | now if was and was.get(name) != now.get(name))
    mode = agent.mode.name
    if cause == "run" and old.model:
        cause = "model" if old.model != model else "mode" if old.mode != mode else "run"
    sealed = LayersSealed(
        layers=built, tools=tools, cause=cause, mode=mode, model=model, changed=changed
    )
    await agent.session.redaction.prepare(sealed)
    return sealed


def _named(layers: Iterable[Layer], tools: Iterable[ToolSpec]) -> dict[str, object]:
    return {f"layer {layer.name}": layer for layer in layers} | {
        f"tool {tool.name}": tool for tool in tools
    }


async def round_end(agent: Agent, notes: list[str], objected: bool = False) -> RoundEnded:
    """Close a round: add to its notes what changed in layers and tools since it was last told."""
    sealed = agent.conversation.sealed
    conversation = agent.conversation
    if sealed.mode != agent.mode.name:  # the prompt is built anew before the next request
        return RoundEnded(notes=tuple(notes), objected=objected)
    told = {layer.name: layer.text for layer in sealed.layers} | conversation.told
    now = {layer.name: layer for layer in await layers(agent)}
    changed = [layer for name, layer in now.items() if told.get(name, "") != layer.text]
    changed += [Layer(0, name, "") for name, text in told.items() if text and name not in now]
    for layer in changed:
        now_reads = f"now reads:\n{layer.text}" if layer.text else "no longer holds."
        notes.append(f"Your instructions changed. The part {layer.name!r} {now_reads}")
    available = {spec.name: spec for spec in specs(agent)}
    usable = {tool.name for tool in agent.tools()}
    gone = sorted(conversation.tools - available.keys())
    # A tool that is deferred again can still be reached: there is nothing to withdraw.
    lost = [name for name in gone if name not in usable and name not in PAIR]
    if lost:
        notes.append(f"No longer available, do not call: {', '.join(lost)}.")
    new = sorted(available.keys() - conversation.tools)
    told_of = [name for name in new if name not in PAIR]
    if told_of:
        if PAIR.keys() & {spec.name for spec in sealed.tools}:
            signatures = "; ".join(_signature(available[name]) for name in told_of)
            notes.append(f"New tools, to be called through call_tool: {signatures}.")
        else:
            notes.append(f"New tools: {', '.join(told_of)}. They come with the next prompt.")
    tools = tuple(sorted(available)) if gone or new else None
    return RoundEnded(notes=tuple(notes), layers=tuple(changed), tools=tools, objected=objected)


def _signature(spec: ToolSpec) -> str:
    """Return a tool's name with its parameters, those that may be left out marked with ``?``."""
    required = spec.parameters.get("required", ())
    names = [
        name if name in required else f"{name}?" for name in spec.parameters.get("properties", {})
    ]
    return f"{spec.name}({', '.join(names)})"
