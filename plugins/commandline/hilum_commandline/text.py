"""Text from files, models, tools and repositories, written so that a terminal shows all of it and
obeys none.
"""

from __future__ import annotations

import json
import re
import sys
from typing import TextIO

# What a terminal would obey, and what makes text look other than it is (direction, zero width); a
# tab and a newline may stay.
_HARMFUL = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)


def neutral(text: str) -> str:
    """Make text harmless for a terminal: only newlines and tabs act, the rest is shown."""
    if text.isascii() and text.isprintable():
        return text
    return re.sub(
        _HARMFUL, lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), text
    )


def say(text: str, *, to: TextIO | None = None) -> None:
    """Print a line, or several, on standard output.

    Args:
        text: The text; made harmless.
        to: Where else.
    """
    _write(neutral(text), to or sys.stdout)


def say_json(data: object) -> None:
    """Print data as JSON on standard output.

    What a terminal would obey is escaped as JSON has it, so nothing is lost.
    """
    text = json.dumps(data, ensure_ascii=False, indent=1)
    _write(re.sub(_HARMFUL, lambda match: json.dumps(match[0])[1:-1], text), sys.stdout)


def _write(text: str, to: TextIO) -> None:
    encoding = to.encoding or "utf-8"
    print(text.encode(encoding, errors="backslashreplace").decode(encoding), file=to)
