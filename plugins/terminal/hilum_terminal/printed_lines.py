"""A file object for what plugins print, which must not disturb the terminal."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable

import trio

# Number of characters after which a line is passed on although it is not complete.
MAX_LINE = 10_000


class PrintedLines(io.TextIOBase):
    """A file object for plugins' output, which is passed on line by line.

    Plugins may print from other threads, so the lines are passed on in trio's thread.

    Args:
        say: Function to call with each line.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        # The beginning of a line. As in every text file, all threads write to the same line.
        self._rest = ""
        self._lock = threading.Lock()
        self._token = trio.lowlevel.current_trio_token()

    def write(self, text: str) -> int:
        """Write the complete lines of a text, and keep the rest until its line is complete."""
        with self._lock:
            *lines, rest = (self._rest + text).split("\n")
            while len(rest) > MAX_LINE:
                lines.append(rest[:MAX_LINE])
                rest = rest[MAX_LINE:]
            self._rest = rest
            for line in lines:
                if line.strip():
                    self._token.run_sync_soon(self._say, line)
        return len(text)

    def finish(self) -> None:
        """Write the last line if it has no end; must be called in trio's thread."""
        with self._lock:
            rest = self._rest
            self._rest = ""
        if rest.strip():
            self._say(rest)

    def writable(self) -> bool:
        """Return ``True``."""
        return True
