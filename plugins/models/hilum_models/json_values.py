"""Reads providers' JSON, which may be invalid or differ from the API's documentation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from hilum.errors import ModelError
from hilum.messages import MAX_NUMBER

# The exceptions that the decoder raises for invalid, non-UTF-8 or too deeply nested JSON.
DECODE_ERRORS = (msgspec.DecodeError, UnicodeError, RecursionError)

# All events share one decoder, because creating a decoder costs more than decoding a small event.
_decode = msgspec.json.Decoder().decode


def decode_event(data: bytes) -> dict[str, Any]:
    """Decode the JSON object in an event.

    Raises:
        ModelError: ``broken`` if the data is not a JSON object.
    """
    try:
        value = _decode(data)
    except DECODE_ERRORS as error:
        value = _decode_leniently(data)
        if value is None:
            raise ModelError(f"The stream cannot be read: {error}.", kind="broken") from None
    if not isinstance(value, dict):
        raise ModelError("The stream cannot be read: an event is not a JSON object.", kind="broken")
    return value


def _decode_leniently(data: bytes) -> Any:
    """Decode invalid JSON from some servers, or return ``None`` if it cannot be decoded.

    Servers send NaN, raw control characters and invalid UTF-8. An invalid byte is replaced,
    because the rest of the answer is worth more than the lost character.
    """
    try:
        return json.loads(data.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return None


def decode_document(body: bytes) -> Any:
    """Decode a small JSON document, or return ``None`` if it is not valid JSON."""
    try:
        return _decode(body)
    except DECODE_ERRORS:
        return None


def join_text(pieces: Iterable[str]) -> str:
    """Join pieces of text and repair surrogates.

    A surrogate pair that is split across two pieces is joined. A lone surrogate is replaced.
    """
    text = "".join(pieces)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def get_dict(table: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the object at a key, or an empty one if there is none."""
    value = table.get(key)
    if isinstance(value, dict):
        return value
    return {}


def get_dicts(table: dict[str, Any], key: str) -> Sequence[dict[str, Any]]:
    """Return the objects in the list at a key, or nothing if there is no list."""
    return only_dicts(table.get(key))


def only_dicts(value: Any) -> Sequence[dict[str, Any]]:
    """Return the objects in a list, or nothing if the value is not a list."""
    if isinstance(value, list):
        return [item for item in value if isinstance(item, dict)]
    return ()


def get_text(table: dict[str, Any], key: str) -> str:
    """Return a value as text, or an empty string if it is missing or null."""
    return str(table.get(key) or "")


def get_count(table: Any, *path: str) -> int:
    """Return a count from nested objects, or 0 if it is missing or cannot be right."""
    for key in path:
        table = table.get(key) if isinstance(table, dict) else None
    if isinstance(table, int | float) and 0 < table <= MAX_NUMBER:
        return int(table)
    return 0


def is_complete_object(arguments: str) -> bool:
    """Return whether arguments are a complete JSON object."""
    if not arguments.endswith("}"):
        return False
    try:
        return isinstance(_decode(arguments), dict)
    except DECODE_ERRORS:
        return False


def to_json_text(arguments: Any) -> str:
    """Return arguments as JSON text, because some servers send an object instead."""
    if arguments is None:
        return ""
    if isinstance(arguments, str):
        return arguments
    return msgspec.json.encode(arguments).decode()
