"""Gemini, ``streamGenerateContent``.

Signatures of thoughts are kept beside calls and text and sent back with them.
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
from hilum_models.answer import Answer, Stop, as_json, decode, number, tables
from hilum_models.failures import Who, reported
from hilum_models.schemas import plain

_THINKS = re.compile(r"gemini-(2\.5|[3-9])")
# From version 3 on calls without a signature are refused, unless this says that another model made
# them.
_SIGNED = re.compile(r"gemini-[3-9]")
_FOREIGN = "skip_thought_signature_validator"


class GeminiWire(msgspec.Struct, frozen=True):
    """Encodes for Gemini. Implements ``Wire``."""

    target: e.Target

    @property
    def key(self) -> str:
        """Name of the encoding."""
        return self.target.key("gemini")

    def head(self, layers: Sequence[Layer], tools: Sequence[ToolSpec]) -> bytes:
        """Encode options, tools and system prompt."""
        target = self.target
        config: dict[str, Any] = {}
        if target.max_output:
            config["maxOutputTokens"] = target.max_output
        if _THINKS.match(target.id):
            config["thinkingConfig"] = {"includeThoughts": True}
            if target.effort:
                config["thinkingConfig"]["thinkingLevel"] = target.effort.upper()
        fields = e.merge({"generationConfig": config} if config else {}, target.options)
        if tools:
            declarations = [
                {
                    "name": t.name,
                    "description": t.description,
                    "parametersJsonSchema": plain(t.parameters),
                }
                for t in tools
            ]
            fields["tools"] = [{"functionDeclarations": declarations}]
        system = e.system_text(layers)
        if system:
            fields["systemInstruction"] = {"parts": [{"text": system}]}
        return e.open_list(fields, "contents")

    def message(self, message: Message) -> bytes:
        """Encode one message."""
        role = "user"
        if isinstance(message, AssistantMessage):
            parts = self._assistant(message)
            role = "model"
        elif isinstance(message, ToolMessage):
            parts = self._results(message)
        else:
            text = e.user_text(message)
            given = (
                [Text(text)]
                if text
                else e.flatten(getattr(message, "parts", ()), self.target.images)
            )
            parts = [_part(part) for part in given]
        if parts:
            return e.encode({"role": role, "parts": parts})
        return b""

    def _assistant(self, message: AssistantMessage) -> list[Any]:
        own = e.is_own(message, self.target)
        parts: list[Any] = []
        signed = not _SIGNED.match(self.target.id)
        for part in message.parts:
            if isinstance(part, Thinking):
                if own and (signature := part.vendor.get("thoughtSignature")):
                    parts.append({"text": "", "thoughtSignature": signature})
            elif isinstance(part, ToolCall):
                arguments = e.raw(e.arguments_object(part))
                piece: dict[str, Any] = {
                    "functionCall": {"id": part.id, "name": part.name, "args": arguments}
                }
                if own and (signature := part.vendor.get("thoughtSignature")):
                    piece["thoughtSignature"] = signature
                elif not signed and not own:
                    piece["thoughtSignature"] = _FOREIGN
                signed = True  # of calls made at once, the first carries the signature
                parts.append(piece)
            elif part.text:
                parts.append({"text": part.text})
        return parts

    def _results(self, message: ToolMessage) -> list[Any]:
        answers: list[Any] = []
        images: list[Any] = []
        for result in message.results:
            parts = e.flatten(result.parts, self.target.images)
            text = "\n".join(part.text for part in parts if isinstance(part, Text))
            found = [part for part in parts if isinstance(part, Image)]
            if found:
                text = text or "The image follows."
                images += [
                    {"text": f"Image given by {result.name}:"},
                    *(_part(part) for part in found),
                ]
            response = {"error" if result.code else "output": text}
            answers.append(
                {
                    "functionResponse": {
                        "id": result.call_id,
                        "name": result.name,
                        "response": response,
                    }
                }
            )
        return answers + images

    def body(self, head: bytes, pieces: Sequence[bytes]) -> bytes:
        """Join the pieces."""
        return e.join(head, pieces)


def _part(part: Text | Image) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"text": part.text}
    return {"inlineData": {"mimeType": part.media_type, "data": e.base64_of(part)}}


_STOPS: dict[str, Stop] = {"STOP": "end", "MAX_TOKENS": "length", "CONTINUATION": "length"}
_REFUSALS = (
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "ESCALATION",
    "MODEL_ARMOR",
)
_BROKEN = (
    "MALFORMED_FUNCTION_CALL",
    "UNEXPECTED_TOOL_CALL",
    "MALFORMED_RESPONSE",
    "TOO_MANY_TOOL_CALLS",
)


class GeminiReader:
    """Reads the responses of a stream. Implements ``Reader``."""

    ended = False  # nothing but the end of the stream says so

    def __init__(self, model: str, body: bytes, who: Who) -> None:
        self._answer = Answer(model, body)
        self._who = who

    @property
    def complete(self) -> bool:
        """Whether a finish reason came."""
        return self._answer.stop is not None

    def feed(self, event: bytes, data: bytes) -> Iterable[Chunk]:
        """Take one event."""
        if data.startswith(b"[DONE]"):
            return ()
        value = decode(data)
        if isinstance(error := value.get("error"), dict):
            code = error.get("code")
            status = code if isinstance(code, int) else 0
            raise reported(
                str(error.get("message") or ""), str(error.get("status") or ""), self._who, status
            )
        usage = value.get("usageMetadata")
        if usage:
            self._answer.usage = _usage(usage)
        reason = (value.get("promptFeedback") or {}).get("blockReason")
        if reason:
            raise ModelError(f"{self._who.provider} refused the prompt: {reason}.", kind="request")
        chunks: list[Chunk] = []
        for candidate in tables(value.get("candidates"))[:1]:
            for part in tables((candidate.get("content") or {}).get("parts")):
                self._part(part, chunks)
            reason = candidate.get("finishReason")
            if reason:
                self._stop(str(reason), str(candidate.get("finishMessage") or ""))
        return chunks

    def finish(self) -> Done:
        """Return the whole answer."""
        return self._answer.done()

    def _part(self, part: dict[str, Any], chunks: list[Chunk]) -> None:
        signature = part.get("thoughtSignature")
        if isinstance(call := part.get("functionCall"), dict):
            vendor = {"thoughtSignature": signature} if signature else None
            made = self._answer.call(str(call.get("id") or ""), str(call.get("name") or ""), vendor)
            chunks += self._answer.arguments(made, as_json(call.get("args") or {}), first=True)
            return
        text = part.get("text") or ""
        chunks += self._answer.thinking(text) if part.get("thought") else self._answer.text(text)
        if signature:
            self._answer.thought(new=True).vendor["thoughtSignature"] = signature

    def _stop(self, reason: str, said: str) -> None:
        if reason in _BROKEN:
            words = f"{reason}: {said}" if said else reason
            raise reported(words, "", self._who)
        if reason == "MISSING_THOUGHT_SIGNATURE":
            raise ModelError(
                f"{self._who.provider} misses the signature of a thought.", kind="request"
            )
        self._answer.stop = "refusal" if reason in _REFUSALS else _STOPS.get(reason, "end")


def _usage(table: Any) -> Usage:
    thoughts = number(table, "thoughtsTokenCount")
    return Usage(
        input=number(table, "promptTokenCount") + number(table, "toolUsePromptTokenCount"),
        cached=number(table, "cachedContentTokenCount"),
        output=number(table, "candidatesTokenCount") + thoughts,
        reasoning=thoughts,
    )
