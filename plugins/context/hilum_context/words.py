"""What a prompt names: identifiers and paths. Nothing here touches a file."""

from __future__ import annotations

import re
from collections.abc import Iterator

READ = 20_000
"""Characters of a prompt that are looked at."""
_NAME = re.compile(r"(?<![A-Za-z0-9_])[A-Za-z_][A-Za-z0-9_]{2,79}(?![A-Za-z0-9_])")
_QUOTED = re.compile(r"`([A-Za-z_][\w.]{1,79})(?:\(\))?`")
_SPECIAL = re.compile(
    r"[a-z0-9]_[a-zA-Z0-9]|^_|[A-Z0-9]_[A-Z0-9]|[a-z][A-Z]|[A-Z]{2}[a-z]|[A-Za-z]\d+[A-Za-z]"
)
MAX_PATH = 500
"""Characters of a path; what is longer is data."""
_CHARACTER = r"[\w./~@+-]"
# A run of characters that paths have, and a path at the beginning of what is left of a run. To
# search for paths at every character instead takes quadratic time on one long word, such as a line
# of minified code.
_PATHS = tuple(
    (
        re.compile(rf"{_CHARACTER}+", flags),
        re.compile(
            rf"{_CHARACTER}*[\w-]\.\w{{1,5}}\b|{_CHARACTER}[\w.~@+-]*+/{_CHARACTER}*[\w-]", flags
        ),
    )
    for flags in (re.ASCII, re.UNICODE)
)
_LINKS = re.compile(r"(?<!\w)\w++://\S+")  # looking back keeps it linear


def identifiers(text: str, most: int = 8) -> list[str]:
    """Return the names of a program that a text has: what stands in backquotes, ``snake_case``,
    ``CamelCase``, ``called()``.

    Args:
        text: The text.
        most: Most names.

    Returns:
        Them in their order, each once; words of plain language and parts of paths are left out.
    """
    text = _LINKS.sub(" ", text[:READ])
    quoted = [(match.start(1), match[1].rpartition(".")[2]) for match in _QUOTED.finditer(text)]
    bare = text
    for path in (
        path for path in paths(text) if "/" in path
    ):  # a name with a dot may be a method's
        bare = bare.replace(path, " " * len(path))
    plain = [
        (match.start(), match[0])
        for match in _NAME.finditer(bare)
        if _SPECIAL.search(match[0]) or bare[match.end() : match.end() + 1] == "("
    ]
    named = [name for _, name in sorted([*quoted, *plain]) if len(name) > 2]
    return list(dict.fromkeys(named))[:most]


def paths(text: str, most: int = 50) -> list[str]:
    """Return what looks like paths or names of files in a text, in no other order than that of the
    text.

    Args:
        text: The text.
        most: Most of them.
    """
    text = _LINKS.sub(" ", text[:READ])
    found: list[tuple[int, str]] = []
    # Twice, as in some languages no space stands between a word and a name.
    for run, pattern in _PATHS:
        for match in _matches(text, run, pattern):
            path = match[0].rstrip(".")
            before = text[match.start() - 1] if match.start() else ""
            if len(path) <= MAX_PATH:
                found.append((match.start(), path if before.isascii() else path.lstrip("/")))
    return list(dict.fromkeys(path for _, path in sorted(found) if path.strip("./~")))[:most]


def _matches(text: str, run: re.Pattern[str], pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """Yield the matches of a pattern that matches within a run only if it matches at its
    beginning.
    """
    for whole in run.finditer(text):
        at = whole.start()
        while match := pattern.match(text, at, whole.end()):
            yield match
            at = match.end()
