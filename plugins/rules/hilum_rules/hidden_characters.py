"""Makes characters visible that a model reads but a person cannot see.

Text can be hidden in tag characters, in sequences of variation selectors and in zero-width
characters, and bidirectional controls can display it in another order. Characters of ordinary
writing are kept: joiners inside emoji and in scripts that need them, and a variation selector after
the character that it styles.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from hilum_rules.counting import count

# Code points, as ranges of a character class, so that this file itself contains no hidden
# characters.
_ALWAYS = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b"
    r"\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff\ud800-\udfff"
)
MAX_REPORTED = 20
"""Maximum number of lines with hidden characters to report individually."""
_VARIATION = r"\ufe00-\ufe0f"
_JOINERS = r"\u200c\u200d"


@cache
def _hidden_pattern() -> re.Pattern[str]:
    styled = r"\u00a9\u00ae\u0023\u002a0-9\u2000-\uffff\U00010000-\U0010ffff"
    alone = rf"(?<![{styled}])[{_VARIATION}]"
    in_a_run = rf"(?<=[{_VARIATION}])[{_VARIATION}]"
    letters = r"\u0300-\U0010ffff"
    outside_of_scripts = rf"(?<![{letters}])[{_JOINERS}]|[{_JOINERS}](?![{letters}])"
    return re.compile(rf"[{_ALWAYS}]|{in_a_run}|{alone}|{outside_of_scripts}")


def reveal(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Return a text with its hidden characters shown as codes such as ``<U+200B>``.

    Args:
        text: The text, with ``\\n`` as newlines.

    Returns:
        The text, with the same number of lines; and for each line with hidden characters, its
        number, from 1, and their count.
    """
    found: list[tuple[int, int]] = []
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        # Most lines are plain, and this check is much faster than the pattern.
        if line.isascii() and line.isprintable():
            continue
        # Hidden characters are shown, not removed, so that the model and the user see an attempt to
        # hide text.
        lines[number - 1], hidden = _hidden_pattern().subn(_name_code_point, line)
        if hidden:
            found.append((number, hidden))
    return "\n".join(lines), found


def report_hidden(hidden: Sequence[tuple[int, int]]) -> list[tuple[int, str]]:
    """Return problems about hidden characters, each as a line number and a sentence.

    Args:
        hidden: The number of each line with hidden characters, and their count.
    """
    problems = [
        (
            line,
            f"{count(number, 'hidden character')}, which are invisible to you but not to a model;"
            " shown as <U+…>.",
        )
        for line, number in hidden[:MAX_REPORTED]
    ]
    more = hidden[MAX_REPORTED:]
    if more:
        message = f"Hidden characters on {len(more)} more lines, the last on {more[-1][0]}."
        problems.append((more[0][0], message))
    return problems


def _name_code_point(found: re.Match[str]) -> str:
    return f"<U+{ord(found[0]):04X}>"


def escape_name(name: str) -> str:
    """Return a file name on one line, so that it can be displayed and sent.

    File names may contain any characters and bytes.
    """
    # `reveal` treats newlines and tabs as plain characters, but no other control characters.
    return reveal(name.replace("\n", "<U+000A>").replace("\t", "<U+0009>"))[0]
