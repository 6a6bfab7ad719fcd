"""Find code whose text does not show the names that it uses, because it decodes or joins them.

Every check that searches code for a path, a host or a text needs this, and in the same way: a name
that is hidden from one check is hidden from all.
"""

from __future__ import annotations

import re

# Functions that decode text; ordinary programs rarely use them for names.
_DECODES = re.compile(
    r"\bchr\b|decode|fromhex|unhexlify|bytes\(\[|\[::-|CharCode|\b(?:un)?pack\b|\breversed?\b|__import__"
    r"|getattr\((?:os|__builtins__)|\batob\b|Buffer\.from|base64"
)
_DECODES_LITERALS = re.compile(
    r"\bchr\(\s*\d|b(?:32|64|85)decode|fromhex|unhexlify|codecs\.decode|bytes\(\[|['\"]\s*\[::-1\]"
    r"|CharCode|\batob\b|Buffer\.from\(['\"]"
)
# What puts values into text at run time.
_FORMATS = r"join\b|format|environ|\bENV\b|\b[fF]['\"]|['\"]\s*%"
_INSERTS = re.compile(_FORMATS)
# What else assembles names at run time, or finds them in folders.
_ASSEMBLES = re.compile(
    rf"{_FORMATS}|['\"]\s*[+.]|[+.]\s*['\"]|replace\(|\$\{{|glob|argv|listdir|scandir|iterdir"
    r"|\bwalk\b|readdir|\bDir\b"
)


def decodes_text(text: str) -> bool:
    """Return whether code decodes text, so that it may use any name."""
    return _DECODES.search(text) is not None


def decodes_literals(text: str) -> bool:
    """Return whether code decodes literal text, so that it may use any name.

    Modules and tests often decode what a program prints, which is no name.
    """
    return _DECODES_LITERALS.search(text) is not None


def inserts_values(text: str) -> bool:
    """Return whether code puts values into text at run time."""
    return _INSERTS.search(text) is not None


def assembles_names(text: str) -> bool:
    """Return whether code assembles names at run time, or finds them in folders."""
    return _ASSEMBLES.search(text) is not None
