"""Limits how much of an approval question the terminal shows."""

from __future__ import annotations

from collections.abc import Iterator

from hilum_cli.terminal import cells

FOLD_ROWS = 40
"""Maximum height of a question in terminal rows; the middle of a longer one is hidden."""
TAIL_ROWS = 12
"""Number of final rows that stay visible, so that padding cannot hide the end."""


def folded(text: str, width: int, rows: int = FOLD_ROWS) -> tuple[str, bool]:
    """Truncate a text to a number of terminal rows, and return whether anything was left out.

    If the text is too long, the middle is left out.
    """
    # The limit counts terminal rows, not lines, because one long line could fill the screen.
    wrapped = [row for part in text.split("\n") for row in _rows(part, width)]
    if len(wrapped) <= rows:
        return text, False
    # The notice takes one row.
    head = wrapped[: rows - TAIL_ROWS - 1]
    tail = wrapped[-TAIL_ROWS:]
    left_out = len(wrapped) - len(head) - len(tail)
    notice = f"   … {left_out:,} rows are not shown here: v shows all rows …"
    return "\n".join([*head, notice, *tail]), True


def _rows(text: str, width: int) -> Iterator[str]:
    """Yield the terminal rows that a line occupies."""
    if cells(text) <= width:
        yield text
        return
    row = ""
    used = 0
    for char in text:
        size = cells(char)
        if used + size > width:
            yield row
            row = ""
            used = 0
        row += char
        used += size
    yield row
