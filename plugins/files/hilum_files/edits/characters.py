"""Handles characters that models confuse (spaces, quotes, dashes), and splits lines into parts."""

from __future__ import annotations

import re
from typing import NamedTuple

_SPACES = (
    "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u202f\u205f\u3000"
)
_DOUBLE = "\u201c\u201d\u201e\u201f\u2033"
_SINGLE = "\u2018\u2019\u201a\u201b\u2032"
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_SPACE_TABLE = str.maketrans(dict.fromkeys(_SPACES, " "))
# The ASCII text that replaces each typographic character.
PLAIN = {
    **_SPACE_TABLE,
    **str.maketrans(dict.fromkeys(_DOUBLE, '"')),
    **str.maketrans(dict.fromkeys(_SINGLE, "'")),
    **str.maketrans(dict.fromkeys(_DASHES, "-")),
    ord("\u2026"): "...",
}
BLANKS = " \t" + _SPACES
_TOKEN = re.compile(rf"[{BLANKS}]+|\w+|\.{{3}}|[^\w{BLANKS}]")
# An escape is matched as a whole, so that an escaped quote does not count as a quote.
_QUOTED = re.compile(r"""\\.|["'`]""", re.DOTALL)


class LineParts(NamedTuple):
    """The three parts of a line, which equals ``indent + body + trailing``."""

    indent: str
    body: str
    trailing: str


def split_line(line: str) -> LineParts:
    """Split a line into indentation, text and trailing whitespace.

    A blank line consists of indentation only.
    """
    rest = line.lstrip(BLANKS)
    body = rest.rstrip(BLANKS)
    return LineParts(line[: len(line) - len(rest)], body, rest[len(body) :])


def normalize_line(line: str) -> str:
    """Return a line with single spaces, ASCII typography, and no leading or trailing whitespace."""
    key = " ".join(line.split())
    return key if key.isascii() else key.translate(PLAIN)


# `str.translate` is much slower than `isascii`, and nearly every line of code is ASCII.
def to_plain_spaces(text: str) -> str:
    """Return the text with every kind of space replaced by an ASCII space."""
    return text if text.isascii() else text.translate(_SPACE_TABLE)


def to_plain(text: str) -> str:
    """Return the text with typographic quotes, dashes and spaces replaced by ASCII ones."""
    return text if text.isascii() else text.translate(PLAIN)


def tokenize(body: str) -> list[str]:
    """Split text into words, sequences of whitespace, ellipses, and single other characters."""
    return _TOKEN.findall(body)


def is_blank(text: str) -> bool:
    """Return whether the text is empty or contains only whitespace."""
    return not text or text.isspace()


def is_inside_quotes(text: str, offset: int) -> bool:
    """Return whether quotes opened in a line may still be open at an offset.

    An apostrophe counts as a quote.
    """
    quote = ""
    for match in _QUOTED.finditer(text, 0, offset):
        found = match[0]
        if not quote and len(found) == 1:
            quote = found
        elif found == quote:
            quote = ""
    return bool(quote)
