"""Decides which typographic characters in new lines are intended.

A model may write a typographic character where the file has an ASCII one.
"""

from __future__ import annotations

from collections.abc import Iterable

from hilum_files.edits.characters import PLAIN, tokenize

_PLAIN_FORMS = {chr(code): plain for code, plain in PLAIN.items()}
# Characters without an ASCII form that occur in texts whose typography was changed.
_OTHERS = "\u00ab\u00bb\u2039\u203a\u00ad\u200b\u2060"
TYPOGRAPHIC = frozenset([*_PLAIN_FORMS, *_OTHERS])


class UncertainEdit(Exception):
    """Raised if the intent of an edit is unclear; the message is a complete sentence."""


class Typography:
    """The typographic characters in the matched lines of the model's text and of the file.

    Args:
        pairs: Indentation and text of each matched line, in the model's text and in the file.
        text: The whole text of the file.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]], text: str) -> None:
        self._text = text
        # Each character that the model wrote, and the ASCII form that the file has in its place.
        self._altered: dict[str, str] = {}
        # A model that "corrects" one quote has usually corrected all of them.
        for old, file in pairs:
            self._compare(old, file)
        # Quotes come in pairs: if one of them is wrong, the other probably is, too.
        quotes = {"'", '"'} & set(self._altered.values())
        self._untrusted = set(self._altered)
        for char, plain in _PLAIN_FORMS.items():
            if plain in quotes:
                self._untrusted.add(char)

    def _compare(self, old: str, file: str) -> None:
        for ours, theirs in zip(tokenize(old), tokenize(file), strict=False):
            if ours == theirs:
                continue
            for char in ours:
                if char in _PLAIN_FORMS and char not in theirs:
                    self._altered[char] = _PLAIN_FORMS[char]

    def check(self, line: str) -> None:
        """Check a line that the edit adds to the file.

        Raises:
            UncertainEdit: The model wrote typographic characters in place of ASCII characters, and
                the line contains such a character or one that is not in the file.
        """
        if not self._altered:
            return
        for char in line:
            if char not in TYPOGRAPHIC:
                continue
            if char not in self._text or char in self._untrusted:
                wrong, plain = next(iter(self._altered.items()))
                raise UncertainEdit(
                    f"old_string has the typographic {wrong!r} where the file has {plain!r}, and a"
                    f" new line has {char!r}: it is unclear whether that is intended. Write plain"
                    " characters, or those of the file."
                )


def has_more_typography(file: str, old: str) -> bool:
    """Return whether the file's line has a typographic character or tab that the model's lacks."""
    if file == old:
        return False
    for theirs, ours in zip(tokenize(file), tokenize(old), strict=False):
        for char in theirs:
            if (char in _PLAIN_FORMS or char == "\t") and char not in ours:
                return True
    return False
