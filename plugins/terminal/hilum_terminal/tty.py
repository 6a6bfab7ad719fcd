"""The terminal as a device: raw mode, reading and writing without blocking, and the way back.

All writes to the terminal go through one ``Tty``. However the program ends, the terminal is left as
it was found.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import FrameType, TracebackType
from typing import Any, TypeAlias

import trio
from hilum.errors import UsageError

try:
    import termios
except ImportError:  # Windows
    termios = None  # type: ignore[assignment]

READ_SIZE = 65536
"""Bytes of one read."""
EXIT_TIMEOUT = 0.5
"""Seconds that the last frame may take when the terminal is left in order."""
EMERGENCY_TIMEOUT = 0.2
"""Seconds that the last bytes may take when the process dies."""
# Bracketed paste; reports of whether the window has the focus.
_PASTE_ON = b"\x1b[?2004h"
_FOCUS_ON = b"\x1b[?1004h"
# Colors, autowrap, paste, focus, cursor, synchronized output: as a shell expects them.
_MODES_OFF = b"\x1b[m\x1b[?7h\x1b[?2004l\x1b[?1004l\x1b[?25h\x1b[?2026l"
# Ends an escape sequence that was sent only in part.
_CANCEL_SEQUENCE = b"\x18"
_FALLBACK_SIZE = (80, 24)

_Attributes: TypeAlias = list[Any]


class Tty:
    """The terminal of this process, in raw mode while the context is entered.

    Args:
        on_leave: Called when the terminal is given back or away; returns bytes that erase what was
            drawn, as ``Screen.leave`` does. It may be called from a signal handler.
        on_return: Called when the terminal is back after ``lent`` or ``suspend``: everything has to
            be drawn again.
        focus_reports: Whether the terminal reports when its window gets and loses the focus.
        handle_signals: Whether SIGTERM and SIGHUP restore the terminal before they end the process,
            unless the program handles them itself.

    Attributes:
        gone: Whether the terminal no longer exists: it was closed, or its connection was lost.
        is_lent: Whether another program uses the terminal. Bytes that are written meanwhile are sent
            when it is back.
    """

    def __init__(
        self,
        *,
        on_leave: Callable[[], bytes] = bytes,
        on_return: Callable[[], None] = lambda: None,
        focus_reports: bool = True,
        handle_signals: bool = True,
    ) -> None:
        self._on_leave = on_leave
        self._on_return = on_return
        self._modes_on = _PASTE_ON + (_FOCUS_ON if focus_reports else b"")
        self._handle_signals = handle_signals
        self._fd = -1
        self._before: _Attributes = []
        self._raw = False
        self._size = _FALLBACK_SIZE
        self._buffer = bytearray()
        self._output = trio.Lock()
        self._returned = trio.Event()
        self._reading: trio.CancelScope | None = None
        self._handlers: dict[signal.Signals, Any] = {}
        self.gone = False
        self.is_lent = False

    async def __aenter__(self) -> Tty:
        """Take the terminal.

        Raises:
            UsageError: Neither standard output nor standard input is a terminal that can be used.
        """
        self._fd = open_terminal()
        try:
            self._before = termios.tcgetattr(self._fd)
        except termios.error as error:
            os.close(self._fd)
            raise _unusable(str(error)) from None
        atexit.register(self.emergency_restore)
        self._install_handlers()
        self._take()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            # A cancellation must not keep the last rows from the scrollback, nor may a slow terminal
            # keep the program from ending.
            with trio.CancelScope(shield=True, deadline=trio.current_time() + EXIT_TIMEOUT):
                async with self._output:
                    await self._drain()
        finally:
            self.emergency_restore()
            self._remove_handlers()
            atexit.unregister(self.emergency_restore)
            os.close(self._fd)
            self._fd = -1

    def size(self) -> tuple[int, int]:
        """Return the columns and lines of the terminal; the last known ones if it is gone."""
        try:
            columns, lines = os.get_terminal_size(self._fd)
        except OSError:
            return self._size
        # Serial lines and some containers do not know their size.
        if columns > 0 and lines > 0:
            self._size = (columns, lines)
        return self._size

    async def read(self) -> bytes:
        """Return what was typed, at most 64 kB at once; empty when the terminal is gone."""
        while True:
            while self.is_lent:
                await self._returned.wait()
            if self.gone:
                await trio.lowlevel.checkpoint()
                return b""
            with trio.CancelScope() as self._reading:
                await trio.lowlevel.wait_readable(self._fd)
            self._reading = None
            # The bytes belong to the program that the terminal was lent to in the meantime.
            if self.is_lent:
                continue
            try:
                data = os.read(self._fd, READ_SIZE)
            except (BlockingIOError, InterruptedError):
                continue
            except OSError:
                data = b""
            if not data:
                self._lose()
            return data

    def write(self, data: bytes) -> None:
        """Add bytes to those that the next ``flush`` sends."""
        if not self.gone:
            self._buffer += data

    async def flush(self) -> None:
        """Send all bytes that were written. Waits for a slow terminal without blocking other tasks.

        While the terminal is lent, this waits until it is back. After a cancellation, the next flush
        sends the rest, so that no frame is sent in part.
        """
        await trio.lowlevel.checkpoint()
        async with self._output:
            await self._drain()

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[None]:
        """Give the terminal to another program, such as an editor or a shell, for a while.

        Example:
            async with tty.lent():
                await run_editor(path)
        """
        # Holding the lock keeps flushes waiting.
        async with self._output:
            await self._drain()
            try:
                await self._give()
                yield
            finally:
                self._take_back()

    async def suspend(self) -> None:
        """Stop the process group, as Ctrl-Z does outside of raw mode, until the shell resumes it.

        Does nothing where the program was started without job control.
        """
        if self.gone or signal.getsignal(signal.SIGTSTP) is signal.SIG_IGN:
            return
        async with self.lent():
            handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            # The process stops inside of this call.
            os.kill(0, signal.SIGTSTP)
            signal.signal(signal.SIGTSTP, handler)
            # The user may have changed the modes in the shell.
            self._save_attributes()

    def emergency_restore(self) -> None:
        """Leave the terminal as it was found. Callable at any time, also from a signal handler.

        Blocks for at most a fraction of a second, and never raises an exception.
        """
        if not self._raw:
            return
        self._raw = False
        try:
            if not self.gone:
                self._send_last_bytes()
        except OSError:
            self._lose()
        finally:
            self._restore_attributes()

    # The terminal changes hands.

    def _take(self) -> None:
        # Before the change, so that a signal in between undoes it.
        self._raw = True
        self._set_attributes(_raw_attributes(self._before))
        # Frames that were written while the terminal was lent come after this.
        self._buffer[0:0] = self._modes_on

    async def _give(self) -> None:
        self.is_lent = True
        self._returned = trio.Event()
        if self.gone:
            return
        # Not through the buffer: what is written from now on must wait.
        await self._send(bytearray(self._on_leave() + _MODES_OFF))
        self._raw = False
        self._restore_attributes()

    def _take_back(self) -> None:
        if not self.gone:
            self._take()
        self.is_lent = False
        self._returned.set()
        self._on_return()

    def _save_attributes(self) -> None:
        try:
            # In the background, the modes are those of the shell's own prompt.
            if os.tcgetpgrp(self._fd) == os.getpgrp():
                self._before = termios.tcgetattr(self._fd)
        except (OSError, termios.error):
            self._lose()

    def _restore_attributes(self) -> None:
        # Another process group may be in the foreground by now. The system would stop this one.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
        try:
            self._set_attributes(self._before)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def _set_attributes(self, attributes: _Attributes) -> None:
        try:
            # TCSANOW does not wait until the terminal has read what was sent.
            termios.tcsetattr(self._fd, termios.TCSANOW, attributes)
        except (OSError, termios.error):
            self._lose()

    def _lose(self) -> None:
        self.gone = True
        self._buffer.clear()
        # Wakes a reader, which then sees that the terminal is gone.
        if self._reading is not None:
            self._reading.cancel()

    # Bytes out.

    async def _drain(self) -> None:
        await self._send(self._buffer)

    async def _send(self, data: bytearray) -> None:
        """Send bytes, and remove those that were sent; the caller holds the lock."""
        while data and not self.gone:
            try:
                sent = os.write(self._fd, data)
            except (BlockingIOError, InterruptedError):
                await trio.lowlevel.wait_writable(self._fd)
                continue
            except OSError:
                self._lose()
                return
            del data[:sent]

    def _send_last_bytes(self) -> None:
        deadline = time.monotonic() + EMERGENCY_TIMEOUT
        if self._buffer and not self._send_blocking(self._buffer, deadline):
            # The last frame arrived in part, so the place of the cursor is unknown, and erasing
            # could hit final rows.
            self._buffer.clear()
            last = bytearray(_CANCEL_SEQUENCE + _MODES_OFF + b"\r\n")
        else:
            last = bytearray(self._on_leave() + _MODES_OFF)
        self._send_blocking(last, deadline + EMERGENCY_TIMEOUT)

    def _send_blocking(self, data: bytearray, deadline: float) -> bool:
        """Send bytes without trio; return whether the terminal took all of them in time."""
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        while data:
            try:
                del data[: os.write(self._fd, data)]
            except BlockingIOError:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                poll.poll(left * 1000)
        return True

    # Signals.

    def _install_handlers(self) -> None:
        if not self._handle_signals:
            return
        for number in (signal.SIGTERM, signal.SIGHUP):
            # A program that handles or ignores a signal itself knows better.
            if signal.getsignal(number) is signal.SIG_DFL:
                self._handlers[number] = signal.signal(number, self._die)

    def _remove_handlers(self) -> None:
        for number, handler in self._handlers.items():
            if signal.getsignal(number) == self._die:
                signal.signal(number, handler)
        self._handlers.clear()

    def _die(self, number: int, frame: FrameType | None) -> None:
        self.emergency_restore()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def open_terminal() -> int:
    """Open the terminal once more, and return the descriptor.

    Only a file description of its own can be non-blocking: the flag on standard output would also
    apply to the shell and to child processes.
    """
    if termios is None:
        raise _unusable("This system has no POSIX terminals.")
    problem = "Neither standard output nor standard input is a terminal."
    for standard in (1, 0):
        if not os.isatty(standard):
            continue
        # In a container, the terminal may have no name of its own.
        for path in (_name_of_terminal(standard), "/dev/tty"):
            try:
                return os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as error:
                problem = f"The terminal {path} cannot be opened: {error.strerror}."
    raise _unusable(problem)


def _name_of_terminal(descriptor: int) -> str:
    try:
        return os.ttyname(descriptor)
    except OSError:
        return "/dev/tty"


def _unusable(problem: str) -> UsageError:
    return UsageError(
        f"hilum cannot use this terminal. {problem}", hint="Use `hilum run` with a prompt instead."
    )


def _raw_attributes(attributes: _Attributes) -> _Attributes:
    """Return modes in which each key arrives at once and as it is, and Ctrl-C is a key.

    Line feeds still return to the first column, so that lines which another program writes by
    mistake do not become stairs.
    """
    iflag, oflag, cflag, lflag, ispeed, ospeed, characters = attributes
    iflag &= ~(termios.BRKINT | termios.ICRNL | termios.INLCR | termios.IGNCR)
    iflag &= ~(termios.INPCK | termios.ISTRIP | termios.IXON | termios.IXOFF)
    oflag |= termios.OPOST | termios.ONLCR
    cflag = (cflag & ~(termios.CSIZE | termios.PARENB)) | termios.CS8
    lflag &= ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.IEXTEN | termios.ISIG)
    characters = list(characters)
    characters[termios.VMIN] = 1
    characters[termios.VTIME] = 0
    return [iflag, oflag, cflag, lflag, ispeed, ospeed, characters]
