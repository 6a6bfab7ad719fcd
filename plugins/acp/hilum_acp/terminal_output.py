"""Prepares the output of a command for a terminal: harmless sequences only, and a bounded amount."""

from __future__ import annotations

import re
from collections import deque

from hilum.command import escape_terminal

MAX_WAITING = 1_000_000
"""Maximum number of bytes that wait for a terminal that reads too slowly."""
MAX_STRING = 4096
"""Number of characters after which a sequence with a text counts as ended, so that one that never
ends does not hide the rest of the output."""
MAX_SEQUENCE = 64
"""Number of characters of an incomplete sequence that wait for the rest."""
RESET = "\x1b[0m"
"""The sequence that ends all colors."""

_SEQUENCE = re.compile(
    r"(?P<kept>\x1b\[[0-9;:]*[mK])"  # colors, and erasing in the line
    r"|(?P<string>\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])"  # window titles, links, the clipboard
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # movements, modes, and questions to the terminal
    r"|\x1b[ -/]*[0-~]"
    r"|[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
_INCOMPLETE = re.compile(r"(?:\x1b(?:\[[0-?]*)?|\x9b[0-?]*)[ -/]*\Z")
_STRING_END = re.compile(r"\x07|\x1b\\|\x9c|(?=[\x18\x1a\x1b])")
# Progress bars use these two to write a line again. They cannot change other lines.
_LINE_MOVES = re.compile(r"([\b\r]+)")


class TerminalFilter:
    """Removes what could harm a terminal from output that arrives in pieces.

    Colors stay, and so do the characters with which a program writes its last line again. All other
    sequences are removed: they could change earlier lines, the title or the clipboard, or make the
    terminal type an answer. Invisible characters, and those that change the direction of text, are
    escaped.
    """

    def __init__(self) -> None:
        self._rest = ""
        # How many more characters may belong to a sequence with a text; 0 outside of one.
        self._string_left = 0

    def filter(self, text: str) -> str:
        """Return what is shown of the next piece of output."""
        text = self._rest + text
        self._rest = ""
        found = _INCOMPLETE.search(text, max(len(text) - MAX_SEQUENCE, 0))
        if found is not None:
            self._rest = found[0]
            text = text[: found.start()]
        # Most text is printable, and needs no search.
        if not self._string_left and text.replace("\n", "").replace("\t", "").isprintable():
            return _escape(text)
        parts = []
        position = 0
        while position < len(text):
            if self._string_left:
                position = self._skip_string(text, position)
                continue
            match = _SEQUENCE.search(text, position)
            if match is None:
                parts.append(_escape(text[position:]))
                break
            parts.append(_escape(text[position : match.start()]))
            if match["kept"]:
                parts.append(match["kept"])
            elif match["string"]:
                self._string_left = MAX_STRING
            position = match.end()
        return "".join(parts)

    def _skip_string(self, text: str, position: int) -> int:
        """Return where a sequence with a text ends, or the end of the text."""
        limit = min(position + self._string_left, len(text))
        end = _STRING_END.search(text, position, limit + 1)
        if end is not None and end.start() < limit:
            self._string_left = 0
            return end.end()
        self._string_left -= limit - position
        return limit


def _escape(text: str) -> str:
    """Return text in which invisible characters are escaped."""
    if text.isascii():
        return text
    parts = _LINE_MOVES.split(text)
    # Every second part is a separator.
    parts[::2] = [escape_terminal(part) for part in parts[::2]]
    return "".join(parts)


class OutputQueue:
    """The output that a terminal has not read yet; if it is too much, the oldest part is left out.

    Attributes:
        left_out: Number of bytes that were left out in total.
    """

    def __init__(self) -> None:
        self.left_out = 0
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._missing = 0
        self._is_line_open = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._pieces

    def add(self, text: str) -> None:
        """Add filtered output."""
        data = text.encode(errors="replace")
        if not data:
            return
        self._pieces.append(data)
        self._size += len(data)
        while self._size > MAX_WAITING and len(self._pieces) > 1:
            dropped = len(self._pieces.popleft())
            self._size -= dropped
            self._missing += dropped
            self.left_out += dropped

    def add_notice(self, text: str) -> None:
        """Add a line of hilum, without the colors of the output."""
        self.add(f"{RESET}{self._make_break()}[{escape_terminal(text)}]\n")

    def _make_break(self) -> str:
        last = self._pieces[-1] if self._pieces else b""
        is_open = not last.endswith(b"\n") if last else self._is_line_open
        return "\n" if is_open else ""

    def take(self) -> bytes:
        """Return the next piece of output, after a line about what was left out before it."""
        data = self._pieces.popleft()
        self._size -= len(data)
        if self._missing:
            newline = "\n" if self._is_line_open else ""
            text = f"{RESET}{newline}[{self._missing:,} bytes of output were left out.]\n"
            data = text.encode() + data
            self._missing = 0
        self._is_line_open = not data.endswith(b"\n")
        return data
