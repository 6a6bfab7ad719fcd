"""How many values a JSON text contains, counted before they are built.

A text can take a hundred times its size in memory when it is decoded: each ``{"":0},`` of seven
bytes becomes a dictionary. The number of values is therefore limited, and not only the bytes.
"""

from __future__ import annotations

import re

# A string of JSON, also one that never ends. Possessive, so that bad input takes no longer.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)


def has_more_values(text: bytes, limit: int) -> bool:
    """Return whether a JSON text may contain more than a number of values. Blocks.

    Each list, each dictionary, each string and each further item of a list or dictionary counts.
    """
    if len(text) <= limit:
        return False
    # Strings may contain any number of these bytes, but few texts do.
    if _count_items(text, 0, len(text)) + text.count(b'"') <= limit:
        return False
    count = 0
    end = 0
    for string in _STRING.finditer(text):
        count += _count_items(text, end, string.start()) + 1
        if count > limit:
            return True
        end = string.end()
    return count + _count_items(text, end, len(text)) > limit


def _count_items(text: bytes, start: int, end: int) -> int:
    return sum(text.count(sign, start, end) for sign in (b"{", b"[", b","))
