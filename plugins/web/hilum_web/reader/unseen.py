"""Characters that nobody sees and a model reads, or that a terminal obeys: left out of whatever a
page says.

Texts are hidden in Unicode's tags, in runs of variation selectors and between zero-width
characters, and shown in another order than they stand by characters that turn the direction
(Unicode's technical report 36). Joiners stay: scripts and emoji need them.
"""

from __future__ import annotations

import re
from functools import cache

_UNSEEN = (
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff\ud800-\udfff]|(?<=[\ufe00-\ufe0f])[\ufe00-\ufe0f]+"
)
_CONTROLS = bytes(each for each in (*range(32), 127) if each not in b"\t\n")
_ENDS = ("\r\n", "\r", "\x85", "\u2028", "\u2029")
# Characters that are looked through at once: whoever waits beside this gets a turn in between.
STEP = 1 << 16


def visible(text: str) -> str:
    """Return a text without what is not seen, its lines ended by ``\\n``."""
    if text.isascii():
        return (
            text.replace("\r\n", "\n")
            .replace("\r", "\n")
            .encode()
            .translate(None, _CONTROLS)
            .decode()
        )
    for end in _ENDS:
        text = text.replace(end, "\n")
    sub = _pattern().sub
    return "".join(sub("", text[start : start + STEP]) for start in range(0, len(text), STEP))


def line(text: object, most: int) -> str:
    """Return what a server says as one line of at most ``most`` visible characters.

    Nothing for what is no text.
    """
    said = " ".join(visible(text[: 4 * most]).split()) if isinstance(text, str) else ""
    if len(said) <= most:
        return said
    return f"{said[: most - 1].rstrip()}…"


@cache
def _pattern() -> re.Pattern[str]:
    """Compiled when a text needs it: every start imports this, and most texts are ASCII."""
    return re.compile(_UNSEEN)
