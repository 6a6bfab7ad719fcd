"""A piece of context: what it is, where it is from, what it costs.

And how a text is cut to what it may cost.
"""

from __future__ import annotations

import re

import msgspec
from hilum import Block, estimate

TYPES = (
    "environment",
    "open_file",
    "cursor_nearby",
    "linter",
    "terminal",
    "recent_edit",
    "search_result",
)
"""What there is, best first."""
TAGS = {
    "environment": "environment",
    "open_file": "open_file",
    "cursor_nearby": "cursor_context",
    "linter": "linter_errors",
    "terminal": "terminal_output",
    "recent_edit": "recently_edited",
    "search_result": "search_result",
}
# Where the kernel must leave something out: what other plugins say of the session stands between
# the user's own view and what was merely found.
_PRIORITY = dict(zip(TYPES, (10, 9, 8, 7, 6, 0, -1), strict=True))
_CLOSING = re.compile(rf"<(?=\s*/\s*(?:{'|'.join(TAGS.values())})\b)", re.IGNORECASE)


class Piece(msgspec.Struct, frozen=True):
    """A block before it is one.

    Args:
        type: One of ``TYPES``.
        text: The text.
        path: The file, as it is shown.
        line: The line it is about; 0 for none.
        source: Where it is from, in words: ``editor``, ``disk``, ``journal``, ``git`` …
        lines: How many lines of the file it has, from the first one on; 0 if it is no beginning of
            a file.
        hash: Names the content of the file, where the text is all of it.
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
        """What it costs, its tag included."""
        return estimate(
            f"<{TAGS[self.type]} path='{self.path}'"
            f" line='{self.line}'>{self.text}</{TAGS[self.type]}>"
        )

    def block(self) -> Block:
        """Return what the kernel takes. Nothing in it can end its tag, or that of another piece."""
        return Block(
            TAGS[self.type],
            _CLOSING.sub(r"<\\", self.text),
            self.path,
            self.line,
            _PRIORITY[self.type],
        )

    def about(self) -> dict[str, object]:
        """Return what the event tells of it."""
        facts = {
            "type": self.type,
            "path": self.path,
            "line": self.line,
            "tokens": self.tokens,
            "source": self.source,
        }
        return {name: value for name, value in facts.items() if value}


def cut(text: str, tokens: int, total: int | None = None) -> tuple[str, int]:
    """Cut a text to what it may cost, at the end of a line where there is one.

    Args:
        text: The text, from the file's first line on.
        tokens: Most tokens, the notice that it is cut included.
        total: Lines of the whole file, if the text is not all of it already.

    Returns:
        The text, with a notice if it is cut, and how many lines of it are whole.
    """
    lines = text.count("\n") + (not text.endswith("\n")) if text else 0
    if total is None and estimate(text) <= tokens:
        return text, lines
    room = max(tokens - 30, 0)  # 30 for the notice
    kept = text[: 8 * room]
    while kept and (size := estimate(kept)) > room:
        kept = kept[: min(len(kept) * room // size, len(kept) - 1)]
    if len(kept) < len(text) or total is not None:
        head = kept[: kept.rfind("\n") + 1]
        kept = head or kept
    whole = kept.count("\n")
    shown = f"lines 1-{whole}" if whole else "the beginning of line 1"
    return (
        f"{kept.rstrip(chr(10))}\n[Cut: {shown} of {total or lines:,}; read_file shows the rest.]",
        whole,
    )
