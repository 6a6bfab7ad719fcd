"""A file as it was before an edit, from the file as it is and the diff."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@")


class _Hunk(NamedTuple):
    begin: int  # index of its first line in the file after the edit
    lines: list[tuple[str, str]]  # the sign, and the line with its end


def undone(text: str, diff: str) -> str | None:
    """Take an edit back.

    Args:
        text: The file after it, with ``\\n`` as line ends.
        diff: The edit as a unified diff of one file.

    Returns:
        The file before it; ``None`` if the diff does not fit the text.
    """
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    result = list[str]()
    at = 0
    for begin, body in _hunks(diff):
        new = [line for sign, line in body if sign != "-"]
        if begin < at or lines[begin : begin + len(new)] != new:
            return None
        result += [*lines[at:begin], *(line for sign, line in body if sign != "+")]
        at = begin + len(new)
    return "".join(result + lines[at:])


def changed(diff: str) -> set[int]:
    """Return the numbers of the lines that an edit wrote, as they are after it."""
    written = set()
    for begin, body in _hunks(diff):
        signs = [sign for sign, _ in body if sign != "-"]
        written |= {begin + number for number, sign in enumerate(signs, 1) if sign == "+"}
    return written


def _hunks(diff: str) -> Iterator[_Hunk]:
    hunk: _Hunk | None = None
    for line in diff.split("\n"):
        match = _HUNK.match(line)
        if match:
            if hunk:
                yield hunk
            start = int(match[1])
            size = int(match[2] or 1)
            hunk = _Hunk(start - 1 if size else start, [])
        elif hunk and line[:1] in ("+", "-", " ") and line:
            hunk.lines.append((line[0], line[1:] + "\n"))
        elif (
            hunk and line.startswith("\\") and hunk.lines
        ):  # "No newline at end of file": of the line before
            sign, last = hunk.lines[-1]
            hunk.lines[-1] = (sign, last[:-1])
    if hunk:
        yield hunk
