"""The terminal in its normal mode: line-based input, and plain output without escape sequences.

The terminal itself edits the line that the user types. All input and output goes through a
separate, nonblocking file descriptor, so that a terminal that is slow or stopped with Ctrl-S does
not block the rest of the program.
"""

from __future__ import annotations

import atexit
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any

import trio

from hilum_terminal.attention import BELL
from hilum_terminal.text_width import escape_text
from hilum_terminal.tty import open_terminal

try:
    import termios
except ImportError:  # Windows; open_terminal explains it
    termios = None  # type: ignore[assignment]

READ_SIZE = 65536
MIN_WIDTH = 20


class PlainTerminal:
    """The terminal of this process, without raw mode; an instance is a context manager.

    Args:
        on_line: Function to call with each typed line, without its newline.
        on_end: Function to call when the user types Ctrl-D on an empty line.
        on_lost: Function to call once if the terminal was closed.

    Attributes:
        gone: Whether the terminal was closed.
        is_lent: Whether another program is using the terminal.
    """

    def __init__(
        self,
        *,
        on_line: Callable[[str], None],
        on_end: Callable[[], None],
        on_lost: Callable[[], None],
    ) -> None:
        self.gone = False
        self.is_lent = False
        self._on_line = on_line
        self._on_end = on_end
        self._on_lost = on_lost
        self._fd = -1
        self._partial = b""
        self._output = trio.Lock()
        self._taken_back = trio.Event()
        self._reading: trio.CancelScope | None = None
        # Number of open contexts in which the modes may differ from the user's modes.
        self._changes = 0
        # Number of open contexts in which typed text is not shown.
        self._hidden = 0
        # The user's modes, while they may be changed.
        self._user_modes: list[Any] | None = None

    def __enter__(self) -> PlainTerminal:
        """Open the terminal.

        Raises:
            UsageError: Neither standard output nor standard input is a usable terminal.
        """
        self._fd = open_terminal()
        atexit.register(self._restore_modes)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._restore_modes()
        atexit.unregister(self._restore_modes)
        os.close(self._fd)
        self._fd = -1

    def width(self) -> int:
        """Return the number of columns, at least 20."""
        try:
            columns = os.get_terminal_size(self._fd).columns
        except OSError:
            columns = 0
        # Some terminals do not report their size.
        return max(columns or 80, MIN_WIDTH)

    # --- lines in ---------------------------------------------------------------------------------

    async def read(self) -> None:
        """Read lines and pass them on, until the terminal is closed."""
        while not self.gone:
            while self.is_lent:
                await self._taken_back.wait()
            with trio.CancelScope() as self._reading:
                await trio.lowlevel.wait_readable(self._fd)
            self._reading = None
            self.take_input()

    def take_input(self) -> None:
        """Pass on all lines that have been typed so far, without waiting for more."""
        while not (self.gone or self.is_lent):
            try:
                data = os.read(self._fd, READ_SIZE)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                self._lose()
                return
            if data:
                self._take(data)
            elif self._is_closed():
                self._lose()
            else:
                # After Ctrl-D, the terminal is still open, and more input may follow.
                self._partial = b""
                self._on_end()

    def _take(self, data: bytes) -> None:
        # Ctrl-D after some characters sends them without a newline.
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            self._on_line(line.decode(errors="replace"))

    def forget_partial_line(self) -> None:
        """Discard the beginning of a line, as the terminal does on Ctrl-C."""
        self._partial = b""

    def _is_closed(self) -> bool:
        """Return whether an empty read means a closed terminal rather than Ctrl-D."""
        try:
            termios.tcgetattr(self._fd)
        except (OSError, termios.error):
            return True
        return False

    def _lose(self) -> None:
        if not self.gone:
            self.gone = True
            self._on_lost()

    # --- text out ---------------------------------------------------------------------------------

    async def send(self, text: str) -> None:
        """Write text; wait for a slow terminal without blocking other tasks.

        As a last check, control characters are escaped here, whatever the source of the text.
        """
        # The terminal's encoding cannot be determined. Current terminals use UTF-8, and an ASCII
        # terminal shows wrong characters, which is better than an error.
        await self._send(escape_text(text).encode(errors="backslashreplace"))

    async def ring(self) -> None:
        """Ring the bell."""
        await self._send(BELL)

    async def _send(self, data: bytes) -> None:
        async with self._output:
            while data and not self.gone:
                try:
                    data = data[os.write(self._fd, data) :]
                except (BlockingIOError, InterruptedError):
                    await trio.lowlevel.wait_writable(self._fd)
                except OSError:
                    self._lose()

    # --- the modes of the terminal ----------------------------------------------------------------

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[None]:
        """Lend the terminal to another program, such as an editor, inside this context.

        Meanwhile, output is held back, and input goes to the other program.
        """
        async with self._output:
            self.is_lent = True
            self._taken_back = trio.Event()
            if self._reading is not None:
                self._reading.cancel()
            try:
                with self._kept_modes():
                    # A question for a secret may be open, but the other program needs the echo.
                    self._restore_modes()
                    yield
            finally:
                self.is_lent = False
                # A crashed editor does not restore the terminal modes.
                self._apply_modes()
                self._taken_back.set()

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Turn off the echo of typed text inside this context.

        While the terminal is lent, its modes belong to the other program, so they only change when
        that program has ended.
        """
        with self._kept_modes():
            self._hidden += 1
            self._apply_modes()
            try:
                yield
            finally:
                self._hidden -= 1
                self._apply_modes()

    @contextmanager
    def _kept_modes(self) -> Iterator[None]:
        """Remember the user's modes inside this context, which another one may contain."""
        if not self._changes:
            try:
                self._user_modes = termios.tcgetattr(self._fd)
            except (OSError, termios.error):
                self._lose()
        self._changes += 1
        try:
            yield
        finally:
            self._changes -= 1
            if not self._changes:
                self._restore_modes()
                self._user_modes = None

    def _apply_modes(self) -> None:
        """Set the modes that the open contexts require, unless another program uses the terminal."""
        if self._user_modes is None or self.is_lent:
            return
        if not self._hidden:
            self._restore_modes()
            return
        modes = list(self._user_modes)
        modes[3] &= ~termios.ECHO
        # With Ctrl-Z or Ctrl-\, the user would return to a shell without echo.
        characters = list(modes[6])
        off = bytes([os.fpathconf(self._fd, "PC_VDISABLE") & 0xFF])
        for number in (termios.VSUSP, termios.VQUIT):
            characters[number] = off
        modes[6] = characters
        self._set_modes(modes)

    def _restore_modes(self) -> None:
        """Set the user's modes, also when the program ends inside a context."""
        if self._user_modes is not None:
            self._set_modes(self._user_modes)

    def _set_modes(self, modes: list[Any]) -> None:
        # The system stops a background process that changes the terminal modes. TCSANOW does not
        # wait until a stopped terminal has accepted all output.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
        try:
            termios.tcsetattr(self._fd, termios.TCSANOW, modes)
        except (OSError, termios.error):
            self._lose()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
