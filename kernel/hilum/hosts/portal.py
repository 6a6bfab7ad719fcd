"""A trio thread, and functions and context managers that run on it.

trio's guest mode is not used, because a host that blocks would slow the guest down tenfold, and an
abandoned guest run never unwinds.

``anyio.from_thread.start_blocking_portal`` is not used either (measured with anyio 4.16), for four
reasons:

- Ctrl-C in ``portal.call`` raises immediately and does not cancel the function. A tool could still
  be writing a file when the host's ``except KeyboardInterrupt`` runs. In asyncio, ``call_async``
  waits for a cancelled function, but not after a second ``Task.cancel``.
- An error that is not an ``Exception``, such as ``SystemExit`` in one function, ends the portal and
  cancels every other call.
- ``wrap_async_context_manager`` is for synchronous hosts only, and does not wait for the trio side
  on exit.
- The kernel would depend on anyio, whose import takes 100 ms of CPU time, and a call takes 700 µs
  instead of 566 (``tests/benchmarks/portal.py``, in synchronous code).
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

import trio

T = TypeVar("T")


def _running() -> Future[Any]:
    """Return a future that only the trio side completes: ``Future.cancel`` does nothing to it."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


@dataclass(frozen=True, eq=False)
class Job(Generic[T]):
    """A function that runs, or will run, on the trio side.

    Attributes:
        start: Starts the function, with a copy of the caller's context variables. ``start`` must be
            called only once, and raises ``trio.RunFinishedError`` if the portal was closed.
        cancel: Cancels the function; can be called from any thread at any time, even before
            ``start`` takes effect on the trio thread.
        future: The outcome of the function. The future completes only after the function has
            unwound, with the function's result or exception, with
            ``concurrent.futures.CancelledError`` if the function was cancelled, or with
            ``trio.RunFinishedError`` if the portal was closed.
    """

    start: Callable[[], None]
    cancel: Callable[[], None]
    future: Future[T] = field(default_factory=_running)


class Portal:
    """A separate trio thread, which runs functions until ``close``.

    Args:
        name: Name of the thread.

    Attributes:
        main: The job that contains all other jobs. Cancelling this job closes the portal without
            waiting.

    Raises:
        OSError: The system has no resources for another event loop.
    """

    def __init__(self, name: str = "trio") -> None:
        ready: Future[None] = Future()
        self.main: Job[None] = Job(lambda: None, partial(self._later, self._end))
        self._scopes: set[trio.CancelScope] | None = set()  # one per job; None once closed
        # A daemon thread, so that a host that never closes the portal can still exit.
        self._thread = threading.Thread(target=self._run, args=(ready,), name=name, daemon=True)
        self._thread.start()
        ready.result()

    def _run(self, ready: Future[None]) -> None:
        try:
            trio.run(self._serve, ready)
        except BaseException as error:
            # Until trio runs, the constructor waits for `ready`; afterwards, closing waits for
            # `main`.
            (self.main.future if ready.done() else ready).set_exception(error)
        else:
            self.main.future.set_result(None)

    async def _serve(self, ready: Future[None]) -> None:
        self._soon = trio.lowlevel.current_trio_token().run_sync_soon
        self._stop = trio.Event()
        async with trio.open_nursery() as self._nursery:
            ready.set_result(None)
            await self._stop.wait()

    def _end(self) -> None:
        # Each job is cancelled by its own scope and not by the nursery's, so that no cancellation
        # propagates out of a job.
        scopes = self._scopes or ()
        self._scopes = None
        for scope in scopes:
            scope.cancel()
        self._stop.set()

    def _later(self, function: Callable[[], object]) -> None:
        with suppress(trio.RunFinishedError):
            self._soon(function)

    def close(self) -> None:
        """Cancel everything, and wait until the trio side has unwound and the thread has ended.

        Further calls have no effect.
        """
        self.main.cancel()
        self._thread.join()

    def job(self, function: Callable[..., Awaitable[T]], *args: Any, **named: Any) -> Job[T]:
        """Create a job that runs an async function in a separate task.

        The job exists before it starts, so that a caller who is interrupted during the start can
        still cancel it.

        Raises:
            RuntimeError: The caller is on the trio thread, which cannot wait for itself.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError("This is the portal's own thread: await the function instead.")
        scope = trio.CancelScope()
        begun = False

        def begin() -> None:
            nonlocal begun
            begun = True
            if self._scopes is None:
                job.future.set_exception(_closed())
            else:
                self._scopes.add(scope)
                self._nursery.start_soon(task)

        def end() -> None:
            # Callbacks run in the order in which they were scheduled, so a job that has not started
            # by now never will.
            scope.cancel()
            if not begun and not job.future.done():
                job.future.set_exception(CancelledError())

        def cancel() -> None:
            try:
                self._soon(end)
            except trio.RunFinishedError:
                end()

        async def task() -> None:
            try:
                with scope:
                    job.future.set_result(await function(*args, **named))
            # Every exception goes to the caller of the job. If one propagated here, it would cancel
            # all other jobs.
            except BaseException as error:
                job.future.set_exception(error)
            if self._scopes is not None:
                self._scopes.discard(scope)
            if not job.future.done():
                job.future.set_exception(
                    CancelledError() if self._scopes is not None else _closed()
                )

        # The context is copied when the job is started, on the caller's thread.
        job: Job[T] = Job(lambda: self._soon(copy_context().run, begin), cancel)
        return job

    def submit(self, function: Callable[..., Awaitable[T]], *args: Any, **named: Any) -> Job[T]:
        """Run an async function in a separate task.

        The function runs with a copy of the caller's context variables.

        Raises:
            trio.RunFinishedError: The portal was closed.
            RuntimeError: The caller is on the trio thread, which cannot wait for itself.
        """
        job = self.job(function, *args, **named)
        job.start()
        return job

    def hold(self, manager: AbstractAsyncContextManager[T]) -> Held[T]:
        """Enter an async context manager in a task that will also leave it, as trio requires.

        Raises:
            trio.RunFinishedError: The portal was closed.
            RuntimeError: The caller is on the trio thread, which cannot wait for itself.
        """
        held = Held(self, manager)
        held.job.start()
        return held


class Held(Generic[T]):
    """A context manager that is held open on the trio side while its job runs.

    Attributes:
        entered: The value that the context manager yields, or the exception if it could not be
            entered.
        job: The job that holds the context manager open. The job's result is whether the context
            manager suppressed the error that ended its block.
    """

    def __init__(self, portal: Portal, manager: AbstractAsyncContextManager[T]) -> None:
        self.entered: Future[T] = _running()
        self._portal = portal
        self._manager = manager
        self._left = trio.Event()
        self._error: BaseException | None = None
        self.job: Job[bool] = portal.job(self._live)
        self.job.future.add_done_callback(self._over)

    def leave(self, error: BaseException | None = None) -> Job[bool]:
        """Leave the context manager, normally or with an error.

        An error that is not an ``Exception`` cancels the context manager.
        """
        self._error = error
        # A trio event is not thread-safe: it must be set on the trio thread.
        self._portal._later(self._left.set)
        return self.job

    async def _live(self) -> bool:
        raised = False
        with trio.CancelScope() as scope:
            async with self._manager as value:
                self.entered.set_result(value)
                await self._left.wait()
                if isinstance(self._error, Exception):
                    raised = True
                    raise self._error
                if self._error is not None:  # the host was cancelled or interrupted
                    scope.cancel()
                    # The cancellation is raised here, inside the context manager.
                    await trio.lowlevel.checkpoint()
            return raised
        return False

    def _over(self, future: Future[bool]) -> None:
        if not self.entered.done():
            self.entered.set_exception(future.exception())


def _closed() -> trio.RunFinishedError:
    return trio.RunFinishedError("The portal was closed.")
