"""Finding the lines on which a settings file sets its keys, for messages about mistakes.

``tomllib`` reports no positions, and another parser would read some files differently than
``tomllib``. The text is therefore parsed up to each line that mentions the key. If the key exists
with this line but not without it, the key is on this line.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

# The beginning of the text is parsed again for each line that mentions the key. A malicious project
# could make this slow, so the size of the text and the number of parses are limited, to about two
# seconds in total.
MAX_CHARACTERS = 20_000
MAX_PARSES = 200
MAX_DEPTH = 20  # maximum depth of nested tables; no setting is deeper


def find_line(text: str, key: str) -> int:
    """Return the number of the line with a key or its table; 0 if it is not found.

    Args:
        text: A text that is valid TOML.
        key: The dotted key, as in messages: ``servers[1].command``.
    """
    return _finder(text).find(key)


@lru_cache(maxsize=2)  # the user's file and the project's
def _finder(text: str) -> _LineFinder:
    return _LineFinder(text)


class _LineFinder:
    """A finder for the lines of keys in one text, which caches what it parses."""

    def __init__(self, text: str) -> None:
        # CRLF is replaced, because a part of the text that ended within a line break would be
        # invalid.
        text = text.removeprefix("\ufeff").replace("\r\n", "\n")
        self._lines = text.split("\n")
        self._parents = {key: (parent, name) for key, parent, name in _spelled(tomllib.loads(text))}
        self._parsed: dict[int, set[str] | None] = {}
        self._can_parse = len(text) <= MAX_CHARACTERS

    def find(self, key: str) -> int:
        """Return the number of the line with a key; see ``find_line``."""
        if key not in self._parents:  # a required key that is missing, so its table is searched
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
            # If the lines before are invalid, this line is in the middle of a multi-line value.
            if before is not None and key not in before and self._appears(key, index + 1):
                return index + 1
        return 0

    def _appears(self, key: str, count: int) -> bool:
        """Return whether a key exists in the first ``count`` lines.

        If a value continues on the following lines, these lines are also included.
        """
        for end in range(count, len(self._lines) + 1):
            keys = self._keys_of(end)
            if keys is not None:
                return key in keys
        return False

    def _keys_of(self, count: int) -> set[str] | None:
        """Return the keys in the first ``count`` lines; ``None`` if these are not valid TOML."""
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
    """Yield the dotted key, the parent's dotted key and the name of each value in a table or list.

    An item in a list has the name of the list, because the file repeats that name: ``[[servers]]``.
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
