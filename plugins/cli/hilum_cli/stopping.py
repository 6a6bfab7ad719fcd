"""Stopping: one signal ends the run cleanly, a second one ends the process at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

import trio

from hilum_cli.signals import listened
from hilum_cli.terminal import SHOW_CURSOR, Out

MAX_STOP = 8.0
"""Seconds after the first signal in which everything must have ended.

Then the process leaves without unwinding.
"""


class Stopping:
    """Listens to signals as long as the program runs.

    Args:
        stop: What the first signal does; may be changed as the work goes on.
        leave: Called with the exit code before the process ends without unwinding.

    Attributes:
        signal: Number of the first signal, 0 while there was none.
        lent: Whether another program has the terminal: ``Ctrl-C`` is for that one.
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
            await trio.sleep_forever()
        try:
            with trio.open_signal_receiver(*numbers) as received:
                for number in numbers:
                    self._limit_time(number)
                task_status.started()
                async for number in received:
                    self._receive(int(number))
        finally:
            if self._limit is not None:
                self._limit.cancel()

    def _receive(self, number: int) -> None:
        if self.lent and number == signal.SIGINT:
            return
        if self.signal:
            self._end_at_once(128 + number)
        self.signal = number
        self.stop()

    def _limit_time(self, number: int) -> None:
        """Have the first signal start a thread that ends the process after some seconds, whatever a
        plugin does.

        The handler does this, not the task that reads signals: where a plugin blocks the event loop
        no task runs.
        """
        handler = signal.getsignal(number)
        assert callable(handler)

        def start_limit(received: int, frame: FrameType | None) -> None:
            if self._limit is None and not (self.lent and received == signal.SIGINT):
                self._limit = threading.Timer(MAX_STOP, self._end_at_once, (128 + received,))
                self._limit.daemon = True
                self._limit.start()
            handler(received, frame)

        signal.signal(number, start_limit)

    def _end_at_once(self, code: int) -> None:
        """Leave without unwinding: the warden sees the process go, and ends whatever it had
        started.
        """
        try:
            if Out(2).terminal:
                Out(2).put(SHOW_CURSOR)
            self._leave(code)
        finally:
            os._exit(code)
