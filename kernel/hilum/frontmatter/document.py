"""The types of the result of reading a file."""

from __future__ import annotations

from typing import NamedTuple


class Problem(NamedTuple):
    """A problem found in the front matter."""

    line: int
    """Line in the file, counted from 1."""
    message: str
    """A description of what is wrong and how the text was read."""
    fatal: bool = False
    """Whether something that the file contains is missing from the fields."""


class Document(NamedTuple):
    """A file split into front matter and body."""

    fields: dict[str, object]
    """Key to value: text, list, mapping of texts, or None if the value is empty, ``~`` or
    ``null``.
    """
    body: str
    """The text below the front matter, with ``\\n`` as newlines.

    The body is the whole file if there is no front matter.
    """
    line: int
    """The line of the file on which the body begins, counted from 1."""
    problems: tuple[Problem, ...] = ()
    """Everything that was repaired, left out or noticed as unusual, in line order."""
    present: bool = False
    """Whether the file has front matter."""
    lines: dict[str, int] = {}  # never modified, so documents without fields can share this dict
    """The line of each key, counted from 1."""

    def problem(self, key: str, message: str, *, fatal: bool = False) -> Problem:
        """Return a problem on the line of a key, for a caller that considers its value invalid.

        Args:
            key: The key. If the front matter has no such key, the problem is on the first line.
            message: A sentence about the problem.
            fatal: Whether the value has no effect because of the problem.
        """
        return Problem(self.lines.get(key, 1), message, fatal)
