"""Shortens long texts."""

from __future__ import annotations

import json
from collections.abc import Iterator

from hilum import ToolCall


def split_ends(text: str, head: int, tail: int) -> tuple[str, str]:
    """Return the beginning and the end of a text, cut at a newline if one is nearby."""
    first = text[:head]
    last = text[len(text) - tail :] if tail else ""
    first_cut = first.rfind("\n")
    # Cut at most half of the text to end at a newline, because the text may be one long line.
    if first_cut > head // 2:
        first = first[: first_cut + 1]
    last_cut = last.find("\n")
    if 0 <= last_cut < tail // 2:
        last = last[last_cut + 1 :]
    return first, last


def shorten(text: str, most: int) -> str:
    """Return the beginning and end of a text, about ``most`` characters in total."""
    if len(text) <= most:
        return text
    first, last = split_ends(text, most * 2 // 3, most // 3)
    left_out = len(text) - len(first) - len(last)
    return f"{first}[… {left_out:,} characters left out …]\n{last}"


def to_one_line(text: str, most: int) -> str:
    """Return the beginning of a text as one line."""
    joined = " ".join(text[: 4 * most].split())  # splitting the rest would be wasted work
    if len(joined) <= most:
        return joined
    return joined[: most - 1] + "…"


def find_short_arguments(call: ToolCall) -> Iterator[str]:
    """Yield the short strings in a call's arguments, such as paths, names and commands."""
    try:
        arguments = json.loads(call.arguments or "{}")
    except ValueError:
        return
    if not isinstance(arguments, dict):
        return
    for value in arguments.values():
        if isinstance(value, str) and 3 < len(value) <= 300:
            yield value
