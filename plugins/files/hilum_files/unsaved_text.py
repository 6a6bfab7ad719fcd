"""Compares the text that an editor shows with the file on the disk."""

from __future__ import annotations

from pathlib import Path

from hilum import ToolError, Workspace

from hilum_files.paths import find_status
from hilum_files.text import BOM, with_newlines

MAX_COMPARED_BYTES = 20_000_000
"""Larger files are not compared with the editor's text."""


def find_unsaved_text(text: str | None, saved: bytes | None) -> bytes | None:
    """Return the text in an editor, encoded like its file, if it is not saved.

    Args:
        text: The text that the editor shows; ``None`` if it shows none.
        saved: The content of the file; ``None`` if there is none.
    """
    if text is None:
        return None
    if saved is None:
        # A new file that was never saved; an empty text may be the editor's answer for no file.
        return text.encode("utf-8", "replace") if text else None
    if decode_text(saved) is None or is_same_text(text, saved):
        return None
    return _encode_like(saved, text)


def measure_file(workspace: Workspace, real: Path) -> int:
    """Return the size of a file in bytes; 0 if there is none."""
    try:
        with workspace.at(real) as place:
            status = find_status(place)
    except ToolError:
        return 0
    return status.st_size if status is not None else 0


def read_saved(workspace: Workspace, real: Path) -> bytes | None:
    """Return the beginning of a file; ``None`` if there is none, or it cannot be read as one."""
    try:
        with workspace.at(real) as place:
            if find_status(place) is None:
                return None
            with place.open() as file:
                return file.read(MAX_COMPARED_BYTES + 1)
    except ToolError:
        return None


def decode_text(data: bytes) -> str | None:
    """Return the text in UTF-8; ``None`` if it is none."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def normalize_text(data: bytes) -> bytes:
    """Return a text without its byte order mark, and with line feeds as newlines."""
    return data.removeprefix(BOM.encode()).replace(b"\r\n", b"\n")


def is_same_text(text: str, saved: bytes) -> bool:
    """Return whether an editor's text is what a file contains.

    Editors normalize newlines, and some leave out the one at the end.
    """
    shown = normalize_text(text.encode("utf-8", "replace"))
    content = normalize_text(saved)
    return shown in (content, content.removesuffix(b"\n"))


def _encode_like(saved: bytes, text: str) -> bytes:
    """Encode a text with the newlines and the byte order mark of a file."""
    plain = with_newlines(text.removeprefix(BOM), "\n")
    if saved.count(b"\r\n") == saved.count(b"\n") > 0:
        plain = with_newlines(plain, "\r\n")
    if saved.startswith(BOM.encode()):
        plain = BOM + plain
    return plain.encode("utf-8", "replace")
