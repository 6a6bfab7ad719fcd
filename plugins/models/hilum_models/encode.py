"""Encoding shared by the wire formats: targets, request bodies and message parts."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, ClassVar

import msgspec
from hilum.messages import (
    NOTE_TAG,
    AssistantMessage,
    Image,
    Layer,
    Message,
    NoteMessage,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
    UserMessage,
    escape_notes,
)

from hilum_models.json_values import DECODE_ERRORS
from hilum_models.schemas import simplify_schema

encode = msgspec.json.Encoder().encode


class Target(msgspec.Struct, frozen=True):
    """The model for which a request is encoded, and the encoding options.

    Attributes:
        name: ``provider/name``, as in messages.
        max_output: Maximum number of tokens in an answer; 0 leaves it to the provider if the
            format allows that.
        images: Whether images are sent. If not, a line of text replaces each image.
        effort: Reasoning effort, in the vendor's terms.
        options: Additional fields for the request.
        host: Host of the server; empty if it is not known.
    """

    name: str
    max_output: int = 0
    images: bool = True
    effort: str = ""
    options: dict[str, Any] = msgspec.field(default_factory=dict)
    host: str = ""

    @property
    def provider(self) -> str:
        """The provider: the part of the model's name before the slash."""
        return self.name.partition("/")[0]

    @property
    def id(self) -> str:
        """The model's name at the provider."""
        return self.name.partition("/")[2]

    def key(self, api: str) -> str:
        """Return a name for encoded pieces that only targets with the same encoding share."""
        # Use a digest, because options may be long and the key is stored with each piece.
        rest = encode([self.max_output, self.images, self.effort, self.options])
        return f"{api}:{self.name}:{blake2b(rest, digest_size=6).hexdigest()}"

    def is_author(self, message: AssistantMessage) -> bool:
        """Return whether this exact model wrote a message.

        Vendors check reasoning and signatures, and reject those of another model.
        """
        return message.model == self.name


class VendorWire(msgspec.Struct, frozen=True):
    """Base class with the parts of an encoding that all vendors' formats share."""

    target: Target
    api: ClassVar[str]

    @property
    def key(self) -> str:
        """Name of the encoding."""
        return self.target.key(self.api)

    def body(self, head: bytes, pieces: Sequence[bytes]) -> bytes:
        """Join the pieces."""
        return join(head, pieces)


# --- bodies ---------------------------------------------------------------------------------------


def open_list(fields: dict[str, Any], name: str, first: bytes = b"") -> bytes:
    """Encode an object whose last field is a list left open for further pieces."""
    head = encode(fields).removesuffix(b"}")
    if fields:
        head += b","
    return b'%b"%b":[%b' % (head, name.encode(), first)


def join(head: bytes, pieces: Sequence[bytes]) -> bytes:
    """Join a head that ends in an open list, possibly with a first item, and pieces into a body."""
    parts = list(filter(None, pieces))
    if not parts:
        return head + b"]}"
    # The body may be several megabytes long, so it is copied only once: its ends are added to the
    # outer pieces.
    comma = b"" if head.endswith(b"[") else b","
    parts[0] = b"".join((head, comma, parts[0]))
    parts[-1] += b"]}"
    return b",".join(parts)


def merge(fields: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Merge the user's options into fields, table by table; an empty string removes a field."""
    merged = dict(fields)
    for key, value in options.items():
        if value == "":
            merged.pop(key, None)
        elif _is_mergeable(merged.get(key), value):
            merged[key] = merge(merged[key], value)
        else:
            merged[key] = value
    return merged


def _is_mergeable(old: Any, new: Any) -> bool:
    """Return whether two values are tables of the same type.

    Tables of different types have different fields, so one replaces the other.
    """
    if not isinstance(old, dict) or not isinstance(new, dict):
        return False
    return bool(new.get("type", old.get("type")) == old.get("type"))


# --- parts of messages ----------------------------------------------------------------------------


def system_text(layers: Sequence[Layer]) -> str:
    """Return the system prompt as one text."""
    return "\n\n".join(layer.text for layer in layers if layer.text)


def note_text(message: NoteMessage) -> str:
    """Return the text of a note, enclosed in its tags.

    Tags in the note's own text are escaped, so that it can neither end the note nor begin another.
    """
    return f"<{NOTE_TAG}>\n{escape_notes(message.text)}\n</{NOTE_TAG}>"


def user_parts(message: Message, images: bool) -> str | list[Text | Image]:
    """Return the content of a user's message or a note: one text, or parts if it has images."""
    if isinstance(message, NoteMessage):
        return note_text(message)
    assert isinstance(message, UserMessage)
    if any(isinstance(part, Image) for part in message.parts):
        return sendable_parts(message.parts, images)
    texts = [part.text for part in message.parts if isinstance(part, Text)]
    return "\n\n".join(filter(None, texts))


def sendable_parts(parts: Sequence[Text | Image], images: bool) -> list[Text | Image]:
    """Return the message parts that can be sent.

    Empty texts are left out, and a line of text replaces each image that the model does not accept.
    """
    sendable: list[Text | Image] = []
    for part in parts:
        if isinstance(part, Text):
            if part.text:
                sendable.append(part)
        elif images:
            sendable.append(part)
        else:
            text = f"[Image ({part.media_type}) left out: not supported.]"
            sendable.append(Text(text, part.source))
    return sendable


def split_result(result: ToolResult, images: bool) -> tuple[str, list[Image]]:
    """Return the text and the images of a result, for formats whose results contain only text."""
    parts = sendable_parts(result.parts, images)
    text = "\n".join(part.text for part in parts if isinstance(part, Text))
    found = [part for part in parts if isinstance(part, Image)]
    if found and not text:
        text = "The image follows."
    return text, found


def describe_tool(tool: ToolSpec, schema_field: str) -> dict[str, Any]:
    """Return a tool's name, description and schema; the field of the schema differs by vendor."""
    return {
        "name": tool.name,
        "description": tool.description,
        schema_field: simplify_schema(tool.parameters),
    }


def encode_base64(image: Image) -> str:
    """Return the image's bytes in base64."""
    return b64encode(image.data).decode("ascii")


def arguments_object(call: ToolCall) -> bytes:
    """Return the call's arguments as a JSON object.

    If the model's arguments are not an object, they are wrapped in one.
    """
    arguments = call.arguments or "{}"
    try:
        if isinstance(msgspec.json.decode(arguments), dict):
            return arguments.encode()
    except DECODE_ERRORS:
        pass
    return encode({"invalid_arguments": call.arguments})


def call_id(id: str, pattern: str, digits: int) -> str:
    """Return the id if the vendor accepts it; otherwise, an id computed from it."""
    if re.fullmatch(pattern, id):
        return id
    return blake2b(id.encode(), digest_size=32).hexdigest()[:digits]
