"""The format of OpenAI chat completions, with the variations of compatible servers.

The reference is https://platform.openai.com/docs/api-reference/chat.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from hilum.errors import ModelError
from hilum.messages import (
    AssistantMessage,
    Image,
    Layer,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolSpec,
    Usage,
)
from hilum.models import Chunk

from hilum_models.answer_builder import CallPart, Stop, VendorReader
from hilum_models.apis import Api
from hilum_models.encode import (
    VendorWire,
    arguments_object,
    call_id,
    describe_tool,
    encode,
    encode_base64,
    merge,
    open_list,
    split_result,
    system_text,
    user_parts,
)
from hilum_models.failures import Endpoint, event_error
from hilum_models.json_values import (
    decode_event,
    get_count,
    get_dict,
    get_dicts,
    get_text,
    is_complete_object,
    only_dicts,
    to_json_text,
)
from hilum_models.think_tags import Piece, ThinkTagParser

# Mistral's models are strict on every server: ids must consist of nine letters and digits, and no
# user message may follow a tool message.
_MISTRAL = r"(?i)mistral|ministral|devstral|codestral|magistral|pixtral"
_MISTRAL_ID = (r"[A-Za-z0-9]{9}", 9)
# The templates of these models require user and model messages to alternate.
_ALTERNATING = r"(?i)gemma|llama-?2\b|vicuna|zephyr"
# OpenAI accepts ids of at most 40 characters.
_ANY_ID = (r"(?s).{1,40}", 32)
_BRIDGE = b'{"role":"assistant","content":"Understood."}'
_TOOL = b'{"role":"tool"'
_USER = b'{"role":"user"'
# The fields in which servers send reasoning. Reasoning is sent back under the same name.
_REASONING_FIELDS = ("reasoning_content", "reasoning")
# OpenAI, also in its regions, and Azure.
_OPENAI_HOST = re.compile(
    r"(?:[\w-]+\.)?api\.openai\.com|[\w.-]+\.(?:openai|cognitiveservices)\.azure\.com"
)


def find_limit_name(provider: str, host: str) -> str:
    """Return the name of the field that limits the length of an answer.

    OpenAI has renamed ``max_tokens``, and its newer models refuse the older name. Many compatible
    servers know only the older name and ignore the other, so the server's address decides.

    Args:
        provider: The provider's name, which decides if the host is not known.
        host: Host of the server.
    """
    is_openai = bool(_OPENAI_HOST.fullmatch(host)) if host else provider == "openai"
    return "max_completion_tokens" if is_openai else "max_tokens"


class ChatWire(VendorWire, frozen=True):
    """The encoding of requests. Implements ``Wire``."""

    api = "chat"

    def head(self, layers: Sequence[Layer], tools: Sequence[ToolSpec]) -> bytes:
        """Encode options, tools and the system prompt."""
        # The user's options are merged before tools and messages are added, so that they cannot
        # replace them.
        fields = merge(self._options(), self.target.options)
        if tools:
            fields["tools"] = [_encode_tool(tool) for tool in tools]
        system = system_text(layers)
        first = encode({"role": "system", "content": system}) if system else b""
        return open_list(fields, "messages", first)

    def _options(self) -> dict[str, Any]:
        target = self.target
        fields: dict[str, Any] = {"model": target.id, "stream": True}
        # Mistral rejects `stream_options`, and reports the usage without it.
        if target.provider != "mistral":
            fields["stream_options"] = {"include_usage": True}
        if target.name.startswith("openrouter/anthropic/"):
            fields["cache_control"] = {"type": "ephemeral"}
        if target.max_output:
            fields[find_limit_name(target.provider, target.host)] = target.max_output
        if target.effort:
            fields["reasoning_effort"] = target.effort
        return fields

    def message(self, message: Message) -> bytes:
        """Encode one message."""
        if isinstance(message, AssistantMessage):
            return self._encode_answer(message)
        if isinstance(message, ToolMessage):
            return self._encode_results(message)
        content: Any = user_parts(message, self.target.images)
        if isinstance(content, list):
            content = [_encode_part(part) for part in content]
        elif not content:
            return b""
        return encode({"role": "user", "content": content})

    def _encode_answer(self, message: AssistantMessage) -> bytes:
        # Most servers reject an answer that has neither content nor calls.
        if not message.calls and not message.text:
            return b""
        is_author = self.target.is_author(message)
        fields: dict[str, Any] = {"role": "assistant", "content": message.text or None}
        if is_author:
            for part in message.parts:
                if isinstance(part, Thinking):
                    _add_reasoning(part, fields)
        if message.calls:
            fields["tool_calls"] = [self._encode_call(call, is_author) for call in message.calls]
            # DeepSeek rejects calls without the field `reasoning_content`.
            if self.target.provider == "deepseek":
                fields.setdefault("reasoning_content", "")
        return encode(fields)

    def _encode_call(self, call: ToolCall, is_author: bool) -> dict[str, Any]:
        function = {"name": call.name, "arguments": arguments_object(call).decode()}
        encoded = {
            "id": self._encode_id(call.id),
            "type": "function",
            "function": function,
        }
        # Thought signatures, which only the model that created them accepts.
        if is_author:
            encoded |= call.vendor
        return encoded

    def _encode_results(self, message: ToolMessage) -> bytes:
        pieces: list[bytes] = []
        images: list[dict[str, Any]] = []
        for result in message.results:
            id = self._encode_id(result.call_id)
            text, found = split_result(result, self.target.images)
            if found:
                images.append(_encode_part(Text(f"Image from {result.name} (call {id}):")))
                images += [_encode_part(image) for image in found]
            pieces.append(encode({"role": "tool", "tool_call_id": id, "content": text}))
        # A tool message can contain only text, so its images follow in a user message.
        if images:
            if self._is_mistral:
                pieces.append(_BRIDGE)
            pieces.append(encode({"role": "user", "content": images}))
        return b",".join(pieces)

    def body(self, head: bytes, pieces: Sequence[bytes]) -> bytes:
        """Join the pieces, with answers in between where the model's template requires them."""
        if self._is_mistral:
            pieces = list(_add_bridges(pieces, _TOOL))
        elif re.search(_ALTERNATING, self.target.id):
            pieces = list(_add_bridges(pieces, _USER))
        return super().body(head, pieces)

    @property
    def _is_mistral(self) -> bool:
        return bool(re.search(_MISTRAL, self.target.name))

    def _encode_id(self, id: str) -> str:
        return call_id(id, *(_MISTRAL_ID if self._is_mistral else _ANY_ID))


def _encode_tool(tool: ToolSpec) -> dict[str, Any]:
    return {"type": "function", "function": describe_tool(tool, "parameters")}


def _encode_part(part: Text | Image) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    url = f"data:{part.media_type};base64,{encode_base64(part)}"
    return {"type": "image_url", "image_url": {"url": url}}


def _add_reasoning(part: Thinking, fields: dict[str, Any]) -> None:
    """Add reasoning to the fields of an answer, under its original name."""
    field = part.vendor.get("field")
    if field:
        fields[field] = fields.get(field, "") + part.text
    details = part.vendor.get("reasoning_details")
    if details:
        fields["reasoning_details"] = [*fields.get("reasoning_details", ()), *details]


def _add_bridges(pieces: Sequence[bytes], before: bytes) -> Iterator[bytes]:
    """Insert an answer between a piece that begins like ``before`` and a user's message."""
    needed = False
    for piece in filter(None, pieces):
        if needed and piece.startswith(_USER):
            yield _BRIDGE
        yield piece
        # A piece with results and their images already contains a bridge, and ends with a user
        # message.
        needed = piece.startswith(before) and _BRIDGE not in piece


_STOPS: dict[str, Stop] = {
    "stop": "end",
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "refusal",
}


class ChatReader(VendorReader):
    """A parser for the chunks of a chat completion. Implements ``Reader``."""

    def __init__(self, model: str, body: bytes, endpoint: Endpoint) -> None:
        super().__init__(model, body, endpoint)
        self._calls: dict[object, CallPart] = {}
        self._tags = ThinkTagParser()
        self._refused = False

    def feed(self, event: bytes, data: bytes) -> Iterable[Chunk]:
        """Parse one event and return its chunks."""
        if data.startswith(b"[DONE]"):
            return self._end()
        value = decode_event(data)
        error = value.get("error")
        if not error and value.get("object") == "error":
            error = value  # vLLM sends the error as the whole object
        if error:
            raise self._error(error)
        # Groq reports the usage in a separate field.
        usage = value.get("usage") or get_dict(value, "x_groq").get("usage")
        if usage:
            self._answer.usage = _read_usage(usage)
        chunks: list[Chunk] = []
        for choice in get_dicts(value, "choices"):
            # Requests ask for one choice, but options may ask for more.
            if not choice.get("index"):
                chunks += self._read_choice(choice)
        return chunks

    def _end(self) -> list[Chunk]:
        self.ended = True
        chunks = self._add_pieces(self._tags.flush())
        # Some servers send no finish reason, but every server sends the end marker only after a
        # complete response.
        if self._answer.stop is None and self._answer.parts:
            self._answer.stop = "end"
        return chunks

    def _read_choice(self, choice: dict[str, Any]) -> list[Chunk]:
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            # A server that ignores `stream` sends one whole message. A message next to a delta only
            # repeats the deltas.
            delta = get_dict(choice, "message")
        # Reasoning precedes content; a few servers send both in one delta.
        chunks = self._read_reasoning(delta)
        chunks += self._read_content(delta.get("content"))
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:
            self._refused = True
            chunks += self._answer.add_text(refusal)
        for piece in get_dicts(delta, "tool_calls"):
            chunks += self._read_call(piece)
        reason = get_text(choice, "finish_reason")
        if reason:
            chunks += self._add_pieces(self._tags.flush())
            if reason == "error":
                raise self._error(choice.get("error") or "the model failed")
            # After a refusal, OpenAI reports `stop`.
            self._answer.stop = "refusal" if self._refused else _STOPS.get(reason, "end")
        return chunks

    def _add_pieces(self, pieces: Iterable[Piece]) -> list[Chunk]:
        """Add text to the answer, and separate the reasoning between tags in it."""
        chunks: list[Chunk] = []
        for is_thinking, text in pieces:
            add = self._answer.add_thinking if is_thinking else self._answer.add_text
            chunks += add(text)
        return chunks

    def _read_content(self, content: Any) -> list[Chunk]:
        if isinstance(content, str):
            return self._add_pieces(self._tags.feed(content))
        chunks: list[Chunk] = []
        # Mistral's reasoning models send the content as a list of parts.
        for part in only_dicts(content):
            text = part.get("text")
            if part.get("type") == "thinking":
                chunks += self._answer.add_thinking(_thinking_text(part))
            elif isinstance(text, str):
                chunks += self._answer.add_text(text)
        return chunks

    def _read_reasoning(self, delta: dict[str, Any]) -> list[Chunk]:
        chunks: list[Chunk] = []
        details = get_dicts(delta, "reasoning_details")
        for name in _REASONING_FIELDS:
            text = delta.get(name)
            if isinstance(text, str) and text:
                chunks = self._answer.add_thinking(text)
                # The field's name is kept, so that the reasoning is sent back under it.
                if not details:
                    self._answer.current_thinking().vendor.setdefault("field", name)
                break
        if details:
            # OpenRouter sends reasoning both as text and as details, and requires the details to be
            # sent back.
            vendor = self._answer.current_thinking().vendor
            vendor.pop("field", None)
            _add_details(vendor.setdefault("reasoning_details", []), details)
        return chunks

    def _read_call(self, piece: dict[str, Any]) -> list[Chunk]:
        function = get_dict(piece, "function")
        raw_id = get_text(piece, "id")
        name = get_text(function, "name")
        arguments = to_json_text(function.get("arguments"))
        slot = self._find_slot(piece, raw_id, name)
        call = self._calls.get(slot)
        if call is None:
            return self._begin_call(slot, piece, raw_id, name, arguments)
        # Some servers send several calls under one index. Such calls are distinguished by their
        # ids, or because one is complete when the next begins.
        is_complete = False
        if arguments.strip():
            is_complete = _has_complete_arguments(call)
        has_ids = bool(raw_id and call.raw_id)
        has_other_id = has_ids and raw_id != call.raw_id
        if name and (has_other_id or is_complete):
            return self._begin_call(slot, piece, raw_id, name, arguments)
        if name and not call.name:
            call.name = name
        if is_complete:
            # The empty object was a placeholder for arguments that were not known yet.
            call.arguments.clear()
        return self._answer.add_arguments(call, arguments)

    def _find_slot(self, piece: dict[str, Any], raw_id: str, name: str) -> object:
        """Return the key of a call: its index, its id, or else the key of the last call."""
        slot = piece.get("index")
        if slot is not None:
            return slot
        if raw_id:
            return raw_id
        if name:
            return len(self._calls)
        return next(reversed(self._calls), 0)

    def _begin_call(
        self, slot: object, piece: dict[str, Any], raw_id: str, name: str, arguments: str
    ) -> list[Chunk]:
        extra = piece.get("extra_content")
        vendor = {"extra_content": extra} if extra else None
        call = self._answer.begin_call(raw_id, name, vendor)
        self._calls[slot] = call
        return self._answer.open_arguments(call, arguments)

    def _error(self, error: Any) -> ModelError:
        if not isinstance(error, dict):
            return event_error(str(error), "", self._endpoint)
        # OpenRouter sends the HTTP status as the error code; other servers send words.
        code = error.get("code")
        status = code if isinstance(code, int) and 400 <= code < 600 else 0
        kind = get_text(error, "type") or get_text(error, "code")
        return event_error(get_text(error, "message"), kind, self._endpoint, status)


def _thinking_text(part: dict[str, Any]) -> str:
    thinking = part.get("thinking")
    if isinstance(thinking, str):
        return thinking
    return "".join(inner.get("text", "") for inner in only_dicts(thinking))


def _has_complete_arguments(call: CallPart) -> bool:
    # Long arguments are joined only if their last piece may complete them.
    if not call.arguments or not call.arguments[-1].endswith("}"):
        return False
    return is_complete_object("".join(call.arguments))


def _read_usage(table: Any) -> Usage:
    cost = table.get("cost") if isinstance(table, dict) else None
    cached = get_count(table, "prompt_tokens_details", "cached_tokens")
    return Usage(
        input=get_count(table, "prompt_tokens"),
        # DeepSeek counts cache hits in a separate field.
        cached=cached or get_count(table, "prompt_cache_hit_tokens"),
        cache_write=get_count(table, "prompt_tokens_details", "cache_write_tokens"),
        output=get_count(table, "completion_tokens"),
        reasoning=get_count(table, "completion_tokens_details", "reasoning_tokens"),
        # OpenRouter reports the price that it charges.
        cost=float(cost) if isinstance(cost, int | float) else None,
    )


def _add_details(known: list[dict[str, Any]], new: Sequence[dict[str, Any]]) -> None:
    """Join the pieces of reasoning details that belong together, to send them back complete."""
    for detail in new:
        last = known[-1] if known else None
        if last is None or _detail_key(last) != _detail_key(detail):
            # A copy is made, because later pieces are added to it.
            known.append(dict(detail))
            continue
        for name, value in detail.items():
            if name in ("text", "summary", "data") and _are_texts(last.get(name), value):
                last[name] += value
            elif value is not None:
                last[name] = value


def _detail_key(detail: dict[str, Any]) -> tuple[object, object]:
    return detail.get("type"), detail.get("index")


def _are_texts(first: object, second: object) -> bool:
    return isinstance(first, str) and isinstance(second, str)


API = Api(path="/chat/completions", create_wire=ChatWire, create_reader=ChatReader)
