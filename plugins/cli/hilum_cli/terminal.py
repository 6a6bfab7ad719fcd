"""Writing to terminals and pipes: foreign text made harmless, and nothing that can block the event loop."""

from __future__ import annotations

import os
import re
import select

import hilum_commandline

# Colours of test runners and compilers are dropped without a trace.
_COLOUR = r"\x1b\[[0-9;:]*m"
SHOW_CURSOR = b"\x1b[?25h"


def neutral(text: str) -> str:
    """Make text from a model or a tool harmless for a terminal: colours are dropped, what else it would obey is shown."""
    if text.isascii() and text.isprintable():
        return text
    return hilum_commandline.neutral(re.sub(_COLOUR, "", text.replace("\r\n", "\n")))


def line(text: str, width: int = 100) -> str:
    """Give the first line of a text that says something, neutralised and cut to ``width`` characters."""
    first = next((part for part in text.splitlines() if part.strip()), "").strip()
    first = neutral(first).replace("\t", " ")
    return first if len(first) <= width else first[: width - 1] + "…"


def is_terminal(fd: int) -> bool:
    """Whether a descriptor is open and a terminal."""
    try:
        return os.isatty(fd)
    except OSError:
        return False


class Out:
    """Standard output or standard error, for text and for bytes. A reader that went away is noted, not raised.

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
        """Write everything. What might have to wait for a slow reader is written in a thread, which cancellation leaves."""
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
                self.gone, self.error = self.fd == 2, None if self.fd == 2 else error

    def say(self, text: str) -> None:
        """Write text of our own and a newline now."""
        self.put((text + "\n").encode(errors="backslashreplace"))


def report(message: str, *, hint: str = "", code: str = "") -> None:
    """Tell the user of an error on standard error."""
    where = f"hilum: {code}: " if code else "hilum: "
    Out(2).say(neutral(where + message + (f"\n{hint}" if hint else "")))


def quiet_exit() -> None:
    """Keep Python from complaining when it flushes a standard output that nobody reads."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
