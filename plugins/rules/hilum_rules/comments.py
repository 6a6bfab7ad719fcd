"""Removes HTML comments: readers of a page do not see them, so the model does not read them either.

Removed comments are reported. A comment that begins with ``enforce:`` is an instruction for hilum.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_FENCE = re.compile(r"(?:[ \t>]|[-*+] |\d{1,9}[.)] )*(`{3,}(?!.*`)|~{3,})")
_OPEN = "<!--"
_CLOSE = "-->"


class FenceTracker:
    """Tracks fenced code line by line.

    Attributes:
        mark: The characters that opened the fence; empty outside code.
    """

    def __init__(self) -> None:
        self.mark = ""

    def is_code(self, line: str) -> bool:
        """Return whether the next line is in fenced code, or opens or closes it."""
        found = _FENCE.match(line)
        if not self.mark:
            if found:
                self.mark = found[1]
            return found is not None
        # A closing fence is at least as long as the opening one, without an info string (CommonMark
        # 4.5).
        if found and found[1].startswith(self.mark) and not line[found.end() :].strip():
            self.mark = ""
        return True


def find_code_spans(line: str) -> Iterator[tuple[int, int]]:
    """Yield the positions at which code spans begin and end.

    A code span ends at the next sequence of the same number of backticks.
    """
    runs = [match.span() for match in re.finditer("`+", line)]
    # Search from the right to find matching sequences in linear time, because a line may have
    # thousands of them.
    next_of_length: dict[int, int] = {}
    partners = [0] * len(runs)
    for index in range(len(runs) - 1, -1, -1):
        length = runs[index][1] - runs[index][0]
        partners[index] = next_of_length.get(length, 0)
        next_of_length[length] = index
    index = 0
    while index < len(runs):
        partner = partners[index]
        if partner:
            yield runs[index][0], runs[partner][1]
        index = (partner or index) + 1


def blank_code_spans(line: str) -> str:
    """Return a line with its code spans replaced by spaces."""
    if "`" not in line:
        return line
    blanked = ""
    at = 0
    for begin, end in find_code_spans(line):
        blanked += line[at:begin] + " " * (end - begin)
        at = end
    return blanked + line[at:]


class Comment(NamedTuple):
    """A comment.

    Attributes:
        line: The line on which the comment begins, from 1.
        lines: The number of lines in the comment.
        text: The text.
        closed: Whether the comment is closed.
    """

    line: int
    lines: int
    text: str
    closed: bool = True


def remove_comments(given: list[str]) -> tuple[list[str], list[Comment]]:
    """Return lines without their HTML comments, and the comments.

    The number of lines stays the same. Comments in code are kept, and so is an unclosed comment,
    because removing it would remove everything below it.
    """
    lines = list(given)
    comments = list[Comment]()
    fences = FenceTracker()
    number = 0
    while number < len(lines):
        if fences.is_code(lines[number]) or _OPEN not in lines[number]:
            number += 1
            continue
        lines[number], start = _remove_from_line(lines[number], number + 1, comments)
        if start < 0:
            number += 1
            continue
        last = _find_close(lines, number + 1)
        if last < 0:
            comments.append(Comment(number + 1, 1, "", closed=False))
            break
        first_line = lines[number]
        before, _, after = lines[last].partition(_CLOSE)
        inner = [first_line[start + len(_OPEN) :], *lines[number + 1 : last], before]
        comments.append(Comment(number + 1, len(inner), "\n".join(inner)))
        # Blank lines take the place of a comment, so that reported line numbers stay correct.
        lines[number] = first_line[:start].rstrip()
        lines[number + 1 : last] = [""] * (last - number - 1)
        lines[last] = after
        number = last
    return lines, comments


def _find_close(lines: Sequence[str], start: int) -> int:
    """Return the index of the first line that closes a comment; -1 if none does."""
    for number in range(start, len(lines)):
        if _CLOSE in lines[number]:
            return number
    return -1


def _remove_from_line(line: str, number: int, comments: list[Comment]) -> tuple[str, int]:
    """Remove the comments that end on their line.

    Returns:
        The rest of the line, and the position in it at which an unfinished comment begins, or -1.
    """
    # Code spans are replaced by spaces, so that positions stay valid in the original line.
    plain = blank_code_spans(line)
    rest = ""
    at = 0
    start = plain.find(_OPEN)
    while start >= 0:
        rest += line[at:start]
        end = line.find(_CLOSE, start + len(_OPEN))
        if end < 0:
            return rest + line[start:], len(rest)
        comments.append(Comment(number, 1, line[start + len(_OPEN) : end]))
        at = end + len(_CLOSE)
        start = plain.find(_OPEN, at)
    return rest + line[at:], -1
