"""Calculates the column widths of a table."""

from __future__ import annotations

import attrs

SEPARATOR_WIDTH = 3
# Narrower columns would break too many words; a list of cells is then easier to read.
MIN_COLUMN_WIDTH = 8
MIN_TABLE_WIDTH = 40


@attrs.frozen
class TableLayout:
    """The column widths of a table, and whether some cells must be wrapped."""

    widths: list[int]
    is_shrunk: bool


def lay_out_table(natural: list[int], width: int) -> TableLayout | None:
    """Return the layout of a table; None if a table would not be readable.

    Only the widest columns are shrunk, all to the same width.

    Args:
        natural: Width of the widest cell in each column.
        width: Maximum width of the table in columns.
    """
    available = width - SEPARATOR_WIDTH * (len(natural) - 1)
    natural = [max(columns, 1) for columns in natural]
    if sum(natural) <= available:
        return TableLayout(natural, is_shrunk=False)
    limit = _find_limit(natural, available)
    if width < MIN_TABLE_WIDTH or limit < MIN_COLUMN_WIDTH:
        return None
    widths = [min(columns, limit) for columns in natural]
    rest = available - sum(widths)
    for column, columns in enumerate(natural):
        if columns > limit and rest > 0:
            widths[column] += 1
            rest -= 1
    return TableLayout(widths, is_shrunk=True)


def _find_limit(natural: list[int], available: int) -> int:
    """Return the largest column width limit with which all columns fit."""
    remaining = available
    ascending = sorted(natural)
    for index, columns in enumerate(ascending):
        share = remaining // (len(ascending) - index)
        if columns > share:
            return max(share, 0)
        remaining -= columns
    return ascending[-1]
