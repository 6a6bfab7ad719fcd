"""What the wire formats share: who the request is for, how pieces join, and how our data becomes
theirs.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import msgspec
from hilum.messages import (
    NOTE_TAG,
    AssistantMessage,
    Image,
    Layer,
    NoteMessage,
    Text,
    ToolCall,
    UserMessage,
    escape_notes,
)

encode = msgspec.json.Encoder().encode


class Target(msgspec.Struct, frozen=True):
    """The model a request is encoded for, and how.

    Attributes:
        name: ``provider/name``, as messages carry it.
        max_output: Most tokens of an answer; 0 leaves it to the provider where the format allows.
        images: Whether images are sent; where not, a line of text says that one was left out.
        effort: How hard the model thinks, in the vendor's word.
        options: Further fields of the request.
    """

    name: str
    max_output: int = 0
    images: bool = True
    effort: str = ""
    options: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def provider(self) -> str:
        """The part before the slash."""
        return self.name.partition("/")[0]

    @property
    def id(self) -> str:
        """The model's name at the provider."""
        return self.name.partition("/")[2]

    def key(self, api: str) -> str:
        """Name for pieces encoded for this target: targets that encode differently have different
        keys.
        """
        rest = encode([self.max_output, self.images, self.effort, self.options])
        return f"{api}:{self.name}:{blake2b(rest, digest_size=6).hexdigest()}"


def open_list(fields: dict[str, Any], name: str, first: bytes = b"") -> bytes:
    """Encode an object whose last field is a list that stays open, so that pieces can follow."""
    head = encode(fields)
    return head[:-1] + (b"," if fields else b"") + b'"' + name.encode() + b'":[' + first


def join(head: bytes, pieces: Sequence[bytes]) -> bytes:
    """Join a head that ends in an open list, possibly with a first item, and pieces to a whole
    body.
    """
    parts = list(filter(None, pieces))
    if not parts:
        return head + b"]}"
    # One copy of what may be megabytes: the ends go to the first and the last piece.
    parts[0] = b"".join((head, b"" if head.endswith(b"[") else b",", parts[0]))
    parts[-1] += b"]}"
    return b",".join(parts)


def merge(fields: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Lay the user's options over fields, table by table; an empty text takes a field away."""
    merged = dict(fields)
    for key, value in options.items():
        old = merged.get(key)
        # Tables of different types have different fields: one replaces the other.
        if (
            isinstance(value, dict)
            and isinstance(old, dict)
            and value.get("type", old.get("type")) == old.get("type")
        ):
            merged[key] = merge(old, value)
        elif value == "":
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged


def system_text(layers: Sequence[Layer]) -> str:
    """The system prompt as one text."""
    return "\n\n".join(layer.text for layer in layers if layer.text)


def note_text(message: NoteMessage) -> str:
    """Return the text of a note in its tags.

    What the note quotes can neither end it nor begin another.
    """
    return f"<{NOTE_TAG}>\n{escape_notes(message.text)}\n</{NOTE_TAG}>"


def raw(json: bytes) -> msgspec.Raw:
    """JSON that goes into other JSON as it is."""
    return msgspec.Raw(json)


def base64_of(image: Image) -> str:
    """The image's bytes in base64."""
    return b64encode(image.data).decode("ascii")


def flatten(parts: Sequence[Text | Image], images: bool) -> list[Text | Image]:
    """Return the parts that can be sent: no empty text, and a line of text for an image the model
    does not take.
    """
    sendable: list[Text | Image] = []
    for part in parts:
        if isinstance(part, Text):
            if part.text:
                sendable.append(part)
        elif images:
            sendable.append(part)
        else:
            sendable.append(
                Text(f"[Image ({part.media_type}) left out: this model takes none.]", part.source)
            )
    return sendable


def arguments_object(call: ToolCall) -> bytes:
    """The call's arguments as a JSON object.

    What is none, because the model wrote it so, is wrapped in one.
    """
    try:
        if isinstance(msgspec.json.decode(call.arguments or "{}"), dict):
            return (call.arguments or "{}").encode()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    return encode({"invalid_arguments": call.arguments})


def call_id(given: str, pattern: str, digits: int) -> str:
    """Return an id the vendor accepts: the id itself, or one computed from it, always the same."""
    if re.fullmatch(pattern, given):
        return given
    return blake2b(given.encode(), digest_size=32).hexdigest()[:digits]


def is_own(message: AssistantMessage, target: Target) -> bool:
    """Return whether this very model wrote the message: only then are its reasoning and signatures
    sent back.
    """
    return message.model == target.name


def user_text(message: UserMessage | NoteMessage) -> str | None:
    """The text of a message that holds nothing else, ``None`` where there is an image."""
    if isinstance(message, NoteMessage):
        return note_text(message)
    if any(isinstance(part, Image) for part in message.parts):
        return None
    return "\n\n".join(part.text for part in message.parts if isinstance(part, Text) and part.text)
