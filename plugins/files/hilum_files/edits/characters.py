"""Characters that models mistake for one another: kinds of space, quotes and dashes.

And the parts of a line.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_DOUBLE = "\u201c\u201d\u201e\u201f\u2033"
_SINGLE = "\u2018\u2019\u201a\u201b\u2032"
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
# What each of them stands for in plain text.
PLAIN = {
    ord(c): plain
    for plain, chars in ((" ", _SPACES), ('"', _DOUBLE), ("'", _SINGLE), ("-", _DASHES))
    for c in chars
}
PLAIN[ord("\u2026")] = "..."
BLANKS = " \t" + _SPACES
_SPACE_TABLE = {ord(c): " " for c in _SPACES}
_TOKEN = re.compile(rf"[{BLANKS}]+|\w+|\.{{3}}|[^\w{BLANKS}]")
_QUOTED = re.compile(r"""\\.|["'`]""", re.DOTALL)


class Parts(NamedTuple):
    """A line in three parts; ``indent + body + trailing`` is the line."""

    indent: str
    body: str
    trailing: str


def parts_of(line: str) -> Parts:
    """Split a line into indentation, text, and white space at its end.

    Of a blank line all is indentation.
    """
    rest = line.lstrip(BLANKS)
    body = rest.rstrip(BLANKS)
    return Parts(line[: len(line) - len(rest)], body, rest[len(body) :])


def key_of(line: str) -> str:
    """Return what a line says: runs of white space are one space, none at the ends, typography is
    plain.
    """
    key = " ".join(line.split())
    return key if key.isascii() else key.translate(PLAIN)


def plain_spaces(text: str) -> str:
    """Return a text in which every kind of space is a plain one."""
    if text.isascii():
        return text
    return text.translate(_SPACE_TABLE)


def plain(text: str) -> str:
    """Return a text with plain quotes, dashes and spaces."""
    return text if text.isascii() else text.translate(PLAIN)


def tokens_of(body: str) -> list[str]:
    """Split a text into words, runs of white space, ellipses, and single other characters."""
    return _TOKEN.findall(body)


def is_blank(text: str) -> bool:
    """Return whether a text has nothing but white space."""
    return not text or text.isspace()


def inside_quotes(text: str, offset: int) -> bool:
    """Return whether a place in a line may be inside of quotes that were opened in it.

    An apostrophe counts as one.
    """
    quote = ""
    for match in _QUOTED.finditer(text, 0, offset):
        found = match[0]
        if not quote and len(found) == 1:
            quote = found
        elif found == quote:
            quote = ""
    return bool(quote)
