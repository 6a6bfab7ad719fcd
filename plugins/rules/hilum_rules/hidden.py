"""Characters that a person does not see and a model reads: made visible, and told.

Text can be hidden in tags, in runs of variation selectors and in zero-width characters, and be
shown in another order than it stands by bidirectional controls. What is at home in ordinary writing
stays: joiners inside of emoji and of scripts that need them, and a variation selector behind the
character that it styles.
"""

from __future__ import annotations

import re
from functools import cache

# Code points, as ranges of a character class: nothing hidden stands in this file itself.
_ALWAYS = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff"
)
_VARIATION = r"\ufe00-\ufe0f"
_JOINERS = r"\u200c\u200d"


@cache
def _hidden() -> re.Pattern[str]:
    stands_alone = (
        rf"(?<![\u00a9\u00ae\u0023\u002a0-9\u2000-\uffff\U00010000-\U0010ffff])[{_VARIATION}]"
    )
    in_a_run = rf"(?<=[{_VARIATION}])[{_VARIATION}]"
    outside_of_scripts = (
        rf"(?<![\u0300-\U0010ffff])[{_JOINERS}]|[{_JOINERS}](?![\u0300-\U0010ffff])"
    )
    return re.compile(rf"[{_ALWAYS}]|{in_a_run}|{stands_alone}|{outside_of_scripts}")


def reveal(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Make hidden characters visible as ``<U+200B>``.

    Args:
        text: With line ends ``\\n``.

    Returns:
        The text with as many lines as before, and for each line with hidden characters its number,
        from 1, and how many.
    """
    if text.isascii() and text.isprintable():
        return text, []
    found: list[tuple[int, int]] = []
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if line.isascii() and line.isprintable():
            continue
        lines[number - 1], count = _hidden().subn(lambda match: f"<U+{ord(match[0]):04X}>", line)
        if count:
            found.append((number, count))
    return "\n".join(lines), found
