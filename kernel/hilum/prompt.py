"""The prompt, which consists of layers and messages that are frozen and encoded once.

A prompt that was sent stays the same, byte for byte. If a layer or tool changes within a run, a
note is added at the end. The prompt itself is built again only for the next run, after a
compaction, or when the user switches the mode or the model.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from hilum.deferred_tools import ACCESS_TOOLS, access_tool_specs
from hilum.events import PromptFrozen, RoundEnded
from hilum.hooks import PluginFailure, is_failure
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
from hilum.tokens import NOTHING, TextStats, compute_text_stats, join, opaque

if TYPE_CHECKING:
    from hilum.agents import Agent

PartChange = Literal["added", "removed", "changed"]


class Note(NamedTuple):
    """A note for the model, and the plugin that it comes from; empty for a note of the kernel."""

    text: str
    plugin: str = ""


class EncodedConversation(msgspec.Struct):
    """The encoded pieces of one conversation in one wire format.

    The sizes of the pieces are estimated in tokens.
    """

    epoch: int
    frozen: PromptFrozen | None = None
    head: bytes = b""
    head_size: TextStats = NOTHING
    messages: list[bytes] = []
    sizes: list[TextStats] = []
    size: TextStats = NOTHING

    @property
    def total(self) -> TextStats:
        """Return the estimate for the whole request."""
        return join(self.head_size, self.size)


def encode_conversation(agent: Agent, model: Model) -> EncodedConversation:
    """Encode the pieces that are not encoded yet, and leave the others unchanged."""
    conversation = agent.conversation
    wire = model.wire
    known = agent.encoded.get(wire.key)
    # A compaction changes old messages, so nothing encoded before it can be reused.
    if known is None or known.epoch != conversation.epoch:
        agent.encoded.clear()
        known = agent.encoded[wire.key] = EncodedConversation(conversation.epoch)
    # The events are compared by identity, because each freezing creates a new event, and comparing
    # all texts would be slow.
    if known.frozen is not conversation.frozen:
        known.frozen = frozen = conversation.frozen
        known.head = wire.head(frozen.layers, frozen.tools)
        known.head_size = compute_text_stats(known.head)
    # Only new messages are encoded, because encoding all of them for each request would take
    # quadratic time.
    for message in conversation.messages[len(known.messages) :]:
        known.messages.append(wire.message(_without_forged_notes(message)))
        known.sizes.append(_size(known.messages[-1], message))
        known.size = join(known.size, known.sizes[-1])
    return known


def _without_forged_notes(message: Message) -> Message:
    """Return a message in the form in which it is sent, with note tags escaped.

    With this escaping, no text from outside hilum can contain a note.
    """
    if isinstance(message, UserMessage):
        return UserMessage(_escape_parts(message.parts))
    if isinstance(message, ToolMessage):
        results = [replace(result, parts=_escape_parts(result.parts)) for result in message.results]
        return ToolMessage(tuple(results))
    if isinstance(message, NoteMessage):  # quoted data must contain no note
        return NoteMessage(escape_notes(message.text))
    return message


def _escape_parts(parts: Iterable[Text | Image]) -> tuple[Text | Image, ...]:
    """Return the parts of a message with note tags escaped in their texts."""
    escaped: list[Text | Image] = []
    for part in parts:
        if isinstance(part, Text):
            part = Text(escape_notes(part.text), part.source)
        escaped.append(part)
    return tuple(escaped)


def _size(piece: bytes, message: Message) -> TextStats:
    """Estimate the tokens of an encoded message.

    Images, and fields that only the vendor can read, are counted separately from the text.
    """
    parts: list[Any] = []
    if isinstance(message, UserMessage | AssistantMessage):
        parts += message.parts
    elif isinstance(message, ToolMessage):
        for result in message.results:
            parts += result.parts
    images = [b64encode(part.data) for part in parts if isinstance(part, Image)]
    encrypted: list[bytes] = []
    for part in parts:
        encrypted += opaque(getattr(part, "vendor", {}))
    return compute_text_stats(piece, images, encrypted)


def request(agent: Agent, model: Model, attempt: int) -> Request:
    """Build the request for the next model call."""
    frozen = agent.conversation.frozen
    messages = agent.conversation.messages
    known = encode_conversation(agent, model)
    body = model.wire.body(known.head, known.messages)
    return Request(
        body, frozen.layers, frozen.tools, messages, agent.session.id, agent.name, attempt
    )


async def layers(agent: Agent) -> list[Layer]:
    """Collect the layers of all plugins; for a plugin that fails, use its last good layers."""
    return [layer for layer, _ in await layers_with_plugins(agent)]


async def layers_with_plugins(agent: Agent) -> list[tuple[Layer, str]]:
    """Collect the layers, each with its plugin; the name is empty for a layer of the kernel."""
    found = []
    plugins = []
    if agent.profile.prompt:
        found.append(Layer(5, "agent", agent.profile.prompt))
        plugins.append("")
    for plugin, value in await agent.session.hooks.gather("build_prompt_layer", agent=agent):
        if not isinstance(value, PluginFailure):
            agent.good_layers[plugin] = (value,) if isinstance(value, Layer) else tuple(value)
        good = agent.good_layers.get(plugin, ())
        found += good
        plugins += [plugin] * len(good)
    # A layer may quote a file or a server, so its text must not contain a note.
    escaped = [escape_notes(layer.text) for layer in found]
    # Secrets are replaced here and not only in the log, because the layers are compared with the
    # frozen layers.
    texts = await agent.session.redaction.texts(escaped)
    found = [replace(layer, text=text) for layer, text in zip(found, texts, strict=True)]
    # Sorting is stable, so layers of the same rank keep the order of their plugins, and the
    # prompt's bytes do not change.
    return sorted(zip(found, plugins, strict=True), key=lambda pair: pair[0].rank)


def specs(agent: Agent) -> list[ToolSpec]:
    """Return the agent's tool list as a model sees it.

    A tool that cannot be described is removed from the session.

    The list does not contain deferred tools. ``find_tools`` lists deferred tools, and ``call_tool``
    calls them.
    """
    listed = []
    deferred = []
    for tool in agent.tools():
        try:
            if tool.is_deferred(agent):
                # Tools of other systems come and go, which would change the list. The plugin that
                # connects such tools lists them in a layer instead.
                if tool.schema is None:
                    deferred.append(tool.name)
            else:
                listed.append(tool.spec)
        except BaseException as error:
            if not is_failure(error):
                raise
            agent.session.hooks.report(PluginFailure(tool.plugin, f"tool {tool.name}", error))
            # The tool would fail again at every request.
            del agent.session.tools[tool.name]
    if deferred or agent.session.expects_deferred_tools:
        listed += access_tool_specs(deferred)
    return listed


async def freeze_prompt(
    agent: Agent, cause: Literal["run", "compaction", "mode", "model"], model: str
) -> PromptFrozen:
    """Build the system prompt and the tool list again."""
    built_with_plugins = await layers_with_plugins(agent)
    built = tuple(layer for layer, _ in built_with_plugins)
    tools = tuple(specs(agent))
    sources = {f"layer {layer.name}": plugin for layer, plugin in built_with_plugins if plugin}
    for spec in tools:
        tool = agent.session.tools.get(spec.name)
        if tool is not None and tool.plugin:
            sources[f"tool {spec.name}"] = tool.plugin
    old = agent.conversation.frozen
    mode = agent.mode.name
    if cause == "run" and old.model:
        if old.model != model:
            cause = "model"
        elif old.mode != mode:
            cause = "mode"
    frozen = PromptFrozen(
        layers=built,
        tools=tools,
        cause=cause,
        mode=mode,
        model=model,
        sources=sources,
    )
    # A large prompt is searched for secrets in a thread here, so that writing the event does not
    # block.
    await agent.session.redaction.prepare(frozen)
    if not old.layers and not old.tools:
        return frozen
    # What was sent before contains no secrets, so the new prompt is compared without them, too.
    sent = agent.session.redaction.event(frozen)
    return replace(frozen, changed=tuple(compare_prompts(old, sent)))


def compare_prompts(old: PromptFrozen, new: PromptFrozen) -> dict[str, PartChange]:
    """Return how the parts of a prompt differ from the previous prompt, as models receive them.

    Returns:
        What happened to each layer and tool that differs, by the names in
        ``PromptFrozen.changed``. The names ``order of layers`` and ``order of tools`` stand for
        another order of those that both prompts have.
    """
    changes: dict[str, PartChange] = {}
    orders: dict[str, PartChange] = {}
    groups = (
        ("layer", _encode_layers(old.layers), _encode_layers(new.layers)),
        ("tool", _encode_tools(old.tools), _encode_tools(new.tools)),
    )
    for kind, before, after in groups:
        for name in before | after:
            if name not in before:
                changes[f"{kind} {name}"] = "added"
            elif name not in after:
                changes[f"{kind} {name}"] = "removed"
            elif before[name] != after[name]:
                changes[f"{kind} {name}"] = "changed"
        common = [name for name in before if name in after]
        if common != [name for name in after if name in before]:
            orders[f"order of {kind}s"] = "changed"
    return changes | orders


def _encode_layers(layers: Iterable[Layer]) -> dict[str, list[str]]:
    """Return the texts of layers by name. Only texts are sent, and only if they are not empty."""
    texts: dict[str, list[str]] = {}
    for layer in layers:
        if layer.text:
            texts.setdefault(layer.name, []).append(layer.text)
    return texts


def _encode_tools(tools: Iterable[ToolSpec]) -> dict[str, bytes]:
    """Return tools by name as they are sent.

    The values are compared in their encoded form. In a log, the tuples of a schema have become
    lists; and the order of its keys, which a comparison of objects ignores, is part of what the
    provider has cached.
    """
    return {tool.name: msgspec.json.encode(tool) for tool in tools}


async def round_end(agent: Agent, notes: Sequence[Note], objected: bool = False) -> RoundEnded:
    """Close a round: add notes about layers and tools that changed since the last round."""
    conversation = agent.conversation
    all_notes = [*notes]
    # After a change of mode, the prompt is built again before the next request.
    if conversation.frozen.mode != agent.mode.name:
        return _round_ended(all_notes, objected=objected)
    changed = await _changed_layers(agent)
    for layer, plugin in changed:
        change = f"now reads:\n{layer.text}" if layer.text else "no longer holds."
        text = f"Your instructions changed. The part {layer.name!r} {change}"
        all_notes.append(Note(text, plugin))
    available = {spec.name: spec for spec in specs(agent)}
    gone = sorted(conversation.tools - available.keys())
    new = sorted(available.keys() - conversation.tools)
    all_notes += map(Note, _tool_notes(agent, gone, [available[name] for name in new]))
    tools = tuple(sorted(available)) if gone or new else None
    layers = tuple(layer for layer, _ in changed)
    return replace(_round_ended(all_notes, objected=objected), layers=layers, tools=tools)


def _round_ended(notes: Sequence[Note], *, objected: bool) -> RoundEnded:
    """Return the event for the end of a round with notes."""
    noted_by = tuple(note.plugin for note in notes)
    return RoundEnded(
        notes=tuple(note.text for note in notes),
        objected=objected,
        # Most notes are the kernel's own.
        noted_by=noted_by if any(noted_by) else (),
    )


async def _changed_layers(agent: Agent) -> list[tuple[Layer, str]]:
    """Return the layers that differ from what the model has read, each with its plugin.

    A removed layer is empty.
    """
    conversation = agent.conversation
    told = {layer.name: layer.text for layer in conversation.frozen.layers} | conversation.told
    now = {layer.name: (layer, plugin) for layer, plugin in await layers_with_plugins(agent)}
    changed = []
    for name, (layer, plugin) in now.items():
        if told.get(name, "") != layer.text:
            changed.append((layer, plugin))
    removed = [name for name, text in told.items() if text and name not in now]
    return changed + [(Layer(0, name, ""), "") for name in removed]


def _tool_notes(agent: Agent, gone: Sequence[str], new: Sequence[ToolSpec]) -> Iterator[str]:
    """Yield the notes about removed and added tools."""
    usable = {tool.name for tool in agent.tools()}
    # A tool that has become deferred can still be called, so it is not reported as removed.
    lost = [name for name in gone if name not in usable | ACCESS_TOOLS.keys()]
    if lost:
        yield f"No longer available, do not call: {', '.join(lost)}."
    told_of = [spec for spec in new if spec.name not in ACCESS_TOOLS]
    if not told_of:
        return
    if ACCESS_TOOLS.keys() & {spec.name for spec in agent.conversation.frozen.tools}:
        signatures = "; ".join(_signature(spec) for spec in told_of)
        yield f"New tools, to be called through call_tool: {signatures}."
    else:
        names = ", ".join(spec.name for spec in told_of)
        yield f"New tools: {names}. They come with the next prompt."


def _signature(spec: ToolSpec) -> str:
    """Return a tool's name with its parameters; optional parameters are marked with ``?``."""
    required = spec.parameters.get("required", ())
    names = []
    for name in spec.parameters.get("properties", {}):
        names.append(name if name in required else f"{name}?")
    return f"{spec.name}({', '.join(names)})"
