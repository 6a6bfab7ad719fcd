"""The history search: Ctrl-R."""

from __future__ import annotations

from typing import Literal

from hilum_terminal.history import History, HistoryEntry
from hilum_terminal.keys import Input, Key, Paste
from hilum_terminal.pastes import clean_text
from hilum_terminal.styles import Theme
from hilum_terminal.text_width import cells, cut, escape_text, one_line, pad

State = Literal["open", "taken", "canceled"]
_HELP = "Enter: edit · Esc: back · Ctrl-R: older"
# Minimum number of columns for a text, below which the name of its project is not shown.
_MIN_TEXT_WIDTH = 30


class HistorySearch:
    """An incremental search in the history; the newest matches come first.

    Attributes:
        state: ``open``; ``taken`` after Enter, with the text in ``text``; or ``canceled`` after
            Esc, with the draft in ``text``.
        query: What the user typed.
    """

    def __init__(self, history: History, draft: str = "") -> None:
        """Open a search.

        Args:
            history: The history.
            draft: The editor's text, which Esc restores.
        """
        self.state: State = "open"
        self.query = ""
        self._history = history
        self._draft = draft
        self._selected = 0
        self._first_shown = 0
        self._matches = history.search("")

    @property
    def text(self) -> str:
        """The text for the editor: the selected text after Enter, otherwise the draft."""
        entry = self.selected
        return entry.text if self.state == "taken" and entry is not None else self._draft

    @property
    def selected(self) -> HistoryEntry | None:
        """The selected entry, or ``None`` if nothing matches."""
        return self._matches[self._selected] if self._matches else None

    def handle(self, key: Input) -> State:
        """Change the query or the selection; return the new state."""
        if isinstance(key, Paste):
            first_line = clean_text(key.text).strip().partition("\n")[0]
            self._set_query(self.query + first_line)
        elif isinstance(key, Key):
            self._handle_key(key)
        return self.state

    def _handle_key(self, key: Key) -> None:
        match key.name:
            case "text":
                self._set_query(self.query + key.text)
            case "backspace" | "ctrl-h":
                self._set_query(self.query[:-1])
            case "ctrl-w" | "alt-backspace":
                self._set_query(self.query.rstrip().rpartition(" ")[0])
            case "ctrl-u":
                self._set_query("")
            case "up" | "ctrl-r" | "ctrl-p":
                self._select(self._selected + 1)
            case "down" | "ctrl-s" | "ctrl-n":
                self._select(self._selected - 1)
            case "page-up":
                self._select(self._selected + 10)
            case "page-down":
                self._select(self._selected - 10)
            case "enter" | "tab":
                # If nothing matches, Enter must not clear the draft.
                self.state = "taken" if self._matches else "canceled"
            case "esc" | "ctrl-g" | "ctrl-c":
                self.state = "canceled"

    def _set_query(self, query: str) -> None:
        query = clean_text(query).replace("\n", " ").replace("\t", " ")
        if query == self.query:
            return
        self.query = query
        self._matches = self._history.search(query)
        self._selected = 0
        self._first_shown = 0

    def _select(self, index: int) -> None:
        self._selected = min(max(index, 0), max(len(self._matches) - 1, 0))

    def rows(self, width: int, max_rows: int, theme: Theme) -> list[str]:
        """Return the rows to show: the matches, newest at the bottom, the query, and the keys.

        Args:
            width: The number of columns.
            max_rows: Maximum number of rows.
            theme: The colors.
        """
        rows = [self._query_row(width, theme)]
        if max_rows >= 4:
            rows.append(theme.paint(cut(_HELP, width), "dim"))
        room = max_rows - len(rows)
        if room <= 0:
            return rows
        if self._selected < self._first_shown:
            self._first_shown = self._selected
        if self._selected >= self._first_shown + room:
            self._first_shown = self._selected - room + 1
        last = self._first_shown + room
        shown = []
        for index, entry in enumerate(self._matches[self._first_shown : last], self._first_shown):
            shown.append(self._match_row(entry, index == self._selected, width, theme))
        return [*reversed(shown), *rows]

    def _query_row(self, width: int, theme: Theme) -> str:
        label = "search: "
        count = len(self._matches)
        if not self.query:
            found = ""
        elif count == 0:
            found = "  no match"
        else:
            found = f"  {self._selected + 1} of {count}"
        room = width - cells(label) - 1 - cells(found)
        if room < 8:
            found = ""
            room = width - cells(label) - 1
        query = escape_text(self.query)
        while query and cells(query) > max(room, 0):
            # The user types at the end of the query, so the end stays visible.
            query = query[1:]
        row = theme.paint(cut(label, width - 1), "prompt") + query
        cursor = theme.paint(" ", "selected")
        return cut(row + cursor + theme.paint(found, "dim"), width)

    def _match_row(self, entry: HistoryEntry, selected: bool, width: int, theme: Theme) -> str:
        mark = "❯ " if selected else "  "
        project = ""
        if entry.project != self._history.project:
            name = one_line(entry.project.rstrip("/\\").replace("\\", "/").rpartition("/")[2], 20)
            project = f"  {name}" if name else ""
        if width - cells(project) - 2 < _MIN_TEXT_WIDTH:
            project = ""
        room = width - cells(project) - 2
        text = one_line(entry.text, max(room, 1))
        if "\n" in entry.text.strip() and not text.endswith("…") and cells(text) < room - 1:
            text += " …"
        row = pad(mark + text, room + 2) if project else mark + text
        if selected:
            row = theme.paint(row, "bold")
        return cut(row + theme.paint(project, "dim"), width)
