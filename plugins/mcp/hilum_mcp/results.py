"""What a server answers, as the result of a tool: texts, images, resources, structured content."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec
from hilum import Image, Output, errors

MOST_IMAGE, MOST_IMAGES = 5_000_000, 10
"""Bytes of an image, what model providers take; and images of one result."""

MOST_DATA = 200_000
"""Bytes of structured content that are kept for faces."""

TEXTS = frozenset(
    {"application/json", "application/xml", "application/yaml", "application/javascript"}
)
PICTURES = frozenset({"image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp"})
_BEGINNINGS = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


def output(result: Any, source: str) -> Output:
    """Return the result of a call for the model and the faces.

    Args:
        result: The SDK's ``CallToolResult``.
        source: Whose it is, as in ``Image.source``.
    """
    texts, images = contents(result.content, source)
    structured = result.structured_content
    if structured is None:
        written = b""
    else:
        written = msgspec.json.encode(structured, enc_hook=str)
    text = "\n\n".join(texts) or written.decode()
    if not text and not images:
        text = "The tool gave no text."
    data = {"structured": structured} if 0 < len(written) <= MOST_DATA else {}
    return Output(text, tuple(images), data, errors.E_FAILED if result.is_error else "")


def contents(blocks: Any, source: str) -> tuple[list[str], list[Image]]:
    """Part blocks of content into texts and images."""
    texts: list[str] = []
    images: list[Image] = []
    for block in blocks:
        if block.type == "text":
            texts.append(block.text)
        elif block.type == "image":
            _picture(block.mime_type, block.data, source, texts, images)
        elif block.type == "audio":
            texts.append(
                f"[audio, {block.mime_type}, {len(block.data) * 3 // 4:,} bytes: not shown]"
            )
        elif block.type == "resource_link":
            about = ": ".join(filter(None, (block.title or block.name, block.description)))
            texts.append(f"[resource {block.uri}] {about}".strip())
        elif block.type == "resource":
            resource(block.resource, source, texts, images)
        else:
            texts.append(f"[{block.type}: not shown]")
    return texts, images


def resource(found: Any, source: str, texts: list[str], images: list[Image]) -> None:
    """Add what a resource holds."""
    if hasattr(found, "text"):
        texts.append(f"[resource {found.uri}]\n{found.text}")
    elif (found.mime_type or "") in PICTURES:
        _picture(found.mime_type, found.blob, source, texts, images)
    elif (text := _text(found.mime_type or "", found.blob)) is not None:
        texts.append(f"[resource {found.uri}]\n{text}")
    else:
        kind = found.mime_type or "unknown type"
        texts.append(
            f"[resource {found.uri}, {kind}, {len(found.blob) * 3 // 4:,} bytes: not shown]"
        )


def _text(kind: str, data: str) -> str | None:
    """Return the text of a blob that says of itself that it is text, ``None`` if it is none."""
    if not kind.startswith("text/") and kind not in TEXTS:
        return None
    try:
        return base64.b64decode(data, validate=True).decode()
    except ValueError:  # neither base64 nor UTF-8
        return None


def _picture(kind: str, data: str, source: str, texts: list[str], images: list[Image]) -> None:
    size = len(data) * 3 // 4
    if kind not in PICTURES or size > MOST_IMAGE or len(images) >= MOST_IMAGES:
        texts.append(f"[image, {kind[:80]}, {size:,} bytes: not shown]")
        return
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        texts.append("[an image that is not base64: left out]")
        return
    real = _kind(raw)
    if real is None:  # a provider refuses the whole conversation for it
        texts.append(f"[{kind}, which it is not: left out]")
    else:
        images.append(Image(real, raw, source))


def _kind(raw: bytes) -> str | None:
    """Return the kind of an image by its first bytes, ``None`` for what is none."""
    if raw.startswith(b"RIFF") and raw[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for begin, kind in _BEGINNINGS.items() if raw.startswith(begin)), None)
