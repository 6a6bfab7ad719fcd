"""Converts PDF documents to text."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pypdf

from .visible_text import remove_invisible


def read_frames(body: bytes, request: dict[str, str]) -> Iterator[dict[str, object]]:
    """Yield the text of each page of a document.

    Yields:
        Frames with ``text``.

    Raises:
        ValueError: The document requires a password.
    """
    reader = pypdf.PdfReader(io.BytesIO(body))
    # A document that only forbids printing or copying is encrypted with an empty password.
    if reader.is_encrypted and not reader.decrypt(""):
        raise ValueError("it requires a password")
    for number, page in enumerate(reader.pages, 1):
        text = remove_invisible(page.extract_text())
        yield {"text": f"[Page {number}]\n{text}\n\n", "at": -1}
    yield {"end": True}
