"""Prompts that a command opens: a one-line text field, and a yes-or-no question.

Prompts perform no I/O. The caller passes keys in, draws the rows, and acts on the result.
"""

from __future__ import annotations

import attrs
import wcwidth

from hilum_terminal.keys import Key, Paste
from hilum_terminal.row_layout import choice_rows, fit_rows, paragraph
from hilum_terminal.styles import Theme
from hilum_terminal.text_width import ELLIPSIS, cells, cut, escape_text

KEY_GUARD = 0.3
"""Seconds after a prompt is drawn during which no key answers it."""
HOLD = 0.75
"""Seconds for which a letter is held before it answers: another letter makes it part of a word.

Slow typists press a key every 0.3 to 0.6 seconds.
"""
HOLD_AFTER_ENTER = 0.25
"""Seconds for which a letter and Enter are held: a paste without brackets goes on at once."""
MIN_COLUMNS = 20
"""Minimum width, in columns, of a window in which a key answers a question."""
TOO_SMALL = "Enlarge the window to answer."
MAX_LENGTH = 10_000
"""Maximum length of a line that the user edits, in characters; the rest of a paste is dropped."""
SECRET_MARK = "•"
CANCEL_KEYS = ("esc", "ctrl-c")


@attrs.frozen
class Cancelled:
    """The result of a prompt that the user closed without an answer."""


@attrs.frozen
class Passed:
    """The result of keys that do not answer a prompt, because the user is typing a message.

    The prompt stays open, and the keys belong in the draft.

    Attributes:
        keys: The keys and pastes, in the order in which they were pressed.
    """

    keys: tuple[Key | Paste, ...]


@attrs.frozen
class Entered:
    """The result of a prompt in which the user entered text."""

    text: str


@attrs.frozen
class Confirmed:
    """The result of a yes-or-no question that the user answered."""

    accepted: bool


class KeyGuard:
    """A guard that keeps keys from answering a prompt that has just been drawn.

    The user may have pressed these keys before they could read the prompt.
    """

    def __init__(self) -> None:
        self._started: float | None = None

    def reset(self) -> None:
        """Guard the prompt until it is drawn again."""
        self._started = None

    def drawn(self, now: float) -> None:
        """Start the guard time, if it has not started yet."""
        if self._started is None:
            self._started = now

    def restart(self, now: float) -> None:
        """Restart the guard time, if the prompt was drawn."""
        if self._started is not None:
            self._started = now

    def holds(self, now: float) -> bool:
        """Return whether keys must not answer the prompt."""
        if self._started is None:
            return True
        # If the clock was set back, the prompt must not stay locked.
        self._started = min(self._started, now)
        return now - self._started < KEY_GUARD


class HeldKeys:
    """A letter that may be an answer, and perhaps Enter after it, until no other key has followed.

    Attributes:
        keys: The keys that are held, in the order in which they were pressed.
    """

    def __init__(self) -> None:
        self.keys: tuple[Key, ...] = ()
        self._since = 0.0

    def hold(self, key: Key, now: float) -> None:
        """Hold a letter, or Enter after a letter."""
        self.keys = (*self.keys, key)
        self._since = now

    def takes(self, key: Key | Paste) -> bool:
        """Return whether a key confirms the letter that is held: Enter is the only such key."""
        return len(self.keys) == 1 and key == Key("enter")

    def release(self) -> tuple[Key, ...]:
        """Return the keys, which are no answer, and hold them no longer."""
        keys = self.keys
        self.keys = ()
        return keys

    def take_answer(self, now: float) -> Key | None:
        """Return the letter if no other key has followed in time, and hold it no longer."""
        # If the clock was set back, the letter must not be held forever.
        self._since = min(self._since, now)
        end = self.next_tick()
        if end is None or now < end:
            return None
        return self.release()[0]

    def next_tick(self) -> float | None:
        """Return the time from which ``take_answer`` returns the letter; None if none is held."""
        if not self.keys:
            return None
        return self._since + (HOLD if len(self.keys) == 1 else HOLD_AFTER_ENTER)


class LineField:
    """A line of text that the user edits.

    Attributes:
        text: The text, which contains no newlines.
        cursor: Index in the text at which the next character is inserted.
        secret: Whether the characters are shown as dots.
    """

    def __init__(self, text: str = "", *, secret: bool = False) -> None:
        self.text = ""
        self.cursor = 0
        self.secret = secret
        self.insert(text)

    def insert(self, text: str) -> None:
        """Insert text at the cursor; newlines and tabs become spaces."""
        room = max(MAX_LENGTH - len(self.text), 0)
        line = " ".join(text[:room].splitlines()).replace("\t", " ")
        self.text = self.text[: self.cursor] + line + self.text[self.cursor :]
        self.cursor += len(line)

    def clear(self) -> str:
        """Remove the text, and return it."""
        removed = self.text
        self.text = ""
        self.cursor = 0
        return removed

    def handle(self, key: Key | Paste) -> bool:
        """Handle a key or a paste, and return whether it was used."""
        if isinstance(key, Paste):
            self.insert(key.text)
            return True
        if key.name == "text":
            self.insert(key.text)
            return True
        return self._move(key.name) or self._delete(key.name)

    def _move(self, name: str) -> bool:
        match name:
            case "left" | "ctrl-b":
                self.cursor = self._before(self.cursor)
            case "right" | "ctrl-f":
                self.cursor = self._after(self.cursor)
            case "home" | "ctrl-a":
                self.cursor = 0
            case "end" | "ctrl-e":
                self.cursor = len(self.text)
            case "ctrl-left" | "alt-left" | "alt-b":
                self.cursor = self._word_before()
            case "ctrl-right" | "alt-right" | "alt-f":
                self.cursor = self._word_after()
            case _:
                return False
        return True

    def _delete(self, name: str) -> bool:
        match name:
            case "backspace" | "ctrl-h":
                self._remove(self._before(self.cursor), self.cursor)
            case "delete" | "ctrl-d":
                self._remove(self.cursor, self._after(self.cursor))
            case "ctrl-w" | "alt-backspace":
                self._remove(self._word_before(), self.cursor)
            case "alt-d":
                self._remove(self.cursor, self._word_after())
            case "ctrl-u":
                self._remove(0, self.cursor)
            case "ctrl-k":
                self._remove(self.cursor, len(self.text))
            case _:
                return False
        return True

    def _remove(self, start: int, end: int) -> None:
        self.text = self.text[:start] + self.text[end:]
        self.cursor = start

    def _before(self, index: int) -> int:
        """Return the start of the character (grapheme) before an index."""
        if index <= 0:
            return 0
        return wcwidth.grapheme_boundary_before(self.text, index)

    def _after(self, index: int) -> int:
        """Return the end of the character (grapheme) after an index."""
        grapheme = next(iter(wcwidth.iter_graphemes(self.text[index:])), "")
        return index + len(grapheme)

    def _word_before(self) -> int:
        index = self.cursor
        while index > 0 and not self.text[index - 1].isalnum():
            index -= 1
        while index > 0 and self.text[index - 1].isalnum():
            index -= 1
        return index

    def _word_after(self) -> int:
        index = self.cursor
        while index < len(self.text) and not self.text[index].isalnum():
            index += 1
        while index < len(self.text) and self.text[index].isalnum():
            index += 1
        return index

    def row(self, width: int) -> tuple[str, int]:
        """Return the part of the text around the cursor, and the cursor's column in this part.

        Args:
            width: Maximum number of columns, including one for a cursor after the text.
        """
        room = max(width - 1, 1)
        before = self._shown(self.text[: self.cursor])
        after = self._shown(self.text[self.cursor :])
        used = cells(before)
        if used > room:
            # The text is scrolled, and an ellipsis replaces the hidden beginning.
            clipped = wcwidth.clip(before, used - room + 1, used, fillchar=" ")
            before = ELLIPSIS + clipped if room > 1 else ""
        column = cells(before)
        return before + cut(after, max(room - column, 0)), column

    def _shown(self, text: str) -> str:
        if self.secret:
            return SECRET_MARK * len(text)
        return escape_text(text)


class TextPrompt:
    """A question that the user answers with a line of text.

    Attributes:
        cursor: Row and column of the cursor in the rows that were returned last.

    Args:
        question: The question.
        default: The answer if the user enters no text.
        secret: Whether the answer, such as an API key, is shown as dots.
    """

    def __init__(self, question: str, *, default: str = "", secret: bool = False) -> None:
        self.question = question
        self.default = default
        self.field = LineField(secret=secret)
        self.cursor: tuple[int, int] | None = None
        self._guard = KeyGuard()

    @property
    def typed(self) -> str:
        """The text that the user has written; empty for a secret."""
        return "" if self.field.secret else self.field.text

    def handle(self, key: Key | Paste, now: float) -> Entered | Cancelled | None:
        """Handle a key or a paste, and return the result once there is one.

        Enter that was pressed before the user could see the question does not answer it.

        Args:
            key: The key or paste.
            now: Time in seconds, from any clock.
        """
        if isinstance(key, Key):
            if key.name in CANCEL_KEYS:
                return Cancelled()
            if key.name == "enter":
                is_early = self._guard.holds(now)
                return None if is_early else Entered(self.field.text or self.default)
        self.field.handle(key)
        return None

    def hide(self) -> tuple[Key, ...]:
        """Let no key answer until the question is drawn again; the text in the field is kept."""
        self._guard.reset()
        return ()

    def rows(self, width: int, max_rows: int, theme: Theme, now: float) -> list[str]:
        """Return the question and the field, in at most ``max_rows`` rows."""
        self.cursor = None
        if max_rows <= 0 or width <= 0:
            return []
        self._guard.drawn(now)
        mark = "> " if width > 4 else ""
        shown, column = self.field.row(width - len(mark))
        if not self.field.text and self.default:
            shown = theme.paint(cut(self._default(), max(width - len(mark), 0)), "dim")
        rows = [theme.paint(row, "bold") for row in paragraph(self.question, width)]
        rows = fit_rows(rows, max_rows - 1, width)
        rows.append(mark + shown)
        self.cursor = (len(rows) - 1, len(mark) + column)
        if len(rows) < max_rows:
            rows.append(theme.paint("Enter: answer · Esc: cancel", "dim"))
        return [cut(row, width) for row in rows]

    def _default(self) -> str:
        if self.field.secret:
            return SECRET_MARK * min(len(self.default), 8)
        return escape_text(self.default).replace("\n", " ")


class ConfirmPrompt:
    """A question that the user answers with yes or no; "no" is selected.

    The question can open at any moment, also while the user types a message. Therefore a letter
    answers only if no other key follows within ``HOLD`` seconds (Enter may follow, alone), and text
    that is not an answer is passed on.

    Attributes:
        typed: Always empty, because a letter that is not an answer is passed on.

    Args:
        question: The question.
        yes: What yes does, as a short phrase.
        no: What no does, as a short phrase.
        details: Text below the question.
    """

    def __init__(self, question: str, *, yes: str, no: str = "No", details: str = "") -> None:
        self.question = question
        self.details = details
        self.labels = (yes, no)
        self.typed = ""
        self.accepted = False
        self._guard = KeyGuard()
        self._held = HeldKeys()

    def note_burst(self, now: float) -> None:
        """Let no key answer for a moment, because several keys arrived at once."""
        self._guard.restart(now)

    def handle(self, key: Key | Paste, now: float) -> Confirmed | Cancelled | Passed | None:
        """Handle a key or a paste, and return the result once there is one.

        Keys that were typed before the user could see the question do not answer it.

        Args:
            key: The key or paste.
            now: Time in seconds, from any clock.
        """
        if isinstance(key, Key) and key.name in CANCEL_KEYS:
            return Cancelled()
        is_early = self._guard.holds(now)
        if self._held.takes(key) and not is_early:
            assert isinstance(key, Key)
            self._held.hold(key, now)
            return None
        if self._held.keys:
            return Passed((*self._held.release(), key))
        is_text = isinstance(key, Paste) or key.name == "text"
        if key in _CONFIRM_LETTERS and not is_early:
            assert isinstance(key, Key)
            self._held.hold(key, now)
            return None
        if is_text:
            return Passed((key,))
        if is_early:
            return None
        match key:
            case Key("enter"):
                return Confirmed(self.accepted)
            case Key("left" | "right" | "up" | "down" | "tab" | "shift-tab"):
                self.accepted = not self.accepted
        return None

    def hide(self) -> tuple[Key, ...]:
        """Let no key answer until the question is drawn again; return a letter that was held."""
        self._guard.reset()
        return self._held.release()

    def tick(self, now: float) -> Confirmed | None:
        """Return the answer if a letter was pressed and no other key has followed in time."""
        if self._guard.holds(now):
            # The question is not visible any more.
            return None
        letter = self._held.take_answer(now)
        return None if letter is None else _confirmed(letter)

    def next_tick(self) -> float | None:
        """Return the time at which ``tick`` returns an answer; None if no letter is held."""
        return self._held.next_tick()

    def rows(self, width: int, max_rows: int, theme: Theme, now: float) -> list[str]:
        """Return the question, its details and the choices, in at most ``max_rows`` rows."""
        if width < MIN_COLUMNS or max_rows < 2:
            self._guard.reset()
            return [theme.paint(cut(TOO_SMALL, max(width, 0)), "warning")][: max(max_rows, 0)]
        self._guard.drawn(now)
        labels = (
            f"[y] {escape_text(self.labels[0])}",
            f"[n] {escape_text(self.labels[1])}",
        )
        selected = 0 if self.accepted else 1
        choices = choice_rows(labels, selected, width, max(min(max_rows // 2, 4), 1), theme)
        question = [theme.paint(row, "bold") for row in paragraph(self.question, width)]
        question = fit_rows(question, max_rows - len(choices), width)
        details: list[str] = []
        if self.details:
            room = max_rows - len(choices) - len(question)
            details = fit_rows(paragraph(self.details, width), room, width)
        return [cut(row, width) for row in [*question, *details, *choices]]


_CONFIRM_LETTERS = tuple(Key("text", letter) for letter in "yYnN")


def _confirmed(letter: Key) -> Confirmed:
    return Confirmed(letter.text in "yY")


def key_label(name: str) -> str:
    """Return a key's name in the usual notation, such as "Shift-Tab"."""
    return "-".join(part.capitalize() for part in name.split("-"))
