"""Measures the similarity of two lines."""

from __future__ import annotations

ALIKE = 0.6
"""Minimum similarity for a line to count as a changed version of another one."""
# difflib may take quadratic time.
_MAX_CHARACTERS = 500


def likeness(a: str, b: str) -> float:
    """Return the similarity of two lines, from 0 to 1."""
    from difflib import SequenceMatcher  # the import takes 2 ms; needed only for inexact copies

    return SequenceMatcher(None, a[:_MAX_CHARACTERS], b[:_MAX_CHARACTERS], autojunk=False).ratio()
