"""What reading a file gives."""

from __future__ import annotations

from typing import NamedTuple


class Problem(NamedTuple):
    """Something in the front matter that is not as it should be."""

    line: int
    """Where in the file, from 1."""
    message: str
    """What is wrong, and what was made of it."""
    fatal: bool = False
    """Something that was written is not in the fields."""


class Document(NamedTuple):
    """A file taken apart."""

    fields: dict[str, object]
    """Key to value: text, list, mapping of texts, or None where the value is empty, ``~`` or
    ``null``.
    """
    body: str
    """What stands below the front matter, with line ends ``\\n``.

    The whole file where there is no front matter.
    """
    line: int
    """The line of the file on which the body begins, from 1."""
    problems: tuple[Problem, ...] = ()
    """Everything that was repaired, left out or odd, in the order of lines."""
    present: bool = False
    """The file has front matter."""
    lines: dict[
        str, int
    ] = {}  # never changed: each document gets its own, an empty one may be shared
    """The line of each key, from 1."""

    def problem(self, key: str, message: str, *, fatal: bool = False) -> Problem:
        """Return a problem with the line of a key, for what a caller finds wrong with a value.

        Args:
            key: The key; the first line where there is no such key.
            message: What is wrong.
            fatal: What was written is not obeyed.
        """
        return Problem(self.lines.get(key, 1), message, fatal)
