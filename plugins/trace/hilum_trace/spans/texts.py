"""Texts of a log as they are shown in spans: on one line, shortened, without secrets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# The longest secret that is recognized in a text that is shortened afterwards, in characters. A
# private key of 8192 bits has 6,400.
MARGIN = 8_000


def get_text(data: dict[str, Any], key: str) -> str:
    """Return a text from a plugin's data, which may contain anything."""
    value = data.get(key)
    return value if isinstance(value, str) else ""


def to_line(text: str, limit: int) -> str:
    """Return the beginning of a text on one line."""
    # A prompt may contain megabytes, of which only the beginning is needed.
    line = " ".join(text[: limit * 4].split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def redact_beginning(text: str, size: int, redact: Callable[[str], str]) -> str:
    """Return the beginning of a text without secrets, with at least ``size`` characters if it can.

    Secrets of up to ``MARGIN`` characters are recognized wherever they begin.
    """
    part = text[: size + 2 * MARGIN]
    clean = redact(part)
    if len(part) == len(text):
        return clean
    # The end of the part may be the first half of a secret, which was not recognized.
    return clean[: max(len(clean) - MARGIN, 0)]
