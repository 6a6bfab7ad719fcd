"""Stops runs: the first signal ends the run cleanly, a second one ends the process immediately."""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

import trio

from hilum_cli.signals import listened
from hilum_cli.terminal import SHOW_CURSOR, Out

MAX_STOP = 8.0
"""Time limit, in seconds after the first signal, for everything to end.

After this time the process exits without cleanup.
"""
MAX_SILENCE = MAX_STOP + 1.0
"""Time limit, in seconds after the first signal, that applies even if no Python code can run.

C code, such as the search for a slow regular expression, may hold the interpreter lock.
"""


class Stopping:
    """The signal handling of a running program.

    Args:
        stop: Function to call at the first signal; it may be replaced while the work continues.
        leave: Function to call with the exit code before the process exits without cleanup.

    Attributes:
        signal: Number of the first signal, 0 if there was none.
        lent: Whether another program is using the terminal and receives ``Ctrl-C``.
    """

    def __init__(
        self, stop: Callable[[], None], leave: Callable[[int], None] = lambda code: None
    ) -> None:
        self.stop = stop
        self.signal = 0
        self.lent = False
        self._leave = leave
        self._limit: threading.Timer | None = None

    async def listen(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Wait for signals until cancelled."""
        numbers = listened()
        if not numbers:
            task_status.started()
            # ``nohup`` and background jobs ignore these signals, and trio requires at least one
            # signal.
            await trio.sleep_forever()
        try:
            with trio.open_signal_receiver(*numbers) as received:
                # Installed after trio's signal handlers, because the new handlers wrap them.
                for number in numbers:
                    self._limit_time(number)
                task_status.started()
                async for number in received:
                    self._receive(int(number))
        finally:
            if self._limit is not None:
                self._limit.cancel()
                faulthandler.cancel_dump_traceback_later()

    def _receive(self, number: int) -> None:
        # The terminal sends Ctrl-C to all programs in the foreground group, including the editor.
        if self.lent and number == signal.SIGINT:
            return
        if self.signal:
            self._end_at_once(128 + number)
        self.signal = number
        self.stop()

    def _limit_time(self, number: int) -> None:
        """Make the first signal limit the remaining time, and the second one end the process.

        The signal handler does this instead of the task that reads signals, because no task runs
        while a plugin blocks the event loop. Python also calls signal handlers while a regular
        expression runs in the main thread.
        """
        handler = signal.getsignal(number)
        assert callable(handler)

        def handle(received: int, frame: FrameType | None) -> None:
            if self.lent and received == signal.SIGINT:
                handler(received, frame)
                return
            if self._limit is not None:
                self._end_at_once(128 + received)
            self._limit = threading.Timer(MAX_STOP, self._end_at_once, (128 + received,))
            # The timer must not keep a finished process running.
            self._limit.daemon = True
            self._limit.start()
            _end_in_silence()
            handler(received, frame)

        signal.signal(number, handle)

    def _end_at_once(self, code: int) -> None:
        """Exit without cleanup.

        The warden detects the exit and ends all child processes.
        """
        try:
            if Out(2).terminal:
                Out(2).put(SHOW_CURSOR)
            self._leave(code)
        finally:
            os._exit(code)


def _end_in_silence() -> None:
    """Start a C thread, which needs no interpreter lock, to end the process after ``MAX_SILENCE``.

    The thread writes a traceback of the hung process to standard error; the exit code is 1.
    """
    # Use the descriptor, not the file object, because ``sys.stderr`` may be closed or replaced.
    with suppress(OSError, ValueError):
        faulthandler.dump_traceback_later(MAX_SILENCE, exit=True, file=2)
