"""Lays out the editor's text in rows, and finds the rows around the cursor.

The cost depends on the number of visible rows, not on the size of the text: rows are found from the
cursor outward, and a long line is divided into segments that are laid out independently.
"""

from __future__ import annotations

from bisect import bisect_right

import attrs

from hilum_terminal.graphemes import previous_boundary, split_graphemes
from hilum_terminal.pastes import Chips
from hilum_terminal.styles import Theme
from hilum_terminal.text_width import cells, cut, escape_text

# A row always ends at the end of a segment, so a segment is much longer than a typical line.
_SEGMENT_LENGTH = 2000
_BOUNDARY_WINDOW = 250
# Further code points are not shown, because some texts have hundreds of accents on one letter.
_MAX_GRAPHEME_LENGTH = 32
_TAB_WIDTH = 4
_MAX_CACHED_SEGMENTS = 64
# Characters that must not begin a row in Chinese and Japanese text.
_CLOSING = frozenset("，。、；：？！）》」』】〉〕’”…～")


@attrs.frozen
class Cell:
    """A grapheme in a row.

    Attributes:
        start: Position of the grapheme in its segment.
        column: First column of the grapheme, not counting the prompt.
        shown: Text that the row shows for the grapheme.
        is_chip: Whether the grapheme is a chip.
    """

    start: int
    column: int
    shown: str
    is_chip: bool = False


@attrs.frozen
class EditorRow:
    """A row of the editor's text.

    Attributes:
        origin: Position of the row's segment in the text.
        start: Position of the first character in the row.
        end: Position after the last character in the row (a newline belongs to no row).
        cells: Its graphemes.
        width: The number of columns.
        wraps: Whether the next row continues the same line.
    """

    origin: int
    start: int
    end: int
    cells: tuple[Cell, ...]
    width: int
    wraps: bool

    def column_of(self, position: int) -> int:
        """Return the column of a position in this row."""
        if position >= self.end:
            return self.width
        place = position - self.origin
        index = bisect_right(self.cells, place, key=lambda cell: cell.start)
        return self.cells[index - 1].column if index else 0

    def position_at(self, column: int) -> int:
        """Return the position of the grapheme at a column, or of the nearest one."""
        if column >= self.width and not self.wraps:
            return self.end
        index = bisect_right(self.cells, column, key=lambda cell: cell.column)
        return self.cells[index - 1].start + self.origin if index else self.start

    def paint(self, theme: Theme) -> str:
        """Return the row as the terminal shows it."""
        parts = []
        for cell in self.cells:
            parts.append(theme.paint(cell.shown, "accent") if cell.is_chip else cell.shown)
        return "".join(parts)


class RowLayout:
    """Divides an editor's text into rows."""

    def __init__(self, chips: Chips) -> None:
        self._chips = chips
        # The cache is keyed by content, not by position, so that typing lays out only one segment
        # again.
        self._cache: dict[tuple[str, int, bool], list[EditorRow]] = {}
        # The last line that was looked up: the text, and the start and end of the line.
        self._line = ("", 0, 0)

    def forget(self) -> None:
        """Clear the cache of rows, because chips may have changed."""
        self._cache.clear()

    def row_at(self, text: str, position: int, width: int) -> EditorRow:
        """Return the row that shows the cursor at a position."""
        start, end, wraps = self._find_segment(text, position)
        rows = self._segment_rows(text[start:end], width, wraps)
        index = bisect_right(rows, position - start, key=lambda row: row.start)
        row = rows[max(index - 1, 0)]
        return EditorRow(start, row.start + start, row.end + start, row.cells, row.width, row.wraps)

    def row_before(self, text: str, row: EditorRow, width: int) -> EditorRow | None:
        """Return the previous row, or ``None`` if there is none."""
        if row.start == 0:
            return None
        return self.row_at(text, row.start - 1, width)

    def row_after(self, text: str, row: EditorRow, width: int) -> EditorRow | None:
        """Return the next row, or ``None`` if there is none."""
        if row.wraps:
            return self.row_at(text, row.end, width)
        if row.end >= len(text):
            return None
        return self.row_at(text, row.end + 1, width)

    def _find_segment(self, text: str, position: int) -> tuple[int, int, bool]:
        """Return the start and end of the segment at a position, and whether its line continues."""
        # In a large text, searching for the start and end of the line would take most of the time.
        known_text, line_start, line_end = self._line
        if known_text is not text or not line_start <= position <= line_end:
            line_start = text.rfind("\n", 0, position) + 1
            line_end = text.find("\n", position)
            if line_end < 0:
                line_end = len(text)
            self._line = (text, line_start, line_end)
        return _divide_line(text, line_start, line_end, position)

    def _segment_rows(self, content: str, width: int, wraps: bool) -> list[EditorRow]:
        """Return the rows of a segment; positions are relative to the segment."""
        key = (content, width, wraps)
        rows = self._cache.get(key)
        if rows is None:
            rows = self._lay_out(content, width, wraps)
            if len(self._cache) >= _MAX_CACHED_SEGMENTS:
                self._cache.pop(next(iter(self._cache)))
            self._cache[key] = rows
        return rows

    def _lay_out(self, content: str, width: int, wraps: bool) -> list[EditorRow]:
        """Return the rows of a segment; positions are relative to the segment."""
        rows: list[EditorRow] = []
        row = _OpenRow(0)
        position = 0
        for grapheme in split_graphemes(content):
            shown, is_chip = self._show(grapheme, row.width, width)
            size = len(shown) if grapheme == "\t" else cells(shown)
            if row.width + size > width and row.cells:
                finished, row = row.split(grapheme, position, size, width)
                rows.append(finished)
                if grapheme == "\t":
                    shown, is_chip = self._show(grapheme, row.width, width)
                    size = len(shown)
            row.add(Cell(position, row.width, shown, is_chip), grapheme, size)
            position += len(grapheme)
        rows.append(row.finish(position, wraps))
        return rows

    def _show(self, grapheme: str, column: int, width: int) -> tuple[str, bool]:
        """Return the text shown for a grapheme, and whether the grapheme is a chip."""
        if grapheme == "\t":
            size = _TAB_WIDTH - column % _TAB_WIDTH
            return " " * max(min(size, width - column), 1), False
        if len(grapheme) == 1 and grapheme.isascii() and grapheme.isprintable():
            return grapheme, False
        chip = self._chips.find(grapheme)
        if chip is not None:
            return cut(escape_text(chip.label), width), True
        return cut(escape_text(grapheme[:_MAX_GRAPHEME_LENGTH]), width), False


class _OpenRow:
    """An incomplete row, to which graphemes are added."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.cells: list[Cell] = []
        self.width = 0
        # The index of the last cell that may begin a new row.
        self._break = 0
        self._after_break = False

    def add(self, cell: Cell, grapheme: str, size: int) -> None:
        stands_alone = size > 1
        breaks_before = self._after_break or stands_alone
        if breaks_before and grapheme not in _CLOSING:
            self._break = len(self.cells)
        self.cells.append(cell)
        self.width += size
        self._after_break = stands_alone or grapheme == " " or grapheme == "\t"

    def split(
        self, grapheme: str, position: int, size: int, width: int
    ) -> tuple[EditorRow, _OpenRow]:
        """Return this row up to its last possible break, and a new row with the rest.

        Args:
            grapheme: The grapheme that does not fit.
            position: Its position.
            size: Its number of columns.
            width: Maximum width of a row in columns.
        """
        can_begin_row = self._after_break or size > 1 or grapheme == " "
        if self._break == 0 or (can_begin_row and grapheme not in _CLOSING):
            return self.finish(position, True), _OpenRow(position)
        if self.width - self.cells[self._break].column + size > width:
            return self.finish(position, True), _OpenRow(position)
        moved = self.cells[self._break :]
        first = moved[0]
        following = _OpenRow(first.start)
        for cell in moved:
            following.cells.append(attrs.evolve(cell, column=cell.column - first.column))
        following.width = self.width - first.column
        del self.cells[self._break :]
        self.width = first.column
        return self.finish(first.start, True), following

    def finish(self, end: int, wraps: bool) -> EditorRow:
        return EditorRow(0, self.start, end, tuple(self.cells), self.width, wraps)


def _divide_line(text: str, line_start: int, line_end: int, position: int) -> tuple[int, int, bool]:
    """Return the start and end of the segment at a position, and whether the line continues."""
    if line_end - line_start <= _SEGMENT_LENGTH:
        return line_start, line_end, False
    number = (position - line_start) // _SEGMENT_LENGTH
    start = _segment_boundary(text, line_start, number)
    end = _segment_boundary(text, line_start, number + 1)
    if position >= end:
        # The boundary was moved left, to the start of a grapheme.
        number += 1
        start = end
        end = _segment_boundary(text, line_start, number + 1)
    if start >= line_end:
        # The end of the line belongs to its last segment.
        return _segment_boundary(text, line_start, number - 1), line_end, False
    return start, min(end, line_end), end < line_end


def _segment_boundary(text: str, line_start: int, number: int) -> int:
    """Return the position where a segment of a line begins, between two graphemes."""
    place = line_start + number * _SEGMENT_LENGTH
    if number == 0 or place >= len(text):
        return place
    # Only part of the text is examined, because a grapheme can be arbitrarily long.
    window = max(place - _BOUNDARY_WINDOW, line_start)
    boundary = window + previous_boundary(text[window : place + 1], place + 1 - window)
    # An overlong grapheme is divided; otherwise, a segment could be empty.
    return boundary if place - boundary <= _MAX_GRAPHEME_LENGTH else place
