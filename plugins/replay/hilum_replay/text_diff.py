"""Formats the differences between two texts so that they can be read at a glance."""

from __future__ import annotations

from collections.abc import Callable

MAX_LINES = 6
MAX_WIDTH = 160
# Number of characters to show before the difference in a long line.
BEFORE_DIFFERENCE = 40


def diff_texts(recorded: str, came: str, normalize: Callable[[str], str]) -> list[str]:
    """Return the first lines that differ, with one line before them.

    Args:
        recorded: The recorded text.
        came: The text that was sent instead.
        normalize: Function that normalizes a line; lines that are equal afterwards count as equal.
    """
    old = recorded.split("\n")
    new = came.split("\n")
    start = _count_equal(old, new, normalize)
    # Count from the end, excluding the lines that are equal at the beginning.
    old_reversed = list(reversed(old[start:]))
    new_reversed = list(reversed(new[start:]))
    end = _count_equal(old_reversed, new_reversed, str)
    lines = [f"at line {start + 1}:"]
    if start:
        # One equal line shows the reader where the difference is.
        before = shorten(old[start - 1])
        lines.append(f"  {before}")
    old_lines = old[start : len(old) - end]
    new_lines = new[start : len(new) - end]
    lines += _format_side("-", old_lines, new[start:])
    lines += _format_side("+", new_lines, old[start:])
    return lines


def _count_equal(old: list[str], new: list[str], normalize: Callable[[str], str]) -> int:
    """Return the number of equal lines at the beginning."""
    count = 0
    for one, two in zip(old, new, strict=False):
        # Lines are compared before they are normalized, because most lines are equal and
        # normalizing is slow.
        if one != two and normalize(one) != normalize(two):
            break
        count += 1
    return count


def _format_side(sign: str, part: list[str], other: list[str]) -> list[str]:
    lines = []
    for number, line in enumerate(part[:MAX_LINES]):
        # Only the first lines of both sides correspond.
        counterpart = other[0] if number == 0 and other else ""
        lines.append(f"{sign} {shorten(line, counterpart)}")
    if len(part) > MAX_LINES:
        lines.append(f"{sign} … {len(part) - MAX_LINES} more lines")
    return lines


def first_line(text: str) -> str:
    """Return the first line of a text, cut if it is long."""
    return shorten(text.strip().split("\n")[0])


def shorten(line: str, counterpart: str = "") -> str:
    """Return a line; if it is long, return only the part that differs from its counterpart."""
    if len(line) <= MAX_WIDTH:
        return line
    start = 0
    if counterpart:
        difference = _count_equal(list(line), list(counterpart), str)
        last_start = len(line) - MAX_WIDTH
        start = max(0, min(difference - BEFORE_DIFFERENCE, last_start))
    end = start + MAX_WIDTH
    before = "…" if start else ""
    after = "…" if end < len(line) else ""
    return f"{before}{line[start:end]}{after}"
