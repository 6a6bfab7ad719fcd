"""Anthropic Messages.

Cache marks: one on the system prompt, which other sessions and agents share, and the request's own,
by which the server marks the last block. So no message's bytes ever change for the cache's sake.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
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
    ToolSpec,
    Usage,
)
from hilum.models import Chunk, Done

from hilum_models import encode as e
from hilum_models.answer import Answer, Call, Stop, Thought, as_json, decode, number
from hilum_models.failures import Who, reported
from hilum_models.schemas import plain

_CACHE = {"type": "ephemeral"}
_ID = (r"[A-Za-z0-9_-]{1,64}", 32)
# These decide by themselves how much to think, if they are asked to; what others do without being
# asked is right.
_ADAPTIVE = re.compile(r"claude-((opus|sonnet)-4-[6-9](?!\d)|[a-z]+-[5-9](?!\d)|mythos-)")
# These refuse thinking whose past has changed, as it does at each run and each trim, unless told to
# drop it; the beta header of the requests allows telling them.
_BOUND = re.compile(r"claude-[a-z]+-(5-[1-9](?!\d)|[6-9](?!\d))")
DEFAULT_OUTPUT = 8_192


class AnthropicWire(msgspec.Struct, frozen=True):
    """Encodes for Anthropic Messages. Implements ``Wire``."""

    target: e.Target

    @property
    def key(self) -> str:
        """Name of the encoding."""
        return self.target.key("anthropic")

    def head(self, layers: Sequence[Layer], tools: Sequence[ToolSpec]) -> bytes:
        """Encode options, tools and system prompt."""
        target = self.target
        fields: dict[str, Any] = {
            "model": target.id,
            "max_tokens": target.max_output or DEFAULT_OUTPUT,
            "stream": True,
            "cache_control": _CACHE,
        }
        if _ADAPTIVE.search(target.id):
            fields["thinking"] = {"type": "adaptive", "display": "summarized"}
            if _BOUND.search(target.id):
                fields["thinking"]["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
        if target.effort:
            fields["output_config"] = {"effort": target.effort}
        fields = e.merge(fields, target.options)
        if tools:
            fields["tools"] = [
                {"name": t.name, "description": t.description, "input_schema": plain(t.parameters)}
                for t in tools
            ]
        system = [{"type": "text", "text": layer.text} for layer in layers if layer.text.strip()]
        if system:
            system[-1]["cache_control"] = _CACHE  # type: ignore[assignment]
            fields["system"] = system
        return e.open_list(fields, "messages")

    def message(self, message: Message) -> bytes:
        """Encode one message."""
        if isinstance(message, AssistantMessage):
            content = self._assistant(message)
            role = "assistant"
        elif isinstance(message, ToolMessage):
            content = [self._result(result) for result in message.results]
            role = "user"
        else:
            text = e.user_text(message)
            parts = (
                [Text(text)]
                if text is not None
                else e.flatten(getattr(message, "parts", ()), self.target.images)
            )
            content = _blocks(parts)
            role = "user"
        if content:
            return e.encode({"role": role, "content": content})
        return b""

    def _assistant(self, message: AssistantMessage) -> list[Any]:
        own = e.is_own(message, self.target)
        content: list[Any] = []
        said = False
        for part in message.parts:
            if isinstance(part, Thinking):
                if own and (block := _thought(part)):
                    content.append(block)
            elif isinstance(part, ToolCall):
                arguments = e.raw(e.arguments_object(part))
                content.append(
                    {
                        "type": "tool_use",
                        "id": e.call_id(part.id, *_ID),
                        "name": part.name,
                        "input": arguments,
                    }
                )
                said = True
            elif part.text.strip():
                content.append({"type": "text", "text": part.text})
                said = True
        return content if said else []

    def _result(self, result: Any) -> dict[str, Any]:
        block: dict[str, Any] = {
            "type": "tool_result",
            "tool_use_id": e.call_id(result.call_id, *_ID),
        }
        content = _blocks(e.flatten(result.parts, self.target.images))
        if content:
            block["content"] = content
        if result.code:
            block["is_error"] = True
        return block

    def body(self, head: bytes, pieces: Sequence[bytes]) -> bytes:
        """Join the pieces."""
        return e.join(head, pieces)


def _blocks(parts: Sequence[Text | Image]) -> list[Any]:
    blocks: list[Any] = []
    for part in parts:
        if isinstance(part, Image):
            source = {"type": "base64", "media_type": part.media_type, "data": e.base64_of(part)}
            blocks.append({"type": "image", "source": source})
        elif part.text.strip():
            blocks.append({"type": "text", "text": part.text})
    return blocks


def _thought(part: Thinking) -> dict[str, Any] | None:
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


class AnthropicReader:
    """Reads the events of a message. Implements ``Reader``."""

    def __init__(self, model: str, body: bytes, who: Who) -> None:
        self._answer = Answer(model, body)
        self._who = who
        self._blocks: dict[int, Call | Thought | None] = {}
        self._whole: dict[int, Any] = {}
        self._usage: dict[str, Any] = {}
        self.ended = False

    @property
    def complete(self) -> bool:
        """Whether the message's stop reason came; some servers send nothing after it."""
        return self._answer.stop is not None

    def feed(self, event: bytes, data: bytes) -> Iterable[Chunk]:
        """Take one event."""
        if data.startswith(b"[DONE]"):  # not of this format, but proxies add it
            self.ended = True
            return ()
        value = decode(data)
        match value.get("type"):
            case "content_block_delta":
                return self._delta(value.get("index", 0), value.get("delta") or {})
            case "content_block_start":
                return self._start(value.get("index", 0), value.get("content_block") or {})
            case "content_block_stop":
                return self._block_stop(value.get("index", 0))
            case "message_start":
                self._count((value.get("message") or {}).get("usage"))
            case "message_delta":
                self._count(value.get("usage"))
                reason = (value.get("delta") or {}).get("stop_reason")
                if reason:
                    self._answer.stop = _STOPS.get(str(reason), "end")
            case "message_stop":
                self._answer.stop = self._answer.stop or "end"
                self.ended = True
            case "error":
                error = value.get("error") or {}
                error = error if isinstance(error, dict) else {"message": error}
                raise reported(
                    str(error.get("message") or ""), str(error.get("type") or ""), self._who
                )
        return ()

    def finish(self) -> Done:
        """Return the whole answer."""
        self._answer.usage = _usage(self._usage)
        return self._answer.done()

    def _start(self, index: int, block: dict[str, Any]) -> Iterable[Chunk]:
        match block.get("type"):
            case "text":
                self._blocks[index] = None
                self._answer.words(new=True)  # blocks go back as they came
                return self._answer.text(block.get("text") or "")
            case "thinking":
                thought = self._blocks[index] = self._answer.thought(new=True)
                signature = block.get("signature")
                if signature:
                    thought.vendor["signature"] = signature
                return self._answer.thinking(block.get("thinking") or "")
            case "redacted_thinking":
                self._answer.thought(new=True).vendor["redacted"] = block.get("data") or ""
            case "tool_use":
                call = self._answer.call(str(block.get("id") or ""), str(block.get("name") or ""))
                self._blocks[index] = call
                self._whole[index] = block.get("input")
                return self._answer.arguments(call, "", first=True)
        return ()

    def _delta(self, index: int, delta: dict[str, Any]) -> Iterable[Chunk]:
        block = self._blocks.get(index)
        match delta.get("type"):
            case "text_delta":
                return self._answer.text(delta.get("text") or "")
            case "thinking_delta":
                return self._answer.thinking(delta.get("thinking") or "")
            case "signature_delta" if isinstance(block, Thought):
                block.vendor["signature"] = block.vendor.get("signature", "") + (
                    delta.get("signature") or ""
                )
            case "input_json_delta" if isinstance(block, Call):
                return self._answer.arguments(block, delta.get("partial_json") or "")
        return ()

    def _block_stop(self, index: int) -> Iterable[Chunk]:
        block = self._blocks.get(index)
        # Some compatible servers give the arguments whole, with the start of the block.
        if isinstance(block, Call) and not any(block.arguments) and self._whole.get(index):
            return self._answer.arguments(block, as_json(self._whole[index]))
        return ()

    def _count(self, usage: Any) -> None:
        if isinstance(usage, dict):
            self._usage |= {name: value for name, value in usage.items() if value is not None}


def _usage(table: dict[str, Any]) -> Usage:
    cached = number(table, "cache_read_input_tokens")
    written = number(table, "cache_creation_input_tokens")
    return Usage(
        input=number(table, "input_tokens") + cached + written,
        cached=cached,
        cache_write=written,
        output=number(table, "output_tokens"),
        reasoning=number(table, "output_tokens_details", "thinking_tokens"),
    )
