"""OpenAI Responses, without state at the server: reasoning comes encrypted and is sent back as it
came.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
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
    ToolCall,
    ToolMessage,
    ToolSpec,
    Usage,
)
from hilum.models import Chunk, Done

from hilum_models import encode as e
from hilum_models.answer import Answer, Call, Thought, as_json, decode, number
from hilum_models.failures import Who, reported
from hilum_models.schemas import plain

_ID = (r"(?s).{1,64}", 32)
_REASONS = re.compile(r"(.*/)?(gpt-[5-9](?!.*chat)|o[134](-|$)|codex)")


class ResponsesWire(msgspec.Struct, frozen=True):
    """Encodes for Responses. Implements ``Wire``."""

    target: e.Target

    @property
    def key(self) -> str:
        """Name of the encoding."""
        return self.target.key("responses")

    def head(self, layers: Sequence[Layer], tools: Sequence[ToolSpec]) -> bytes:
        """Encode options, tools and system prompt."""
        target = self.target
        fields: dict[str, Any] = {"model": target.id, "stream": True, "store": False}
        if _REASONS.match(target.id):
            fields["include"] = ["reasoning.encrypted_content"]
        if target.max_output:
            fields["max_output_tokens"] = target.max_output
        if target.effort:
            fields["reasoning"] = {"effort": target.effort}
        fields = e.merge(fields, target.options)
        if tools:
            fields["tools"] = [
                {
                    "type": "function",
                    "name": t.name,
                    "description": t.description,
                    "parameters": plain(t.parameters),
                    "strict": False,
                }
                for t in tools
            ]
        system = e.system_text(layers)
        if system:
            fields["instructions"] = system
        return e.open_list(fields, "input")

    def message(self, message: Message) -> bytes:
        """Encode one message."""
        if isinstance(message, AssistantMessage):
            return self._assistant(message)
        if isinstance(message, ToolMessage):
            return b",".join(e.encode(self._result(result)) for result in message.results)
        text = e.user_text(message)
        if text is not None:
            if text:
                return e.encode({"role": "user", "content": text})
            return b""
        parts = e.flatten(getattr(message, "parts", ()), self.target.images)
        return e.encode({"role": "user", "content": [_part(part) for part in parts]})

    def _assistant(self, message: AssistantMessage) -> bytes:
        own = e.is_own(message, self.target)
        items: list[bytes] = []
        said = 0
        phase = ""
        for part in message.parts:
            if isinstance(part, Thinking):
                if own and (item := part.vendor.get("item")):
                    items.append(e.encode(item))
                phase = part.vendor.get("phase", "") if own else ""
                continue
            if isinstance(part, ToolCall):
                arguments = e.arguments_object(part).decode()
                call = {
                    "type": "function_call",
                    "call_id": e.call_id(part.id, *_ID),
                    "name": part.name,
                }
                items.append(e.encode({**call, "arguments": arguments}))
            elif part.text:
                text = {"role": "assistant", "content": part.text}
                items.append(e.encode({**text, "phase": phase} if phase else text))
            said = len(items)
        # Reasoning that nothing follows is refused: the answer was cut there.
        return b",".join(items[:said])

    def _result(self, result: Any) -> dict[str, Any]:
        parts = e.flatten(result.parts, self.target.images)
        if any(isinstance(part, Image) for part in parts):
            output: Any = [_part(part) for part in parts]
        else:
            output = "\n".join(part.text for part in parts if isinstance(part, Text))
        return {
            "type": "function_call_output",
            "call_id": e.call_id(result.call_id, *_ID),
            "output": output,
        }

    def body(self, head: bytes, pieces: Sequence[bytes]) -> bytes:
        """Join the pieces."""
        return e.join(head, pieces)


def _part(part: Text | Image) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    url = f"data:{part.media_type};base64,{e.base64_of(part)}"
    return {"type": "input_image", "image_url": url, "detail": "auto"}


class ResponsesReader:
    """Reads the events of a response. Implements ``Reader``."""

    def __init__(self, model: str, body: bytes, who: Who) -> None:
        self._answer = Answer(model, body)
        self._who = who
        self._items: dict[object, Call | Thought] = {}
        self._refused = False
        self.ended = False

    @property
    def complete(self) -> bool:
        """Whether the response is completed or incomplete."""
        return self.ended

    def feed(self, event: bytes, data: bytes) -> Iterable[Chunk]:
        """Take one event."""
        if data.startswith(b"[DONE]"):
            return ()
        value = decode(data)
        slot = value.get("output_index", value.get("item_id"))
        match value.get("type") or event.decode("utf-8", "replace"):
            case "response.output_text.delta":
                return self._answer.text(value.get("delta") or "")
            case "response.refusal.delta":
                self._refused = True
                return self._answer.text(value.get("delta") or "")
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return self._answer.thinking(value.get("delta") or "")
            case "response.reasoning_summary_part.added" if value.get("summary_index"):
                return self._answer.thinking("\n\n")
            case "response.output_item.added":
                return self._added(slot, value.get("item") or {})
            case "response.function_call_arguments.delta":
                call = self._items.get(slot)
                if isinstance(call, Call):
                    return self._answer.arguments(call, value.get("delta") or "")
                return ()
            case "response.output_item.done":
                return self._item_done(slot, value.get("item") or {})
            case "response.completed" | "response.incomplete" | "response.done":
                self._end(value.get("response") or {})
            case "response.failed":
                raise self._error((value.get("response") or {}).get("error") or {})
            case "error":
                raise self._error(value.get("error") or value)
        return ()

    def finish(self) -> Done:
        """Return the whole answer."""
        return self._answer.done()

    def _added(self, slot: object, item: dict[str, Any]) -> Iterable[Chunk]:
        match item.get("type"):
            case "function_call":
                call = self._answer.call(
                    str(item.get("call_id") or item.get("id") or ""), str(item.get("name") or "")
                )
                self._items[slot] = call
                return self._answer.arguments(call, "", first=True)
            case "reasoning":
                self._items[slot] = self._answer.thought(new=True)
            case "message" if phase := item.get("phase"):
                self._answer.thought(new=True).vendor["phase"] = phase
        return ()

    def _item_done(self, slot: object, item: dict[str, Any]) -> Iterable[Chunk]:
        known = self._items.get(slot)
        chunks: list[Chunk] = []
        if item.get("type") == "function_call":
            if not isinstance(known, Call):
                chunks += self._added(slot, item)
                known = self._items[slot]
            if isinstance(known, Call) and not any(known.arguments):
                chunks += self._answer.arguments(known, as_json(item.get("arguments")))
        elif item.get("type") == "reasoning" and item.get("encrypted_content"):
            if not isinstance(known, Thought):
                known = self._answer.thought(new=True)
            kept = ("id", "type", "summary", "encrypted_content")
            known.vendor["item"] = {
                "summary": [],
                **{name: item[name] for name in kept if name in item},
            }
        return chunks

    def _end(self, response: dict[str, Any]) -> None:
        usage = response.get("usage")
        self._answer.usage = Usage(
            input=number(usage, "input_tokens"),
            cached=number(usage, "input_tokens_details", "cached_tokens"),
            cache_write=number(usage, "input_tokens_details", "cache_write_tokens"),
            output=number(usage, "output_tokens"),
            reasoning=number(usage, "output_tokens_details", "reasoning_tokens"),
        )
        reason = (response.get("incomplete_details") or {}).get("reason", "")
        if response.get("status") == "failed":
            raise self._error(response.get("error") or {})
        if reason == "content_filter" or self._refused:
            self._answer.stop = "refusal"
        else:
            if reason or response.get("status") == "incomplete":
                self._answer.stop = "length"
            else:
                self._answer.stop = "end"
        self.ended = True

    def _error(self, error: dict[str, Any]) -> ModelError:
        return reported(
            str(error.get("message") or ""),
            str(error.get("code") or error.get("type") or ""),
            self._who,
        )
