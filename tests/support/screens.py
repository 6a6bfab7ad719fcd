"""A terminal that interprets what a program writes, as a person would see it."""

import copy
import fcntl
import os
import struct
import termios
from collections.abc import Callable
from typing import Any

import pyte
import trio

# Seconds between two reads of a slow terminal.
SLOW_READ_SECONDS = 0.01


class AlternatingScreen(pyte.HistoryScreen):
    """A screen with an alternate screen (mode 1049), which pyte lacks.

    Attributes:
        is_alternate: Whether the alternate screen is shown.
    """

    is_alternate = False

    def set_mode(self, *modes: int, **options: bool) -> None:
        """Switch modes on; 1049 keeps the normal screen and shows an empty one."""
        if 1049 in modes and options.get("private") and not self.is_alternate:
            self.is_alternate = True
            self._normal = (copy.deepcopy(self.buffer), copy.copy(self.cursor), self.history)
            self.erase_in_display(2)
            self.history = self.history._replace(top=self.history.top.copy())
        super().set_mode(*modes, **options)

    def reset_mode(self, *modes: int, **options: bool) -> None:
        """Switch modes off; 1049 brings back the normal screen."""
        if 1049 in modes and options.get("private") and self.is_alternate:
            self.is_alternate = False
            self.buffer, self.cursor, self.history = self._normal
            self.dirty.update(range(self.lines))
        super().reset_mode(*modes, **options)


class Screen:
    """The screen and the scrollback of a program on a pseudo-terminal.

    Args:
        descriptor: Our end of the pseudo-terminal.
        other_end: The end that the program uses.
        process: The program.
        columns: Width of the terminal.
        lines: Height of the terminal.
        rate: Bytes a second that the terminal reads, like a slow connection; None for no limit.

    Attributes:
        raw: All bytes that the program wrote.
        modes: The settings of the terminal before the program started.
    """

    def __init__(
        self,
        descriptor: int,
        other_end: int,
        process: Any,
        columns: int,
        lines: int,
        rate: float | None = None,
    ) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.process = process
        self.raw = bytearray()
        self.modes = termios.tcgetattr(other_end)
        self._other_end = other_end
        self._rate = rate
        self._screen = AlternatingScreen(columns, lines, history=100_000, ratio=0.5)
        self._stream = pyte.ByteStream(self._screen)
        self._changed = trio.Event()
        self.closed = False

    async def read(self) -> None:
        """Interpret what the program writes, until it closes the terminal."""
        size = 65536
        read_at = trio.current_time()
        while True:
            await trio.lowlevel.wait_readable(self.descriptor)
            if self._rate is not None:
                # A slow connection carries nothing in advance while nothing is sent.
                read_at = max(read_at + SLOW_READ_SECONDS, trio.current_time() - SLOW_READ_SECONDS)
                await trio.sleep_until(read_at)
                size = int(self._rate * SLOW_READ_SECONDS)
            try:
                data = os.read(self.descriptor, size)
            except BlockingIOError:
                continue
            except OSError:  # EIO: the program has ended
                data = b""
            if not data:
                self.closed = True
                self._changed.set()
                return
            self.raw += data
            self._stream.feed(data)
            self._changed.set()
            self._changed = trio.Event()

    @property
    def current_modes(self) -> list[Any]:
        """The settings of the terminal now."""
        return termios.tcgetattr(self._other_end)

    @property
    def rows(self) -> list[str]:
        """The rows on the screen, without trailing blanks."""
        # pyte's own `display` fails if one half of a wide letter was overwritten.
        return [self._join(self._screen.buffer[line]) for line in range(self._screen.lines)]

    @property
    def is_alternate(self) -> bool:
        """Whether the alternate screen is shown."""
        return self._screen.is_alternate

    @property
    def scrollback(self) -> list[str]:
        """The rows that have scrolled off the screen."""
        return [self._join(line) for line in self._screen.history.top]

    def _join(self, line: Any) -> str:
        return "".join(line[column].data for column in range(self._screen.columns)).rstrip()

    @property
    def text(self) -> str:
        """Everything from the first row of the scrollback to the last one of the screen."""
        return "\n".join([*self.scrollback, *self.rows]).rstrip()

    @property
    def cursor(self) -> tuple[int, int]:
        """The column and row of the cursor."""
        return self._screen.cursor.x, self._screen.cursor.y

    async def wait_until(
        self, holds: Callable[[], bool], what: str = "", *, seconds: float = 20
    ) -> None:
        """Wait until something is true of the screen.

        Raises:
            AssertionError: It is not, within 20 seconds, or the program has ended.
        """
        with trio.move_on_after(seconds):
            while not holds():
                if self.process.returncode is not None:
                    # What it wrote last may not be read yet.
                    await trio.sleep(0.1)
                    break
                with trio.move_on_after(0.1):
                    await self._changed.wait()
        if not holds():
            raise AssertionError(f"never: {what}\n--- the screen ---\n{self.text}")

    async def wait_for(self, text: str) -> None:
        """Wait until a text is on the screen or in the scrollback."""
        await self.wait_until(lambda: text in self.text, text)

    async def end(self) -> int:
        """Wait for the end of the program, and return its exit code."""
        with trio.fail_after(20):
            code: int = await self.process.wait()
        await trio.sleep(0.05)
        return code

    async def wait_gone(self, text: str) -> None:
        """Wait until a text is no longer on the screen."""
        await self.wait_until(lambda: text not in "\n".join(self.rows), f"{text} is gone")

    async def type(self, keys: str) -> None:
        """Press keys, given as the bytes that a terminal sends for them."""
        data = keys.encode()
        while data:
            try:
                data = data[os.write(self.descriptor, data) :]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self.descriptor)

    def resize(self, columns: int, lines: int) -> None:
        """Change the size of the window."""
        self._screen.resize(lines, columns)
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, size)
