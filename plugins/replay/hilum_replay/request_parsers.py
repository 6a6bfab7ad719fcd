"""Parsers for the items of a request, one for each vendor's format."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from hilum.messages import NOTE_TAG, Text, Thinking, ToolCall, unescape_notes

from hilum_replay.cassette import Sent, compute_digest

Part = Text | Thinking | ToolCall
Parsed = str | Sequence[Part | Sent]
"""The content of one item: the system prompt, parts of an answer, or new items."""

_NOTE_START = f"<{NOTE_TAG}>\n"
_NOTE_END = f"\n</{NOTE_TAG}>"
_SYSTEM_ROLES = ("system", "developer")
_IMAGE_TYPES = ("image_url", "input_image", "image")
# An answer without content is still an answer.
_EMPTY_ANSWER = Text("", "model")


# --- parts of all formats -------------------------------------------------------------------------


def join_texts(content: Any, separator: str = "\n\n") -> str:
    """Return the text of content that is a text or a list of parts."""
    if isinstance(content, str):
        return content
    texts = []
    for part in content or ():
        text = part.get("text") if isinstance(part, dict) else None
        if isinstance(text, str):
            texts.append(text)
    return separator.join(texts)


def _parse_user_text(text: str) -> Sent:
    """Return a user's text, or a note: hilum's gateways put a tag around notes."""
    if text.startswith(_NOTE_START) and text.endswith(_NOTE_END):
        note = text.removeprefix(_NOTE_START).removesuffix(_NOTE_END)
        return Sent("note", unescape_notes(note))
    return Sent("user", text)


def _parse_image(part: dict[str, Any], field: str, call: str = "") -> Sent:
    return Sent("image", compute_digest(str(part.get(field))), call)


def _parse_user_content(content: Any, image_field: str) -> list[Sent]:
    """Return the texts and images of a user's message."""
    if isinstance(content, str):
        return [_parse_user_text(content)]
    items = []
    for part in content or ():
        text = part.get("text")
        if isinstance(text, str):
            items.append(_parse_user_text(text))
        elif part.get("type") in _IMAGE_TYPES:
            items.append(_parse_image(part, image_field))
    return items


def _parse_result(call: str, content: Any, image_type: str = "", field: str = "") -> list[Sent]:
    """Return a result and its images. Wire formats do not carry the result's error code."""
    text = join_texts(content, "\n")
    items = [Sent("result", text, call, code=None)]
    if not isinstance(content, list):
        return items
    for part in content:
        if isinstance(part, dict) and part.get("type") == image_type:
            items.append(_parse_image(part, field, call))
    return items


def _get_text(item: dict[str, Any], key: str) -> str:
    return str(item.get(key, ""))


# --- OpenAI ---------------------------------------------------------------------------------------


def _parse_chat(item: dict[str, Any]) -> Parsed:
    role = item.get("role")
    content = item.get("content")
    if role in _SYSTEM_ROLES:
        return join_texts(content)
    if role == "tool":
        return _parse_result(_get_text(item, "tool_call_id"), content)
    if role != "assistant":
        return _parse_user_content(content, "image_url")
    parts: list[Part] = []
    thinking = item.get("reasoning_content") or item.get("reasoning")
    if thinking:
        parts.append(Thinking(thinking))
    text = join_texts(content)
    if text:
        parts.append(Text(text, "model"))
    for call in item.get("tool_calls") or ():
        function = call.get("function", {})
        arguments = function.get("arguments", "")
        id = _get_text(call, "id")
        parts.append(ToolCall(id, function.get("name", ""), arguments))
    return parts or [_EMPTY_ANSWER]


def _parse_responses(item: dict[str, Any]) -> Parsed:
    content = item.get("content")
    match item.get("type", "message"), item.get("role"):
        case "function_call", _:
            id = _get_text(item, "call_id")
            return [ToolCall(id, item.get("name", ""), item.get("arguments", ""))]
        case "function_call_output", _:
            id = _get_text(item, "call_id")
            return _parse_result(id, item.get("output"), "input_image", "image_url")
        case "reasoning", _:
            return [Thinking(join_texts(item.get("summary")))]
        case _, "system" | "developer":
            return join_texts(content)
        case _, "assistant":
            return [Text(join_texts(content), "model")]
    return _parse_user_content(content, "image_url")


# --- Anthropic ------------------------------------------------------------------------------------


def _parse_anthropic(item: dict[str, Any]) -> Parsed:
    content = item.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if item.get("role") == "assistant":
        return [_parse_block(block) for block in content or ()] or [_EMPTY_ANSWER]
    items: list[Sent] = []
    for block in content or ():
        if block.get("type") == "tool_result":
            id = _get_text(block, "tool_use_id")
            items += _parse_result(id, block.get("content"), "image", "source")
        else:
            items += _parse_user_content([block], "source")
    return items


def _parse_block(block: dict[str, Any]) -> Part:
    if block.get("type") == "text":
        return Text(block.get("text", ""), "model")
    if block.get("type") == "tool_use":
        # The input is an object, whereas the arguments of a call are text.
        arguments = json.dumps(block.get("input"), ensure_ascii=False)
        return ToolCall(_get_text(block, "id"), block.get("name", ""), arguments)
    return Thinking(block.get("thinking", ""))


# --- Gemini ---------------------------------------------------------------------------------------


def _parse_gemini(item: dict[str, Any]) -> Parsed:
    own_parts = item.get("parts") or ()
    if item.get("role") == "model":
        parts = [_parse_model_part(part) for part in own_parts]
        return [part for part in parts if part is not None] or [_EMPTY_ANSWER]
    items: list[Sent] = []
    for part in own_parts:
        items += _parse_user_part(part)
    return items


def _parse_model_part(part: dict[str, Any]) -> Part | None:
    call = part.get("functionCall")
    if call:
        arguments = json.dumps(call.get("args") or {}, ensure_ascii=False)
        return ToolCall(_get_text(call, "id"), call.get("name", ""), arguments)
    text = part.get("text")
    if not isinstance(text, str):
        return None
    return Thinking(text) if part.get("thought") else Text(text, "model")


def _parse_user_part(part: dict[str, Any]) -> list[Sent]:
    result = part.get("functionResponse")
    if result:
        id = _get_text(result, "id")
        text = _parse_response(result.get("response"))
        items = [Sent("result", text, id, result.get("name", ""), None)]
        for image in result.get("parts") or ():
            items.append(Sent("image", compute_digest(str(image)), id))
        return items
    if isinstance(part.get("text"), str):
        return [_parse_user_text(part["text"])]
    return [Sent("image", compute_digest(str(part)))]


def _parse_response(response: Any) -> str:
    """Return the text of a function response, which gateways put under a key of their choice."""
    values = list(response.values()) if isinstance(response, dict) else [response]
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]
    return json.dumps(response, ensure_ascii=False)


PARSERS: dict[str, Callable[[dict[str, Any]], Parsed]] = {
    "chat": _parse_chat,
    "responses": _parse_responses,
    "anthropic": _parse_anthropic,
    "gemini": _parse_gemini,
}
