"""Run functions that read many files in a thread, one after another.

Python runs one thread at a time, and a thread gives way at each system call. Of several threads that
read many files, each therefore waits for all others hundreds of times: together, they take longer
than one after another, and all of them end last. One thread for all of them also saves the time in
which a thread begins.

The same holds for the event loop, which writes events while functions run. Therefore the tasks get
the results of short functions together, when no function is left: eight commands that the model
calls at once then begin 6 ms earlier (tests/benchmarks/real_project.py).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Any, TypeVar

import attrs
import trio

MAX_WAIT = 0.1
"""Maximum time, in seconds, to wait for a turn: the disk of the function before may not respond."""
MAX_HELD = 0.01
"""Maximum time, in seconds, for which a result is held back while other functions run."""

Result = TypeVar("Result")


@attrs.define(eq=False)
class _Job:
    """A function that runs in the thread.

    Attributes:
        function: The function.
        context: The context variables of the task that waits for it.
        token: The event loop of that task.
        has_begun: Whether its turn has come.
        has_ended: Whether it has ended; its result may still be held back.
        released: Set when its task may use the result.
        value: What it returned.
        error: What it raised.
    """

    function: Callable[[], object]
    context: Context = attrs.Factory(copy_context)
    token: trio.lowlevel.TrioToken = attrs.Factory(trio.lowlevel.current_trio_token)
    has_begun: bool = False
    has_ended: bool = False
    released: trio.Event = attrs.Factory(trio.Event)
    value: Any = None
    error: BaseException | None = None

    def run(self) -> None:
        """Run the function, in any thread."""
        try:
            self.value = self.context.run(self.function)
        except BaseException as error:
            self.error = error
        self.has_ended = True


class ThreadTurns:
    """The functions of one session that take turns in a thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # The functions that have not begun, in the order in which they were requested.
        self._waiting = deque[_Job]()
        # Identifies the thread that runs them; None if there is none.
        self._worker: object = None

    async def run(
        self, function: Callable[[], Result], *, abandon_on_cancel: bool = False
    ) -> Result:
        """Run a function in a thread when its turn has come, but wait for the turn only briefly.

        Args:
            function: The function. It may block, but must not call ``trio.from_thread``.
            abandon_on_cancel: Whether a cancellation leaves a function alone that has begun. By
                default, the function ends, and this method returns its result, as
                ``trio.to_thread.run_sync`` does. A function that has not begun does not run after a
                cancellation.
        """
        job = _Job(function)
        with self._lock:
            self._waiting.append(job)
            has_worker = self._worker is not None
        if not has_worker:
            self._start_worker()
        try:
            await self._wait(job)
        except trio.Cancelled:
            if self._withdraw(job) or abandon_on_cancel:
                raise
            # The function may have changed something that the caller must learn. trio raises the
            # exception again at the caller's next checkpoint.
            with trio.CancelScope(shield=True):
                await self._wait(job)
        if job.error is not None:
            raise job.error
        result: Result = job.value
        return result

    async def _wait(self, job: _Job) -> None:
        """Wait until a function has ended."""
        due = trio.current_time() + MAX_WAIT
        while True:
            with trio.move_on_after(MAX_HELD):
                await job.released.wait()
            # While another function runs, its task is not released.
            if job.has_ended:
                return
            if not job.has_begun and trio.current_time() >= due:
                self._start_worker()
                due = trio.current_time() + MAX_WAIT

    def _withdraw(self, job: _Job) -> bool:
        """Remove a function that has not begun; return whether it was there."""
        with self._lock:
            if job.has_begun:
                return False
            self._waiting.remove(job)
            return True

    def _start_worker(self) -> None:
        """Start the thread, in place of one whose function takes too long."""
        worker = object()
        with self._lock:
            self._worker = worker
        trio.lowlevel.start_thread_soon(partial(self._work, worker), _do_nothing, "hilum guard")

    def _work(self, worker: object) -> None:
        """Run the functions until none is left, or another thread runs them. Blocks."""
        ended: list[_Job] = []
        while True:
            job = self._take(worker)
            if job is None:
                _release(ended)
                return
            job.run()
            ended.append(job)

    def _take(self, worker: object) -> _Job | None:
        """Return the next function; None if there is none, or another thread runs them."""
        with self._lock:
            if self._worker is not worker:
                return None
            if not self._waiting:
                self._worker = None
                return None
            job = self._waiting.popleft()
            job.has_begun = True
            return job


def _release(jobs: Sequence[_Job]) -> None:
    """Let the tasks use the results of functions that have ended. Any thread may call this."""
    for job in jobs:
        with suppress(trio.RunFinishedError):
            job.token.run_sync_soon(job.released.set)


def _do_nothing(_: object) -> None:
    pass
