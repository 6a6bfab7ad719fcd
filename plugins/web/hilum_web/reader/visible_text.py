"""Removes characters that readers cannot see, but that a model reads or a terminal obeys.

Text can be hidden in Unicode tags, in sequences of variation selectors and between zero-width
characters. Direction marks change the order in which a text is displayed (Unicode Technical Report
36). Joiners are kept, because scripts and emoji need them.
"""

from __future__ import annotations

import re
from functools import cache

_INVISIBLE = (
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e"
    "\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\U000e0000-\U000e0fff\ud800-\udfff]|(?<=[\ufe00-\ufe0f])[\ufe00-\ufe0f]+"
)
_CONTROLS = bytes(each for each in (*range(32), 127) if each not in b"\t\n")
_LINE_ENDS = re.compile("\r\n|[\r\x85\u2028\u2029]")
# Number of characters to search at a time, so that other threads can run in between.
STEP = 1 << 16


def remove_invisible(text: str) -> str:
    """Return a text without invisible characters, and with ``\\n`` as its only newline."""
    if text.isascii():
        # For ASCII, which most texts are, this method is several times as fast as the pattern.
        lines = text.replace("\r\n", "\n").replace("\r", "\n")
        return lines.encode().translate(None, _CONTROLS).decode()
    text = _LINE_ENDS.sub("\n", text)
    pattern = _compile_pattern()
    pieces = []
    for start in range(0, len(text), STEP):
        piece = text[start : start + STEP]
        pieces.append(pattern.sub("", piece))
    return "".join(pieces)


def to_line(text: object, limit: int) -> str:
    """Return a server's text as one line of at most ``limit`` visible characters.

    Returns an empty string for an object that is not a string.
    """
    if not isinstance(text, str):
        return ""
    line = " ".join(remove_invisible(text[: 4 * limit]).split())
    if len(line) <= limit:
        return line
    return f"{line[: limit - 1].rstrip()}…"


@cache
def _compile_pattern() -> re.Pattern[str]:
    # The pattern is compiled on first use, because hilum imports this module at every start and few
    # texts need the pattern.
    return re.compile(_INVISIBLE)
