"""The lines of a settings file on which its keys are, for messages about mistakes.

``tomllib`` reports no positions, and a second parser would read some files differently. So the text
is parsed up to a line that mentions the key: the key is on that line if it appears with it and did
not exist before it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

# A text is parsed again for each line that mentions a key. A project could make its file cost as
# much time as possible, so both the size and the number are limited: to about two seconds.
MAX_CHARACTERS = 20_000
MAX_PARSES = 200
MAX_DEPTH = 20  # of nested tables; no setting is deeper


def find_line(text: str, key: str) -> int:
    """Return the number of the line on which a key is, or its table; 0 if it is not found.

    Args:
        text: A text that is valid TOML.
        key: The dotted key, as in messages: ``servers[1].command``.
    """
    return _finder(text).find(key)


@lru_cache(maxsize=2)  # a user's file and a project's, which may have many mistakes
def _finder(text: str) -> _LineFinder:
    return _LineFinder(text)


class _LineFinder:
    """The lines of keys in one text, whose parts are parsed only once."""

    def __init__(self, text: str) -> None:
        # A part that ended in the middle of a line break would not be valid.
        text = text.removeprefix("\ufeff").replace("\r\n", "\n")
        self._lines = text.split("\n")
        self._parents = {key: (parent, name) for key, parent, name in _spelled(tomllib.loads(text))}
        self._parsed: dict[int, set[str] | None] = {}
        self._can_parse = len(text) <= MAX_CHARACTERS

    def find(self, key: str) -> int:
        """Return the number of the line on which a key is; see ``find_line``."""
        if key not in self._parents:  # a required key that is missing
            key = key.rpartition(".")[0]
        while key in self._parents:
            parent, name = self._parents[key]
            number = self._find_itself(key, name)
            if number:
                return number
            key = parent
        return 0

    def _find_itself(self, key: str, name: str) -> int:
        for index, line in enumerate(self._lines):
            if name not in line:
                continue
            before = self._keys_of(index)
            # Without keys, the line is in the middle of a value of several lines.
            if before is not None and key not in before and self._appears(key, index + 1):
                return index + 1
        return 0

    def _appears(self, key: str, count: int) -> bool:
        """Return whether a key exists after ``count`` lines, or at the end of the last one's value."""
        for end in range(count, len(self._lines) + 1):
            keys = self._keys_of(end)
            if keys is not None:
                return key in keys
        return False

    def _keys_of(self, count: int) -> set[str] | None:
        """Return the keys in the first lines, ``None`` if these alone are not valid TOML."""
        if count not in self._parsed:
            if not self._can_parse or len(self._parsed) >= MAX_PARSES:
                return None
            self._parsed[count] = self._parse(count)
        return self._parsed[count]

    def _parse(self, count: int) -> set[str] | None:
        try:
            data = tomllib.loads("\n".join(self._lines[:count]))
        except (ValueError, RecursionError):
            return None
        return {key for key, _, _ in _spelled(data)}


def _spelled(
    value: Any, key: str = "", name: str = "", depth: int = 0
) -> Iterator[tuple[str, str, str]]:
    """Yield the dotted key of each value in a table or list, that of its parent, and its name.

    The name of an item of a list is that of the list, because a file repeats it: ``[[servers]]``.
    """
    if depth == MAX_DEPTH:
        return
    if isinstance(value, Mapping):
        for inner, item in value.items():
            at = f"{key}.{inner}" if key else inner
            yield at, key, inner
            yield from _spelled(item, at, inner, depth + 1)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            at = f"{key}[{number}]"
            yield at, key, name
            yield from _spelled(item, at, name, depth + 1)
