"""The format of OpenAI Responses (https://platform.openai.com/docs/api-reference/responses).

The server stores nothing: reasoning arrives encrypted and is sent back unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
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
    ToolResult,
    ToolSpec,
    Usage,
)
from hilum.models import Chunk

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
    system_text,
    user_parts,
)
from hilum_models.failures import Endpoint, event_error
from hilum_models.json_values import decode_event, get_count, get_dict, get_text, to_json_text

# The API accepts ids of at most 64 characters.
_ID = (r"(?s).{1,64}", 32)
_REASONS = re.compile(r"(.*/)?(gpt-[5-9](?!.*chat)|o[134](-|$)|codex)")
# The fields of a reasoning item that requests accept.
_REASONING_FIELDS = ("id", "type", "summary", "encrypted_content")


class ResponsesWire(VendorWire, frozen=True):
    """The encoding of requests. Implements ``Wire``."""

    api = "responses"

    def head(self, layers: Sequence[Layer], tools: Sequence[ToolSpec]) -> bytes:
        """Encode options, tools and the system prompt."""
        target = self.target
        fields: dict[str, Any] = {"model": target.id, "stream": True, "store": False}
        # Without storage on the server, encrypted reasoning is sent only on request. Models that do
        # not reason reject the field `include`.
        if _REASONS.match(target.id):
            fields["include"] = ["reasoning.encrypted_content"]
        if target.max_output:
            fields["max_output_tokens"] = target.max_output
        if target.effort:
            fields["reasoning"] = {"effort": target.effort}
        # The user's options are merged before tools and messages are added, so that they cannot
        # replace them.
        fields = merge(fields, target.options)
        if tools:
            fields["tools"] = [_encode_tool(tool) for tool in tools]
        system = system_text(layers)
        if system:
            fields["instructions"] = system
        return open_list(fields, "input")

    def message(self, message: Message) -> bytes:
        """Encode one message."""
        if isinstance(message, AssistantMessage):
            return b",".join(self._encode_answer(message))
        if isinstance(message, ToolMessage):
            return b",".join(encode(self._encode_result(result)) for result in message.results)
        content: Any = user_parts(message, self.target.images)
        if isinstance(content, list):
            content = [_encode_part(part) for part in content]
        elif not content:
            return b""
        return encode({"role": "user", "content": content})

    def _encode_answer(self, message: AssistantMessage) -> list[bytes]:
        is_author = self.target.is_author(message)
        items: list[bytes] = []
        end = 0
        phase = ""
        for part in message.parts:
            if isinstance(part, Thinking):
                vendor = part.vendor if is_author else {}
                phase = vendor.get("phase", "")
                if vendor.get("item"):
                    items.append(encode(vendor["item"]))
                continue
            if isinstance(part, ToolCall):
                items.append(_encode_call(part))
            elif part.text:
                items.append(_encode_text(part, phase))
            end = len(items)
        # The API rejects reasoning that is not followed by an item, as in a truncated answer.
        return items[:end]

    def _encode_result(self, result: ToolResult) -> dict[str, Any]:
        parts = sendable_parts(result.parts, self.target.images)
        if any(isinstance(part, Image) for part in parts):
            output: Any = [_encode_part(part) for part in parts]
        else:
            output = "\n".join(part.text for part in parts if isinstance(part, Text))
        return {
            "type": "function_call_output",
            "call_id": call_id(result.call_id, *_ID),
            "output": output,
        }


def _encode_tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        **describe_tool(tool, "parameters"),
        # Strict schemas allow neither optional parameters nor most keywords.
        "strict": False,
    }


def _encode_call(call: ToolCall) -> bytes:
    item = {
        "type": "function_call",
        "call_id": call_id(call.id, *_ID),
        "name": call.name,
        "arguments": arguments_object(call).decode(),
    }
    return encode(item)


def _encode_text(part: Text, phase: str) -> bytes:
    item = {"role": "assistant", "content": part.text}
    if phase:
        item["phase"] = phase
    return encode(item)


def _encode_part(part: Text | Image) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    url = f"data:{part.media_type};base64,{encode_base64(part)}"
    return {"type": "input_image", "image_url": url, "detail": "auto"}


class ResponsesReader(VendorReader):
    """A parser for the events of a response. Implements ``Reader``."""

    def __init__(self, model: str, body: bytes, endpoint: Endpoint) -> None:
        super().__init__(model, body, endpoint)
        self._items: dict[object, CallPart | ThinkingPart] = {}
        self._refused = False

    def feed(self, event: bytes, data: bytes) -> Iterable[Chunk]:
        """Parse one event and return its chunks."""
        if data.startswith(b"[DONE]"):
            return ()
        value = decode_event(data)
        # Some compatible servers name the event only in its SSE field.
        type = value.get("type") or event.decode("utf-8", "replace")
        if type.endswith(".delta"):
            return self._read_delta(type, value)
        slot = _slot(value)
        match type:
            # The parts of a summary arrive as separate texts, so an empty line is added between
            # them.
            case "response.reasoning_summary_part.added" if value.get("summary_index"):
                return self._answer.add_thinking("\n\n")
            case "response.output_item.added":
                return self._begin_item(slot, get_dict(value, "item"))
            case "response.output_item.done":
                return self._end_item(slot, get_dict(value, "item"))
            case "response.completed" | "response.incomplete" | "response.done":
                self._end(get_dict(value, "response"))
            case "response.failed":
                raise self._error(get_dict(get_dict(value, "response"), "error"))
            case "error":
                raise self._error(value.get("error") or value)
        return ()

    def _read_delta(self, type: str, value: dict[str, Any]) -> Iterable[Chunk]:
        delta = value.get("delta") or ""
        match type:
            case "response.output_text.delta":
                return self._answer.add_text(delta)
            case "response.refusal.delta":
                self._refused = True
                return self._answer.add_text(delta)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return self._answer.add_thinking(delta)
            case "response.function_call_arguments.delta":
                call = self._items.get(_slot(value))
                if isinstance(call, CallPart):
                    return self._answer.add_arguments(call, delta)
        return ()

    def _begin_item(self, slot: object, item: dict[str, Any]) -> list[Chunk]:
        match item.get("type"):
            case "function_call":
                return self._begin_call(slot, item)[1]
            case "reasoning":
                self._items[slot] = self._answer.begin_thinking()
            case "message" if item.get("phase"):
                self._answer.begin_thinking().vendor["phase"] = item["phase"]
        return []

    def _begin_call(self, slot: object, item: dict[str, Any]) -> tuple[CallPart, list[Chunk]]:
        id = get_text(item, "call_id") or get_text(item, "id")
        call = self._answer.begin_call(id, get_text(item, "name"))
        self._items[slot] = call
        return call, self._answer.open_arguments(call)

    def _end_item(self, slot: object, item: dict[str, Any]) -> list[Chunk]:
        known = self._items.get(slot)
        chunks: list[Chunk] = []
        if item.get("type") == "function_call":
            # Some servers send only complete items, without their beginnings and deltas.
            if not isinstance(known, CallPart):
                known, chunks = self._begin_call(slot, item)
            if not any(known.arguments):
                chunks += self._answer.add_arguments(known, to_json_text(item.get("arguments")))
        elif item.get("type") == "reasoning" and item.get("encrypted_content"):
            if not isinstance(known, ThinkingPart):
                known = self._answer.begin_thinking()
            accepted = {name: item[name] for name in _REASONING_FIELDS if name in item}
            known.vendor["item"] = {"summary": [], **accepted}
        return chunks

    def _end(self, response: dict[str, Any]) -> None:
        # The usage of a failed response is included, because it is also charged.
        self._answer.usage = _read_usage(response.get("usage"))
        if response.get("status") == "failed":
            raise self._error(get_dict(response, "error"))
        self._answer.stop = self._read_stop(response)
        self.ended = True

    def _read_stop(self, response: dict[str, Any]) -> Stop:
        # The API reports a refusal as a completed response.
        reason = get_text(get_dict(response, "incomplete_details"), "reason")
        if reason == "content_filter" or self._refused:
            return "refusal"
        if reason or response.get("status") == "incomplete":
            return "length"
        return "end"

    def _error(self, error: Any) -> ModelError:
        if not isinstance(error, dict):
            error = {"message": error}
        code = get_text(error, "code") or get_text(error, "type")
        return event_error(get_text(error, "message"), code, self._endpoint)


def _slot(value: dict[str, Any]) -> object:
    """Return the key shared by all events of an item."""
    return value.get("output_index", value.get("item_id"))


def _read_usage(table: Any) -> Usage:
    return Usage(
        input=get_count(table, "input_tokens"),
        cached=get_count(table, "input_tokens_details", "cached_tokens"),
        cache_write=get_count(table, "input_tokens_details", "cache_write_tokens"),
        output=get_count(table, "output_tokens"),
        reasoning=get_count(table, "output_tokens_details", "reasoning_tokens"),
    )


API = Api(path="/responses", create_wire=ResponsesWire, create_reader=ResponsesReader)
