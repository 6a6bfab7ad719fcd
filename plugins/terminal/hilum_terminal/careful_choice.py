"""A list of a few choices for a decision about security, such as whether to trust a folder.

Unlike a ``Picker``, the list has no filter: typed text must not select anything, because the list
can open while the user types. It performs no I/O: the caller passes keys in and draws the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

from hilum_terminal.keys import Key, Paste
from hilum_terminal.pickers import Entry, Picked
from hilum_terminal.prompts import CANCEL_KEYS, MIN_COLUMNS, TOO_SMALL, Cancelled, Passed
from hilum_terminal.row_layout import paragraph
from hilum_terminal.styles import Theme
from hilum_terminal.text_width import cut, escape_text, one_line

ALONE_SECONDS = 0.5
"""Seconds before and after Enter or a digit in which no other key may arrive."""
KEYS_NOTE = "Arrow keys or a number select, Enter chooses · Esc: cancel"
PASTE_NOTE = "Pasted text does not answer this question. hilum ignored it."
QUICK_NOTE = "Too quick after another key: wait for half a second, then press it again."
_MOVES = {"up": -1, "shift-tab": -1, "down": 1, "tab": 1}


class CarefulChoice(Generic[Entry]):
    """A question whose choices the user selects with the arrow keys or a digit, and then Enter.

    Enter and digits count only if no other key and no paste arrives within ``ALONE_SECONDS`` before
    and after them. Other typed text is passed on to the draft.

    Attributes:
        typed: Always empty, because typed text is passed on.

    Args:
        title: The question.
        entries: The choices, at most nine.
        selected: Index of the choice that is selected at first.
    """

    def __init__(self, title: str, entries: Sequence[Entry], *, selected: int = 0) -> None:
        self.title = title
        self.typed = ""
        self._entries = tuple(entries)
        self._first = selected
        self._position = selected
        # When the last key arrived or the list appeared; None until the list is drawn.
        self._last: float | None = None
        # Enter or a digit that counts if no other key follows in time.
        self._held: Key | None = None
        self._note = ""

    def handle(self, key: Key | Paste, now: float) -> Cancelled | Passed | None:
        """Handle a key or a paste; an answer is returned later, by ``tick``.

        Args:
            key: The key or paste.
            now: Time in seconds.
        """
        if isinstance(key, Key) and key.name in CANCEL_KEYS:
            return Cancelled()
        held = self._held
        self._held = None
        is_quick = self._is_quick(now)
        if self._last is not None:
            self._last = now
        self._note = ""
        if isinstance(key, Paste):
            self._note = PASTE_NOTE
            # A digit before the paste was not an answer either.
            return _passed(held)
        is_digit = key.name == "text" and self._index(key) is not None
        if key.name == "text" and (held is not None or is_quick or not is_digit):
            return _passed(held, key)
        if key.name in _MOVES:
            if self._last is not None:
                self._position = (self._position + _MOVES[key.name]) % len(self._entries)
            return _passed(held)
        if key.name == "enter" or is_digit:
            if is_quick or held is not None:
                self._note = QUICK_NOTE
                return _passed(held)
            self._held = key
        return None

    def _is_quick(self, now: float) -> bool:
        """Return whether a key arrives too early, and may be meant for something else."""
        if self._last is None:
            return True
        # If the clock was set back, the list must not stay locked.
        self._last = min(self._last, now)
        return now < self._last + ALONE_SECONDS

    def _index(self, key: Key) -> int | None:
        """Return the index of the choice that a digit selects."""
        for index in range(len(self._entries)):
            if key.text == str(index + 1):
                return index
        return None

    def tick(self, now: float) -> Picked[Entry] | None:
        """Apply Enter or a digit if no other key has followed in time."""
        held = self._held
        if held is None or self._last is None:
            return None
        self._last = min(self._last, now)
        if now < self._last + ALONE_SECONDS:
            return None
        self._held = None
        if held.name == "enter":
            return Picked(self._entries[self._position], self._position)
        index = self._index(held)
        if index is not None:
            self._position = index
        return None

    def next_tick(self) -> float | None:
        """Return the time at which ``tick`` does something; None if no key is held."""
        if self._held is None or self._last is None:
            return None
        return self._last + ALONE_SECONDS

    def hide(self) -> tuple[Key, ...]:
        """Let no key answer until the list is drawn again; return a digit that was held."""
        held = self._held
        self._lock()
        return () if held is None or held.name != "text" else (held,)

    def _lock(self) -> None:
        self._held = None
        self._last = None
        # The selection may be of a user who has stopped looking.
        self._position = self._first

    def rows(self, width: int, max_rows: int, theme: Theme, now: float) -> list[str]:
        """Return the question, the choices and a note: at most ``max_rows`` rows."""
        if width < MIN_COLUMNS or max_rows < len(self._entries) + 1:
            self._lock()
            return [theme.paint(cut(TOO_SMALL, width), "warning")][: max(max_rows, 0)]
        if self._last is None:
            self._last = now
        rows = [theme.paint(cut(one_line(self.title), width), "bold")]
        for index, entry in enumerate(self._entries):
            hint = f"  {one_line(entry.hint)}" if entry.hint else ""
            mark = "▸" if index == self._position else " "
            row = cut(f"{mark} {index + 1}. {one_line(entry.label)}{hint}", width)
            rows.append(theme.paint(row, "selected") if index == self._position else row)
        note = cut(self._note or KEYS_NOTE, width)
        rows.append(theme.paint(note, "warning" if self._note else "dim"))
        rows += self._preview_rows(width, max_rows - len(rows), theme)
        return rows[:max_rows]

    def _preview_rows(self, width: int, max_rows: int, theme: Theme) -> list[str]:
        preview = self._entries[self._position].preview
        text = preview if isinstance(preview, str) else preview()
        if not text or max_rows <= 0:
            return []
        rows = paragraph(escape_text(text), width)[:max_rows]
        return [theme.paint(cut(row, width), "dim") for row in rows]


def _passed(held: Key | None, *keys: Key) -> Passed | None:
    """Return typed text that belongs in the draft: a digit that was held, and other keys."""
    typed = (held,) if held is not None and held.name == "text" else ()
    passed = (*typed, *keys)
    return Passed(passed) if passed else None
