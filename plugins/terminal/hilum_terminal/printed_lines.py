"""A file object for what plugins print, which must not disturb the terminal."""

from __future__ import annotations

import io
from collections.abc import Callable

import trio


class PrintedLines(io.TextIOBase):
    """A file object for plugins' output, which is passed on line by line.

    Plugins may print from other threads, so the lines are passed on in trio's thread.

    Args:
        say: Function to call with each line.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._rest = ""
        # Plugins may print from other threads.
        self._token = trio.lowlevel.current_trio_token()

    def write(self, text: str) -> int:
        """Write the complete lines of a text, and keep the rest until its line is complete."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            if line.strip():
                self._token.run_sync_soon(self._say, line)
        return len(text)

    def writable(self) -> bool:
        """Return ``True``."""
        return True
