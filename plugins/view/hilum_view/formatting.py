"""Formats arguments, numbers and durations as short texts for people.

Texts from models and tools are not escaped here; each face escapes what its medium would interpret.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hilum.messages import ToolCall, Usage

# Maximum number of characters from the first line of a multi-line argument.
MAX_FIRST_LINE = 40


def parse_arguments(text: str) -> dict[str, Any] | None:
    """Return the arguments of a call, or ``None`` if they are not a JSON object."""
    try:
        data = msgspec.json.decode(text or "{}")
        # Deeply nested data and very large numbers can be parsed, but cannot be serialized again.
        msgspec.json.encode(data)
    except (ValueError, RecursionError, OverflowError):
        return None
    return data if isinstance(data, dict) else None


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
    """Return a path from an event ``files.changed`` as text.

    The plugin ``files`` encodes names that are not valid Unicode as NUL and hexadecimal digits.
    """
    if not path.startswith("\0"):
        return path
    try:
        return bytes.fromhex(path[1:]).decode(errors="backslashreplace")
    except ValueError:
        return path
