"""Formats tables, bars and times that commands show."""

from __future__ import annotations

import time
from collections.abc import Sequence

from hilum_terminal.styles import Style, Theme
from hilum_terminal.text_width import cells, cut, escape_text, pad

# Number of blank columns between two table columns.
GAP = 2


def table_rows(
    header: Sequence[str],
    lines: Sequence[Sequence[str]],
    *,
    width: int,
    theme: Theme,
) -> list[str]:
    """Return the rows of a table whose first column is text and whose other columns are numbers.

    If the table is too wide, the first column is truncated first, then the columns at the right.

    Args:
        header: The column titles.
        lines: The cells of each row; every row has as many cells as the header.
        width: Width of the terminal in columns.
        theme: How styles look.
    """
    shown = [[escape_text(cell).replace("\n", " ") for cell in line] for line in lines]
    all_lines = [list(header), *shown]
    sizes = [max(cells(line[index]) for line in all_lines) for index in range(len(header))]
    figures = sum(sizes[1:]) + GAP * (len(sizes) - 1)
    sizes[0] = min(sizes[0], max(width - figures, 8))
    rows = []
    for number, line in enumerate(all_lines):
        row = pad(cut(line[0], sizes[0]), sizes[0])
        for index, cell in enumerate(line[1:], start=1):
            row += " " * (GAP + sizes[index] - cells(cell)) + cell
        row = cut(row.rstrip(), width)
        rows.append(theme.paint(row, "dim") if number == 0 else row)
    return rows


def bar_row(parts: Sequence[tuple[int, Style]], whole: int, width: int, theme: Theme) -> str:
    """Return a bar that shows the share of each amount in a whole.

    Args:
        parts: The amounts, each with its style.
        whole: The whole amount.
        width: The number of columns.
        theme: How styles look.
    """
    row = ""
    used = 0
    seen = 0
    for amount, style in parts:
        seen += amount
        # Sums are rounded instead of single amounts, so that the length of the bar matches the
        # total.
        upto = max(min(seen * width // max(whole, 1), width), used)
        # A small amount still gets one column.
        if amount and upto == used and used < width:
            upto = used + 1
        row += theme.paint("█" * (upto - used), style)
        used = upto
    return row + theme.paint("░" * (width - used), "dim")


def format_time(at: float, now: float) -> str:
    """Return a time of day, with the date if the time is more than 12 hours ago."""
    pattern = "%H:%M" if now - at < 12 * 3600 else "%Y-%m-%d %H:%M"
    return time.strftime(pattern, time.localtime(at))
