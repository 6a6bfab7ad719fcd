"""Formats arguments, numbers and durations as short texts for people.

Texts from models and tools are not escaped here; each face escapes what its medium would interpret.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
from hilum.messages import ToolCall, Usage

# Maximum number of characters from the first line of a multi-line argument.
MAX_FIRST_LINE = 40
_HIGH_SURROGATES = "".join(map(chr, range(0xD800, 0xDC00)))
# The first line of a hunk in a unified diff. A size of 1 may be left out of the header. Longer
# numbers are not line numbers, and converting a very long number would raise an error.
HUNK_HEADER = re.compile(
    r"@@ -(?P<old>\d{1,9})(?:,(?P<old_size>\d{1,9}))?"
    r" \+(?P<new>\d{1,9})(?:,(?P<new_size>\d{1,9}))? @@(?P<section>.*)"
)


def parse_arguments(text: str) -> dict[str, Any] | None:
    """Return the arguments of a call, or ``None`` if they are not a JSON object."""
    try:
        data = msgspec.json.decode(text or "{}")
        # Deeply nested data and very large numbers can be parsed, but cannot be serialized again.
        msgspec.json.encode(data)
    except (ValueError, RecursionError, OverflowError):
        return None
    return data if isinstance(data, dict) else None


def parse_partial_arguments(text: str) -> dict[str, Any]:
    """Return the arguments from the beginning of a JSON object that is still arriving.

    If a string is incomplete, the part that has arrived is returned; any other incomplete value is
    left out. The result is empty if the text is not the beginning of an object.
    """
    arguments: dict[str, Any] = {}
    decoder = json.JSONDecoder()
    place = _skip_space(text, 0)
    if not text.startswith("{", place):
        return arguments
    try:
        while True:
            place = _skip_space(text, place + 1)
            key, place = decoder.raw_decode(text, place)
            place = _skip_space(text, _skip_space(text, place) + 1)
            if not isinstance(key, str):
                return arguments
            # This partial value is replaced below if the whole value has arrived.
            if text.startswith('"', place):
                arguments[key] = _decode_partial_string(text[place + 1 :])
            value, place = decoder.raw_decode(text, place)
            arguments[key] = value
            place = _skip_space(text, place)
            if not text.startswith(",", place):
                return arguments
    # The value is incomplete, invalid or nested too deeply, or is a number with too many digits.
    except (ValueError, RecursionError, IndexError):
        return arguments


def _skip_space(text: str, place: int) -> int:
    """Return the position of the next character that is not JSON whitespace."""
    while text[place : place + 1] in (" ", "\t", "\n", "\r"):
        place += 1
    return place


def _decode_partial_string(text: str) -> str:
    """Return the value of a JSON string whose end may be missing."""
    decoder = json.JSONDecoder(strict=False)
    # An escape sequence that has not arrived completely has at most six characters.
    for missing in range(min(len(text), 6) + 1):
        try:
            value, _ = decoder.raw_decode(f'"{text[: len(text) - missing]}"')
        except ValueError:
            continue
        # The second half of an emoji's escape sequence may be missing.
        return str(value).rstrip(_HIGH_SURROGATES)
    return ""


def count_changes(diff: str) -> tuple[int, int]:
    """Return the numbers of added and removed lines in a unified diff."""
    added = 0
    removed = 0
    # Remaining lines of the current hunk. Only these lines are changes: a removed line `-- x` looks
    # like a file header.
    old_left = 0
    new_left = 0
    for line in diff.split("\n"):
        if old_left <= 0 and new_left <= 0:
            header = HUNK_HEADER.match(line)
            if header:
                old_left = int(header["old_size"] or 1)
                new_left = int(header["new_size"] or 1)
        elif line.startswith("+"):
            added += 1
            new_left -= 1
        elif line.startswith("-"):
            removed += 1
            old_left -= 1
        elif line.startswith(" ") or not line:
            old_left -= 1
            new_left -= 1
        # This hunk is shorter than its header says; another hunk may follow immediately.
        elif not line.startswith("\\"):
            header = HUNK_HEADER.match(line)
            old_left = int(header["old_size"] or 1) if header else 0
            new_left = int(header["new_size"] or 1) if header else 0
    return added, removed


def describe_arguments(text: str) -> str:
    """Return the arguments of a call in short form, such as ``path=src/a.py start_line=3``.

    If the text is not a JSON object, it is returned unchanged.
    """
    arguments = parse_arguments(text)
    if arguments is None:
        return text
    return " ".join(f"{key}={_describe_value(value)}" for key, value in arguments.items())


def describe_call(call: ToolCall) -> str:
    """Return the name and arguments of a call on one line of any length."""
    return first_line(f"{call.name} {describe_arguments(call.arguments)}")


def _describe_value(value: object) -> str:
    # People read this text, so non-ASCII characters must not appear as escape sequences.
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    short = first_line(text)
    lines = len(text.splitlines())
    if lines > 1:
        short = f"{short[:MAX_FIRST_LINE]}… ({lines} lines)"
    # A value without spaces needs no quotes, but an empty value does.
    if short and " " not in short:
        return short
    return f'"{short}"'


def first_line(text: str, limit: int = 0) -> str:
    """Return the first nonblank line of a text.

    Args:
        text: The text.
        limit: Maximum number of characters, 0 for no limit.
    """
    line = next((part for part in text.splitlines() if part.strip()), "").strip()
    if limit and len(line) > limit:
        return line[: limit - 1] + "…"
    return line


def format_tokens(usage: Usage) -> str:
    """Return token usage as text: input, the cached part of it, and output."""
    if not usage.total:
        return ""
    cached = f" ({_format_count(usage.cached)} cached)" if usage.cached else ""
    return f"{_format_count(usage.input)} in{cached}, {_format_count(usage.output)} out"


def _format_count(number: int) -> str:
    if number >= 1000:
        return f"{number / 1000:.1f}k"
    return str(number)


def format_cost(usage: Usage) -> str:
    """Return the cost as text; empty if no price is known."""
    if usage.cost is None:
        return ""
    return format_money(usage.cost)


def format_money(dollars: float) -> str:
    """Return US dollars as text, with more digits for small amounts."""
    # One call of a cheap model costs less than a cent, and must not be shown as $0.00.
    if 0 < dollars < 0.1:
        return f"${dollars:.4f}"
    return f"${dollars:.2f}"


def format_duration(seconds: float) -> str:
    """Return a duration as text."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    # Round first, so that 59.7 seconds become "1 min", not "60 s".
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = []
    if hours:
        parts.append(f"{hours} h")
    if minutes:
        parts.append(f"{minutes} min")
    if rest and not hours:
        parts.append(f"{rest} s")
    return " ".join(parts)


def format_path(path: str) -> str:
    """Return a path from a ``files.changed`` event as text.

    The ``files`` plugin encodes names that are not valid Unicode as NUL and hexadecimal digits.
    """
    if not path.startswith("\0"):
        return path
    try:
        return bytes.fromhex(path[1:]).decode(errors="backslashreplace")
    except ValueError:
        return path


def changed_files(data: dict[str, Any]) -> list[str]:
    """Return the paths in a ``files.changed`` event; empty if the event has another form."""
    changes = data.get("changes")
    if not isinstance(changes, list | tuple):
        return []
    paths = []
    for change in changes:
        # In an event that has not been written to the log yet, a change may be an object.
        if isinstance(change, list | tuple) and change:
            path = change[0]
        else:
            path = getattr(change, "path", "")
        if isinstance(path, str) and path:
            paths.append(format_path(path))
    return paths
