"""Reasoning that a server leaves in the text, between ``<think>`` and ``</think>`` at the beginning
of an answer.
"""

from __future__ import annotations

_OPEN = "<think>"
_CLOSE = "</think>"


class ThinkTags:
    """Tells reasoning from the answer while text streams; a tag may come in pieces."""

    __slots__ = ("_blank", "_end", "_held", "_inside")

    def __init__(self) -> None:
        self._held = ""  # what may be the beginning of a tag
        self._inside = False
        self._end = False  # whether all that follows is the answer
        self._blank = False  # whether nothing but empty lines came since the last tag

    def feed(self, text: str) -> list[tuple[bool, str]]:
        """Take text; give what is decided of it as pairs: whether it is reasoning, and the text."""
        if self._end:
            return [(False, self._begun(text))]
        self._held += text
        if not self._inside:
            begun = self._held.lstrip()
            if len(begun) < len(_OPEN) and _OPEN.startswith(begun):
                return []
            if not begun.startswith(_OPEN):
                return self.rest()
            self._inside = True
            self._blank = True
            self._held = begun.removeprefix(_OPEN)
        thought, found, answer = self._held.partition(_CLOSE)
        if found:
            pieces = [(True, self._begun(thought).rstrip("\n"))]
            self._inside = False
            self._end = True
            self._blank = True
            self._held = ""
            return [*pieces, (False, self._begun(answer))]
        safe = len(thought) - next(
            (n for n in range(len(_CLOSE) - 1, 0, -1) if thought.endswith(_CLOSE[:n])), 0
        )
        self._held = thought[safe:]
        return [(True, self._begun(thought[:safe]))]

    def rest(self) -> list[tuple[bool, str]]:
        """Return what was held back: the answer has ended, or begins without a tag."""
        held = self._held
        self._held = ""
        self._end = True
        return [(self._inside, held)]

    def _begun(self, text: str) -> str:
        """Leave out the empty lines between a tag and the text."""
        text = text.lstrip("\n") if self._blank else text
        self._blank = self._blank and not text
        return text
