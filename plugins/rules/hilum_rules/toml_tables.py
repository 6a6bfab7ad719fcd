"""Reads files with ``[[rule]]`` tables one table after another.

A mistake in one table, such as the marks of a merge conflict, thus does not affect the others.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

MAX_CHECKS = 20
"""Maximum number of checks in a table."""
_HEADER = re.compile(r"[ \t]*\[\[[ \t]*rule[ \t]*\]\][ \t]*(?:#.*)?$")
_KEY = re.compile(r"[ \t]*[\w-]+[ \t]*=|.*\benforce[ \t]*=")
_STRING = re.compile(r"""(["'])((?:[^\\]|\\.)*?)\1""")


class Table(NamedTuple):
    """The text of a table, or the text before the first one.

    Attributes:
        line: The line on which the text begins, from 1.
        lines: The lines.
    """

    line: int
    lines: Sequence[str]

    @property
    def has_header(self) -> bool:
        """Whether the text begins with ``[[rule]]``."""
        return bool(self.lines) and _HEADER.match(self.lines[0]) is not None

    def parse(self) -> dict[str, Any]:
        """Return the fields of the table.

        Raises:
            ValueError: The text is not TOML, or contains something else than one table.
        """
        try:
            data = tomllib.loads("\n".join(self.lines))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise ValueError(f"it is not valid TOML: {error}".rstrip(".")) from None
        if self.has_header and set(data) != {"rule"}:
            raise ValueError("it contains another table")
        return dict(data["rule"][0]) if self.has_header else data

    def has_key(self, key: str) -> bool:
        """Return whether a line of the text begins with a key."""
        return any(re.match(rf"[ \t]*{re.escape(key)}[ \t]*=", line) for line in self.lines)

    def find_line(self, key: str) -> int:
        """Return the line of the file with a key."""
        for number, line in enumerate(self.lines, self.line):
            if re.match(rf"[ \t\[]*[\"']?{re.escape(key)}\b", line):
                return number
        return self.line

    def find_checks(self) -> tuple[str, ...]:
        """Return the checks that a malformed table seems to name, because these fail closed."""
        found: list[str] = []
        is_inside = False
        for line in self.lines:
            key = _KEY.match(line)
            if key:
                is_inside = "enforce" in key[0]
            if is_inside and not line.lstrip().startswith("#"):
                strings = _STRING.findall(line[key.end() :] if key else line)
                found += [re.sub(r"\\([\"\\])", r"\1", text) for _, text in strings]
        return tuple(found[:MAX_CHECKS])


def split_tables(lines: Sequence[str]) -> list[Table]:
    """Split the lines of a file before each ``[[rule]]``; the first part may have no such header."""
    starts = [index for index, line in enumerate(lines) if _HEADER.match(line)]
    parts = [
        Table(begin + 1, lines[begin:end]) for begin, end in pairwise([0, *starts, len(lines)])
    ]
    return [part for part in parts if not _is_empty(part.lines)]


def _is_empty(lines: Iterable[str]) -> bool:
    return all(not line.strip() or line.lstrip().startswith("#") for line in lines)
