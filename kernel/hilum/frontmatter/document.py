"""The result of reading a file."""

from __future__ import annotations

from typing import NamedTuple


class Problem(NamedTuple):
    """A problem found in the front matter."""

    line: int
    """Line in the file, counted from 1."""
    message: str
    """What is wrong, and how the text was read."""
    fatal: bool = False
    """Whether the fields lack something that the file contains."""


class Document(NamedTuple):
    """A file split into front matter and body."""

    fields: dict[str, object]
    """Key to value: text, list, mapping of texts, or None if the value is empty, ``~`` or
    ``null``.
    """
    body: str
    """The text below the front matter, with ``\\n`` as newlines.

    It is the whole file if there is no front matter.
    """
    line: int
    """The line of the file on which the body begins, from 1."""
    problems: tuple[Problem, ...] = ()
    """Everything that was repaired, left out or unusual, in line order."""
    present: bool = False
    """Whether the file has front matter."""
    lines: dict[str, int] = {}  # never modified, so documents without fields may share it
    """The line of each key, from 1."""

    def problem(self, key: str, message: str, *, fatal: bool = False) -> Problem:
        """Return a problem on the line of a key, for a caller that finds a value invalid.

        Args:
            key: The key; without such a key, the problem is on the first line.
            message: A sentence about the problem.
            fatal: Whether the value has no effect because of the problem.
        """
        return Problem(self.lines.get(key, 1), message, fatal)
