"""The format of Anthropic Messages (https://docs.anthropic.com/en/api/messages).

There are two cache breakpoints: one on the system prompt, which other sessions and agents share,
and one on the request itself, which the server moves to the last block. Caching therefore never
changes the bytes of a message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from hilum.messages import (
    AssistantMessage,
    Image,
    Layer,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    Usage,
)
from hilum.models import Chunk, Done

from hilum_models.answer_builder import CallPart, Stop, ThinkingPart, VendorReader
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
    sendable_parts,
    user_parts,
)
from hilum_models.failures import Endpoint, event_error
from hilum_models.json_values import decode_event, get_count, get_dict, get_text, to_json_text

_CACHE = {"type": "ephemeral"}
# The ids that the API accepts, and the length of computed ids.
_ID = (r"[A-Za-z0-9_-]{1,64}", 32)
# With the option "adaptive", these models decide how much to think. For other models, the default
# is suitable.
_ADAPTIVE = re.compile(r"claude-((opus|sonnet)-4-[6-9](?!\d)|[a-z]+-[5-9](?!\d)|mythos-)")
# These models reject thinking if the preceding messages have changed, as they do at the beginning
# of each run and in each compaction. A request option makes these models drop such thinking; the
# beta header allows this option.
_BOUND = re.compile(r"claude-[a-z]+-(5-[1-9](?!\d)|[6-9](?!\d))")
# The API requires a maximum number of tokens.
DEFAULT_OUTPUT = 8_192


class AnthropicWire(VendorWire, frozen=True):
    """The encoding of requests. Implements ``Wire``."""

    api = "anthropic"

    def head(self, layers: Sequence[Layer], tools: Sequence[ToolSpec]) -> bytes:
        """Encode options, tools and the system prompt."""
        # The user's options are merged before tools and messages are added, so that they cannot
        # replace them.
        fields = merge(self._options(), self.target.options)
        if tools:
            fields["tools"] = [describe_tool(tool, "input_schema") for tool in tools]
        system: list[dict[str, Any]] = [
            {"type": "text", "text": layer.text} for layer in layers if layer.text.strip()
        ]
        # The breakpoint on the last block covers everything before it, including tools.
        if system:
            system[-1]["cache_control"] = _CACHE
            fields["system"] = system
        return open_list(fields, "messages")

    def _options(self) -> dict[str, Any]:
        target = self.target
        fields: dict[str, Any] = {
            "model": target.id,
            "max_tokens": target.max_output or DEFAULT_OUTPUT,
            "stream": True,
            "cache_control": _CACHE,
        }
        if _ADAPTIVE.search(target.id):
            thinking: dict[str, Any] = {"type": "adaptive", "display": "summarized"}
            if _BOUND.search(target.id):
                thinking["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
            fields["thinking"] = thinking
        if target.effort:
            fields["output_config"] = {"effort": target.effort}
        return fields

    def message(self, message: Message) -> bytes:
        """Encode one message."""
        role = "user"
        if isinstance(message, AssistantMessage):
            role = "assistant"
            content = self._encode_answer(message)
        elif isinstance(message, ToolMessage):
            content = [self._encode_result(result) for result in message.results]
        else:
            parts = user_parts(message, self.target.images)
            if isinstance(parts, str):
                parts = [Text(parts)]
            content = _encode_parts(parts)
        if content:
            return encode({"role": role, "content": content})
        return b""

    def _encode_answer(self, message: AssistantMessage) -> list[Any]:
        is_author = self.target.is_author(message)
        content: list[Any] = []
        has_content = False
        for part in message.parts:
            if isinstance(part, Thinking):
                block = _encode_thinking(part) if is_author else None
            elif isinstance(part, ToolCall):
                block = _encode_call(part)
                has_content = True
            elif part.text.strip():
                block = {"type": "text", "text": part.text}
                has_content = True
            else:
                block = None  # the API rejects blank texts
            if block:
                content.append(block)
        # The API rejects a message that contains only thinking.
        return content if has_content else []

    def _encode_result(self, result: ToolResult) -> dict[str, Any]:
        block: dict[str, Any] = {
            "type": "tool_result",
            "tool_use_id": call_id(result.call_id, *_ID),
        }
        parts = sendable_parts(result.parts, self.target.images)
        content = _encode_parts(parts)
        # The content of a result is optional.
        if content:
            block["content"] = content
        if result.code:
            block["is_error"] = True
        return block


def _encode_call(call: ToolCall) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": call_id(call.id, *_ID),
        "name": call.name,
        "input": msgspec.Raw(arguments_object(call)),
    }


def _encode_parts(parts: Sequence[Text | Image]) -> list[Any]:
    blocks: list[Any] = []
    for part in parts:
        if isinstance(part, Image):
            source = {
                "type": "base64",
                "media_type": part.media_type,
                "data": encode_base64(part),
            }
            blocks.append({"type": "image", "source": source})
        elif part.text.strip():
            blocks.append({"type": "text", "text": part.text})
    return blocks


def _encode_thinking(part: Thinking) -> dict[str, Any] | None:
    data = part.vendor.get("redacted")
    if data:
        return {"type": "redacted_thinking", "data": data}
    signature = part.vendor.get("signature")
    if signature:
        return {"type": "thinking", "thinking": part.text, "signature": signature}
    return None


_STOPS: dict[str, Stop] = {
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


class AnthropicReader(VendorReader):
    """A parser for the events of a message. Implements ``Reader``."""

    def __init__(self, model: str, body: bytes, endpoint: Endpoint) -> None:
        super().__init__(model, body, endpoint)
        self._blocks: dict[int, CallPart | ThinkingPart] = {}
        self._initial_input: dict[int, Any] = {}
        self._usage: dict[str, Any] = {}

    def feed(self, event: bytes, data: bytes) -> Iterable[Chunk]:
        """Parse one event and return its chunks."""
        if data.startswith(b"[DONE]"):
            # The end marker ``[DONE]`` is not part of this format, but some proxies add it.
            self.ended = True
            return ()
        value = decode_event(data)
        index = value.get("index", 0)
        match value.get("type"):
            case "content_block_delta":
                return self._read_delta(index, get_dict(value, "delta"))
            case "content_block_start":
                return self._start_block(index, get_dict(value, "content_block"))
            case "content_block_stop":
                return self._stop_block(index)
            case "message_start":
                self._add_usage(get_dict(value, "message"))
            case "message_delta":
                self._add_usage(value)
                self._read_stop(get_dict(value, "delta"))
            case "message_stop":
                # A few servers send no stop reason before `message_stop`.
                self._answer.stop = self._answer.stop or "end"
                self.ended = True
            case "error":
                raise self._error(value.get("error"))
        return ()

    def finish(self) -> Done:
        """Return the complete answer."""
        self._answer.usage = _read_usage(self._usage)
        return super().finish()

    def _start_block(self, index: int, block: dict[str, Any]) -> Iterable[Chunk]:
        match block.get("type"):
            case "text":
                # Each block becomes a separate part, because it is sent back as a separate block.
                self._answer.begin_text()
                return self._answer.add_text(block.get("text") or "")
            case "thinking":
                # The signature follows in a separate delta, but some servers send it at the start
                # of the block.
                thinking = self._answer.begin_thinking()
                self._blocks[index] = thinking
                signature = block.get("signature")
                if signature:
                    thinking.vendor["signature"] = signature
                return self._answer.add_thinking(block.get("thinking") or "")
            case "redacted_thinking":
                self._answer.begin_thinking().vendor["redacted"] = block.get("data") or ""
            case "tool_use":
                call = self._answer.begin_call(get_text(block, "id"), get_text(block, "name"))
                self._blocks[index] = call
                self._initial_input[index] = block.get("input")
                return self._answer.open_arguments(call)
        return ()

    def _read_delta(self, index: int, delta: dict[str, Any]) -> Iterable[Chunk]:
        block = self._blocks.get(index)
        match delta.get("type"):
            case "text_delta":
                return self._answer.add_text(delta.get("text") or "")
            case "thinking_delta":
                return self._answer.add_thinking(delta.get("thinking") or "")
            case "signature_delta" if isinstance(block, ThinkingPart):
                known = block.vendor.get("signature", "")
                block.vendor["signature"] = known + (delta.get("signature") or "")
            case "input_json_delta" if isinstance(block, CallPart):
                return self._answer.add_arguments(block, delta.get("partial_json") or "")
        return ()

    def _stop_block(self, index: int) -> Iterable[Chunk]:
        block = self._blocks.get(index)
        if not isinstance(block, CallPart) or any(block.arguments):
            return ()
        # Some compatible servers send the complete arguments with the start of the block.
        initial = self._initial_input.get(index)
        if not initial:
            return ()
        return self._answer.add_arguments(block, to_json_text(initial))

    def _read_stop(self, delta: dict[str, Any]) -> None:
        reason = get_text(delta, "stop_reason")
        if reason:
            self._answer.stop = _STOPS.get(reason, "end")

    def _add_usage(self, table: dict[str, Any]) -> None:
        # Token counts arrive in two events; a count that was already sent may be null in the second
        # event.
        for name, value in get_dict(table, "usage").items():
            if value is not None:
                self._usage[name] = value

    def _error(self, error: Any) -> Exception:
        if not isinstance(error, dict):
            error = {"message": error}
        return event_error(get_text(error, "message"), get_text(error, "type"), self._endpoint)


def _read_usage(table: dict[str, Any]) -> Usage:
    cached = get_count(table, "cache_read_input_tokens")
    written = get_count(table, "cache_creation_input_tokens")
    return Usage(
        # The API counts only uncached tokens.
        input=get_count(table, "input_tokens") + cached + written,
        cached=cached,
        cache_write=written,
        output=get_count(table, "output_tokens"),
        reasoning=get_count(table, "output_tokens_details", "thinking_tokens"),
    )


def _key_header(key: str) -> Mapping[str, str]:
    return {"x-api-key": key}


API = Api(
    path="/v1/messages",
    create_wire=AnthropicWire,
    create_reader=AnthropicReader,
    models_path="/v1/models",
    key_headers=_key_header,
    headers={
        # This has been the only version since 2023; new features are enabled by beta headers.
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "thinking-binding-controls-2026-08-01",
    },
)
