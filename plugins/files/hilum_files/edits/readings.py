"""One possible interpretation of both texts of an edit."""

from __future__ import annotations

from typing import NamedTuple


class Reading(NamedTuple):
    """Both texts of an edit without line numbers or escapes that the model added.

    Attributes:
        kind: What was removed: ``line numbers`` or ``escapes``.
        old: The old text.
        new: The new text.
        doubt: A sentence that explains why the new text cannot be interpreted in this way; empty if
            it can.
        line: 1-based number of the line at which the old text must begin; 0 if unknown.
    """

    kind: str
    old: str
    new: str
    doubt: str = ""
    line: int = 0
