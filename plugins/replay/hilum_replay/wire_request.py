"""Requests in all four formats, as vendor-neutral data.

Only the parts that are accessed are decoded: a long history is split into items, which remain
bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any

import attrs
import msgspec
from hilum.errors import ModelError
from hilum.messages import (
    AssistantMessage,
    Message,
    NoteMessage,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    UserMessage,
)

from hilum_replay.cassette import Sent, compute_digest
from hilum_replay.matching import RequestDelta
from hilum_replay.request_parsers import PARSERS, Parsed, Part, join_texts

_NULL = msgspec.Raw(b"null")


# One struct serves all formats: fields that a format lacks keep their defaults, and the bytes of
# inner fields are not examined.
class _Envelope(msgspec.Struct):
    """The outer fields of all formats; inner fields are not decoded."""

    model: str = ""
    stream: bool = False
    messages: list[msgspec.Raw] = []
    input: msgspec.Raw = msgspec.Raw(b"[]")
    contents: list[msgspec.Raw] = []
    system: msgspec.Raw = _NULL
    instructions: str | None = None
    tools: list[msgspec.Raw] = []
    # Gemini accepts both spellings.
    system_instruction: msgspec.Raw = _NULL
    systemInstruction: msgspec.Raw = _NULL


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode = msgspec.json.Decoder().decode


@attrs.define(slots=False, eq=False)
class WireRequest:
    """A request received over HTTP.

    Attributes:
        api: ``chat``, ``responses``, ``anthropic`` or ``gemini``.
        path: Path and query.
        headers: Headers, with names in lower case.
        body: The body as received.
        number: Number of the request to the server, starting at 1.
    """

    api: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    number: int = 1

    @cached_property
    def _envelope(self) -> _Envelope:
        try:
            return _decode_envelope(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _invalid(str(error)) from None

    @cached_property
    def _items(self) -> Sequence[msgspec.Raw]:
        envelope = self._envelope
        if self.api == "gemini":
            return envelope.contents
        if self.api != "responses":
            return envelope.messages
        value = bytes(envelope.input)
        if value.startswith(b'"'):
            # The input may be text instead of a list.
            return [msgspec.Raw(b'{"role":"user","content":' + value + b"}")]
        return msgspec.json.decode(value, type=list[msgspec.Raw])

    def _parse(self, raw: msgspec.Raw) -> Parsed:
        item = _decode(raw)
        if not isinstance(item, dict):
            raise _invalid("a message is not an object")
        return PARSERS[self.api](item)

    @property
    def model(self) -> str:
        """Name of the requested model."""
        # In Gemini's format, the model's name is in the path.
        if self.api != "gemini":
            return self._envelope.model
        path = self.path.split("?")[0]
        return path.rpartition("/models/")[2].partition(":")[0]

    @property
    def stream(self) -> bool:
        """Whether the request requires a stream."""
        if self.api == "gemini":
            return "streamGenerateContent" in self.path
        return self._envelope.stream

    @cached_property
    def system(self) -> str:
        """The system prompt."""
        envelope = self._envelope
        if self.api == "anthropic":
            return join_texts(_decode(envelope.system))
        if self.api == "gemini":
            content = _decode(envelope.systemInstruction) or _decode(envelope.system_instruction)
            return join_texts((content or {}).get("parts"))
        texts = [envelope.instructions] if envelope.instructions else []
        for raw in self._items:
            parsed = self._parse(raw)
            if not isinstance(parsed, str):
                break
            texts.append(parsed)
        return "\n\n".join(texts)

    @cached_property
    def tools(self) -> tuple[str, ...]:
        """Names of the tools in the request."""
        return tuple(spec.name for spec in self.tool_specs)

    @cached_property
    def tool_specs(self) -> tuple[ToolSpec, ...]:
        """The tools in the request, with their descriptions and parameters."""
        specs: list[ToolSpec] = []
        for raw in self._envelope.tools:
            item = _decode(raw)
            declared = item.get("functionDeclarations") or item.get("function_declarations")
            if declared is None:
                declared = [item.get("function") or item]
            specs += map(_read_tool_spec, declared)
        return tuple(specs)

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """The whole conversation.

        Notes are recognized by the tag that hilum's gateways put around them.
        """
        parsed = [self._parse(raw) for raw in self._items]
        content = [part for item in parsed if not isinstance(item, str) for part in item]
        names = {part.id: part.name for part in content if isinstance(part, ToolCall)}
        messages: list[Message] = []
        for kind, parts in groupby(content, _message_kind):
            messages += _BUILDERS[kind](list(parts), names)
        return tuple(messages)

    @property
    def _key(self) -> str:
        """A digest of the first message that is not the system prompt."""
        # Only the first items can be the system prompt.
        for raw in self._items[:3]:
            if not isinstance(self._parse(raw), str):
                return compute_digest(bytes(raw))
        return compute_digest(b"")

    @cached_property
    def delta(self) -> RequestDelta:
        """The new part of the request, found by decoding only what follows the last answer."""
        sent: list[Sent] = []
        answer: list[Part] = []
        # Search from the end, so that a long history is not decoded.
        for raw in reversed(self._items):
            parsed = self._parse(raw)
            if isinstance(parsed, str):
                continue
            parts = [part for part in parsed if not isinstance(part, Sent)]
            if parts:
                answer = [*parts, *answer]
            elif answer:
                break  # earlier messages belong to the request for that answer
            else:
                items = [item for item in parsed if isinstance(item, Sent)]
                sent = [*items, *sent]
        names = {part.id: part.name for part in answer if isinstance(part, ToolCall)}
        return RequestDelta(
            items=tuple(_name_tool(item, names) for item in sent),
            count=len(self._items),
            whole=not answer,
            previous_calls=tuple(names),
            # Use lambdas, because most requests are compared without tools and system prompt.
            tools=lambda: self.tools,
            wire=True,
            key=self._key,
            system=lambda: self.system,
        )


def _read_tool_spec(tool: dict[str, Any]) -> ToolSpec:
    schema: dict[str, Any] = {}
    # The vendors have different names for the schema.
    for key in ("parameters", "input_schema", "parametersJsonSchema"):
        value = tool.get(key)
        if isinstance(value, dict):
            schema = value
            break
    return ToolSpec(str(tool.get("name", "")), str(tool.get("description") or ""), schema)


def _invalid(reason: str) -> ModelError:
    return ModelError(f"The request is not valid: {reason}.", kind="request", status=400)


def _name_tool(item: Sent, names: Mapping[str, str]) -> Sent:
    """Return a result with the name of its tool, which most formats include only in the call."""
    return msgspec.structs.replace(item, tool=item.tool or names.get(item.call, ""))


# --- messages -------------------------------------------------------------------------------------


def _message_kind(part: Part | Sent) -> str:
    """Return the kind of message that a part belongs to."""
    if not isinstance(part, Sent):
        return "answer"
    if part.kind == "image" and not part.call:
        return "user"
    return part.kind


def _build_answer(parts: list[Any], names: Mapping[str, str]) -> list[Message]:
    has_calls = any(isinstance(part, ToolCall) for part in parts)
    return [AssistantMessage(tuple(parts), "", "calls" if has_calls else "end")]


def _build_notes(items: list[Any], names: Mapping[str, str]) -> list[Message]:
    return [NoteMessage(item.text) for item in items]


def _build_results(items: list[Any], names: Mapping[str, str]) -> list[Message]:
    results = []
    for item in items:
        named = _name_tool(item, names)
        text = Text(named.text, f"tool:{named.tool}")
        results.append(ToolResult(named.call, named.tool, (text,)))
    return [ToolMessage(tuple(results))]


def _build_user(items: list[Any], names: Mapping[str, str]) -> list[Message]:
    texts = [item.text if item.kind == "user" else f"[image {item.text}]" for item in items]
    return [UserMessage(tuple(Text(text) for text in texts))]


_BUILDERS = {
    "answer": _build_answer,
    "note": _build_notes,
    "result": _build_results,
    "user": _build_user,
    # Images in results, which are represented only by their digests.
    "image": _build_user,
}
