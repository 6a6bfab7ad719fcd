"""Converts a server's responses to tool results: text, images, resources, structured content."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Any

import msgspec
from hilum import Image, Output, errors

# Maximum size of an image in bytes. Model providers reject larger images.
MAX_IMAGE = 5_000_000

# Maximum number of images in one result.
MAX_IMAGES = 10

# Maximum size, in bytes, of structured content for user interfaces.
MAX_STRUCTURED = 200_000

TEXT_TYPES = frozenset(
    {"application/json", "application/xml", "application/yaml", "application/javascript"}
)
IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp"})
_SIGNATURES = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


def make_output(result: Any, source: str) -> Output:
    """Return the result of a call for the model and the user interfaces.

    Args:
        result: The SDK's ``CallToolResult``.
        source: The origin of the result, as in ``Image.source``.
    """
    content = _Content(source)
    content.add_blocks(result.content)
    structured = result.structured_content
    encoded = b"" if structured is None else msgspec.json.encode(structured, enc_hook=str)
    # MCP, tools, "Structured Content": a server should also return structured content as text.
    text = "\n\n".join(content.texts) or encoded.decode()
    if not text and not content.images:
        text = "The tool returned no text."
    data = {"structured": structured} if 0 < len(encoded) <= MAX_STRUCTURED else {}
    code = errors.E_FAILED if result.is_error else ""
    return Output(text, tuple(content.images), data, code)


def make_resource_output(resources: Iterable[Any], source: str) -> Output:
    """Return the content of resources for the model.

    Args:
        resources: The contents in the SDK's ``ReadResourceResult``.
        source: The origin of the contents.
    """
    content = _Content(source)
    for resource in resources:
        content.add_resource(resource)
    text = "\n\n".join(content.texts)
    if not text and not content.images:
        text = "The resource is empty."
    return Output(text, tuple(content.images))


def join_messages(messages: Iterable[Any], source: str) -> str:
    """Return the messages of a prompt as one text.

    Args:
        messages: The messages in the SDK's ``GetPromptResult``.
        source: The origin of the messages.
    """
    parts = []
    for message in messages:
        content = _Content(source)
        content.add_blocks([message.content])
        images = ["[an image: not shown]"] * len(content.images)
        text = "\n".join([*content.texts, *images])
        if message.role != "user":
            text = f"[{message.role}]\n{text}"
        parts.append(text)
    return "\n\n".join(parts)


class _Content:
    """A collection of texts and images for the model.

    Args:
        source: The origin of the texts and images.
    """

    def __init__(self, source: str) -> None:
        self.texts: list[str] = []
        self.images: list[Image] = []
        self._source = source

    def add_blocks(self, blocks: Iterable[Any]) -> None:
        """Add content blocks. For a block that the model cannot read, only a note is added."""
        for block in blocks:
            if block.type == "text":
                self.texts.append(block.text)
            elif block.type == "image":
                self._add_image(block.mime_type, block.data)
            elif block.type == "audio":
                size = _decoded_size(block.data)
                self.texts.append(f"[audio, {block.mime_type}, {size:,} bytes: not shown]")
            elif block.type == "resource_link":
                self.texts.append(f"[resource {block.uri}] {join_title(block)}".strip())
            elif block.type == "resource":
                self.add_resource(block.resource)
            else:
                self.texts.append(f"[{block.type}: not shown]")

    def add_resource(self, resource: Any) -> None:
        """Add the content of a resource."""
        if hasattr(resource, "text"):
            self.texts.append(f"[resource {resource.uri}]\n{resource.text}")
            return
        kind = resource.mime_type or ""
        if kind in IMAGE_TYPES:
            self._add_image(kind, resource.blob)
            return
        text = _decode_text(kind, resource.blob)
        if text is not None:
            self.texts.append(f"[resource {resource.uri}]\n{text}")
            return
        size = _decoded_size(resource.blob)
        self.texts.append(
            f"[resource {resource.uri}, {kind or 'unknown type'}, {size:,} bytes: not shown]"
        )

    def _add_image(self, kind: str, data: str) -> None:
        # The size is checked before the data is decoded, because decoding takes additional memory.
        size = _decoded_size(data)
        is_full = len(self.images) >= MAX_IMAGES
        if kind not in IMAGE_TYPES or size > MAX_IMAGE or is_full:
            self.texts.append(f"[image, {kind[:80]}, {size:,} bytes: not shown]")
            return
        try:
            raw = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            self.texts.append("[an image that is not valid base64: left out]")
            return
        # A provider rejects the whole conversation if the type of an image differs from the
        # declared type.
        real_kind = _detect_type(raw)
        if real_kind is None:
            self.texts.append(f"[an image declared as {kind}, but of another type: left out]")
        else:
            self.images.append(Image(real_kind, raw, self._source))


def join_title(resource: Any) -> str:
    """Return the title and the description of a resource."""
    title = resource.title or resource.name
    return ": ".join(filter(None, (title, resource.description)))


def _decoded_size(data: str) -> int:
    return len(data) * 3 // 4


def _decode_text(kind: str, data: str) -> str | None:
    """Return the text of a blob with a text type, or ``None`` if it is not text."""
    if not kind.startswith("text/") and kind not in TEXT_TYPES:
        return None
    try:
        return base64.b64decode(data, validate=True).decode()
    except ValueError:  # neither base64 nor UTF-8
        return None


def _detect_type(raw: bytes) -> str | None:
    """Return the type of an image, based on its first bytes, or ``None`` if it is unknown."""
    if raw.startswith(b"RIFF") and raw[8:12] == b"WEBP":
        return "image/webp"
    for signature, kind in _SIGNATURES.items():
        if raw.startswith(signature):
            return kind
    return None
