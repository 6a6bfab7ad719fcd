"""Removes HTML comments: readers of a page do not see them, so the model does not read them either.

Removed comments are reported. A comment that begins with ``enforce:`` is an instruction for hilum.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
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


def blank_code_spans(line: str) -> str:
    """Return a line with its code spans replaced by spaces, so that positions stay valid.

    A code span ends at the next sequence of the same number of backticks.
    """
    runs = [match.span() for match in re.finditer("`+", line)]
    # The ends of the sequences of each length, last first. A line may have thousands of them, so
    # that a search for each one would take too long.
    ends = defaultdict[int, list[int]](list)
    for begin, end in reversed(runs):
        ends[end - begin].append(end)
    blanked = ""
    for begin, end in runs:
        following = ends[end - begin]
        following.pop()
        if begin >= len(blanked) and following:
            blanked += line[len(blanked) : begin] + " " * (following[-1] - begin)
    return blanked + line[len(blanked) :]


class Comment(NamedTuple):
    """A comment.

    Attributes:
        line: The line on which the comment begins, from 1.
        text: The text.
        closed: Whether the comment is closed.
    """

    line: int
    text: str
    closed: bool = True


def remove_comments(given: Sequence[str]) -> tuple[list[str], list[Comment]]:
    """Return lines without their HTML comments, and the comments.

    The number of lines stays the same. Comments in code are kept, and so is an unclosed comment,
    because removing it would remove everything below it.
    """
    lines: list[str] = []
    comments: list[Comment] = []
    fences = FenceTracker()
    last_close = max((number for number, line in enumerate(given, 1) if _CLOSE in line), default=0)
    inner: list[str] = []  # the lines of the open comment
    for number, line in enumerate(given, 1):
        rest = line
        if inner:
            before, close, rest = line.partition(_CLOSE)
            inner.append(before)
            if close:
                comments.append(Comment(number - len(inner) + 1, "\n".join(inner)))
                inner = []
        # The lines of a comment become empty, so that reported line numbers stay correct.
        if fences.is_code(rest):
            lines.append(rest)
            continue
        kept, opened = _remove_from_line(rest, number, comments)
        if opened is None:
            lines.append(kept)
        elif number < last_close:
            lines.append(kept.rstrip())
            inner = [opened]
        else:
            comments.append(Comment(number, "", closed=False))
            lines += [f"{kept}{_OPEN}{opened}", *given[number:]]
            break
    return lines, comments


def _remove_from_line(line: str, number: int, comments: list[Comment]) -> tuple[str, str | None]:
    """Remove the comments that end on their line.

    Returns:
        The rest of the line, and the text of an unfinished comment that begins after it, if any.
    """
    plain = blank_code_spans(line)
    rest = ""
    at = 0
    start = plain.find(_OPEN)
    while start >= 0:
        rest += line[at:start]
        begin = start + len(_OPEN)
        end = line.find(_CLOSE, begin)
        if end < 0:
            return rest, line[begin:]
        comments.append(Comment(number, line[begin:end]))
        at = end + len(_CLOSE)
        start = plain.find(_OPEN, at)
    return rest + line[at:], None
