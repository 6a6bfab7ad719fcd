"""The full-screen view: a long text on the alternate screen, with scrolling and search.

The view performs no I/O. ``Drawing`` shows it and ``Face`` passes keys to it; the scrollback of the
terminal does not change while it is open.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

import attrs
import trio

from hilum_terminal.keys import Key, Paste
from hilum_terminal.prompts import MIN_COLUMNS, KeyGuard, LineField
from hilum_terminal.styles import Theme
from hilum_terminal.text_width import cells, cut, one_line, without_colors
from hilum_terminal.transcript import THREAD_SIZE

MIN_LINES = 5
"""Minimum number of lines of a window in which a key approves what the view shows."""

# Rows of the previous page that stay visible after Page Down.
OVERLAP = 2
# Characters at the beginning of a row that are not part of the text.
GUTTER = "│ "
CLOSING_KEYS = ("esc", "ctrl-c", "ctrl-d")


@attrs.frozen(eq=False)
class Page:
    """A text of the full-screen view.

    Attributes:
        title: Title, which is shown on the first row.
        make_rows: Function that returns the rows for a width and a theme.
        size: Number of characters in the source.
        describe: Function that returns a note about the page, such as the time that is left to
            answer; empty for none.
        answer: What the key ``y`` answers, such as ``yes, once``; empty if it answers nothing.
    """

    title: str
    make_rows: Callable[[int, Theme], Sequence[str]]
    size: int = 0
    describe: Callable[[], str] = str
    answer: str = ""


class FullView:
    """One or more pages, of which one is shown, and the user's position in it.

    Attributes:
        cursor: Row and column of the text cursor in the rows that were returned last; None for no
            cursor.
        is_answered: Whether the user closed the view with the key that answers.

    Args:
        pages: The pages.
        index: Index of the page to show first.
    """

    def __init__(self, pages: Sequence[Page], index: int = 0) -> None:
        self.cursor: tuple[int, int] | None = None
        self.is_answered = False
        self._guard = KeyGuard()
        self._pages = tuple(pages)
        self._index = index
        self._top = 0
        # Number of rows for the text; known once the view has been drawn.
        self._room = 1
        self._rows: list[str] = []
        self._lines: list[_Line] = []
        self._rows_of: tuple[int, int, Theme] | None = None
        self._field: LineField | None = None
        # The row at which the current search began, to which Esc returns.
        self._search_from = 0
        self._pattern = ""
        # The first and the last row of each match.
        self._matches: list[tuple[int, int]] = []
        self._match = -1

    @property
    def page(self) -> Page:
        """The page that is shown."""
        return self._pages[self._index]

    # --- keys -------------------------------------------------------------------------------------

    def handle(self, key: Key | Paste, now: float = 0.0) -> bool:
        """Handle a key or a paste, and return whether the user closed the view.

        Args:
            key: The key or the paste.
            now: Time in seconds.
        """
        if self._field is not None:
            self._edit_search(self._field, key)
            return False
        # Pasted text is not a key: a "q" in it must not close the view.
        if isinstance(key, Paste):
            return False
        if key.name in CLOSING_KEYS:
            return True
        # Several letters at once are a word, which answers nothing.
        if key == Key("text", "y") and self.page.answer:
            self.is_answered = not self._guard.holds(now)
            return self.is_answered
        if key.name == "text":
            return self._handle_text(key.text)
        self._move(key.name)
        return False

    def note_burst(self, now: float) -> None:
        """Let no key approve for a moment, because several keys arrived at once."""
        self._guard.restart(now)

    def _handle_text(self, text: str) -> bool:
        """Handle letters, which arrive together if the user types quickly."""
        for position, letter in enumerate(text):
            if letter == "q":
                return True
            self._handle_letter(letter)
            rest = text[position + 1 :]
            if self._field is not None:
                if rest:
                    self._edit_search(self._field, Key("text", rest))
                return False
        return False

    def _handle_letter(self, letter: str) -> None:
        match letter:
            case "/":
                self._field = LineField()
                self._search_from = self._top
            case "n":
                self._go_to_match(1)
            case "N":
                self._go_to_match(-1)
            case " ":
                self._scroll(self._page_rows)
            case "b":
                self._scroll(-self._page_rows)
            case "j":
                self._scroll(1)
            case "k":
                self._scroll(-1)
            case "g":
                self._top = 0
            case "G":
                self._top = self._last_top

    def _move(self, name: str) -> None:
        match name:
            case "up" | "ctrl-p":
                self._scroll(-1)
            case "down" | "ctrl-n" | "enter":
                self._scroll(1)
            case "page-up":
                self._scroll(-self._page_rows)
            case "page-down":
                self._scroll(self._page_rows)
            case "home" | "ctrl-home":
                self._top = 0
            case "end" | "ctrl-end":
                self._top = self._last_top
            case "left":
                self._show_page(self._index - 1)
            case "right":
                self._show_page(self._index + 1)

    def _show_page(self, index: int) -> None:
        if 0 <= index < len(self._pages):
            self._index = index
            self._top = 0
            self._pattern = ""
            self._matches = []

    @property
    def _page_rows(self) -> int:
        return max(self._room - OVERLAP, 1)

    @property
    def _last_top(self) -> int:
        return max(len(self._rows) - self._room, 0)

    def _scroll(self, rows: int) -> None:
        self._top = min(max(self._top + rows, 0), self._last_top)

    # --- search -----------------------------------------------------------------------------------

    def _edit_search(self, field: LineField, key: Key | Paste) -> None:
        """Handle a key while the user types what to search for."""
        if isinstance(key, Key) and key.name == "enter":
            self._field = None
            return
        if isinstance(key, Key) and key.name in CLOSING_KEYS:
            self._field = None
            self._pattern = ""
            self._matches = []
            self._top = self._search_from
            return
        field.handle(key)
        self._search(field.text)

    def _search(self, pattern: str) -> None:
        """Find a text, and scroll to the first match at or after the start of the search."""
        self._pattern = pattern
        self._find_matches()
        following = [
            index for index, (row, _) in enumerate(self._matches) if row >= self._search_from
        ]
        self._match = following[0] if following else 0
        self._top = self._search_from
        self._show_match()

    def _find_matches(self) -> None:
        pattern = self._pattern.casefold()
        self._matches = []
        if pattern:
            for line in self._lines:
                self._matches += line.find(pattern)

    def _go_to_match(self, step: int) -> None:
        if self._matches:
            self._match = (self._match + step) % len(self._matches)
            self._show_match()

    def _show_match(self) -> None:
        """Scroll so that the current match is visible, with some rows before it."""
        if not self._matches:
            return
        row, _ = self._matches[self._match]
        if not self._top <= row < self._top + self._room:
            self._top = min(max(row - self._room // 3, 0), self._last_top)

    # --- rows -------------------------------------------------------------------------------------

    async def prepare(self, width: int, theme: Theme) -> None:
        """Lay out the shown page for a width, in a thread if the page is long."""
        wanted = (self._index, width, theme)
        if self._rows_of == wanted:
            return
        page = self.page
        before = len(self._rows)
        is_same_page = self._rows_of is not None and self._rows_of[0] == self._index
        if page.size <= THREAD_SIZE:
            rows, lines = _lay_out(page, width, theme)
        else:
            rows, lines = await trio.to_thread.run_sync(_lay_out, page, width, theme)
        self._rows = rows
        self._lines = lines
        self._rows_of = wanted
        if is_same_page and before:
            # In a window of another width, about the same part of the text stays visible.
            self._top = self._top * len(rows) // before
        self._find_matches()
        self._match = min(self._match, len(self._matches) - 1)

    def rows(self, width: int, lines: int, theme: Theme, now: float = 0.0) -> list[str]:
        """Return the rows of the whole window, which are as many as its lines.

        Args:
            width: Columns of the window, as in the last call of ``prepare``.
            lines: Lines of the window.
            theme: The styles.
            now: Time in seconds.
        """
        self.cursor = None
        if width < MIN_COLUMNS or lines < MIN_LINES:
            # What is approved must be readable.
            self._guard.reset()
        else:
            self._guard.drawn(now)
        # In a tiny window, the text is more useful than the title and the keys.
        head = [self._head(width, theme)] if lines >= 4 else []
        foot = [self._foot(width, lines - 1, theme)] if lines >= 2 or self._field else []
        self._room = max(lines - len(head) - len(foot), 1)
        self._top = min(self._top, self._last_top)
        # The keys show the position, which may just have changed.
        if foot:
            foot = [self._foot(width, lines - 1, theme)]
        shown = []
        first, last = self._matches[self._match] if self._matches else (-1, -1)
        for number in range(self._top, min(self._top + self._room, len(self._rows))):
            row = cut(self._rows[number], width)
            if first <= number <= last:
                row = theme.paint(without_colors(row), "selected")
            shown.append(row)
        shown += [""] * (self._room - len(shown))
        return [*head, *shown, *foot][:lines]

    def _head(self, width: int, theme: Theme) -> str:
        page = self.page
        parts = []
        if len(self._pages) > 1:
            parts.append(f"{self._index + 1} of {len(self._pages)}")
        note = page.describe()
        if note:
            parts.append(note)
        parts.append(one_line(page.title))
        return theme.paint(cut(" · ".join(parts), width), "heading")

    def _foot(self, width: int, row: int, theme: Theme) -> str:
        if self._field is not None:
            text, column = self._field.row(max(width - 1, 1))
            self.cursor = (row, min(1 + column, width - 1))
            found = f"  {self._describe_matches()}" if self._pattern else ""
            room = width - 1 - cells(text)
            return cut(f"/{text}{theme.paint(cut(found, max(room, 0)), 'dim')}", width)
        last = min(self._top + self._room, len(self._rows))
        parts = [f"rows {min(self._top + 1, last):,}-{last:,} of {len(self._rows):,}"]
        if self._pattern:
            parts.append(f"{self._describe_matches()}, n: next")
        if self.page.answer:
            parts.append(f"y: {self.page.answer}")
        parts.append("q: back")
        if len(self._pages) > 1:
            parts.append("←→: another call or agent")
        parts += ["/: search", "↑↓ PgUp PgDn Home End"]
        return theme.paint(cut(" · ".join(parts), width), "dim")

    def _describe_matches(self) -> str:
        if not self._matches:
            return "not found"
        return f"match {self._match + 1} of {len(self._matches)}"


@attrs.frozen
class _Line:
    """A line of the text, which may be broken into several rows.

    Attributes:
        first: Number of its first row.
        texts: The texts of its rows in lowercase.
        joined: All rows without gutters and spaces; a row may or may not be broken at a space.
        ends: For each row, the length of ``joined`` up to the end of the row.
    """

    first: int
    texts: list[str]
    joined: str
    ends: list[int]

    def find(self, pattern: str) -> list[tuple[int, int]]:
        """Return the first and the last row of each match of a pattern in lowercase."""
        found = [
            (self.first + number, self.first + number)
            for number, text in enumerate(self.texts)
            if pattern in text
        ]
        wanted = _squeeze(pattern)
        place = self.joined.find(wanted) if wanted and len(self.texts) > 1 else -1
        while place >= 0:
            start = bisect_right(self.ends, place)
            end = bisect_right(self.ends, place + len(wanted) - 1)
            if end > start:
                found.append((self.first + start, self.first + end))
            place = self.joined.find(wanted, place + 1)
        return sorted(found)


def _lay_out(page: Page, width: int, theme: Theme) -> tuple[list[str], list[_Line]]:
    try:
        rows = [cut(row, width) for row in page.make_rows(width, theme)]
    except Exception as error:
        # A page that cannot be shown must not end the conversation.
        text = f"This cannot be shown: {type(error).__name__}: {error}"
        rows = [theme.paint(cut(one_line(text), width), "bad")]
    return rows, _find_lines(rows, width)


def _find_lines(rows: Sequence[str], width: int) -> list[_Line]:
    """Return the lines that the rows belong to, as far as the rows show it."""
    lines: list[_Line] = []
    texts: list[str] = []
    first = 0
    before = ""
    for number, row in enumerate(rows):
        plain = without_colors(row).rstrip()
        if texts and not _continues(before, plain, width):
            lines.append(_make_line(first, texts))
            texts = []
        if not texts:
            first = number
        texts.append(plain)
        before = plain
    if texts:
        lines.append(_make_line(first, texts))
    return lines


def _continues(row: str, following: str, width: int) -> bool:
    """Return whether a row was broken because the next word did not fit."""
    words = following.lstrip(GUTTER).split(None, 1)
    # A page may keep a column free at the right.
    return bool(row and words) and cells(row) + 1 + cells(words[0]) >= width


def _make_line(first: int, texts: Sequence[str]) -> _Line:
    # The first row keeps its gutter, which may contain the number of the line.
    contents = [texts[0], *(text.lstrip(GUTTER) for text in texts[1:])]
    squeezed = [_squeeze(text.casefold()) for text in contents]
    ends = list(accumulate(map(len, squeezed)))
    return _Line(first, [text.casefold() for text in texts], "".join(squeezed), ends)


def _squeeze(text: str) -> str:
    return "".join(text.split())
