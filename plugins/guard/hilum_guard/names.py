"""Names of files, compared as the most forgiving file system compares them."""

from __future__ import annotations

import os
import re
import unicodedata

QUARANTINED = ".quarantined"
"""Ending of the name that a file gets when it is made inert. No program looks for such a name."""
_ENDING = re.compile(r"(\.\d+)?" + re.escape(QUARANTINED) + "$")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def folded(name: str) -> str:
    """Fold a name the way the most forgiving file system would."""
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFKC", name).casefold()


def original(name: str) -> str:
    """Return the name that a file had before it was made inert; its name where it was not."""
    return _ENDING.sub("", name)


def printable(text: str) -> str:
    """Return a text with paths in it so that it can be stored and shown.

    A name of a file is any bytes: what is not UTF-8 reaches Python as halves of surrogate pairs,
    which no event can hold. Bytes of that kind and control characters become escape sequences.
    """
    try:
        data = os.fsencode(text)
    except UnicodeEncodeError:  # halves that stand for no byte, of a damaged mark for example
        data = text.encode(errors="backslashreplace")
    decoded = data.decode(errors="backslashreplace")
    return _CONTROLS.sub(lambda match: f"\\x{ord(match[0]):02x}", decoded)
