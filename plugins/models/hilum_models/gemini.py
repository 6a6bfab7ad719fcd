"""The format of Gemini's ``streamGenerateContent`` (https://ai.google.dev/api/generate-content).

Thought signatures arrive together with calls and text, and are sent back with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
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
    ToolResult,
    ToolSpec,
    Usage,
)
from hilum.models import Chunk

from hilum_models.answer_builder import Stop, VendorReader
from hilum_models.apis import Api
from hilum_models.encode import (
    VendorWire,
    arguments_object,
    describe_tool,
    encode,
    encode_base64,
    merge,
    open_list,
    split_result,
    system_text,
    user_parts,
)
from hilum_models.failures import event_error
from hilum_models.json_values import (
    decode_event,
    get_count,
    get_dict,
    get_dicts,
    get_text,
    to_json_text,
)

_THINKS = re.compile(r"gemini-(2\.5|[3-9])")
# From version 3 on, calls without a signature are rejected; this value in its place declares that
# another model made the call.
_REQUIRES_SIGNATURE = re.compile(r"gemini-[3-9]")
_FOREIGN_SIGNATURE = "skip_thought_signature_validator"


class GeminiWire(VendorWire, frozen=True):
    """The encoding of requests. Implements ``Wire``."""

    api = "gemini"

    def head(self, layers: Sequence[Layer], tools: Sequence[ToolSpec]) -> bytes:
        """Encode options, tools and the system prompt."""
        config = self._generation_config()
        # The user's options are merged before tools and messages are added, so that they cannot
        # replace them.
        fields = merge({"generationConfig": config} if config else {}, self.target.options)
        if tools:
            # The older field `parameters` accepts only a subset of JSON Schema.
            declarations = [describe_tool(tool, "parametersJsonSchema") for tool in tools]
            fields["tools"] = [{"functionDeclarations": declarations}]
        system = system_text(layers)
        if system:
            fields["systemInstruction"] = {"parts": [{"text": system}]}
        return open_list(fields, "contents")

    def _generation_config(self) -> dict[str, Any]:
        target = self.target
        config: dict[str, Any] = {}
        if target.max_output:
            config["maxOutputTokens"] = target.max_output
        # Older models reject the field `thinkingConfig`.
        if _THINKS.match(target.id):
            config["thinkingConfig"] = {"includeThoughts": True}
            if target.effort:
                config["thinkingConfig"]["thinkingLevel"] = target.effort.upper()
        return config

    def message(self, message: Message) -> bytes:
        """Encode one message."""
        role = "user"
        if isinstance(message, AssistantMessage):
            role = "model"
            parts = self._encode_answer(message)
        elif isinstance(message, ToolMessage):
            parts = self._encode_results(message.results)
        else:
            given = user_parts(message, self.target.images)
            if isinstance(given, str):
                parts = [{"text": given}] if given else []
            else:
                parts = [_encode_part(part) for part in given]
        if parts:
            return encode({"role": role, "parts": parts})
        return b""

    def _encode_answer(self, message: AssistantMessage) -> list[Any]:
        is_author = self.target.is_author(message)
        needs_signature = bool(_REQUIRES_SIGNATURE.match(self.target.id))
        parts: list[Any] = []
        for part in message.parts:
            signature = ""
            if is_author and not isinstance(part, Text):
                signature = part.vendor.get("thoughtSignature", "")
            if isinstance(part, Thinking):
                # Only the signature of a thought is sent back, not its text.
                if signature:
                    parts.append({"text": "", "thoughtSignature": signature})
            elif isinstance(part, ToolCall):
                if not signature and needs_signature:
                    # The call was made by another model, or its signature was removed from the log
                    # because it looked like a secret.
                    signature = _FOREIGN_SIGNATURE
                # If several calls are made at once, only the first has the signature.
                needs_signature = False
                parts.append(_encode_call(part, signature))
            elif part.text:
                parts.append({"text": part.text})
        return parts

    def _encode_results(self, results: Sequence[ToolResult]) -> list[Any]:
        responses: list[Any] = []
        images: list[Any] = []
        for result in results:
            text, found = split_result(result, self.target.images)
            if found:
                # A function's response is JSON, so its images follow as parts of the same message.
                images.append({"text": f"Image from {result.name}:"})
                images += [_encode_part(image) for image in found]
            response = {
                "id": result.call_id,
                "name": result.name,
                "response": {"error" if result.code else "output": text},
            }
            responses.append({"functionResponse": response})
        return responses + images


def _encode_call(call: ToolCall, signature: str) -> dict[str, Any]:
    arguments = msgspec.Raw(arguments_object(call))
    piece: dict[str, Any] = {"functionCall": {"id": call.id, "name": call.name, "args": arguments}}
    if signature:
        piece["thoughtSignature"] = signature
    return piece


def _encode_part(part: Text | Image) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"text": part.text}
    return {"inlineData": {"mimeType": part.media_type, "data": encode_base64(part)}}


_STOPS: dict[str, Stop] = {
    "STOP": "end",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    "SAFETY": "refusal",
    "RECITATION": "refusal",
    "LANGUAGE": "refusal",
    "BLOCKLIST": "refusal",
    "PROHIBITED_CONTENT": "refusal",
    "SPII": "refusal",
    "ESCALATION": "refusal",
    "MODEL_ARMOR": "refusal",
}
# Finish reasons after which the answer is unusable, but a retry may help.
_MALFORMED = (
    "MALFORMED_FUNCTION_CALL",
    "UNEXPECTED_TOOL_CALL",
    "MALFORMED_RESPONSE",
    "TOO_MANY_TOOL_CALLS",
)


class GeminiReader(VendorReader):
    """A parser for the responses in a stream. Implements ``Reader``."""

    def feed(self, event: bytes, data: bytes) -> Iterable[Chunk]:
        """Parse one event and return its chunks."""
        # ``ended`` stays false: only the end of the stream shows that the answer is complete.
        if data.startswith(b"[DONE]"):
            return ()
        value = decode_event(data)
        error = value.get("error")
        if isinstance(error, dict):
            raise self._error(error)
        # Each response contains the counts so far; the last ones are final.
        usage = value.get("usageMetadata")
        if usage:
            self._answer.usage = _read_usage(usage)
        reason = get_dict(value, "promptFeedback").get("blockReason")
        if reason:
            message = f"{self._endpoint.provider} refused the prompt: {reason}."
            raise ModelError(message, kind="request")
        chunks: list[Chunk] = []
        # Requests ask for one candidate. Further candidates would be other answers to the same
        # request.
        for candidate in get_dicts(value, "candidates")[:1]:
            for part in get_dicts(get_dict(candidate, "content"), "parts"):
                chunks += self._read_part(part)
            self._read_stop(candidate)
        return chunks

    def _read_part(self, part: dict[str, Any]) -> list[Chunk]:
        signature = part.get("thoughtSignature")
        vendor = {"thoughtSignature": signature} if signature else {}
        call = part.get("functionCall")
        if isinstance(call, dict):
            begun = self._answer.begin_call(get_text(call, "id"), get_text(call, "name"), vendor)
            # Calls are never split into pieces.
            arguments = to_json_text(call.get("args") or {})
            return self._answer.open_arguments(begun, arguments)
        text = part.get("text") or ""
        if part.get("thought"):
            chunks = self._answer.add_thinking(text)
        else:
            chunks = self._answer.add_text(text)
        # The signature may arrive with text. The signature is stored in a separate reasoning part,
        # because text parts have no vendor data.
        if signature:
            self._answer.begin_thinking().vendor.update(vendor)
        return chunks

    def _read_stop(self, candidate: dict[str, Any]) -> None:
        reason = get_text(candidate, "finishReason")
        if not reason:
            return
        if reason in _MALFORMED:
            explanation = get_text(candidate, "finishMessage")
            message = f"{reason}: {explanation}" if explanation else reason
            raise event_error(message, "", self._endpoint)
        if reason == "MISSING_THOUGHT_SIGNATURE":
            message = f"{self._endpoint.provider} requires a missing thought signature."
            raise ModelError(message, kind="request")
        self._answer.stop = _STOPS.get(reason, "end")

    def _error(self, error: dict[str, Any]) -> ModelError:
        code = error.get("code")
        status = code if isinstance(code, int) else 0
        message = get_text(error, "message")
        return event_error(message, get_text(error, "status"), self._endpoint, status)


def _read_usage(table: Any) -> Usage:
    thoughts = get_count(table, "thoughtsTokenCount")
    tool_prompts = get_count(table, "toolUsePromptTokenCount")
    return Usage(
        input=get_count(table, "promptTokenCount") + tool_prompts,
        cached=get_count(table, "cachedContentTokenCount"),
        # The candidates' token count does not include thoughts.
        output=get_count(table, "candidatesTokenCount") + thoughts,
        reasoning=thoughts,
    )


def _key_header(key: str) -> Mapping[str, str]:
    return {"x-goog-api-key": key}


API = Api(
    path="/models/{model}:streamGenerateContent?alt=sse",
    create_wire=GeminiWire,
    create_reader=GeminiReader,
    key_headers=_key_header,
)
