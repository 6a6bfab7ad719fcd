"""Writing to terminals and pipes: foreign text made harmless, and nothing that can block the event
loop.
"""

from __future__ import annotations

import errno
import io
import os
import re
import select
import sys
import unicodedata

import hilum_commandline

# Colours of test runners and compilers are dropped without a trace.
_COLOUR = r"\x1b\[[0-9;:]*m"
_CONTROL = "[\x00-\x08\x0b-\x1f\x7f-\x9f]"
SHOW_CURSOR = b"\x1b[?25h"


def neutral(text: str) -> str:
    """Make text from a model or a tool harmless for a terminal: colours are dropped, what else it
    would obey is shown.
    """
    if text.isascii() and text.isprintable():
        return text
    return hilum_commandline.neutral(re.sub(_COLOUR, "", text.replace("\r\n", "\n")))


def without_escapes(text: str) -> str:
    """Return text for a pipe that may end at a terminal: as ``neutral``, but characters that only
    look odd stay as they are.
    """
    if text.isascii() and text.isprintable():
        return text
    plain = re.sub(_COLOUR, "", text.replace("\r\n", "\n"))
    return re.sub(_CONTROL, lambda match: match[0].encode("unicode_escape").decode(), plain)


def line(text: str, width: int = 100) -> str:
    """Return the first line of a text that says something, neutralised and cut to ``width``
    columns.
    """
    first = next((part for part in text.splitlines() if part.strip()), "").strip()
    return cut(neutral(first).replace("\t", " "), width)


def cells(text: str) -> int:
    """Count the columns that a text takes: a Chinese character takes two, an accent of its own
    none.
    """
    if text.isascii():
        return len(text)
    return sum(map(_cells, text))


def _cells(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def cut(text: str, width: int) -> str:
    """Cut a line to a number of columns."""
    if cells(text) <= width:
        return text
    used = 1
    kept = ""
    for char in text:
        used += _cells(char)
        if used > width:
            break
        kept += char
    return kept + "…"


def wrap(text: str, width: int, indent: str = "") -> str:
    """Break lines between words, and between Chinese characters, so that no line is wider than a
    number of columns.
    """
    lines = []
    for part in text.split("\n"):
        row = indent
        for word in re.findall(r"\s+|[^\s\u2e80-\uffef]+|[\u2e80-\uffef]", part):
            if row.strip() and cells(row) + cells(word) > width:
                lines.append(row.rstrip())
                row = indent
                word = word.lstrip()
            row += word
        lines.append(row.rstrip())
    return "\n".join(lines)


def columns(fd: int = 2) -> int:
    """Return how wide the terminal is, 80 where nobody knows."""
    try:
        return os.get_terminal_size(fd).columns or 80
    except OSError:
        return 80


def is_terminal(fd: int) -> bool:
    """Return whether a descriptor is open and a terminal."""
    try:
        return os.isatty(fd)
    except OSError:
        return False


class Out:
    """Standard output or standard error, for text and for bytes.

    A reader that went away is noted, not raised.

    Args:
        fd: 1 or 2.

    Attributes:
        gone: Nobody reads any more (``hilum … | head``, a closed terminal).
        error: Why nothing can be written, where that is for another reason (disk full).
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.terminal = is_terminal(fd)
        self.gone = False
        self.error: OSError | None = None

    async def write(self, data: bytes) -> None:
        """Write everything.

        What might have to wait for a slow reader is written in a thread, which cancellation leaves.
        """
        if self._ready(len(data)):
            self.put(data)
            return
        import trio

        await trio.to_thread.run_sync(self.put, data, abandon_on_cancel=True)

    def _ready(self, size: int) -> bool:
        # A pipe that select calls writable takes at least this much without blocking.
        if size > select.PIPE_BUF if hasattr(select, "PIPE_BUF") else True:
            return False
        try:
            return bool(select.select([], [self.fd], [], 0)[1])
        except (OSError, ValueError):
            return True

    def put(self, data: bytes) -> None:
        """Write everything now, however long it takes."""
        view = memoryview(data)
        while view and not self.gone and self.error is None:
            try:
                view = view[os.write(self.fd, view) :]
            except BlockingIOError:
                select.select([], [self.fd], [])
            except BrokenPipeError:
                self.gone = True
            except OSError as error:
                # A terminal that was closed gives EIO; descriptor 2 may be closed from the start.
                if self.fd == 2 or (self.terminal and error.errno == errno.EIO):
                    self.gone = True
                else:
                    self.error = error

    def say(self, text: str) -> None:
        """Write text of our own and a newline now."""
        self.put((text + "\n").encode(errors="backslashreplace"))


def report(message: str, *, hint: str = "", code: str = "") -> None:
    """Tell the user of an error on standard error."""
    where = f"hilum: {code}: " if code else "hilum: "
    Out(2).say(neutral(where + message + (f"\n{hint}" if hint else "")))


def quiet_exit() -> None:
    """Keep Python from complaining when it flushes outputs that nobody reads any more: a closed
    pipe or terminal.
    """
    for stream, fd in ((sys.stdout, 1), (sys.stderr, 2)):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), fd)


class TerminalFile(io.TextIOBase):
    """A terminal as a text file, for libraries that write to one.

    A terminal that was closed is noted, not raised.

    Args:
        out: Where the text goes.
    """

    encoding = "utf-8"

    def __init__(self, out: Out) -> None:
        self._out = out

    def write(self, text: str) -> int:
        """Write a text."""
        self._out.put(text.encode(errors="backslashreplace"))
        return len(text)

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._out.fd

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        return self._out.terminal

    def writable(self) -> bool:
        """Return ``True``."""
        return True
