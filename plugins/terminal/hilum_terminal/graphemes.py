"""Finds the boundaries of graphemes (user-perceived characters) and of words.

A grapheme, such as a family emoji or a letter with accents, may consist of many code points. A chip
is always a separate grapheme.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import wcwidth

from hilum_terminal.pastes import CHIP_RANGE

_CHIP = re.compile(f"[{CHIP_RANGE}]")
# Number of characters to examine first, because nearly all graphemes are much shorter.
_WINDOW = 256
_FIRST_WINDOW_FOR_WORDS = 1024
# Accents belong to words, even if they are separate code points.
_WORD_CHARACTERS = "\\w\u0300-\u036f"
# A movement by one word skips the characters between words, then one word or one chip.
_WORD = re.compile(f"[^{_WORD_CHARACTERS}{CHIP_RANGE}]*(?:[{CHIP_RANGE}]|[{_WORD_CHARACTERS}]+)?")
_SPACED_WORD = re.compile(f"\\s*(?:[{CHIP_RANGE}]|[^\\s{CHIP_RANGE}]+)?")


def split_graphemes(text: str) -> Iterator[str]:
    """Yield the graphemes of a text."""
    for grapheme in wcwidth.iter_graphemes(text):
        if len(grapheme) == 1 or _CHIP.search(grapheme) is None:
            yield grapheme
            continue
        # An accent or a prefix must not combine with a chip.
        for part in re.split(f"([{CHIP_RANGE}])", grapheme):
            if part:
                yield part


def next_boundary(text: str, position: int) -> int:
    """Return the end of the grapheme that begins at a position."""
    if position >= len(text):
        return len(text)
    end = position + _WINDOW
    grapheme = next(split_graphemes(text[position:end]))
    if len(grapheme) == _WINDOW:
        grapheme = next(split_graphemes(text[position:]))
    return position + len(grapheme)


def previous_boundary(text: str, position: int) -> int:
    """Return the start of the grapheme that ends at a position."""
    if position <= 0:
        return 0
    start = max(position - _WINDOW, 0)
    window = text[start:position]
    boundary = wcwidth.grapheme_boundary_before(window, len(window))
    if boundary == 0 and start > 0:
        start = 0
        window = text[:position]
        boundary = wcwidth.grapheme_boundary_before(window, len(window))
    chips = list(_CHIP.finditer(window, boundary))
    if chips:
        last = chips[-1]
        boundary = last.start() if last.end() == len(window) else last.end()
    return start + boundary


def word_end(text: str, position: int) -> int:
    """Return the end of the word at or after a position."""
    match = _WORD.match(text, position)
    return position if match is None else match.end()


def word_start(text: str, position: int, *, spaced: bool = False) -> int:
    """Return the start of the word before a position.

    Args:
        text: The text.
        position: The position.
        spaced: Whether only spaces separate words; otherwise, all characters except letters and
            digits do.
    """
    pattern = _SPACED_WORD if spaced else _WORD
    window = _FIRST_WINDOW_FOR_WORDS
    while True:
        # A pattern cannot search backwards, so the text before the position is reversed.
        before = text[max(position - window, 0) : position][::-1]
        match = pattern.match(before)
        length = 0 if match is None else match.end()
        if length < len(before) or window >= position:
            return position - length
        window *= 4
