"""Writes to terminals and pipes.

Untrusted text is made harmless, and writing never blocks the event loop.
"""

from __future__ import annotations

import errno
import io
import os
import re
import select
import sys
import unicodedata

import hilum.command

from hilum_cli import exits

# Color sequences from test runners and compilers are removed silently.
_COLOUR = r"\x1b\[[0-9;:]*m"
_CONTROL = "[\x00-\x08\x0b-\x1f\x7f-\x9f]"
SHOW_CURSOR = b"\x1b[?25h"


def escape_terminal(text: str) -> str:
    """Escape text from a model or a tool so that it is harmless on a terminal.

    Colors are removed; other control sequences are shown in escaped form.
    """
    if text.isascii() and text.isprintable():
        return text
    return hilum.command.escape_terminal(re.sub(_COLOUR, "", text.replace("\r\n", "\n")))


def without_escapes(text: str) -> str:
    """Return text for a pipe whose output may end up on a terminal.

    Unlike ``escape_terminal``, it keeps characters that are harmless but look unusual.
    """
    if text.isascii() and text.isprintable():
        return text
    plain = re.sub(_COLOUR, "", text.replace("\r\n", "\n"))
    return re.sub(_CONTROL, lambda match: match[0].encode("unicode_escape").decode(), plain)


def line(text: str, width: int = 100) -> str:
    """Return the first nonblank line, escaped and truncated to ``width`` columns."""
    first = next((part for part in text.splitlines() if part.strip()), "").strip()
    return cut(escape_terminal(first).replace("\t", " "), width)


def cells(text: str) -> int:
    """Return the number of columns that a text occupies.

    A Chinese character occupies two columns; a combining accent occupies none.
    """
    if text.isascii():
        return len(text)
    return sum(map(_cells, text))


def _cells(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def cut(text: str, width: int) -> str:
    """Truncate a line to a number of columns."""
    if cells(text) <= width:
        return text
    # One column is reserved for the ellipsis.
    used = 1
    kept = ""
    for char in text:
        used += _cells(char)
        if used > width:
            break
        kept += char
    return kept + "…"


def wrap(text: str, width: int, indent: str = "") -> str:
    """Wrap lines to a maximum number of columns.

    Lines are wrapped between words and between Chinese characters.
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
    """Return the width of the terminal in columns, 80 if it is unknown."""
    try:
        return os.get_terminal_size(fd).columns or 80
    except OSError:
        return 80


def is_terminal(fd: int) -> bool:
    """Return whether a file descriptor is open and refers to a terminal."""
    try:
        return os.isatty(fd)
    except OSError:
        return False


class Out:
    """Standard output or standard error, for text and for bytes.

    If the reader closes the output, the stream records this and raises no exception.

    Args:
        fd: 1 or 2.

    Attributes:
        gone: Whether the reader has closed the output (``hilum … | head``, a closed terminal).
        error: Any other reason why nothing can be written, such as a full disk.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.terminal = is_terminal(fd)
        self.gone = False
        self.error: OSError | None = None

    async def write(self, data: bytes) -> None:
        """Write all data.

        Output that may have to wait for a slow reader is written in a thread, which is abandoned on
        cancellation.
        """
        if self._ready(len(data)):
            self.put(data)
            return
        import trio

        await trio.to_thread.run_sync(self.put, data, abandon_on_cancel=True)

    def _ready(self, size: int) -> bool:
        # A pipe that select reports as writable accepts at least `PIPE_BUF` bytes without blocking.
        if size > select.PIPE_BUF if hasattr(select, "PIPE_BUF") else True:
            return False
        try:
            return bool(select.select([], [self.fd], [], 0)[1])
        except (OSError, ValueError):
            return True

    def put(self, data: bytes) -> None:
        """Write all data now, blocking as long as necessary."""
        view = memoryview(data)
        while view and not self.gone and self.error is None:
            try:
                # A write to a pipe or terminal may be partial.
                view = view[os.write(self.fd, view) :]
            # Another program that shares the terminal may have made it nonblocking.
            except BlockingIOError:
                select.select([], [self.fd], [])
            except BrokenPipeError:
                self.gone = True
            except OSError as error:
                # A closed terminal raises EIO; descriptor 2 may have been closed from the start.
                if self.fd == 2 or (self.terminal and error.errno == errno.EIO):
                    self.gone = True
                else:
                    self.error = error

    def say(self, text: str) -> None:
        """Write hilum's own text and a newline immediately."""
        self.put((text + "\n").encode(errors="backslashreplace"))

    def say_json(self, data: object) -> None:
        """Write data as JSON and a newline immediately."""
        self.say(hilum.command.format_json(data))

    def finish(self, code: int = exits.COMPLETED) -> int:
        """Return the exit code of a command that has written all its output.

        Args:
            code: The exit code if the output could be written.

        Raises:
            HilumError: ``"E_FAILED"``: the output could not be written, for example because the
                disk is full.
        """
        if self.error is not None:
            raise hilum.command.output_error(self.error)
        if self.gone:
            quiet_exit()
            return exits.BROKEN_PIPE
        return code


def report(message: str, *, hint: str = "", code: str = "") -> None:
    """Write an error message to standard error."""
    where = f"hilum: {code}: " if code else "hilum: "
    Out(2).say(escape_terminal(where + message + (f"\n{hint}" if hint else "")))


def quiet_exit() -> None:
    """Prevent Python from reporting errors when it flushes closed outputs.

    Call this if the reader has closed the pipe or the terminal.
    """
    for stream, fd in ((sys.stdout, 1), (sys.stderr, 2)):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            # Python flushes the outputs again at exit, which now succeeds.
            os.dup2(os.open(os.devnull, os.O_WRONLY), fd)


class TerminalFile(io.TextIOBase):
    """A terminal as a text file, for libraries that write to text files.

    If the terminal is closed, the object records this and raises no exception.

    Args:
        out: The stream to which the text is written.
    """

    encoding = "utf-8"

    def __init__(self, out: Out) -> None:
        self._out = out

    def write(self, text: str) -> int:
        """Write a string."""
        self._out.put(text.encode(errors="backslashreplace"))
        return len(text)

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._out.fd

    def isatty(self) -> bool:
        """Return whether the output is a terminal."""
        return self._out.terminal

    def writable(self) -> bool:
        """Return ``True``."""
        return True
