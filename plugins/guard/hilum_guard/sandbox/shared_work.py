"""Do a piece of work once for all tasks that wait for its result."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import attrs
import trio

from hilum_guard.thread_turns import ThreadTurns

Result = TypeVar("Result")


@attrs.define(eq=False)
class _Round(Generic[Result]):
    """One execution of the work.

    Attributes:
        ended: Set when the work has ended.
        results: The result; empty if the work failed or was cancelled.
    """

    ended: trio.Event = attrs.Factory(trio.Event)
    results: list[Result] = attrs.Factory(list)


class SharedWork(Generic[Result]):
    """Work whose result may be shared by the tasks that asked for it before it began.

    A result is never older than the request for it: whoever asks while the work runs gets the result
    of the next execution.

    Args:
        turns: Run the work in a thread; while it waits for its turn, others join it.
    """

    def __init__(self, turns: ThreadTurns) -> None:
        self._lock = trio.Lock()
        self._turns = turns
        # The executions that have not begun. Threads remove them.
        self._waiting: dict[Hashable, _Round[Result]] = {}

    async def run(self, key: Hashable, work: Callable[[], Result]) -> Result:
        """Return the result of an execution that begins after this call.

        Exceptions of the work concern only the task that executes it; the others try again.

        Args:
            key: Tasks with the same key share a result.
            work: The work, which blocks.
        """
        while True:
            joined = self._waiting.get(key)
            if joined is None:
                return await self._execute(key, work)
            await joined.ended.wait()
            if joined.results:
                return joined.results[0]

    async def _execute(self, key: Hashable, work: Callable[[], Result]) -> Result:
        this = self._waiting[key] = _Round[Result]()

        def begin() -> Result:
            # Whoever asks from here on must not get this result.
            self._forget(key, this)
            return work()

        try:
            try:
                # To wait for a lock takes a turn of the event loop, even if it is free.
                self._lock.acquire_nowait()
            except trio.WouldBlock:
                await self._lock.acquire()
            try:
                result = await self._turns.run(begin)
            finally:
                self._lock.release()
            this.results.append(result)
            return result
        finally:
            self._forget(key, this)  # cancelled before the work began
            this.ended.set()

    def _forget(self, key: Hashable, this: _Round[Result]) -> None:
        if self._waiting.get(key) is this:
            del self._waiting[key]
