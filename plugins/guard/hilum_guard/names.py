"""Names of files, compared as the most forgiving file system compares them."""

from __future__ import annotations

import unicodedata

QUARANTINED = ".quarantined"
"""Ending of the name that a file gets when it is made inert. No program looks for such a name."""


def folded(name: str) -> str:
    """Fold a name the way the most forgiving file system would."""
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFKC", name).casefold()
