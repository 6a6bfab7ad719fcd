"""OpenAI chat completions, and what compatible servers make of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from hilum.errors import ModelError
from hilum.messages import (
    AssistantMessage,
    Image,
    Layer,
    Message,
    Text,
    Thinking,
    ToolMessage,
    ToolSpec,
    Usage,
)
from hilum.models import Chunk, Done

from hilum_models import encode as e
from hilum_models.answer import Answer, Call, Stop, as_json, decode, is_whole, number, tables
from hilum_models.failures import Who, reported
from hilum_models.schemas import plain
from hilum_models.tags import ThinkTags

# Mistral's models, whoever serves them, are strict: ids of nine letters and digits, no user right
# after a tool.
_MISTRAL = re.compile(r"mistral|ministral|devstral|codestral|magistral|pixtral", re.IGNORECASE)
_MISTRAL_ID = (r"[A-Za-z0-9]{9}", 9)
# The templates of these want user and model by turns.
_BY_TURNS = re.compile(r"gemma|llama-?2\b|vicuna|zephyr", re.IGNORECASE)
_ANY_ID = (r"(?s).{1,40}", 32)
_BRIDGE = b'{"role":"assistant","content":"Understood."}'
_TOOL = b'{"role":"tool"'
_USER = b'{"role":"user"'
# Where a server puts reasoning; what is written there is sent back under the same name.
_REASONING = ("reasoning_content", "reasoning")


class ChatWire(msgspec.Struct, frozen=True):
    """Encodes for chat completions. Implements ``Wire``."""

    target: e.Target

    @property
    def key(self) -> str:
        """Name of the encoding."""
        return self.target.key("chat")

    def head(self, layers: Sequence[Layer], tools: Sequence[ToolSpec]) -> bytes:
        """Encode options, tools and system prompt."""
        target = self.target
        fields: dict[str, Any] = {"model": target.id, "stream": True}
        if (
            target.provider != "mistral"
        ):  # which refuses the field, and reports the usage without being asked
            fields["stream_options"] = {"include_usage": True}
        if target.name.startswith("openrouter/anthropic/"):
            fields["cache_control"] = {"type": "ephemeral"}
        if target.max_output:
            fields["max_completion_tokens" if target.provider == "openai" else "max_tokens"] = (
                target.max_output
            )
        if target.effort:
            fields["reasoning_effort"] = target.effort
        fields = e.merge(fields, target.options)
        if tools:
            fields["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": t.name,
                        "description": t.description,
                        "parameters": plain(t.parameters),
                    },
                }
                for t in tools
            ]
        system = e.system_text(layers)
        first = e.encode({"role": "system", "content": system}) if system else b""
        return e.open_list(fields, "messages", first)

    def message(self, message: Message) -> bytes:
        """Encode one message."""
        if isinstance(message, AssistantMessage):
            return self._assistant(message)
        if isinstance(message, ToolMessage):
            return self._results(message)
        text = e.user_text(message)
        if text is not None:
            if text:
                return e.encode({"role": "user", "content": text})
            return b""
        parts = e.flatten(getattr(message, "parts", ()), self.target.images)
        return e.encode({"role": "user", "content": [_part(part) for part in parts]})

    def _assistant(self, message: AssistantMessage) -> bytes:
        fields: dict[str, Any] = {"role": "assistant", "content": message.text or None}
        own = e.is_own(message, self.target)
        for part in message.parts:
            if isinstance(part, Thinking) and own:
                field = part.vendor.get("field")
                if field:
                    fields[field] = fields.get(field, "") + part.text
                details = part.vendor.get("reasoning_details")
                if details:
                    fields["reasoning_details"] = [*fields.get("reasoning_details", ()), *details]
        calls = message.calls
        if calls:
            fields["tool_calls"] = [
                {
                    "id": self._id(call.id),
                    "type": "function",
                    "function": {"name": call.name, "arguments": e.arguments_object(call).decode()},
                    **(call.vendor if own else {}),
                }
                for call in calls
            ]
            if self.target.provider == "deepseek":  # which refuses calls without it
                fields.setdefault("reasoning_content", "")
        elif not message.text:
            return b""
        return e.encode(fields)

    def _results(self, message: ToolMessage) -> bytes:
        pieces: list[bytes] = []
        images: list[Text | Image] = []
        for result in message.results:
            parts = e.flatten(result.parts, self.target.images)
            text = "\n".join(part.text for part in parts if isinstance(part, Text))
            found = [part for part in parts if isinstance(part, Image)]
            if found:
                text = text or "The image follows."
                images += [
                    Text(f"Image given by {result.name} (call {self._id(result.call_id)}):"),
                    *found,
                ]
            pieces.append(
                e.encode(
                    {"role": "tool", "tool_call_id": self._id(result.call_id), "content": text}
                )
            )
        if images:  # a tool's message holds text only
            pieces += [_BRIDGE] if self._strict else []
            pieces.append(e.encode({"role": "user", "content": [_part(part) for part in images]}))
        return b",".join(pieces)

    def body(self, head: bytes, pieces: Sequence[bytes]) -> bytes:
        """Join the pieces; where a user may not follow a tool, the model says a word in between."""
        before = _TOOL if self._strict else _USER if _BY_TURNS.search(self.target.id) else b""
        if before:
            pieces = list(_bridged([piece for piece in pieces if piece], before))
        return e.join(head, pieces)

    @property
    def _strict(self) -> bool:
        return bool(_MISTRAL.search(self.target.name))

    def _id(self, given: str) -> str:
        return e.call_id(given, *(_MISTRAL_ID if self._strict else _ANY_ID))


def _bridged(pieces: Sequence[bytes], before: bytes) -> Iterator[bytes]:
    """Put the model's word between a piece that begins like ``before`` and a user's message."""
    needed = False
    for piece in pieces:
        if needed and piece.startswith(_USER):
            yield _BRIDGE
        yield piece
        # A piece of results that holds images has its bridge inside, and ends in a user's message.
        needed = piece.startswith(before) and _BRIDGE not in piece


def _part(part: Text | Image) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    return {
        "type": "image_url",
        "image_url": {"url": f"data:{part.media_type};base64,{e.base64_of(part)}"},
    }


_STOPS: dict[str, Stop] = {
    "stop": "end",
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "refusal",
}


class ChatReader:
    """Reads the chunks of a chat completion. Implements ``Reader``."""

    def __init__(self, model: str, body: bytes, who: Who) -> None:
        self._answer = Answer(model, body)
        self._calls: dict[object, Call] = {}
        self._who = who
        self._tags = ThinkTags()
        self._refused = False
        self.ended = False

    @property
    def complete(self) -> bool:
        """Whether a finish reason came, or the mark of the end."""
        return self._answer.stop is not None

    def feed(self, event: bytes, data: bytes) -> Iterable[Chunk]:
        """Take one event."""
        if data.startswith(b"[DONE]"):
            self.ended = True
            rest = self._words(self._tags.rest())
            if self._answer.stop is None and self._answer.items:
                self._answer.stop = (
                    "end"  # some servers give no reason; the mark itself comes only at a proper end
                )
            return rest
        value = decode(data)
        error = value.get("error") or (value.get("object") == "error" and value)
        if error:
            raise self._error(error)
        usage = value.get("usage") or _groq(value)
        if usage:
            self._answer.usage = _usage(usage)
        chunks: list[Chunk] = []
        for choice in tables(value.get("choices")):
            if not choice.get("index"):
                self._choice(choice, chunks)
        return chunks

    def finish(self) -> Done:
        """Return the whole answer."""
        return self._answer.done()

    def _choice(self, choice: dict[str, Any], chunks: list[Chunk]) -> None:
        # A server that ignores `stream` gives one whole message.
        delta = choice.get("delta")
        if not isinstance(
            delta, dict
        ):  # where there is one, a message beside it only repeats what was said
            delta = choice.get("message") or {}
        self._reasoning(delta, chunks)
        content = delta.get("content")
        if isinstance(content, str):
            chunks += self._words(self._tags.feed(content))
        elif content:
            self._content_parts(tables(content), chunks)
        if isinstance(refusal := delta.get("refusal"), str) and refusal:
            self._refused = True
            chunks += self._answer.text(refusal)
        for piece in tables(delta.get("tool_calls")):
            self._call(piece, chunks)
        reason = choice.get("finish_reason")
        if reason:
            chunks += self._words(self._tags.rest())
            if reason == "error":
                raise self._error(choice.get("error") or "the model failed")
            self._answer.stop = "refusal" if self._refused else _STOPS.get(str(reason), "end")

    def _words(self, pieces: Iterable[tuple[bool, str]]) -> list[Chunk]:
        """Add text of the answer, and reasoning that was written between tags in it."""
        chunks: list[Chunk] = []
        for thought, text in pieces:
            chunks += self._answer.thinking(text) if thought else self._answer.text(text)
        return chunks

    def _reasoning(self, delta: dict[str, Any], chunks: list[Chunk]) -> None:
        details = tables(delta.get("reasoning_details"))
        for name in _REASONING:
            text = delta.get(name)
            if isinstance(text, str) and text:
                chunks += self._answer.thinking(text)
                if not details:
                    self._answer.thought().vendor.setdefault("field", name)
                break
        if details:
            vendor = self._answer.thought().vendor
            vendor.pop("field", None)
            _add_details(vendor.setdefault("reasoning_details", []), details)

    def _content_parts(self, parts: Sequence[dict[str, Any]], chunks: list[Chunk]) -> None:
        """Take content as a list of parts, as Mistral's reasoning models send it."""
        for part in parts:
            if part.get("type") == "thinking":
                inner = part.get("thinking")
                if isinstance(inner, str):
                    pieces = [inner]
                else:
                    pieces = [p.get("text", "") for p in tables(inner)]
                chunks += self._answer.thinking("".join(pieces))
            elif isinstance(text := part.get("text"), str):
                chunks += self._answer.text(text)

    def _call(self, piece: dict[str, Any], chunks: list[Chunk]) -> None:
        function = piece.get("function") or {}
        raw_id = str(piece.get("id") or "")
        name = str(function.get("name") or "")
        arguments = as_json(function.get("arguments"))
        slot = piece.get("index")
        if slot is None:  # by id where there is no index, else it continues the last one
            slot = raw_id or (len(self._calls) if name else next(reversed(self._calls), 0))
        call = self._calls.get(slot)
        # Several calls under one index are told apart by their ids, or by one being whole when the
        # next begins. Long arguments are joined only where their last piece may be the end.
        ends = call is not None and bool(call.arguments) and call.arguments[-1].endswith("}")
        whole = (
            call is not None
            and ends
            and bool(arguments.strip())
            and is_whole("".join(call.arguments))
        )
        if (
            call is None
            or (raw_id and name and call.raw_id and raw_id != call.raw_id)
            or (whole and name)
        ):
            if piece.get("extra_content"):
                vendor = {"extra_content": piece["extra_content"]}
            else:
                vendor = None
            call = self._calls[slot] = self._answer.call(raw_id, name, vendor)
            chunks += self._answer.arguments(call, arguments, first=True)
            return
        if name and not call.name:
            call.name = name
        if whole:  # an empty object stood for arguments that were not known yet
            call.arguments.clear()
        chunks += self._answer.arguments(call, arguments)

    def _error(self, error: Any) -> ModelError:
        if not isinstance(error, dict):
            return reported(str(error), "", self._who)
        code = error.get("code")
        status = code if isinstance(code, int) and 400 <= code < 600 else 0
        words = str(error.get("message") or "")
        return reported(words, str(error.get("type") or code or ""), self._who, status)


def _groq(value: dict[str, Any]) -> Any:
    extra = value.get("x_groq")
    return extra.get("usage") if isinstance(extra, dict) else None


def _usage(table: Any) -> Usage:
    cost = table.get("cost") if isinstance(table, dict) else None
    return Usage(
        input=number(table, "prompt_tokens"),
        cached=number(table, "prompt_tokens_details", "cached_tokens")
        or number(table, "prompt_cache_hit_tokens"),
        cache_write=number(table, "prompt_tokens_details", "cache_write_tokens"),
        output=number(table, "completion_tokens"),
        reasoning=number(table, "completion_tokens_details", "reasoning_tokens"),
        cost=float(cost) if isinstance(cost, int | float) else None,
    )


def _add_details(known: list[dict[str, Any]], new: Sequence[dict[str, Any]]) -> None:
    """Join the pieces of reasoning details that belong together, so that they go back whole."""
    for detail in new:
        last = known[-1] if known else None
        same = (
            last is not None
            and last.get("type") == detail.get("type")
            and last.get("index") == detail.get("index")
        )
        if last is None or not same:
            known.append(dict(detail))
            continue
        for name, value in detail.items():
            if (
                name in ("text", "summary", "data")
                and isinstance(last.get(name), str)
                and isinstance(value, str)
            ):
                last[name] += value
            elif value is not None:
                last[name] = value
