"""Applies unified diffs in reverse, and finds the lines that an edit wrote."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@")


class _Hunk(NamedTuple):
    begin: int  # index of the hunk's first line in the file after the edit
    lines: list[tuple[str, str]]  # each line's sign, and the line with its newline


def revert_diff(text: str, diff: str) -> str | None:
    """Return a text as it was before an edit, or ``None`` if the diff does not match the text.

    Args:
        text: The text after the edit, with ``\\n`` as newlines.
        diff: The edit as a unified diff of one file.
    """
    # ``splitlines`` would also split at form feeds and other characters.
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    result = list[str]()
    at = 0
    for begin, body in _hunks(diff):
        new = [line for sign, line in body if sign != "-"]
        if begin < at or lines[begin : begin + len(new)] != new:
            return None
        result += lines[at:begin]
        result += [line for sign, line in body if sign != "+"]
        at = begin + len(new)
    return "".join(result + lines[at:])


def find_written_lines(diff: str) -> set[int]:
    """Return the numbers of the lines that an edit wrote, in the text after the edit."""
    written = set()
    for begin, body in _hunks(diff):
        signs = [sign for sign, _ in body if sign != "-"]
        written |= {begin + number for number, sign in enumerate(signs, 1) if sign == "+"}
    return written


def _hunks(diff: str) -> Iterator[_Hunk]:
    """Yield the hunks of a unified diff; lines before the first one are the header."""
    hunk: _Hunk | None = None
    for line in diff.split("\n"):
        match = _HUNK.match(line)
        if match:
            if hunk:
                yield hunk
            hunk = _begin_hunk(match)
        elif hunk:
            _add_line(hunk, line)
    if hunk:
        yield hunk


def _begin_hunk(match: re.Match[str]) -> _Hunk:
    start = int(match[1])
    size = int(match[2] or 1)
    # A hunk without lines in the new text contains the number of the preceding line.
    begin = start - 1 if size else start
    return _Hunk(begin, [])


def _add_line(hunk: _Hunk, line: str) -> None:
    if line.startswith(("+", "-", " ")):
        hunk.lines.append((line[0], line[1:] + "\n"))
    elif line.startswith("\\") and hunk.lines:
        # "\ No newline at end of file" refers to the preceding line.
        sign, last = hunk.lines[-1]
        hunk.lines[-1] = (sign, last[:-1])
