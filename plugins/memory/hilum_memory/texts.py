"""Pieces of long texts."""

from __future__ import annotations

import json
from collections.abc import Iterator

from hilum import ToolCall


def ends(text: str, head: int, tail: int) -> tuple[str, str]:
    """Return the beginning and the end of a text, cut at the ends of lines where there are any
    near.
    """
    first = text[:head]
    last = text[len(text) - tail :] if tail else ""
    cut = first.rfind("\n")
    if cut > head // 2:
        first = first[: cut + 1]
    if 0 <= (cut := last.find("\n")) < tail // 2:
        last = last[cut + 1 :]
    return first, last


def shortened(text: str, most: int) -> str:
    """Return a text of at most about ``most`` characters: its beginning and its end."""
    if len(text) <= most:
        return text
    first, last = ends(text, most * 2 // 3, most // 3)
    return f"{first}[… {len(text) - len(first) - len(last):,} characters left out …]\n{last}"


def one_line(text: str, most: int) -> str:
    """Return a text on one line, cut."""
    joined = " ".join(text[: 4 * most].split())
    if len(joined) <= most:
        return joined
    return joined[: most - 1] + "…"


def values(call: ToolCall) -> Iterator[str]:
    """Yield the short texts among a call's arguments: paths, names, patterns, commands."""
    try:
        arguments = json.loads(call.arguments or "{}")
    except ValueError:
        return
    if isinstance(arguments, dict):
        yield from (
            value
            for value in arguments.values()
            if isinstance(value, str) and 3 < len(value) <= 300
        )
