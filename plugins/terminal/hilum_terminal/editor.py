"""The multi-line text editor for the terminal's input, with Emacs key bindings."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from hilum_terminal.editor_rows import EditorRow, RowLayout
from hilum_terminal.graphemes import (
    next_boundary,
    previous_boundary,
    word_end,
    word_start,
)
from hilum_terminal.keys import Input, Key, Paste
from hilum_terminal.kill_ring import KillRing
from hilum_terminal.pastes import Chips, clean_text, find_image_paths, is_long
from hilum_terminal.styles import Theme
from hilum_terminal.text_width import one_line
from hilum_terminal.undo_stack import Change, Kind, Span, UndoStack

PROMPT = "❯ "
_PROMPT_WIDTH = 2
# Below this width, a prompt would take up too much of the row.
_MIN_WIDTH_FOR_PROMPT = 6
_WIDTH_BEFORE_FIRST_FRAME = 80


@attrs.frozen
class EditorRows:
    """The rows that the editor shows, and the position of the cursor in them.

    Attributes:
        rows: The rows.
        cursor_row: The index of the row with the cursor.
        cursor_column: The column of the cursor, from 0.
    """

    rows: list[str]
    cursor_row: int
    cursor_column: int


class Editor:
    """A multi-line text and a cursor, edited by keys.

    Long pastes and images are *chips*: each is one private character in ``text``, so that a draft
    that is saved and restored keeps its chips. ``expand`` returns the text for the model, and
    ``shown_text`` the text that the user sees.
    """

    def __init__(
        self, *, placeholder: str = "", file_exists: Callable[[str], bool] | None = None
    ) -> None:
        """Create an empty editor.

        Args:
            placeholder: Text that an empty editor shows.
            file_exists: Function that returns whether a path is an existing file, called for pasted
                paths of images. Without this function, pasted paths remain text.
        """
        self.placeholder = placeholder
        self.prompt = PROMPT
        self._file_exists = file_exists
        self._text = ""
        self._cursor = 0
        self._version = 0
        # The parts of the text that were pasted, in order, and the killed texts that began with a
        # paste.
        self._pasted: tuple[Span, ...] = ()
        self._killed_pastes: set[str] = set()
        self._chips = Chips()
        self._undo = UndoStack()
        self._kills = KillRing()
        self._layout = RowLayout(self._chips)
        self._content_width = _content_width(_WIDTH_BEFORE_FIRST_FRAME)
        # The first row in the last frame, so that the text scrolls only when necessary.
        self._top = 0
        # The action of the previous key, for keys that continue the action: "kill", "yank" or
        # "vertical".
        self._previous_action = ""
        self._action = ""
        # The column that Up and Down aim for, and the start of the text that was yanked last.
        self._goal_column = 0
        self._yank_start = 0

    # The text

    @property
    def text(self) -> str:
        """The text; each chip is one private character."""
        return self._text

    @property
    def cursor(self) -> int:
        """The position of the cursor in the text."""
        return self._cursor

    @cursor.setter
    def cursor(self, position: int) -> None:
        self._undo.close_group()
        self._previous_action = ""
        self._cursor = min(max(position, 0), len(self._text))

    @property
    def version(self) -> int:
        """A number that increases with every change of the text."""
        return self._version

    @property
    def shown_text(self) -> str:
        """The text with the labels of chips, such as ``[paste #1 · 60 lines · 5.0 MB]``."""
        return self._chips.show(self._text)

    @property
    def image_paths(self) -> list[str]:
        """The paths of all images that were ever inserted, also of those that were deleted."""
        return self._chips.image_paths

    @property
    def begins_with_paste(self) -> bool:
        """Whether the first character other than a space was pasted.

        The user may not have read pasted characters, so a pasted character must not mark a command.
        Typed text, completions and text passed to ``set_text`` do not count as pasted.
        """
        first = len(self._text) - len(self._text.lstrip())
        return self._is_pasted(first) or self._chips.find(self._text[first : first + 1]) is not None

    def _is_pasted(self, position: int) -> bool:
        return any(start <= position < end for start, end in self._pasted)

    @property
    def enter_inserts_newline(self) -> bool:
        r"""Whether Enter inserts a newline, which requires a backslash before the cursor.

        Two backslashes (``\\``) are ordinary text.
        """
        position = self._cursor
        while position > 0 and self._text[position - 1] == "\\":
            position -= 1
        return (self._cursor - position) % 2 == 1

    def expand(self) -> str:
        """Return the text with chips replaced by pasted text and image paths."""
        return self._chips.expand(self._text)

    def insert(self, text: str) -> None:
        """Insert text at the cursor, without control characters."""
        self.replace(self._cursor, self._cursor, text)

    def replace(self, start: int, end: int, text: str) -> None:
        """Replace part of the text, for example with a completion, and move the cursor after it."""
        self._previous_action = ""
        self._edit(start, end, self._chips.clean(text))

    def set_text(self, text: str, *, is_pasted: bool = False) -> None:
        """Replace the whole text and move the cursor to its end. This can be undone.

        Args:
            text: The new text.
            is_pasted: Whether the new text begins with pasted text; see ``begins_with_paste``.
        """
        self._previous_action = ""
        self._edit(0, len(self._text), self._chips.clean(text), is_pasted=is_pasted)

    def clear(self) -> str:
        """Remove the text, without undo, and return it as ``expand`` does."""
        text = self.expand()
        self._text = ""
        self._pasted = ()
        self._cursor = 0
        self._top = 0
        self._version += 1
        self._previous_action = ""
        self._undo.clear()
        self._chips.keep_only(self._kills.texts)
        self._layout.forget()
        return text

    def attach_image(self, path: str, name: str = "") -> None:
        """Insert an image as a chip.

        Args:
            path: The file.
            name: The name to show; by default, the file name.
        """
        self._previous_action = ""
        self._insert_images([path], name)

    # Keys

    def handle(self, key: Input) -> bool:
        """Handle a key that edits the text or moves the cursor; return whether it was used.

        Unused keys include Enter (unless it inserts a newline), Tab, Esc, Up in the first row, Down
        in the last row, Ctrl-D in an empty editor, and an empty paste, which some terminals send
        when the clipboard contains an image.
        """
        self._action = ""
        if isinstance(key, Paste):
            used = self._paste(key.text)
        elif isinstance(key, Key):
            used = self._handle_key(key)
        else:
            return False
        self._previous_action = self._action
        return used

    def _handle_key(self, key: Key) -> bool:
        if key.name == "text":
            self._edit(self._cursor, self._cursor, clean_text(key.text), "typing")
            return True
        command = _COMMANDS.get(key.name)
        if command is None:
            # Shift selects text elsewhere. Terminals handle Ctrl+Shift with letters themselves.
            is_letter = key.name.startswith("ctrl-shift-") and len(key.name) == len("ctrl-shift-x")
            command = None if is_letter else _COMMANDS.get(key.name.replace("shift-", ""))
        return command is not None and command(self)

    def _paste(self, pasted: str) -> bool:
        if self._file_exists is not None:
            paths = find_image_paths(pasted, self._file_exists)
            if paths:
                self._insert_images(paths)
                return True
        text = clean_text(pasted)
        if is_long(text):
            text = self._chips.add_paste(text)
        self._edit(self._cursor, self._cursor, text, is_pasted=True)
        return text != ""

    def _insert_images(self, paths: list[str], name: str = "") -> None:
        characters = [self._chips.add_image(path, name) for path in paths]
        text = " ".join(characters) + " "
        before = self._text[self._cursor - 1 : self._cursor]
        if before and not before.isspace():
            text = " " + text
        self._edit(self._cursor, self._cursor, text)

    def _edit(
        self, start: int, end: int, inserted: str, kind: Kind = "other", *, is_pasted: bool = False
    ) -> None:
        """Replace part of the text, with undo."""
        removed = self._text[start:end]
        before = self._pasted
        self._pasted = _edit_spans(before, start, end, len(inserted), is_pasted=is_pasted)
        if removed != inserted:
            change = Change(start, removed, inserted, self._cursor, kind, before, self._pasted)
            self._undo.add(change)
            self._text = self._text[:start] + inserted + self._text[end:]
            self._version += 1
        self._cursor = start + len(inserted)

    def _move(self, position: int) -> bool:
        self._undo.close_group()
        self._cursor = position
        return True

    def _kill(self, start: int, end: int) -> bool:
        """Remove text next to the cursor and keep it for yanking."""
        extends = self._previous_action == "kill"
        before = start < self._cursor
        is_pasted = self._is_pasted(start)
        newest = self._kills.yank()
        if extends and not before and newest:
            # The killed text is added to the newest killed text.
            is_pasted = newest in self._killed_pastes
        self._kills.add(self._text[start:end], before=before, extends=extends)
        if start < end:
            self._mark_killed(self._kills.yank(), is_pasted)
        self._edit(start, end, "")
        self._action = "kill"
        return True

    def _mark_killed(self, killed: str, is_pasted: bool) -> None:
        """Remember whether a killed text began with a paste, in case it is yanked."""
        self._killed_pastes.intersection_update(self._kills.texts)
        self._killed_pastes.discard(killed)
        if is_pasted:
            self._killed_pastes.add(killed)

    def _line_start(self) -> int:
        return self._text.rfind("\n", 0, self._cursor) + 1

    def _line_end(self) -> int:
        end = self._text.find("\n", self._cursor)
        return len(self._text) if end < 0 else end

    def _word_start(self, *, spaced: bool = False) -> int:
        start = word_start(self._text, self._cursor, spaced=spaced)
        # The position may be inside a grapheme, such as the parts of an emoji.
        return previous_boundary(self._text, start + 1) if start < self._cursor else start

    def _word_end(self) -> int:
        end = word_end(self._text, self._cursor)
        if end >= len(self._text):
            return len(self._text)
        start = previous_boundary(self._text, end + 1)
        return end if start == end else next_boundary(self._text, start)

    # Commands; each of them returns whether the key was used.

    def _enter(self) -> bool:
        if not self.enter_inserts_newline:
            return False
        self._edit(self._cursor - 1, self._cursor, "\n")
        return True

    def _insert_newline(self) -> bool:
        self._edit(self._cursor, self._cursor, "\n", "typing")
        return True

    def _left(self) -> bool:
        return self._move(previous_boundary(self._text, self._cursor))

    def _right(self) -> bool:
        return self._move(next_boundary(self._text, self._cursor))

    def _to_line_start(self) -> bool:
        return self._move(self._line_start())

    def _to_line_end(self) -> bool:
        return self._move(self._line_end())

    def _to_text_start(self) -> bool:
        return self._move(0)

    def _to_text_end(self) -> bool:
        return self._move(len(self._text))

    def _word_left(self) -> bool:
        return self._move(self._word_start())

    def _word_right(self) -> bool:
        return self._move(self._word_end())

    def _up(self) -> bool:
        row = self._layout.row_at(self._text, self._cursor, self._content_width)
        target = self._layout.row_before(self._text, row, self._content_width)
        return self._move_to_row(row, target)

    def _down(self) -> bool:
        row = self._layout.row_at(self._text, self._cursor, self._content_width)
        target = self._layout.row_after(self._text, row, self._content_width)
        return self._move_to_row(row, target)

    def _move_to_row(self, row: EditorRow, target: EditorRow | None) -> bool:
        if target is None:
            return False
        # When the cursor passes through a short row, it keeps the column in which the movement
        # began.
        if self._previous_action != "vertical":
            self._goal_column = row.column_of(self._cursor)
        self._action = "vertical"
        return self._move(target.position_at(self._goal_column))

    def _backspace(self) -> bool:
        start = previous_boundary(self._text, self._cursor)
        self._edit(start, self._cursor, "", "backspace")
        return True

    def _delete(self) -> bool:
        end = next_boundary(self._text, self._cursor)
        cursor = self._cursor
        self._edit(cursor, end, "", "delete")
        return True

    def _delete_or_leave(self) -> bool:
        """Delete a character; in an empty editor, Ctrl-D means end of input."""
        return self._text != "" and self._delete()

    def _kill_to_line_end(self) -> bool:
        end = self._line_end()
        if end == self._cursor:
            end = min(end + 1, len(self._text))
        return self._kill(self._cursor, end)

    def _kill_to_line_start(self) -> bool:
        start = self._line_start()
        if start == self._cursor:
            start = max(start - 1, 0)
        return self._kill(start, self._cursor)

    def _kill_spaced_word_left(self) -> bool:
        return self._kill(self._word_start(spaced=True), self._cursor)

    def _kill_word_left(self) -> bool:
        return self._kill(self._word_start(), self._cursor)

    def _kill_word_right(self) -> bool:
        return self._kill(self._cursor, self._word_end())

    def _yank(self) -> bool:
        self._yank_start = self._cursor
        text = self._kills.yank()
        is_pasted = text in self._killed_pastes
        self._edit(self._cursor, self._cursor, text, is_pasted=is_pasted)
        self._action = "yank"
        return True

    def _yank_older(self) -> bool:
        """Replace the text that was just yanked with the text that was killed before it."""
        if self._previous_action == "yank":
            text = self._kills.rotate()
            is_pasted = text in self._killed_pastes
            self._edit(self._yank_start, self._cursor, text, is_pasted=is_pasted)
            self._action = "yank"
        return True

    def _transpose(self) -> bool:
        """Transpose the characters around the cursor, or the last two characters in a line."""
        end = next_boundary(self._text, self._cursor)
        if self._cursor == self._line_end():
            end = self._cursor
        middle = previous_boundary(self._text, end)
        start = previous_boundary(self._text, middle)
        first = self._text[start:middle]
        second = self._text[middle:end]
        if first and second and "\n" not in first + second:
            self._edit(start, end, second + first)
        return True

    def _undo_change(self) -> bool:
        change = self._undo.undo()
        if change is not None:
            self._exchange(change.start, change.inserted, change.removed)
            self._pasted = change.pasted_before
            self._cursor = change.cursor
        return True

    def _redo_change(self) -> bool:
        change = self._undo.redo()
        if change is not None:
            self._exchange(change.start, change.removed, change.inserted)
            self._pasted = change.pasted_after
            self._cursor = change.start + len(change.inserted)
        return True

    def _exchange(self, start: int, old: str, new: str) -> None:
        self._text = self._text[:start] + new + self._text[start + len(old) :]
        self._version += 1

    # What is shown

    def rows(self, width: int, max_rows: int, theme: Theme) -> EditorRows:
        """Return the rows to show.

        Args:
            width: The number of columns.
            max_rows: Maximum number of rows.
            theme: The colors.
        """
        self._content_width = _content_width(width)
        indent = _PROMPT_WIDTH if width >= _MIN_WIDTH_FOR_PROMPT else 0
        if not self._text:
            return self._empty_rows(width, indent, theme)
        shown, cursor_row = self._visible_rows(max(max_rows, 1))
        self._top = shown[0].start
        rows = []
        for index, row in enumerate(shown):
            is_last = index == len(shown) - 1
            hidden_above = index == 0 and row.start > 0
            hidden_below = is_last and (row.wraps or row.end < len(self._text))
            prefix = self._prefix(row, hidden_above, hidden_below, theme) if indent else ""
            rows.append(prefix + row.paint(theme))
        column = indent + shown[cursor_row].column_of(self._cursor)
        return EditorRows(rows, cursor_row, min(column, max(width - 1, 0)))

    def _empty_rows(self, width: int, indent: int, theme: Theme) -> EditorRows:
        placeholder = one_line(self.placeholder, self._content_width)
        prompt = theme.paint(self.prompt, "prompt") if indent else ""
        row = prompt + theme.paint(placeholder, "dim")
        return EditorRows([row], 0, min(indent, max(width - 1, 0)))

    def _prefix(self, row: EditorRow, above: bool, below: bool, theme: Theme) -> str:
        """Return the two-column prefix of a row: the prompt, or a mark for hidden rows."""
        if above or below:
            mark = "↕ " if above and below else "↑ " if above else "↓ "
            return theme.paint(mark, "dim")
        if row.start == 0:
            return theme.paint(self.prompt, "prompt")
        return " " * _PROMPT_WIDTH

    def _visible_rows(self, max_rows: int) -> tuple[list[EditorRow], int]:
        """Return the visible rows, and the index of the row with the cursor."""
        width = self._content_width
        current = self._layout.row_at(self._text, self._cursor, width)
        rows = [current]
        while len(rows) < max_rows:
            above = self._layout.row_before(self._text, rows[-1], width)
            if above is None:
                break
            rows.append(above)
        rows.reverse()
        cursor = len(rows) - 1
        limit = cursor + max_rows
        while len(rows) < limit:
            below = self._layout.row_after(self._text, rows[-1], width)
            if below is None:
                break
            rows.append(below)
        first = 0
        for index, row in enumerate(rows):
            if row.start <= self._top:
                first = index
        # The first visible row stays the same, unless the cursor would not be visible or rows at
        # the end would be empty.
        first = min(first, cursor, max(len(rows) - max_rows, 0))
        return rows[first : first + max_rows], cursor - first


def _edit_spans(
    spans: tuple[Span, ...], start: int, end: int, length: int, *, is_pasted: bool
) -> tuple[Span, ...]:
    """Return the pasted spans after replacing ``[start, end)`` with ``length`` characters."""
    if not spans and not is_pasted:
        return spans
    shift = length - (end - start)
    edited = []
    for first, last in spans:
        if first < start:
            edited.append((first, min(last, start)))
        if last > end:
            edited.append((max(first, end) + shift, last + shift))
    if is_pasted and length:
        edited.append((start, start + length))
    return tuple(sorted(edited))


def _content_width(width: int) -> int:
    """Return the number of columns for text; one column is reserved for the cursor."""
    indent = _PROMPT_WIDTH if width >= _MIN_WIDTH_FOR_PROMPT else 0
    return max(width - indent - 1, 1)


_COMMANDS: dict[str, Callable[[Editor], bool]] = {
    "enter": Editor._enter,
    "alt-enter": Editor._insert_newline,
    "shift-enter": Editor._insert_newline,
    "ctrl-j": Editor._insert_newline,
    "left": Editor._left,
    "ctrl-b": Editor._left,
    "right": Editor._right,
    "ctrl-f": Editor._right,
    "up": Editor._up,
    "ctrl-p": Editor._up,
    "down": Editor._down,
    "ctrl-n": Editor._down,
    "home": Editor._to_line_start,
    "ctrl-a": Editor._to_line_start,
    "end": Editor._to_line_end,
    "ctrl-e": Editor._to_line_end,
    "ctrl-home": Editor._to_text_start,
    "alt-<": Editor._to_text_start,
    "ctrl-end": Editor._to_text_end,
    "alt->": Editor._to_text_end,
    "alt-b": Editor._word_left,
    "alt-left": Editor._word_left,
    "ctrl-left": Editor._word_left,
    "alt-f": Editor._word_right,
    "alt-right": Editor._word_right,
    "ctrl-right": Editor._word_right,
    "backspace": Editor._backspace,
    "ctrl-h": Editor._backspace,
    "delete": Editor._delete,
    "ctrl-d": Editor._delete_or_leave,
    "ctrl-k": Editor._kill_to_line_end,
    "ctrl-u": Editor._kill_to_line_start,
    "ctrl-w": Editor._kill_spaced_word_left,
    "alt-backspace": Editor._kill_word_left,
    "ctrl-backspace": Editor._kill_word_left,
    "ctrl-alt-h": Editor._kill_word_left,
    "alt-d": Editor._kill_word_right,
    "alt-delete": Editor._kill_word_right,
    "ctrl-delete": Editor._kill_word_right,
    "ctrl-y": Editor._yank,
    "alt-y": Editor._yank_older,
    "ctrl-t": Editor._transpose,
    "ctrl-_": Editor._undo_change,
    "ctrl-/": Editor._undo_change,
    "alt-_": Editor._redo_change,
    "ctrl-alt-z": Editor._redo_change,
    "ctrl-shift-z": Editor._redo_change,
}
