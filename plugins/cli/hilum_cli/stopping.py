"""Stopping: one signal ends the run cleanly, a second one ends the process at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import trio

from hilum_cli.terminal import SHOW_CURSOR, Out

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Stopping:
    """Listens to signals as long as the program runs.

    Args:
        stop: What the first signal does; may be changed as the work goes on.

    Attributes:
        signal: Number of the first signal, 0 while there was none.
        lent: Whether another program has the terminal: ``Ctrl-C`` is for that one.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self.stop = stop
        self.signal = 0
        self.lent = False

    async def listen(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Wait for signals until cancelled.

        The second one leaves without unwinding: the warden sees the process go and ends whatever it had started.
        """
        with trio.open_signal_receiver(*SIGNALS) as received:
            task_status.started()
            async for number in received:
                if self.lent and number == signal.SIGINT:
                    continue
                if self.signal:
                    if Out(2).terminal:
                        Out(2).put(SHOW_CURSOR)
                    os._exit(128 + number)
                self.signal = int(number)
                self.stop()
