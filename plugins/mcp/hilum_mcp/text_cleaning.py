"""Cleans and shortens texts for messages, the model and the user."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

MAX_DESCRIPTION = 2_000
_ALLOWED = "\n\t\u200c\u200d"  # Persian and emoji need the joiners
# Control, format (direction marks, tags), surrogate, private and unassigned characters.
_INVISIBLE = ("Cc", "Cf", "Cs", "Co", "Cn")


def clean_text(text: str | None, max_length: int) -> str:
    """Return a text, truncated and without invisible characters, which could hide instructions.

    Args:
        text: A text from a server.
        max_length: Maximum number of characters in the result.
    """
    # At most twice the maximum length is searched, so that a huge text takes little time.
    searched = (text or "")[: 2 * max_length]
    visible = "".join(filter(_is_visible, searched)).strip()
    if len(visible) <= max_length:
        return visible
    return f"{visible[: max_length - 2]} …"


def _is_visible(character: str) -> bool:
    return character in _ALLOWED or unicodedata.category(character) not in _INVISIBLE


def join_names(names: Sequence[str], limit: int) -> str:
    """Return the first names, separated by commas, and the number of remaining names."""
    joined = ", ".join(names[:limit])
    left_out = len(names) - limit
    return f"{joined} and {left_out} more" if left_out > 0 else joined
