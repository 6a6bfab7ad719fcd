"""A picker: a list of choices with a filter and a preview.

A picker performs no I/O. The caller passes keys in, draws the rows, and acts on the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

import attrs
from hilum_view.fuzzy_index import FuzzyIndex

from hilum_terminal.keys import Key, Paste
from hilum_terminal.prompts import (
    CANCEL_KEYS,
    Cancelled,
    KeyGuard,
    LineField,
)
from hilum_terminal.row_layout import wrapped_rows
from hilum_terminal.styles import Theme
from hilum_terminal.text_width import cells, cut, one_line, pad

MAX_RESULTS = 1_000
"""Maximum number of entries to list for a filter."""
SIDE_WIDTH = 100
"""Minimum number of columns at which the preview is next to the list instead of below it."""
MAX_PREVIEW = 20_000
"""Maximum number of characters of a preview."""
MAX_MEASURED = 1_000
"""Number of entries whose widths determine the column of the hints."""
MIN_HINT = 16
"""Minimum width, in columns, of the part of a hint that is shown."""
MIN_LABEL = 4
"""Minimum width, in columns, of a label next to its hint."""
_PAGE = 8


class PickerEntry(Protocol):
    """An entry in a picker, such as ``Choice``."""

    @property
    def label(self) -> str:
        """The text to show in the list."""
        ...

    @property
    def hint(self) -> str:
        """A short addition, such as the time."""
        ...

    @property
    def preview(self) -> Callable[[], str] | str:
        """The text of the preview, or a function that returns it when it is first shown."""
        ...


Entry = TypeVar("Entry", bound=PickerEntry)


@attrs.frozen
class Picked(Generic[Entry]):
    """The result of a picker in which the user chose an entry.

    Attributes:
        entry: The entry.
        index: Index of the entry in the list that was passed to the picker.
    """

    entry: Entry
    index: int


class Picker(Generic[Entry]):
    """A list that the user filters and chooses from.

    Attributes:
        field: The filter that the user types.
        cursor: Row and column of the text cursor in the rows that were returned last.

    Args:
        title: Title of the list.
        entries: The entries.
        selected: Index of the entry that is selected at first.
        empty: Text to show if there are no entries.
        is_guarded: Whether Enter does not choose right after the picker appeared, because the user
            may have pressed it for something else.
    """

    def __init__(
        self,
        title: str,
        entries: Sequence[Entry],
        *,
        selected: int = 0,
        empty: str = "",
        is_guarded: bool = False,
    ) -> None:
        self.title = title
        self.field = LineField()
        self.cursor: tuple[int, int] | None = None
        self._empty = empty or "There is nothing to choose from."
        self._guard = KeyGuard() if is_guarded else None
        self._page = _PAGE
        self._previews: dict[int, str] = {}
        self._preview_rows: list[str] = []
        self._preview_of: tuple[int, int] | None = None
        self._entries = tuple(entries)
        # Texts are prepared only once, so that only the visible rows are formatted after each key.
        texts = [f"{entry.label} {entry.hint}".strip() for entry in self._entries]
        # The widths for which the column of the hints is laid out; measured once, so that the
        # column stays where it is while the user scrolls and filters.
        self._label_width, self._hint_width = _measure(self._entries[:MAX_MEASURED])
        self._index = FuzzyIndex(texts)
        self._found: Sequence[int] = range(len(self._entries))
        self._position = min(max(selected, 0), max(len(self._entries) - 1, 0))

    @property
    def typed(self) -> str:
        """The filter that the user has typed."""
        return self.field.text

    @property
    def selected(self) -> Entry | None:
        """The selected entry; None if no entry matches the filter."""
        index = self.selected_index
        return None if index is None else self._entries[index]

    @property
    def selected_index(self) -> int | None:
        """Index of the selected entry in the list that was passed to the picker."""
        if not self._found:
            return None
        return self._found[self._position]

    def handle(self, key: Key | Paste, now: float) -> Picked[Entry] | Cancelled | None:
        """Handle a key or a paste, and return the result once there is one.

        Args:
            key: The key; pasted text is added to the filter and never chooses an entry.
            now: Time in seconds.
        """
        if isinstance(key, Key):
            if key.name in CANCEL_KEYS:
                return Cancelled()
            if key.name == "enter":
                is_early = self._guard is not None and self._guard.holds(now)
                return None if is_early else self._pick()
            if self._move(key.name):
                return None
        before = self.field.text
        self.field.handle(key)
        if self.field.text != before:
            self._filter()
        return None

    def hide(self) -> tuple[Key, ...]:
        """Let Enter not choose until the picker is drawn again; the filter is kept."""
        if self._guard is not None:
            self._guard.reset()
        return ()

    def _pick(self) -> Picked[Entry] | None:
        index = self.selected_index
        if index is None:
            return None
        return Picked(self._entries[index], index)

    def _move(self, name: str) -> bool:
        last = max(len(self._found) - 1, 0)
        match name:
            case "up" | "ctrl-p" | "shift-tab":
                self._position = self._position - 1 if self._position else last
            case "down" | "ctrl-n" | "tab":
                self._position = self._position + 1 if self._position < last else 0
            case "page-up":
                self._position = max(self._position - self._page, 0)
            case "page-down":
                self._position = min(self._position + self._page, last)
            case "home" | "ctrl-home":
                self._position = 0
            case "end" | "ctrl-end":
                self._position = last
            case _:
                return False
        return True

    def _filter(self) -> None:
        query = self.field.text.strip()
        self._position = 0
        if query:
            self._found = self._index.rank(query, MAX_RESULTS)
        else:
            self._found = range(len(self._entries))

    def rows(self, width: int, max_rows: int, theme: Theme, now: float = 0.0) -> list[str]:
        """Return the title with the filter, the list and the preview: at most ``max_rows`` rows."""
        self.cursor = None
        if max_rows <= 0 or width <= 0:
            return []
        if self._guard is not None:
            self._guard.drawn(now)
        head = self._head(width, theme)
        hints = self._hints(width, theme) if max_rows >= 6 else []
        room = max_rows - 1 - len(hints)
        if not self._found:
            text = "Nothing fits the filter." if self._entries else self._empty
            return [head, *[theme.paint(cut(one_line(text), width), "dim")][:room], *hints]
        preview = self._selected_preview()
        if preview and width >= SIDE_WIDTH and room >= 3:
            body = self._beside(preview, width, room, theme)
        elif preview and room >= 6:
            # The list leaves at most eight rows, and at most half of the room, for the preview.
            list_room = min(len(self._found), max(room - room // 2, room - 8))
            body = self._list(width, list_room, theme)
            body += self._preview(preview, width, room - len(body), theme)
        else:
            body = self._list(width, room, theme)
        return [head, *body, *hints]

    def _head(self, width: int, theme: Theme) -> str:
        count = f"{len(self._found)}"
        if self.field.text:
            count = f"{len(self._found)} of {len(self._entries)}"
        title = cut(f"{one_line(self.title)} ({count}): ", max(width - 8, 0))
        row, column = self.field.row(max(width - cells(title), 1))
        self.cursor = (0, min(cells(title) + column, width - 1))
        if not self.field.text:
            row = theme.paint("type to filter", "dim")
        return cut(theme.paint(title, "bold") + row, width)

    def _hints(self, width: int, theme: Theme) -> list[str]:
        return [theme.paint(cut("Enter: choose · Esc: cancel", width), "dim")]

    def _list(self, width: int, room: int, theme: Theme) -> list[str]:
        if room <= 0:
            return []
        self._page = room
        start = min(max(self._position - room // 2, 0), max(len(self._found) - room, 0))
        rows = []
        column = self._hint_column(width)
        for position in range(start, min(start + room, len(self._found))):
            entry = self._entries[self._found[position]]
            rows.append(_entry_row(entry, position == self._position, column, width, theme))
        return rows

    def _hint_column(self, width: int) -> int:
        """Return the column at which the hints begin.

        The hints are aligned at the left. A long label leaves room for the longest hint, but is not
        cut to less than half of the row.
        """
        return min(self._label_width + 2, max(width - self._hint_width, width // 2))

    def _beside(self, preview: str, width: int, room: int, theme: Theme) -> list[str]:
        left = width // 2
        rows = self._list(left, room, theme)
        right = self._preview(preview, width - left - 3, room, theme)
        bar = theme.paint(" │ ", "dim") if theme.attributes else "   "
        joined = []
        for number in range(max(len(rows), len(right))):
            row = rows[number] if number < len(rows) else ""
            if number < len(right):
                row = pad(row, left) + bar + right[number]
            joined.append(row)
        return joined

    def _selected_preview(self) -> str:
        index = self.selected_index
        if index is None:
            return ""
        if index not in self._previews:
            preview = self._entries[index].preview
            text = preview if isinstance(preview, str) else preview()
            self._previews[index] = text[:MAX_PREVIEW]
        return self._previews[index]

    def _preview(self, text: str, width: int, room: int, theme: Theme) -> list[str]:
        wanted = (self._found[self._position], width)
        if self._preview_of != wanted:
            self._preview_of = wanted
            self._preview_rows = [cut(row, width) for row in wrapped_rows(text, width)]
        shown = self._preview_rows[: max(room, 0)]
        return [theme.paint(row, "dim") for row in shown]


def _measure(entries: Sequence[PickerEntry]) -> tuple[int, int]:
    """Return the width of the longest label, with the mark before it, and of the longest hint."""
    # Only labels next to a hint determine where the hints begin.
    labels = [2 + cells(one_line(entry.label)) for entry in entries if entry.hint]
    hints = [cells(one_line(entry.hint)) for entry in entries]
    return max(labels, default=0), max(hints, default=0)


def _entry_row(entry: PickerEntry, is_selected: bool, column: int, width: int, theme: Theme) -> str:
    """Return the row of an entry.

    Args:
        entry: The entry.
        is_selected: Whether the entry is selected.
        column: The column at which hints begin.
        width: Width of the row in columns.
        theme: The styles.
    """
    label = f"{'▸' if is_selected else ' '} {one_line(entry.label)}"
    hint = one_line(entry.hint)
    room = width - column
    # Part of a hint is of use only if it has room for some words.
    if hint and room >= min(cells(hint), MIN_HINT) and column > MIN_LABEL:
        label = pad(cut(label, column - 2), column)
        hint = cut(hint, room)
        if is_selected:
            return theme.paint(f"{label}{hint}", "selected")
        return f"{label}{theme.paint(hint, 'dim')}"
    row = cut(label, width)
    return theme.paint(row, "selected") if is_selected else row
