"""Let threads that run Python code take turns.

Python runs one thread at a time, and a thread gives way at each system call. Of several threads that
read many files, each therefore waits for all others hundreds of times: together, they take longer
than one after another, and all of them end last.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import trio

MAX_WAIT = 0.1
"""Maximum time, in seconds, to wait for a turn: the disk of the thread before may not respond."""


class ThreadTurns:
    """The turns of one session's threads, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._lock = trio.Lock()

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Wait for a turn, but not for long, and keep it during the ``async with`` block."""
        has_turn = False
        with suppress(trio.WouldBlock):
            self._lock.acquire_nowait()
            has_turn = True
        if not has_turn:
            with trio.move_on_after(MAX_WAIT):
                await self._lock.acquire()
                has_turn = True
        try:
            yield
        finally:
            if has_turn:
                self._lock.release()
