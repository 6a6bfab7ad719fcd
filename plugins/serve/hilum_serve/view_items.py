"""The entries of a session for the page, as plain data of limited size."""

from __future__ import annotations

from typing import Any

import msgspec
from hilum.events import Delta
from hilum_view import Answer, AnyEntry, Card, Notice, Outcome, SessionView, StreamedText

from hilum_serve.phrases import find_parts

MAX_TEXT = 20_000
"""Longest text of an entry, in characters; of a longer one, head and tail are sent."""
HEAD = 12_000
TAIL = 6_000
MAX_SNAPSHOT_ENTRIES = 200
MAX_SLICE = 256 * 1024
"""Largest message of a stream in bytes, unless a single element is larger."""
_GAP = "\n\n…\n\n"


def utf16_length(text: str) -> int:
    """Return the length of a text as JavaScript counts it."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def describe_entry(entry: AnyEntry, output: int = 0) -> dict[str, Any]:
    """Return an entry as plain data.

    Long texts are cut to head and tail. ``cut`` then contains their whole length, by field.

    Args:
        entry: The entry.
        output: Length of the whole output of a running call, of which the entry has the last part.
    """
    plain: dict[str, Any] = msgspec.to_builtins(entry, enc_hook=_encode_text)
    cut: dict[str, int] = {}
    # The texts of a streaming answer grow by offsets, so they must be whole.
    if not (isinstance(entry, Answer) and entry.state == "streaming"):
        _cut_fields(plain, cut)
    if isinstance(entry, Card):
        _describe_card(entry, plain, cut)
        if output and not entry.ended:
            plain["lengths"] = {"output": output}
    if cut:
        plain["cut"] = cut
    if isinstance(entry, Notice | Outcome):
        plain["parts"] = _find_phrases(entry)
    return plain


def _find_phrases(entry: Notice | Outcome) -> dict[str, Any]:
    """Return hilum's sentences in the texts of an entry, by field; see ``phrases``."""
    if isinstance(entry, Notice):
        # What a plugin says is hilum's own only if it is one of hilum's sentences.
        texts = {"text": entry.text, "hint": entry.hint}
    else:
        end = entry.end
        texts = {"error": end.error, "hint": end.hint, "left": end.left, "done": end.done}
    found = {field: find_parts(text) for field, text in texts.items()}
    return {field: msgspec.to_builtins(parts) for field, parts in found.items() if parts}


def _cut_fields(plain: dict[str, Any], cut: dict[str, int]) -> None:
    for name, value in plain.items():
        if isinstance(value, str) and len(value) > MAX_TEXT:
            plain[name] = cut_text(value)
            cut[name] = utf16_length(value)


def _describe_card(card: Card, plain: dict[str, Any], cut: dict[str, int]) -> None:
    """Cut the arguments and the result of a call, and add what is computed from them."""
    call = plain["call"]
    if len(card.call.arguments) > MAX_TEXT:
        call["arguments"] = cut_text(card.call.arguments)
        cut["arguments"] = utf16_length(card.call.arguments)
    plain["title"] = card.title[:500]
    result = plain.get("result")
    if not result:
        return
    plain["summary"] = card.summary[:500]
    plain["refused_by"] = card.refused_by
    if not card.refused_by and card.user_text != card.text:
        text = card.user_text
        plain["user_text"] = cut_text(text) if len(text) > MAX_TEXT else text
        reason = find_parts(card.user_text)
        plain["parts"] = {"result": msgspec.to_builtins(reason)} if reason else {}
    elif card.refused_by:
        reason = find_parts(card.text.removeprefix(f"{card.code}: "))
        plain["parts"] = {"result": msgspec.to_builtins(reason)} if reason else {}
    # The page asks for images by the ids in the entry's "images"; most are never looked at.
    result["parts"] = [part for part in result["parts"] if part.get("type") != "image"]
    text = card.text
    if len(text) > MAX_TEXT:
        result["parts"] = [{"type": "text", "text": cut_text(text)}]
        cut["result"] = utf16_length(text)
    result["data"] = _cut_data(result.get("data", {}), cut)


def _cut_data(data: Any, cut: dict[str, int]) -> Any:
    """Return a tool's data for faces, without long texts inside."""
    if not isinstance(data, dict):
        return {}
    kept: dict[str, Any] = {}
    for name, value in data.items():
        if isinstance(value, str) and len(value) > MAX_TEXT:
            kept[name] = cut_text(value)
            cut[f"data.{name}"] = utf16_length(value)
        elif isinstance(value, list | dict) and len(msgspec.json.encode(value)) > MAX_TEXT:
            cut[f"data.{name}"] = len(value)
        else:
            kept[name] = value
    return kept


def cut_text(text: str) -> str:
    """Return head and tail of a long text."""
    return f"{text[:HEAD]}{_GAP}{text[-TAIL:]}"


def find_streaming_entry(view: SessionView, delta: Delta) -> AnyEntry | None:
    """Return the entry that a piece of output belongs to; None if it belongs to none."""
    if delta.kind == "output":
        for card in view.open_cards:
            if card.agent == delta.agent and card.call.id == delta.call_id:
                return card
        return None
    answer = view.streaming(delta.agent)
    return answer if answer is not None and answer.seq == delta.seq else None


def _encode_text(value: Any) -> Any:
    if isinstance(value, StreamedText):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} cannot be sent.")
