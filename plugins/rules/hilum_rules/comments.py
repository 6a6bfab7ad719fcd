"""HTML comments: a person who looks at the page does not see them, so a model does not read them
either.

They are taken out, and that is told; one that begins with ``enforce:`` is a line for hilum.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_FENCE = re.compile(r"(?:[ \t>]|[-*+] |\d{1,9}[.)] )*(`{3,}(?!.*`)|~{3,})")


class Fences:
    """Follows fenced code line by line."""

    def __init__(self) -> None:
        self.mark = ""
        """What the fence was opened with, empty outside of code."""

    def code(self, line: str) -> bool:
        """Return whether this line is in fenced code, or opens or closes it."""
        found = _FENCE.match(line)
        if not self.mark:
            if found:
                self.mark = found[1]
            return bool(found)
        if found and found[1].startswith(self.mark) and not line[found.end() :].strip():
            self.mark = ""
        return True


def spans(line: str) -> Iterator[tuple[int, int]]:
    """Yield where spans of code begin and end: from a run of backticks to the next one of the same
    length.
    """
    runs = [match.span() for match in re.finditer("`+", line)]
    partners: dict[int, int] = {}
    closing = [0] * len(runs)
    for index in range(len(runs) - 1, -1, -1):
        length = runs[index][1] - runs[index][0]
        closing[index] = partners.get(length, 0)
        partners[length] = index
    index = 0
    while index < len(runs):
        if closing[index]:
            yield runs[index][0], runs[closing[index]][1]
        index = (closing[index] or index) + 1


def without_spans(line: str) -> str:
    """Put spaces in the place of spans of code."""
    kept = ""
    at = 0
    for begins, ends in spans(line) if "`" in line else ():
        kept = f"{kept}{line[at:begins]}{' ' * (ends - begins)}"
        at = ends
    return kept + line[at:]


class Comment(NamedTuple):
    """A comment: where it begins, from 1, how many lines it has, its text, and whether it ends at
    all.
    """

    line: int
    lines: int
    text: str
    closed: bool = True


def without_comments(given: list[str]) -> tuple[list[str], list[Comment]]:
    """Take the HTML comments out of a text; there are as many lines as before.

    What stands in code stays, and so does what is opened and never closed: it would take everything
    below it along.
    """
    lines = list(given)
    found = list[Comment]()
    fences = Fences()
    number = 0
    while number < len(lines):
        if fences.code(lines[number]) or "<!--" not in lines[number]:
            number += 1
            continue
        lines[number], start = _inline(lines[number], number + 1, found)
        if start < 0:
            number += 1
            continue
        line = lines[number]
        last = next((n for n in range(number + 1, len(lines)) if "-->" in lines[n]), -1)
        if last < 0:
            found.append(Comment(number + 1, 1, "", closed=False))
            break
        end = lines[last].find("-->")
        inner = "\n".join([line[start + 4 :], *lines[number + 1 : last], lines[last][:end]])
        found.append(Comment(number + 1, last - number + 1, inner))
        lines[number:last] = [line[:start].rstrip(), *[""] * (last - number - 1)]
        lines[last] = lines[last][end + 3 :]
        number = last
    return lines, found


def _inline(line: str, number: int, found: list[Comment]) -> tuple[str, int]:
    """Take out the comments that end on their line.

    Gives what is left, and where one begins that goes on, or -1.
    """
    plain = without_spans(line)
    kept = ""
    at = 0
    while (start := plain.find("<!--", at)) >= 0:
        kept += line[at:start]
        end = line.find("-->", start + 4)
        if end < 0:
            return kept + line[start:], len(kept)
        found.append(Comment(number, 1, line[start + 4 : end]))
        at = end + 3
    return kept + line[at:], -1
