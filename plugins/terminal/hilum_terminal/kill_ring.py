"""Keeps the texts that were killed (cut) in the editor, for yanking (pasting) them again."""

from __future__ import annotations

_MAX_TEXTS = 30


class KillRing:
    """The killed texts, as in Emacs: consecutive kills form one text."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        # The position of the text that was yanked last, counted from the newest.
        self._index = 0

    @property
    def texts(self) -> list[str]:
        """The killed texts, newest last."""
        return list(self._texts)

    def add(self, text: str, *, before: bool, extends: bool) -> None:
        """Add a killed text.

        Args:
            text: The text.
            before: Whether the text was before the cursor.
            extends: Whether the text was killed directly after the newest text, to which it is then
                added.
        """
        self._index = 0
        if not text:
            return
        if extends and self._texts:
            newest = self._texts[-1]
            self._texts[-1] = text + newest if before else newest + text
            return
        self._texts.append(text)
        del self._texts[:-_MAX_TEXTS]

    def yank(self) -> str:
        """Return the newest text; empty if there is none."""
        self._index = 0
        return self._texts[-1] if self._texts else ""

    def rotate(self) -> str:
        """Return the text that was killed before the last yanked text."""
        if not self._texts:
            return ""
        self._index = (self._index + 1) % len(self._texts)
        return self._texts[-1 - self._index]
