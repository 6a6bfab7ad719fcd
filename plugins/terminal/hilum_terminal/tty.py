"""The terminal device: raw mode, nonblocking reads and writes, and restoring the terminal.

All writes to the terminal go through one ``Tty``. However the program ends, the terminal is
restored to its original state.
"""

from __future__ import annotations

import atexit
import errno
import math
import os
import select
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from types import FrameType, TracebackType
from typing import Any, TypeAlias

import trio
from hilum.errors import UsageError

from hilum_terminal.pace import Pace

try:
    import termios
except ImportError:  # Windows
    termios = None  # type: ignore[assignment]

READ_SIZE = 65536
"""Maximum number of bytes per read."""
EXIT_TIMEOUT = 0.5
"""Time limit, in seconds, for the last frame when the program ends normally."""
EMERGENCY_TIMEOUT = 0.2
"""Time limit, in seconds, for the last bytes when the process is killed by a signal."""
OWN_RESUME_SECONDS = 1.0
"""Seconds after the end of ``suspend`` in which SIGCONT does not mean a stop from outside."""
# Sequences that turn on bracketed paste and focus reports.
_PASTE_ON = b"\x1b[?2004h"
_FOCUS_ON = b"\x1b[?1004h"
# Resets colors, autowrap, paste, focus, cursor and synchronized output to what a shell expects.
_MODES_OFF = b"\x1b[m\x1b[?7h\x1b[?2004l\x1b[?1004l\x1b[?25h\x1b[?2026l"
# Switches to the alternate screen, which has no scrollback, and back to the normal screen. The
# terminal keeps the content of the normal screen and the position of its cursor.
_ALTERNATE_ON = b"\x1b[?1049h"
_ALTERNATE_OFF = b"\x1b[?1049l"
# Undoes what an editor that crashed leaves: keys for applications, mouse reports, insert mode, the
# alternate screen and a scroll region. The sequence 1047 leaves the cursor where it is on the normal
# screen, unlike 1049; the scroll region would move it, so it is saved.
_AFTER_LOAN = (
    b"\x1b[?1l\x1b>\x1b[4l\x1b[?9l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[?1015l"
    b"\x1b[?1047l\x1b7\x1b[r\x1b8"
)
# Cancels an escape sequence that was sent only in part.
_CANCEL_SEQUENCE = b"\x18"
# Signals that end a process and that a Python program can handle, if another process sends them.
# After a fault in C code (SIGSEGV, SIGBUS, or SIGABRT from `abort`), no Python code runs any more.
_FATAL_SIGNALS = (
    "SIGTERM",
    "SIGHUP",
    "SIGQUIT",
    "SIGABRT",
    "SIGALRM",
    "SIGVTALRM",
    "SIGPROF",
    "SIGUSR1",
    "SIGUSR2",
    "SIGXCPU",
)
_FALLBACK_SIZE = (80, 24)

_Attributes: TypeAlias = list[Any]


class Tty:
    """The terminal of this process, which is in raw mode inside the context.

    Args:
        on_leave: Function to call before the terminal is restored or lent, which returns bytes that
            erase the drawn rows, as ``Screen.leave`` does. This function may be called from a
            signal handler.
        on_return: Function to call when the terminal is back after ``lent`` or ``suspend`` and
            everything must be redrawn.
        focus_reports: Whether the terminal should report when its window gains or loses the focus.
        handle_signals: Whether signals that end the process, such as SIGTERM and SIGABRT, restore
            the terminal first, unless the program handles them itself.

    Attributes:
        gone: Whether the terminal is gone, because it was closed or its connection was lost.
        is_lent: Whether another program is using the terminal. Bytes that are written meanwhile are
            sent after the terminal is back.
        pace: The speed of the terminal.
        is_alternate: Whether the alternate screen is shown.
        last_words: Text to write after the terminal has been restored, when the context ends.
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
        self._taken_back = trio.Event()
        self._reading: trio.CancelScope | None = None
        self._handlers: dict[signal.Signals, Any] = {}
        self.pace = Pace()
        self.gone = False
        self.is_lent = False
        self.is_alternate = False
        self.last_words = ""
        self._resumed_at = -math.inf

    async def __aenter__(self) -> Tty:
        """Open the terminal and set raw mode.

        Raises:
            UsageError: Neither standard output nor standard input is a usable terminal.
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
            # A cancellation must not prevent the last rows from reaching the scrollback, and a slow
            # terminal must not prevent the program from ending.
            with trio.CancelScope(shield=True, deadline=trio.current_time() + EXIT_TIMEOUT):
                async with self._output:
                    await self._drain()
        finally:
            self.emergency_restore()
            self._write_last_words()
            self._remove_handlers()
            atexit.unregister(self.emergency_restore)
            os.close(self._fd)
            self._fd = -1

    def size(self) -> tuple[int, int]:
        """Return the terminal's columns and lines; the last known ones if the terminal is gone."""
        try:
            columns, lines = os.get_terminal_size(self._fd)
        except OSError:
            return self._size
        # Serial lines and some containers do not report a terminal size.
        if columns > 0 and lines > 0:
            self._size = (columns, lines)
        return self._size

    async def read(self) -> bytes:
        """Read typed input, at most 64 kB at once; return nothing if the terminal is gone."""
        while True:
            while self.is_lent:
                await self._taken_back.wait()
            if self.gone:
                await trio.lowlevel.checkpoint()
                return b""
            with trio.CancelScope() as self._reading:
                await trio.lowlevel.wait_readable(self._fd)
            self._reading = None
            # If the terminal has been lent in the meantime, the input belongs to the other program.
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

    @property
    def has_output(self) -> bool:
        """Whether bytes wait for the next ``flush``."""
        return bool(self._buffer)

    def write(self, data: bytes) -> None:
        """Add bytes to the buffer that the next ``flush`` sends."""
        if not self.gone:
            self._buffer += data

    def enter_alternate(self) -> None:
        """Switch to the alternate screen; however the program ends, it switches back."""
        self.is_alternate = True
        self.write(_ALTERNATE_ON)

    def leave_alternate(self) -> None:
        """Switch back to the normal screen, whose content is as it was."""
        if self.is_alternate:
            self.is_alternate = False
            self.write(_ALTERNATE_OFF)

    async def flush(self) -> None:
        """Send all buffered bytes; wait for a slow terminal without blocking other tasks.

        While the terminal is lent, ``flush`` waits until the terminal is back. After a
        cancellation, the next ``flush`` sends the rest, so that no frame is sent only in part.
        """
        await trio.lowlevel.checkpoint()
        async with self._output:
            await self._drain()

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[None]:
        """Lend the terminal to another program, such as an editor or a shell, inside this context.

        Example:
            async with tty.lent():
                await run_editor(path)
        """
        # Holding the lock makes calls of ``flush`` wait.
        async with self._output:
            await self._drain()
            try:
                await self._give()
                yield
            finally:
                self._take_back()

    async def suspend(self) -> None:
        """Stop the process group, as Ctrl-Z does outside raw mode, until the shell resumes it.

        The call has no effect if the program was started without job control.
        """
        if self.gone or signal.getsignal(signal.SIGTSTP) is signal.SIG_IGN:
            return
        async with self.lent():
            handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            # The process is suspended inside this call.
            os.kill(0, signal.SIGTSTP)
            signal.signal(signal.SIGTSTP, handler)
            self._resumed_at = time.monotonic()
            # The user may have changed the terminal modes in the shell.
            self._save_attributes()

    def resume(self) -> bool:
        """Set raw mode again after the process was stopped from outside, as with SIGSTOP.

        Call this method after SIGCONT. The shell has changed the modes in the meantime. The call
        has no effect while the terminal is lent, or while another process group uses it.

        Returns:
            Whether the mode was set. The rows on the terminal must then be drawn again.
        """
        if self.gone or self.is_lent or not self._raw:
            return False
        # The signal that ended `suspend`, after which everything has been redrawn.
        if time.monotonic() - self._resumed_at < OWN_RESUME_SECONDS:
            return False
        try:
            is_foreground = _is_in_foreground(self._fd)
        except OSError:
            self._lose()
            return False
        if is_foreground:
            self._take()
        return is_foreground

    def emergency_restore(self) -> None:
        """Restore the terminal; this may be called at any time, even from a signal handler.

        The call blocks for at most a fraction of a second and never raises an exception.
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

    def _write_last_words(self) -> None:
        # A terminal that does not read must not prevent the program from ending.
        if self.gone or not self.last_words:
            return
        with suppress(OSError):
            deadline = time.monotonic() + EMERGENCY_TIMEOUT
            self._send_blocking(bytearray(self.last_words.encode()), deadline)

    # The terminal changes hands.

    def _take(self) -> None:
        # This is set before the modes change, so that a signal in between restores them.
        self._raw = True
        self._set_attributes(_raw_attributes(self._before))
        # Frames that were written while the terminal was lent must follow these sequences.
        alternate = _ALTERNATE_ON if self.is_alternate else b""
        self._buffer[0:0] = self._modes_on + alternate

    async def _give(self) -> None:
        self.is_lent = True
        self._taken_back = trio.Event()
        if self.gone:
            return
        # These bytes bypass the buffer, because bytes that are written from now on must wait.
        await self._send(bytearray(self._on_leave() + self._modes_off()))
        self._raw = False
        self._restore_attributes()

    def _modes_off(self) -> bytes:
        """Return the sequences that restore the modes that a shell expects."""
        # On the normal screen, this sequence would move the cursor.
        return (_ALTERNATE_OFF if self.is_alternate else b"") + _MODES_OFF

    def _take_back(self) -> None:
        if not self.gone:
            self._take()
            # This precedes the sequences above, because it switches to the normal screen.
            self._buffer[0:0] = _AFTER_LOAN
        self.is_lent = False
        self._taken_back.set()
        self._on_return()

    def _save_attributes(self) -> None:
        try:
            # In the background, the current modes are those of the shell's prompt.
            if _is_in_foreground(self._fd):
                self._before = termios.tcgetattr(self._fd)
        except (OSError, termios.error):
            self._lose()

    def _restore_attributes(self) -> None:
        # Another process group may be in the foreground by now, in which case the system would stop
        # this one.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
        try:
            self._set_attributes(self._before)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def _set_attributes(self, attributes: _Attributes) -> None:
        try:
            # TCSANOW does not wait until the terminal has read the output.
            termios.tcsetattr(self._fd, termios.TCSANOW, attributes)
        except (OSError, termios.error):
            self._lose()

    def _lose(self) -> None:
        self.gone = True
        self._buffer.clear()
        # This wakes a waiting reader, which then sees that the terminal is gone.
        if self._reading is not None:
            self._reading.cancel()

    # Bytes out.

    async def _drain(self) -> None:
        await self._send(self._buffer)

    async def _send(self, data: bytearray) -> None:
        """Send bytes, and remove the sent ones from ``data``; the caller must hold the lock."""
        while data and not self.gone:
            try:
                sent = os.write(self._fd, data)
            except InterruptedError:
                continue
            except BlockingIOError:
                self.pace.record_full(trio.current_time())
                await trio.lowlevel.wait_writable(self._fd)
                continue
            except OSError:
                self._lose()
                return
            self.pace.record_sent(sent, trio.current_time())
            del data[:sent]

    def _send_last_bytes(self) -> None:
        deadline = time.monotonic() + EMERGENCY_TIMEOUT
        if self._buffer and not self._send_blocking(self._buffer, deadline):
            # The last frame arrived only in part, so the cursor position is unknown, and erasing
            # could affect final rows.
            self._buffer.clear()
            last = bytearray(_CANCEL_SEQUENCE + self._modes_off() + b"\r\n")
        else:
            last = bytearray(self._on_leave() + self._modes_off())
        self._send_blocking(last, deadline + EMERGENCY_TIMEOUT)

    def _send_blocking(self, data: bytearray, deadline: float) -> bool:
        """Send bytes without trio; return whether the terminal accepted all of them in time."""
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
        for name in _FATAL_SIGNALS:
            number = signal.Signals[name]
            # If the program handles or ignores the signal itself, leave this handling unchanged.
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


def _is_in_foreground(descriptor: int) -> bool:
    """Return whether this process group is in the foreground of a terminal.

    A terminal that controls another session has no foreground group for this process: the client of
    the fork server, which is in that session, is stopped and continued in its place.

    Raises:
        OSError: The terminal is gone.
    """
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError as error:
        if error.errno == errno.ENOTTY and os.isatty(descriptor):
            return True
        raise


def open_terminal() -> int:
    """Open the terminal again, and return the new file descriptor.

    Only a separate file description can be nonblocking, because setting the flag on standard output
    would also affect the shell and child processes.
    """
    if termios is None:
        raise _unusable("This system has no POSIX terminals.")
    problem = "Neither standard output nor standard input is a terminal."
    for standard in (1, 0):
        if not os.isatty(standard):
            continue
        # In a container, the terminal's device may have no name.
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
    """Return terminal modes in which each key, including Ctrl-C, arrives immediately and unchanged.

    Line feeds still return to the first column, so that lines that another program writes by
    mistake are not staggered.
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
