"""Pieces of context, and a function that truncates text to a number of tokens."""

from __future__ import annotations

import re

import msgspec
from hilum import Block, estimate

# The tag for each type of piece.
TAGS = {
    "environment": "environment",
    "open_file": "open_file",
    "cursor_nearby": "cursor_context",
    "linter": "linter_errors",
    "terminal": "terminal_output",
    "recent_edit": "recently_edited",
    "search_result": "search_result",
}
# The kernel omits blocks of low priority first. Other plugins' blocks about the session have
# priorities between those for the user's own view (6 to 10) and those for search results (0 and
# -1).
_PRIORITIES = {
    "environment": 10,
    "open_file": 9,
    "cursor_nearby": 8,
    "linter": 7,
    "terminal": 6,
    "recent_edit": 0,
    "search_result": -1,
}
# Number of tokens reserved for the notice about a truncation.
NOTICE_TOKENS = 30
# The pattern allows spaces and upper case in the tag, because models also accept such closing tags.
_CLOSING = rf"(?i)<(?=\s*/\s*(?:{'|'.join(TAGS.values())})\b)"


class ContextPiece(msgspec.Struct, frozen=True):
    """A piece of context, which becomes a block.

    Args:
        type: The type, a key of ``TAGS``.
        text: The text.
        path: The displayed path of the file.
        line: The line that the piece is about; 0 for none.
        source: The origin of the text: ``editor``, ``disk``, ``journal``, ``git`` …
        lines: Number of lines from the beginning of the file; 0 if the text begins elsewhere.
        hash: The hash of the file if the text is the whole file.
    """

    type: str
    text: str
    path: str = ""
    line: int = 0
    source: str = ""
    lines: int = 0
    hash: str = ""

    @property
    def tokens(self) -> int:
        """The size of the piece in tokens, including its tag."""
        tag = TAGS[self.type]
        opening = f"<{tag} path='{self.path}' line='{self.line}'>"
        return estimate(f"{opening}{self.text}</{tag}>")

    def block(self) -> Block:
        """Return the block for the kernel."""
        # A file may contain a block's closing tag, followed by text that imitates the user's.
        text = re.sub(_CLOSING, r"<\\", self.text)
        tag = TAGS[self.type]
        return Block(tag, text, self.path, self.line, _PRIORITIES[self.type])

    def about(self) -> dict[str, object]:
        """Return the event's data about the piece."""
        facts = {
            "type": self.type,
            "path": self.path,
            "line": self.line,
            "tokens": self.tokens,
            "source": self.source,
        }
        return {name: value for name, value in facts.items() if value}


def cut_text(text: str, tokens: int, total: int | None = None) -> tuple[str, int]:
    """Truncate text to a number of tokens, at the end of a line if possible.

    Args:
        text: The text, from the first line of the file.
        tokens: Maximum number of tokens, including the notice about the truncation.
        total: Number of lines in the whole file, if the text is only part of it.

    Returns:
        The text, with a notice if it was cut, and the number of complete lines in it.
    """
    lines = count_lines(text)
    if total is None and estimate(text) <= tokens:
        return text, lines
    room = max(tokens - NOTICE_TOKENS, 0)
    kept = _cut_to_size(text, room)
    if len(kept) < len(text) or total is not None:
        kept = kept[: kept.rfind("\n") + 1] or kept
    whole = kept.count("\n")
    shown = f"lines 1-{whole}" if whole else "the beginning of line 1"
    notice = f"[Cut: {shown} of {total or lines:,}; read_file shows the rest.]"
    text = kept.rstrip("\n")
    return f"{text}\n{notice}", whole


def _cut_to_size(text: str, tokens: int) -> str:
    # No token has more than about eight characters, so cutting first limits the cost of the
    # estimates.
    kept = text[: 8 * tokens]
    size = estimate(kept)
    while kept and size > tokens:
        fitting = len(kept) * tokens // size
        kept = kept[: min(fitting, len(kept) - 1)]  # remove at least one character each time
        size = estimate(kept)
    return kept


def count_lines(text: str) -> int:
    """Return the number of lines in a text; the last one may lack a newline."""
    if not text:
        return 0
    return text.count("\n") + (not text.endswith("\n"))
