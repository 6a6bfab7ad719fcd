"""Prepares the output of a command for a terminal: harmless sequences only, and a bounded amount."""

from __future__ import annotations

import re
from collections import deque

from hilum.command import escape_terminal

MAX_WAITING = 1_000_000
"""Maximum number of characters that wait for a terminal that reads too slowly."""
MAX_TAKEN = 65_536
"""Number of characters to filter at once, unless one piece is longer."""
MAX_STRING = 4096
"""Number of characters after which a sequence with a text counts as ended, so that one that never
ends does not hide the rest of the output."""
MAX_SEQUENCE = 64
"""Number of characters of an incomplete sequence that wait for the rest."""
MAX_LINE = 4096
"""Number of characters in which a line may end, for output to continue with a whole line."""
RESET = "\x1b[0m"
"""The sequence that ends all colors."""

# Characters that end a sequence with a text; some of them begin the next sequence.
_STRING_ENDS = "\x07\x18\x1a\x1b\x9c"
_STRING = rf"[^{_STRING_ENDS}]{{0,{MAX_STRING}}}(?:\x07|\x1b\\|\x9c)?"
_STRING_START = re.compile(r"\x1b[\]PX^_]|[\x90\x98\x9d-\x9f]")
# One substitution without a function removes 20 MB/s of sequences, three times as much as a search
# for one sequence after another.
_HARMFUL = re.compile(
    r"\x1b(?!\[[0-9;:]*[mK])"  # all but colors, and erasing in the line
    rf"(?:[\]PX^_]{_STRING}"  # window titles, links, the clipboard
    r"|\[[0-?]*[ -/]*[@-~]"  # movements, modes, and questions to the terminal
    r"|[ -/]*[0-~])?"
    rf"|[\x90\x98\x9d-\x9f]{_STRING}"
    r"|\x9b(?:[0-?]*[ -/]*[@-~])?"
    r"|[\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x8f\x91-\x97\x99\x9a\x9c]+"
)
_INCOMPLETE = re.compile(r"(?:\x1b(?:\[[0-?]*)?|\x9b[0-?]*)[ -/]*\Z")
# Progress bars use the first two to write a line again; they cannot change other lines. Escapes are
# part of colors.
_KEPT = re.compile(r"([\b\r\x1b]+)")
_LINE_END = re.compile(r"\r?\n|\r")


class TerminalFilter:
    """Removes what could harm a terminal from output that arrives in pieces.

    Colors stay, and so do the characters with which a program writes its last line again. All other
    sequences are removed: they could change earlier lines, the title or the clipboard, or make the
    terminal type an answer. Invisible characters, and those that change the direction of text, are
    escaped.
    """

    def __init__(self) -> None:
        self._rest = ""

    def reset(self) -> None:
        """Forget the beginning of a sequence, because output after it was left out."""
        self._rest = ""

    def filter(self, text: str) -> str:
        """Return what is shown of the next piece of output."""
        text = self._rest + text
        # Most text is printable, and needs no search.
        if text.replace("\n", "").replace("\t", "").isprintable():
            self._rest = ""
            return _escape(text)
        end = _find_incomplete(text)
        self._rest = text[end:]
        return _escape(_HARMFUL.sub("", text[:end]))


def _find_incomplete(text: str) -> int:
    """Return where a sequence begins that the text does not complete; the length if there is none."""
    size = len(text)
    found = _INCOMPLETE.search(text, max(size - MAX_SEQUENCE, 0))
    if found is not None:
        size = found.start()
    # A sequence with a text that is still open has begun after the last character that ends one.
    position = max(0, *(text.rfind(character, 0, size) for character in _STRING_ENDS))
    while (start := _STRING_START.search(text, position, size)) is not None:
        position = start.end() + MAX_STRING
        if position > size:
            return start.start()
    return size


def _escape(text: str) -> str:
    """Return text in which invisible characters are escaped."""
    if text.isascii():
        return text
    parts = _KEPT.split(text)
    # Every second part is a separator.
    parts[::2] = [escape_terminal(part) for part in parts[::2]]
    return "".join(parts)


class OutputQueue:
    """The output that a terminal has not read yet; if it is too much, the oldest part is left out.

    It is filtered when it is taken, so output that is left out costs no time.

    Attributes:
        left_out: Number of bytes that were left out in total.
    """

    def __init__(self) -> None:
        self.left_out = 0
        self._filter = TerminalFilter()
        self._pieces: deque[str] = deque()
        self._size = 0
        self._missing = 0
        self._is_cut_in_line = False
        self._notice = ""
        self._is_line_open = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._pieces and not self._notice

    def add(self, text: str) -> None:
        """Add output as the command has written it."""
        if not text:
            return
        self._pieces.append(text)
        self._size += len(text)
        while self._size > MAX_WAITING and len(self._pieces) > 1:
            dropped = self._pieces.popleft()
            self._size -= len(dropped)
            self._leave_out(dropped)

    def _leave_out(self, text: str) -> None:
        if text:
            count = len(text.encode(errors="replace"))
            self._missing += count
            self.left_out += count
            self._is_cut_in_line = not text.endswith(("\n", "\r"))

    def add_notice(self, text: str) -> None:
        """Add a line of hilum, which follows all output and has none of its colors."""
        self._notice += f"[{escape_terminal(text)}]\n"

    def take(self) -> bytes:
        """Return the next output, after a line about what was left out before it.

        Returns:
            The filtered output; empty if all that was taken is harmful.
        """
        if not self._pieces:
            text = self._make_notice(self._notice)
            self._notice = ""
            return self._finish(text)
        text = self._pieces.popleft()
        while self._pieces and len(text) + len(self._pieces[0]) <= MAX_TAKEN:
            text += self._pieces.popleft()
        self._size -= len(text)
        if not self._missing:
            return self._finish(self._filter.filter(text))
        self._filter.reset()
        text = self._skip_line(text)
        notice = self._make_notice(f"[{self._missing:,} bytes of output were left out.]\n")
        self._missing = 0
        return self._finish(notice + self._filter.filter(text))

    def _skip_line(self, text: str) -> str:
        """Return output without the rest of a line whose beginning was left out."""
        end = _LINE_END.search(text, 0, MAX_LINE) if self._is_cut_in_line else None
        if end is None:
            return text
        self._leave_out(text[: end.end()])
        return text[end.end() :]

    def _make_notice(self, lines: str) -> str:
        newline = "\n" if self._is_line_open else ""
        return f"{RESET}{newline}{lines}"

    def _finish(self, text: str) -> bytes:
        if text:
            self._is_line_open = not text.endswith("\n")
        return text.encode(errors="replace")
