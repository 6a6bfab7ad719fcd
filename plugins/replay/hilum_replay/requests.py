"""Requests of all four formats as neutral data.

Only what is asked for is decoded: a long history is cut, not read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import attrs
import msgspec
from hilum.errors import ModelError
from hilum.messages import (
    NOTE_TAG,
    AssistantMessage,
    Message,
    NoteMessage,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    unescape_notes,
)

from hilum_replay.cassette import Sent, digest
from hilum_replay.matching import Asked

Part = Text | Thinking | ToolCall
# What one item of a request says: the system prompt, parts of an answer, or new things.
Said = str | Sequence[Part | Sent]


class _Envelope(msgspec.Struct):
    """The outer fields of all formats, the inner ones undecoded."""

    model: str = ""
    stream: bool = False
    messages: list[msgspec.Raw] = []
    input: msgspec.Raw = msgspec.Raw(b"[]")
    contents: list[msgspec.Raw] = []
    system: msgspec.Raw = msgspec.Raw(b"null")
    instructions: str | None = None
    tools: list[msgspec.Raw] = []
    snake: msgspec.Raw = msgspec.field(name="system_instruction", default=msgspec.Raw(b"null"))
    camel: msgspec.Raw = msgspec.field(name="systemInstruction", default=msgspec.Raw(b"null"))


_decoder = msgspec.json.Decoder(_Envelope)
_decode = msgspec.json.Decoder().decode


@attrs.define(slots=False, eq=False)
class WireRequest:
    """A request that came over HTTP.

    Attributes:
        api: ``chat``, ``responses``, ``anthropic`` or ``gemini``.
        path: Path and query.
        headers: Headers, names in lower case.
        body: The body as it came.
        number: Counts requests to the server from 1.
    """

    api: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    number: int = 1

    @cached_property
    def _envelope(self) -> _Envelope:
        try:
            return _decoder.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ModelError(
                f"The request is not valid: {error}.", kind="request", status=400
            ) from None

    @cached_property
    def _items(self) -> Sequence[msgspec.Raw]:
        envelope = self._envelope
        if self.api == "gemini":
            return envelope.contents
        if self.api != "responses":
            return envelope.messages
        value = bytes(envelope.input)
        if value.startswith(b'"'):
            return [msgspec.Raw(b'{"role":"user","content":' + value + b"}")]
        return msgspec.json.decode(value, type=list[msgspec.Raw])

    def _say(self, raw: msgspec.Raw) -> Said:
        item = _decode(raw)
        if not isinstance(item, dict):
            raise ModelError(
                "The request is not valid: a message is not an object.", kind="request", status=400
            )
        return _READERS[self.api](item)

    @property
    def model(self) -> str:
        """Name of the model it asks."""
        if self.api == "gemini":
            return self.path.split("?")[0].rpartition("/models/")[2].partition(":")[0]
        return self._envelope.model

    @property
    def stream(self) -> bool:
        """Whether it asks for a stream."""
        if self.api == "gemini":
            return "streamGenerateContent" in self.path
        return self._envelope.stream

    @cached_property
    def system(self) -> str:
        """The system prompt."""
        envelope = self._envelope
        if self.api == "anthropic":
            return _joined(_decode(envelope.system))
        if self.api == "gemini":
            content = _decode(envelope.camel) or _decode(envelope.snake) or {}
            return _joined(content.get("parts"))
        texts = [envelope.instructions] if envelope.instructions else []
        for raw in self._items:
            said = self._say(raw)
            if not isinstance(said, str):
                break
            texts.append(said)
        return "\n\n".join(texts)

    @cached_property
    def tools(self) -> tuple[str, ...]:
        """Names of the tools it offers."""
        names: list[str] = []
        for raw in self._envelope.tools:
            item = _decode(raw)
            declared = item.get("functionDeclarations") or item.get("function_declarations")
            found = declared if declared is not None else [item.get("function") or item]
            names += [str(each.get("name", "")) for each in found]
        return tuple(names)

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """The whole conversation, neutral.

        Notes are recognised by the tag that hilum's gateways put around them.
        """
        groups: list[tuple[str, list[Any]]] = []
        for raw in self._items:
            said = self._say(raw)
            if isinstance(said, str):
                continue
            for thing in said:
                kind = _group(thing)
                if groups and groups[-1][0] == kind:
                    groups[-1][1].append(thing)
                else:
                    groups.append((kind, [thing]))
        names = {
            part.id: part.name
            for _, parts in groups
            for part in parts
            if isinstance(part, ToolCall)
        }
        messages: list[Message] = []
        for kind, things in groups:
            messages += _messages(kind, things, names)
        return tuple(messages)

    @property
    def _key(self) -> str:
        """A digest of the first message that is no system prompt."""
        firsts = (raw for raw in self._items[:3] if not isinstance(self._say(raw), str))
        return digest(bytes(next(firsts, b"")))

    @cached_property
    def asked(self) -> Asked:
        """What it newly says; decodes no more than the last answer and what follows it."""
        items: list[Part | Sent] = []
        answer: list[Part | Sent] = []
        for raw in reversed(self._items):
            said = self._say(raw)
            if isinstance(said, str):
                continue
            if said and isinstance(said[0], Text | Thinking | ToolCall):
                answer = [*said, *answer]
            elif answer:
                break  # the question to that answer
            else:
                items = [*said, *items]
        calls = [part for part in answer if isinstance(part, ToolCall)]
        names = {call.id: call.name for call in calls}
        sent = [item for item in items if isinstance(item, Sent)]
        named = (msgspec.structs.replace(s, tool=s.tool or names.get(s.call, "")) for s in sent)
        echo = tuple(call.id for call in calls)
        count = len(self._items)
        return Asked(
            tuple(named),
            count,
            not answer,
            echo,
            None,
            None,
            lambda: self.tools,
            wire=True,
            key=self._key,
            system=lambda: self.system,
        )


def _group(thing: Part | Sent) -> str:
    """What kind of message a thing belongs to."""
    if not isinstance(thing, Sent):
        return "answer"
    if thing.kind == "image" and not thing.call:
        return "user"
    return thing.kind


def _messages(kind: str, things: Sequence[Any], names: Mapping[str, str]) -> list[Message]:
    if kind == "answer":
        stop = "calls" if any(isinstance(part, ToolCall) for part in things) else "end"
        return [AssistantMessage(tuple(things), "", stop)]  # type: ignore[arg-type]
    if kind == "note":
        return [NoteMessage(sent.text) for sent in things]
    if kind == "result":
        results = [
            ToolResult(
                s.call,
                s.tool or names.get(s.call, ""),
                (Text(s.text, f"tool:{s.tool or names.get(s.call, '')}"),),
            )
            for s in things
        ]
        return [ToolMessage(tuple(results))]
    return [
        UserMessage(
            tuple(
                Text(sent.text if sent.kind == "user" else f"[image {sent.text}]")
                for sent in things
            )
        )
    ]


def _user(text: str) -> Sent:
    opening = f"<{NOTE_TAG}>\n"
    closing = f"\n</{NOTE_TAG}>"
    if text.startswith(opening) and text.endswith(closing):
        return Sent("note", unescape_notes(text[len(opening) : -len(closing)]))
    return Sent("user", text)


def _joined(content: Any) -> str:
    """The text of content that is a text or a list of parts."""
    if isinstance(content, str):
        return content
    return "\n\n".join(
        p["text"] for p in content or () if isinstance(p, dict) and isinstance(p.get("text"), str)
    )


def _lines(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(
        p["text"] for p in content or () if isinstance(p, dict) and isinstance(p.get("text"), str)
    )


def _things(content: Any, image: Callable[[dict[str, Any]], str]) -> Iterable[Sent]:
    """Texts and images of a user's content."""
    if isinstance(content, str):
        yield _user(content)
        return
    for part in content or ():
        if isinstance(part.get("text"), str):
            yield _user(part["text"])
        elif part.get("type") in ("image_url", "input_image", "image"):
            yield Sent("image", image(part))


def _chat(item: dict[str, Any]) -> Said:
    role = item.get("role")
    content = item.get("content")
    if role in ("system", "developer"):
        return _joined(content)
    if role == "tool":
        return [Sent("result", _lines(content), str(item.get("tool_call_id", "")), code=None)]
    if role != "assistant":
        return list(_things(content, lambda part: digest(str(part.get("image_url")))))
    parts: list[Part] = []
    thought = item.get("reasoning_content") or item.get("reasoning")
    if thought:
        parts.append(Thinking(thought))
    text = _joined(content)
    if text:
        parts.append(Text(text, "model"))
    for call in item.get("tool_calls") or ():
        function = call.get("function", {})
        parts.append(
            ToolCall(
                str(call.get("id", "")), function.get("name", ""), function.get("arguments", "")
            )
        )
    return parts or [Text("", "model")]


def _responses(item: dict[str, Any]) -> Said:
    kind = item.get("type", "message")
    role = item.get("role")
    content = item.get("content")
    if kind == "function_call":
        return [
            ToolCall(str(item.get("call_id", "")), item.get("name", ""), item.get("arguments", ""))
        ]
    if kind == "function_call_output":
        call = str(item.get("call_id", ""))
        output = item.get("output")
        pictures = [
            Sent("image", digest(str(p.get("image_url"))), call)
            for p in _pictures(output, "input_image")
        ]
        return [Sent("result", _lines(output), call, code=None), *pictures]
    if kind == "reasoning":
        return [Thinking(_joined(item.get("summary")))]
    if role in ("system", "developer"):
        return _joined(content)
    if role == "assistant":
        return [Text(_joined(content), "model")]
    return list(_things(content, lambda part: digest(str(part.get("image_url")))))


def _anthropic(item: dict[str, Any]) -> Said:
    content = item.get("content")
    if item.get("role") != "assistant":
        if isinstance(content, str):
            return [_user(content)]
        sent: list[Sent] = []
        for block in content or ():
            if block.get("type") != "tool_result":
                sent += _things([block], lambda part: digest(str(part.get("source"))))
                continue
            call = str(block.get("tool_use_id", ""))
            inner = block.get("content")
            sent.append(Sent("result", _lines(inner), call, code=None))
            sent += [
                Sent("image", digest(str(p.get("source"))), call) for p in _pictures(inner, "image")
            ]
        return sent
    parts: list[Part] = []
    for block in [{"type": "text", "text": content}] if isinstance(content, str) else content or ():
        if block.get("type") == "text":
            parts.append(Text(block.get("text", ""), "model"))
        elif block.get("type") == "tool_use":
            arguments = json.dumps(block.get("input"), ensure_ascii=False)
            parts.append(ToolCall(str(block.get("id", "")), block.get("name", ""), arguments))
        else:
            parts.append(Thinking(block.get("thinking", "")))
    return parts or [Text("", "model")]


def _pictures(content: Any, kind: str) -> list[dict[str, Any]]:
    parts = content if isinstance(content, list) else []
    return [part for part in parts if isinstance(part, dict) and part.get("type") == kind]


def _gemini(item: dict[str, Any]) -> Said:
    own = item.get("parts") or ()
    if item.get("role") == "model":
        parts: list[Part] = []
        for part in own:
            call = part.get("functionCall")
            if call:
                arguments = json.dumps(call.get("args") or {}, ensure_ascii=False)
                parts.append(ToolCall(str(call.get("id", "")), call.get("name", ""), arguments))
            elif isinstance(part.get("text"), str):
                parts.append(
                    Thinking(part["text"]) if part.get("thought") else Text(part["text"], "model")
                )
        return parts or [Text("", "model")]
    sent: list[Sent] = []
    for part in own:
        result = part.get("functionResponse")
        if result:
            text = _response_text(result.get("response"))
            call = str(result.get("id", ""))
            sent.append(Sent("result", text, call, result.get("name", ""), None))
            sent += [Sent("image", digest(str(p)), call) for p in result.get("parts") or ()]
        elif isinstance(part.get("text"), str):
            sent.append(_user(part["text"]))
        else:
            sent.append(Sent("image", digest(str(part))))
    return sent


def _response_text(response: Any) -> str:
    values = list(response.values()) if isinstance(response, dict) else [response]
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]
    return json.dumps(response, ensure_ascii=False)


_READERS: dict[str, Callable[[dict[str, Any]], Said]] = {
    "chat": _chat,
    "responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
}
