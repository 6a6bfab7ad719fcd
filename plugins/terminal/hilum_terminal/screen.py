"""Converts rows to bytes for the terminal; performs no I/O.

Final rows ("commits") are written once to the normal scrollback and are never changed. Below them
is the *live region*, the rows that are redrawn. A terminal changes its size and rewraps its content
before this process is notified, so the bytes must be correct wherever the cursor has moved: the
cursor moves down with line feeds, which scroll if necessary, and up with CUU, which stops at the
top of the window. The bytes contain no absolute addresses, no CUD, no scroll regions, and nothing
that clears the window or the scrollback.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import wcwidth

from hilum_terminal.text_width import RESET, cells, cut

Size = tuple[int, int]
"""Columns and lines."""

# With synchronized output (DEC mode 2026), a terminal shows each frame as a whole; terminals
# without this mode ignore the sequences. A query for support would be unreliable, because tmux does
# not respond for the outer terminal.
BEGIN_FRAME = "\x1b[?2026h"
END_FRAME = "\x1b[?2026l"
REPORT_DELAY = 0.3
"""Maximum delay, in seconds, with which a terminal reports its new size (tmux: 250 ms)."""
CALM_SECONDS = 0.6
"""Seconds after a resize in which another one is expected, because the user drags the window."""
CALM_ROWS = 2
CALM_COLUMNS = 20
AUTOWRAP_ON = "\x1b[?7h"
AUTOWRAP_OFF = "\x1b[?7l"
SHOW_CURSOR = "\x1b[?25h"
HIDE_CURSOR = "\x1b[?25l"
ERASE_LINE = "\x1b[K"
# This sequence erases the cursor's line and everything below it. The cursor first moves one column
# to the right, because tmux scrolls the whole window into its history when it erases from the top
# left corner.
ERASE_BELOW = "\x1b[K\x1b[C\x1b[J\r"

_COLOR = re.compile(r"\x1b\[[0-9;:]*m")
_COLORS_AND_TEXT = re.compile(r"(\x1b\[[0-9;:]*m)")
# Anything other than text and colors would make the row count wrong. Callers have already escaped
# untrusted text; this is a last safeguard.
_CONTROL = re.compile(r"[\x00-\x1a\x1c-\x1f\x7f-\x9f]|\x1b(?!\[[0-9;:]*m)")


class Screen:
    """The content of the terminal below the last final row, and the position of its cursor.

    Args:
        reflows: Whether the terminal rewraps its lines when its width changes. See
            ``terminal_reflows``.

    Attributes:
        calm_until: Time until which only the beginnings of the last rows are drawn, because the
            window has just changed its size; the past if all rows are drawn.
    """

    def __init__(self, *, reflows: bool = True) -> None:
        self._reflows = reflows
        self.forget()

    def forget(self) -> None:
        """Start a new live region at the cursor's line, after another program used the terminal."""
        self._size: Size | None = None
        self._rows: list[str] = []
        self._cursor_row = 0
        self._cursor_column = 0
        self._cursor_shown: bool | None = None
        self._written = 0.0
        self.calm_until = -math.inf

    def frame(
        self,
        commits: Sequence[str],
        rows: Sequence[str],
        size: Size,
        cursor: tuple[int, int] | None,
        *,
        parked: bool = False,
        whole: bool = False,
        now: float = 0.0,
    ) -> bytes:
        """Return the bytes that commit rows and draw the live region; empty if nothing changed.

        Args:
            commits: Final rows, each written once. The terminal wraps rows that are too wide.
            rows: Rows of the live region. If the window has too few lines for all rows, the first
                ones are dropped.
            size: Columns and lines of the terminal, read right before this call.
            cursor: Row index and column of the cursor; None for no cursor.
            parked: Whether the cursor is hidden on the first row, and a cell in reverse video marks
                the input position. While rows are being committed, a parked cursor stays on the
                region's first row when the terminal changes its size. Otherwise, the real cursor is
                in the input, where input methods and screen readers expect it.
            whole: Whether all rows are drawn even while the user drags the window.
            now: The time in seconds. Without a time, the last frame counts as just written, more
                old rows may stay visible when the terminal becomes narrower, and all rows are
                drawn even while the user drags the window.
        """
        columns = max(size[0], 1)
        lines = max(size[1], 1)
        size = (columns, lines)
        if parked and now and self._size not in (None, size):
            self.calm_until = now + CALM_SECONDS
        shown, cursor = _fit(rows, cursor, lines)
        if parked and not whole and now and now < self.calm_until:
            shown, cursor = _shorten(shown, cursor)
        if cursor is None or parked:
            if cursor is not None:
                shown[cursor[0]] = paint_cursor(shown[cursor[0]], min(cursor[1], columns - 1))
            target_row = 0
            target_column = 0
            visible = False
        else:
            target_row = cursor[0]
            target_column = min(cursor[1], columns - 1)
            visible = True
        if commits or size != self._size:
            body = self._redraw(commits, shown, size, now)
        else:
            body = self._update(shown, columns)
        hide = HIDE_CURSOR if body and self._cursor_shown is not False else ""
        if hide:
            self._cursor_shown = False
        place = self._place_cursor(target_row, target_column, visible)
        if body:
            text = f"{BEGIN_FRAME}{hide}{body}{place}{END_FRAME}"
        else:
            text = place
        if text:
            self._written = now
        return text.encode("utf-8", "replace")

    def leave(self, size: Size | None = None, *, now: float = 0.0) -> bytes:
        """Return the bytes that erase the live region and move the cursor to its start.

        Afterwards, the screen is in its initial state. The bytes are empty if nothing was drawn.

        Args:
            size: The current size if it may have changed since the last frame.
            now: The time in seconds.
        """
        if self._size is None:
            return b""
        up = self._rows_above_cursor(size or self._size, now)
        self.forget()
        return f"\r{_up(up)}{ERASE_BELOW}{AUTOWRAP_ON}{SHOW_CURSOR}".encode()

    def _redraw(self, commits: Sequence[str], rows: list[str], size: Size, now: float) -> str:
        """Return a frame that is drawn from the region's top; commits overwrite the old rows."""
        columns = size[0]
        parts = ["\r", _up(self._rows_above_cursor(size, now))]
        if commits:
            parts.append(AUTOWRAP_ON)
            for commit in commits:
                parts.append(_line(commit, columns, ERASE_BELOW))
                parts.append("\r\n")
        parts.append(AUTOWRAP_OFF)
        for row in rows[:-1]:
            parts.append(_line(row, columns, ERASE_LINE))
            parts.append("\r\n")
        # Rows of the last frame may remain below; after a resize, their position is unknown.
        parts.append(ERASE_BELOW)
        parts.append(_text(rows[-1]))
        parts.append(AUTOWRAP_ON)
        self._size = size
        self._rows = rows
        self._cursor_row = len(rows) - 1
        self._cursor_column = -1
        return "".join(parts)

    def _update(self, rows: list[str], columns: int) -> str:
        """Return a frame that writes only the rows that have changed."""
        before = self._rows
        parts: list[str] = []
        for index, row in enumerate(rows):
            if index < len(before) and before[index] == row:
                continue
            parts.append(self._move_to(index))
            parts.append("\r")
            parts.append(_line(row, columns, ERASE_LINE))
            self._cursor_column = -1
        if len(rows) < len(before):
            parts.append(self._move_to(len(rows)))
            parts.append(f"\r{ERASE_BELOW}")
            self._cursor_column = 0
        self._rows = rows
        if not parts:
            return ""
        return f"{AUTOWRAP_OFF}{''.join(parts)}{AUTOWRAP_ON}"

    def _place_cursor(self, row: int, column: int, visible: bool) -> str:
        """Return the bytes that move, show or hide the cursor; empty if nothing changes."""
        move = self._move_to(row)
        if move or column != self._cursor_column:
            move += "\r"
            if column:
                move += f"\x1b[{column}C"
        self._cursor_column = column
        if visible == self._cursor_shown:
            return move
        self._cursor_shown = visible
        return move + (SHOW_CURSOR if visible else HIDE_CURSOR)

    def _move_to(self, row: int) -> str:
        """Return the bytes that move the cursor to a row of the region; the column is arbitrary."""
        down = row - self._cursor_row
        self._cursor_row = row
        if down < 0:
            return _up(-down)
        return "\n" * down

    def _rows_above_cursor(self, size: Size, now: float) -> int:
        """Return the number of terminal lines between the region's top and the cursor.

        In case of doubt, the number is too low rather than too high: rows of the last frame then
        remain visible, whereas too high a number would overwrite final rows.
        """
        columns = max(size[0], 1)
        narrower = self._size is not None and columns < self._size[0]
        # The last frame may have reached the terminal after it became narrower. In that case, the
        # terminal truncated the rows and did not wrap them.
        in_doubt = now - self._written < REPORT_DELAY
        if not narrower or not self._reflows or in_doubt:
            return self._cursor_row
        above = sum(_wrapped(row, columns) for row in self._rows[: self._cursor_row])
        if self._cursor_column <= 0:
            return above
        used = min(self._cursor_column, _used_cells(self._rows[self._cursor_row]))
        return above + max(used - 1, 0) // columns


def terminal_reflows(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal described by the environment rewraps its lines.

    Linux consoles, xterm and GNU screen truncate lines instead; all other common terminals rewrap
    them.
    """
    term = environ.get("TERM", "")
    if environ.get("TMUX"):
        return True
    if environ.get("STY") or environ.get("XTERM_VERSION"):
        return False
    return not term.startswith(("linux", "screen", "vt", "cons"))


def encode_full_screen(rows: Sequence[str], size: Size, cursor: tuple[int, int] | None) -> bytes:
    """Return the bytes that draw all rows of the alternate screen.

    The alternate screen has no scrollback and no rows of other programs, so absolute positions are
    safe there.

    Args:
        rows: One row for each line of the terminal.
        size: Columns and lines of the terminal.
        cursor: Row index and column of the cursor; None for no cursor.
    """
    columns, lines = size
    parts = [BEGIN_FRAME, HIDE_CURSOR, AUTOWRAP_OFF]
    for number, row in enumerate(rows[:lines], 1):
        parts.append(f"\x1b[{number};1H{_line(row, columns, ERASE_LINE)}")
    parts.append(AUTOWRAP_ON)
    if cursor is not None:
        parts.append(f"\x1b[{cursor[0] + 1};{cursor[1] + 1}H{SHOW_CURSOR}")
    parts.append(END_FRAME)
    return "".join(parts).encode("utf-8", "replace")


def paint_cursor(row: str, column: int) -> str:
    """Return a row with the character, or blank, at a column in reverse video."""
    parts: list[str] = []
    position = 0
    painted = False
    for piece in _COLORS_AND_TEXT.split(row):
        if painted or piece.startswith("\x1b"):
            parts.append(piece)
            continue
        for character in wcwidth.iter_graphemes(piece):
            position += cells(character)
            if not painted and position > column:
                parts.append(f"\x1b[7m{character}\x1b[27m")
                painted = True
            else:
                parts.append(character)
    if not painted:
        parts.append(RESET if "\x1b" in row else "")
        parts.append(" " * (column - position))
        parts.append("\x1b[7m \x1b[27m")
    return "".join(parts)


def _fit(
    rows: Sequence[str], cursor: tuple[int, int] | None, lines: int
) -> tuple[list[str], tuple[int, int] | None]:
    """Return the last rows that fit, at least one, and the cursor position in them.

    One line of the window stays free, so that no live row moves into the scrollback when the window
    shrinks by one line.
    """
    max_rows = max(lines - 1, 1)
    shown = list(rows[-max_rows:]) or [""]
    if cursor is None:
        return shown, None
    row = cursor[0] - max(len(rows) - max_rows, 0)
    if row < 0:
        return shown, None
    return shown, (min(row, len(shown) - 1), max(cursor[1], 0))


def _shorten(
    rows: list[str], cursor: tuple[int, int] | None
) -> tuple[list[str], tuple[int, int] | None]:
    """Return the beginnings of the last rows, and the cursor position in them.

    While output arrives, frames are often drawn for a size that the terminal no longer has. If rows
    wrap or do not fit then, the terminal moves them into its scrollback, where they would be once
    more when they are final. Few short rows fit into any window.
    """
    dropped = max(len(rows) - CALM_ROWS, 0)
    shown = [cut(row, CALM_COLUMNS, "") for row in rows[dropped:]]
    if cursor is None or cursor[0] < dropped:
        return shown, None
    # The cell of the cursor is drawn behind the text.
    return shown, (cursor[0] - dropped, min(cursor[1], CALM_COLUMNS - 1))


def _line(row: str, columns: int, erase_first: str) -> str:
    """Return a row and the sequence that erases the rest of its line.

    Args:
        row: The row; the cursor is in the first column.
        columns: Columns of the terminal.
        erase_first: Sequence that erases the line before text that fills the line. After such text,
            the cursor is still on the last character, so erasing the rest of the line would erase
            this character.
    """
    text = _text(row)
    if len(text) * 2 >= columns and cells(text) >= columns:
        return f"{erase_first}{text}"
    return f"{text}{ERASE_LINE}"


def _text(row: str) -> str:
    """Return a row without control characters, with its colors reset at the end."""
    text = _CONTROL.sub(" ", row)
    if "\x1b" in text and not text.endswith(RESET):
        return text + RESET
    return text


def _up(count: int) -> str:
    return f"\x1b[{count}A" if count else ""


def _used_cells(row: str) -> int:
    """Return the width of a row without trailing blanks, which some terminals drop."""
    return cells(_COLOR.sub("", row).rstrip())


def _wrapped(row: str, columns: int) -> int:
    """Return the number of lines that a row occupies after the terminal has become narrower."""
    return max(-(-_used_cells(row) // columns), 1)
