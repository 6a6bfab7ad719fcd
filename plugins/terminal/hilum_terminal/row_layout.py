"""Lays out untrusted texts and choices as rows of a limited width and number."""

from __future__ import annotations

from collections.abc import Sequence

from hilum_terminal.styles import Theme
from hilum_terminal.text_width import ELLIPSIS, cells, cut, escape_text, split_columns, wrap_text

MAX_PARAGRAPH = 10_000
"""Maximum number of characters of a paragraph; nobody reads more in a prompt."""
TAIL_SHARE = 3
"""Share of the last rows in a shortened description, as 1/n: padding cannot hide the end."""


def paragraph(text: str, width: int) -> list[str]:
    """Return untrusted text as rows, wrapped between words.

    Only the beginning of a very long text is returned.
    """
    text = text.strip("\n")
    if len(text) > MAX_PARAGRAPH:
        text = text[:MAX_PARAGRAPH] + ELLIPSIS
    return wrap_text(escape_text(text), width)


def exact_rows(text: str, width: int) -> list[str]:
    """Return untrusted text as rows that contain every character, split only at the width.

    Several blank rows are replaced with their number, because they could push text out of sight.
    """
    shown = escape_text(text).replace("\t", "    ")
    rows: list[str] = []
    for line in shown.split("\n"):
        rows += [line[start:end] for start, end in split_columns(line, max(width, 2))] or [""]
    return _without_blanks(rows)


def wrapped_rows(text: str, width: int) -> list[str]:
    """Return untrusted text as rows that are wrapped between words, without lost characters.

    Several blank rows are replaced with their number, as in ``exact_rows``.
    """
    return _without_blanks(wrap_text(escape_text(text).replace("\t", "    "), max(width, 2)))


def _without_blanks(rows: list[str]) -> list[str]:
    kept: list[str] = []
    blank = 0
    for row in [*rows, "end"]:
        if not row.strip():
            blank += 1
            continue
        if blank > 2:
            kept.append(f"({blank:,} blank rows)")
        else:
            kept += [""] * blank
        blank = 0
        kept.append(row)
    return kept[:-1]


def fit_rows(rows: list[str], max_rows: int, width: int) -> list[str]:
    """Return at most ``max_rows`` rows; if some rows do not fit, the last row says how many."""
    if max_rows <= 0:
        return []
    if len(rows) <= max_rows:
        return rows
    if max_rows == 1:
        # A row with an ellipsis is more useful than an ellipsis alone.
        return [cut(rows[0] + ELLIPSIS, width)]
    left_out = len(rows) - max_rows + 1
    return [*rows[: max_rows - 1], cut(f"{ELLIPSIS} {left_out:,} more rows", width)]


def fold_rows(rows: list[str], max_rows: int, width: int, theme: Theme, hint: str) -> list[str]:
    """Return at most ``max_rows`` rows: the first, the number of hidden rows, and the last."""
    if len(rows) <= max_rows or max_rows <= 0:
        return rows[: max(max_rows, 0)]
    if max_rows == 1:
        note = f" {ELLIPSIS} +{len(rows) - 1:,} rows"
        return [cut(rows[0], max(width - len(note), 0)) + theme.paint(cut(note, width), "warning")]
    tail = max((max_rows - 1) // TAIL_SHARE, 1) if max_rows > 2 else 0
    head = max_rows - 1 - tail
    hidden = len(rows) - head - tail
    note = f"{ELLIPSIS} {hidden:,} rows hidden"
    if hint:
        note += f" · {hint}"
    shown = theme.paint(cut(note, width), "warning")
    return [*rows[:head], shown, *rows[len(rows) - tail :]]


def choice_rows(
    labels: Sequence[str],
    selected: int,
    width: int,
    max_rows: int,
    theme: Theme,
    *,
    is_tight: bool = False,
) -> list[str]:
    """Return rows with choices side by side, with the selected choice marked.

    If not all rows fit, only the rows around the selected choice are returned.

    Args:
        labels: The choices, escaped.
        selected: Index of the selected choice.
        width: Maximum number of columns.
        max_rows: Maximum number of rows.
        theme: The colors.
        is_tight: Whether only the selected choice has a column for the mark.
    """
    rows: list[str] = []
    row = ""
    selected_row = 0
    unmarked = "" if is_tight else " "
    for index, label in enumerate(labels):
        # The mark makes the selection visible without colors.
        plain = cut(f"{'▸' if index == selected else unmarked}{label}", width)
        shown = theme.paint(plain, "selected") if index == selected else plain
        if row and cells(row) + 1 + cells(plain) > width:
            rows.append(row)
            row = ""
        row = f"{row} {shown}" if row else shown
        if index == selected:
            selected_row = len(rows)
    rows.append(row)
    if len(rows) <= max_rows:
        return rows
    start = min(max(selected_row - max_rows + 1, 0), len(rows) - max_rows)
    return rows[start : start + max_rows]
