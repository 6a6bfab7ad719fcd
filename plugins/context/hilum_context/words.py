"""What a prompt names: identifiers and paths. Nothing here touches a file."""

from __future__ import annotations

import re

READ = 20_000
"""Characters of a prompt that are looked at."""
_NAME = re.compile(r"(?<![A-Za-z0-9_])[A-Za-z_][A-Za-z0-9_]{2,79}(?![A-Za-z0-9_])")
_QUOTED = re.compile(r"`([A-Za-z_][\w.]{1,79})(?:\(\))?`")
_SPECIAL = re.compile(r"[a-z0-9]_[a-zA-Z0-9]|^_|[A-Z0-9]_[A-Z0-9]|[a-z][A-Z]|[A-Z]{2}[a-z]|[A-Za-z]\d+[A-Za-z]")
_PATHS = tuple(
    re.compile(rf"{name}*[\w-]\.\w{{1,5}}\b|{name}+/{name}*[\w-]", flags)
    for name, flags in ((r"[\w./~@+-]", re.ASCII), (r"[\w./~@+-]", re.UNICODE))
)
_LINKS = re.compile(r"\w+://\S+")


def identifiers(text: str, most: int = 8) -> list[str]:
    """Give the names of a program that a text has: what stands in backquotes, ``snake_case``, ``CamelCase``, ``called()``.

    Args:
        text: The text.
        most: Most names.

    Returns:
        Them in their order, each once; words of plain language and parts of paths are left out.
    """
    text = _LINKS.sub(" ", text[:READ])
    quoted = [(match.start(1), match[1].rpartition(".")[2]) for match in _QUOTED.finditer(text)]
    bare = text
    for path in (path for path in paths(text) if "/" in path):  # a name with a dot may be a method's
        bare = bare.replace(path, " " * len(path))
    plain = [
        (match.start(), match[0])
        for match in _NAME.finditer(bare)
        if _SPECIAL.search(match[0]) or bare[match.end() : match.end() + 1] == "("
    ]
    named = [name for _, name in sorted([*quoted, *plain]) if len(name) > 2]
    return list(dict.fromkeys(named))[:most]


def paths(text: str, most: int = 50) -> list[str]:
    """Give what looks like paths or names of files in a text, in no other order than that of the text.

    Args:
        text: The text.
        most: Most of them.
    """
    text = _LINKS.sub(" ", text[:READ])
    # Twice, as in some languages no space stands between a word and a name.
    found = []
    for match in (match for pattern in _PATHS for match in pattern.finditer(text)):
        path, before = match[0].rstrip("."), text[: match.start()][-1:]
        found.append((match.start(), path if before.isascii() else path.lstrip("/")))
    return list(dict.fromkeys(path for _, path in sorted(found) if path.strip("./~")))[:most]
