"""Separates an answer from reasoning that a server leaves between ``<think>`` and ``</think>``."""

from __future__ import annotations

_OPEN = "<think>"
_CLOSE = "</think>"

Piece = tuple[bool, str]
"""Whether a piece of text is reasoning, and the text itself."""


class ThinkTagParser:
    """A parser of streamed text in which a tag may arrive in pieces.

    Tags count only at the beginning of an answer: elsewhere, they are ordinary text.
    """

    __slots__ = ("_held", "_inside", "_past_tags", "_skip_newlines")

    def __init__(self) -> None:
        self._held = ""  # text that may be the beginning of a tag
        self._inside = False
        self._past_tags = False  # whether everything that follows is the answer
        self._skip_newlines = False  # whether only empty lines have arrived since the last tag

    def feed(self, text: str) -> list[Piece]:
        """Parse text and return the pieces that are certain to be reasoning or answer."""
        if self._past_tags:
            return [(False, self._strip_newlines(text))]
        self._held += text
        if not self._inside:
            # Some servers send empty lines before the tag.
            begun = self._held.lstrip()
            if len(begun) < len(_OPEN) and _OPEN.startswith(begun):
                return []
            if not begun.startswith(_OPEN):
                return self.flush()
            self._inside = True
            self._skip_newlines = True
            self._held = begun.removeprefix(_OPEN)
        thought, closing_tag, answer = self._held.partition(_CLOSE)
        if closing_tag:
            return self._close(thought, answer)
        # The end of the text may be the beginning of the closing tag.
        safe = len(thought) - _overlap(thought)
        self._held = thought[safe:]
        return [(True, self._strip_newlines(thought[:safe]))]

    def flush(self) -> list[Piece]:
        """Return the text that was held back: the answer has ended, or begins without a tag."""
        held = self._held
        self._held = ""
        self._past_tags = True
        return [(self._inside, held)]

    def _close(self, thought: str, answer: str) -> list[Piece]:
        reasoning = self._strip_newlines(thought).rstrip("\n")
        self._inside = False
        self._past_tags = True
        self._skip_newlines = True
        self._held = ""
        return [(True, reasoning), (False, self._strip_newlines(answer))]

    def _strip_newlines(self, text: str) -> str:
        """Return the text without the empty lines between a tag and the first text."""
        if self._skip_newlines:
            text = text.lstrip("\n")
            self._skip_newlines = not text
        return text


def _overlap(text: str) -> int:
    """Return the length of the longest suffix of a text that is a prefix of the closing tag."""
    for length in range(len(_CLOSE) - 1, 0, -1):
        if text.endswith(_CLOSE[:length]):
            return length
    return 0
