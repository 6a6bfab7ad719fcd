"""Typographic characters that a model wrote for plain ones, and which of those in new lines can be
trusted.
"""

from __future__ import annotations

from collections.abc import Iterable

from hilum_files.edits.characters import PLAIN, tokens_of

_PLAIN_FORMS = {chr(code): plain for code, plain in PLAIN.items()}
# Characters without a plain form of the same meaning that come with the same alteration of a text.
_OTHERS = "\u00ab\u00bb\u2039\u203a\u00ad\u200b\u2060"
TYPOGRAPHIC = frozenset([*_PLAIN_FORMS, *_OTHERS])


class Unsafe(Exception):
    """What is meant is not sure; the message is a whole sentence."""


class Typography:
    """What the matched lines show about typographic characters.

    Args:
        pairs: Indentation and text of each matched line as the model wrote them, and as the file
            has them.
        text: The whole text of the file.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]], text: str) -> None:
        self._text = text
        self._altered: dict[
            str, str
        ] = {}  # character of the model → the plain form that the file has there
        for old, file in pairs:
            for ours, theirs in zip(tokens_of(old), tokens_of(file), strict=False):
                for char in ours if ours != theirs else "":
                    if char in _PLAIN_FORMS and char not in theirs:
                        self._altered[char] = _PLAIN_FORMS[char]
        # Quotes come in pairs: one that is wrong says as much of the other.
        quotes = {"'", '"'} & set(self._altered.values())
        self._untrusted = self._altered.keys() | {
            char for char, plain in _PLAIN_FORMS.items() if plain in quotes
        }

    def check(self, line: str) -> None:
        """Check a line that is new in the file.

        Raises:
            Unsafe: The model's text was altered typographically, and the line has a typographic
                character that the file does not have, or one of a kind that the model wrote for a
                plain character.
        """
        if not self._altered:
            return
        for char in line:
            if char not in TYPOGRAPHIC:
                continue
            if char not in self._text or char in self._untrusted:
                wrong, plain = next(iter(self._altered.items()))
                raise Unsafe(
                    f"old_string has the typographic {wrong!r} where the file has {plain!r}, and a"
                    f" new line has {char!r}: whether that is meant is not sure. Write plain"
                    " characters, or those of the file."
                )


def has_more_typography(file: str, old: str) -> bool:
    """Return whether the file has a typographic character or a tab where the model wrote another
    one.
    """
    if file == old:
        return False
    pairs = zip(tokens_of(file), tokens_of(old), strict=False)
    return any(
        (char in _PLAIN_FORMS or char == "\t") and char not in ours
        for theirs, ours in pairs
        for char in theirs
    )
