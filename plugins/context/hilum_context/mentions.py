"""Finds the identifiers and paths that a prompt mentions. This module reads no files."""

from __future__ import annotations

import re
from collections.abc import Iterator

# Maximum number of characters to search in a prompt.
MAX_PROMPT_LENGTH = 20_000
_NAME = r"(?<![A-Za-z0-9_])[A-Za-z_][A-Za-z0-9_]{2,79}(?![A-Za-z0-9_])"
_QUOTED = r"`([A-Za-z_][\w.]{1,79})(?:\(\))?`"
_SPECIAL = re.compile(
    r"[a-z0-9]_[a-zA-Z0-9]|^_|[A-Z0-9]_[A-Z0-9]|[a-z][A-Z]|[A-Z]{2}[a-z]|[A-Za-z]\d+[A-Za-z]"
)
# Maximum length of a path, in characters; longer text is data.
MAX_PATH = 500
_CHARACTER = r"[\w./~@+-]"
# The first pattern matches a sequence of characters that can occur in paths; the second matches a
# path at the beginning of the rest of such a sequence. Searching for paths at every character would
# take quadratic time on one long word, such as a line of minified code.
_PATHS = tuple(
    (
        re.compile(rf"{_CHARACTER}+", flags),
        re.compile(
            rf"{_CHARACTER}*[\w-]\.\w{{1,5}}\b|{_CHARACTER}[\w.~@+-]*+/{_CHARACTER}*[\w-]", flags
        ),
    )
    for flags in (re.ASCII, re.UNICODE)
)
_LINKS = r"(?<!\w)\w++://\S+"  # the look-behind keeps the search linear


def find_identifiers(text: str, most: int = 8) -> list[str]:
    """Return the identifiers in a text: in backticks, ``snake_case``, ``CamelCase``, ``called()``.

    Args:
        text: The text.
        most: Maximum number of identifiers.

    Returns:
        The identifiers in order of appearance, without duplicates, ordinary words and parts of
        paths.
    """
    text = re.sub(_LINKS, " ", text[:MAX_PROMPT_LENGTH])
    found: list[tuple[int, str]] = []
    for match in re.finditer(_QUOTED, text):
        name = match[1].rpartition(".")[2]  # the method in a quoted `object.method`
        found.append((match.start(1), name))
    bare = text
    for path in find_path_names(text):
        if "/" in path:  # a name with a dot and no slash may be a method
            # Spaces of the same length preserve positions, which determine the order of the names.
            bare = bare.replace(path, " " * len(path))
    for match in re.finditer(_NAME, bare):
        is_called = bare.startswith("(", match.end())
        if is_called or _SPECIAL.search(match[0]):
            found.append((match.start(), match[0]))
    named = [name for _, name in sorted(found) if len(name) > 2]
    return list(dict.fromkeys(named))[:most]


def find_path_names(text: str, most: int = 50) -> list[str]:
    """Return the parts of a text that look like paths or file names, in order of appearance.

    Args:
        text: The text.
        most: Maximum number of paths.
    """
    text = re.sub(_LINKS, " ", text[:MAX_PROMPT_LENGTH])
    found: list[tuple[int, str]] = []
    # Search twice, because some languages put no space between a word and a file name.
    for run, pattern in _PATHS:
        for match in _matches(text, run, pattern):
            path = match[0].rstrip(".")
            before = text[match.start() - 1] if match.start() else ""
            # After a Chinese character, for example, a slash separates words.
            if not before.isascii():
                path = path.lstrip("/")
            if len(path) <= MAX_PATH:
                found.append((match.start(), path))
    paths = [path for _, path in sorted(found) if path.strip("./~")]
    return list(dict.fromkeys(paths))[:most]


def _matches(text: str, run: re.Pattern[str], pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """Yield the matches of a pattern in the parts of a text that ``run`` matches.

    Within such a part, the pattern can match only at the beginning, or where the last match ended.
    """
    for whole in run.finditer(text):
        match = pattern.match(text, whole.start(), whole.end())
        while match:
            yield match
            match = pattern.match(text, match.end(), whole.end())
