"""A trio thread, and functions and context managers at work on it.

Not guest mode: a host that blocks would slow it tenfold, and an abandoned guest run never unwinds.
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
    """A future that ends only from the trio side: ``Future.cancel`` leaves it alone."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


@dataclass(frozen=True, eq=False)
class Job(Generic[T]):
    """A function for the trio side, or at work there.

    Attributes:
        start: Puts it to work, with a copy of the caller's context variables. Called once; raises
            ``trio.RunFinishedError`` if the portal was closed.
        cancel: Cancels it; may be called from any thread, at any time, and whether or not ``start``
            was heard of there.
        future: What comes of it. Ends when the function has unwound and not before: with its
            result, with its exception, with ``concurrent.futures.CancelledError`` if it was
            cancelled, or with ``trio.RunFinishedError`` if the portal was closed.
    """

    start: Callable[[], None]
    cancel: Callable[[], None]
    future: Future[T] = field(default_factory=_running)


class Portal:
    """Runs functions on a trio thread of its own, which lives until ``close``.

    Args:
        name: Name of the thread.

    Attributes:
        main: The job that all others are part of. Cancelling it is closing the portal without
            waiting.

    Raises:
        OSError: There are no resources for one more event loop.
    """

    def __init__(self, name: str = "trio") -> None:
        ready: Future[None] = Future()
        self.main: Job[None] = Job(lambda: None, partial(self._later, self._end))
        self._scopes: set[trio.CancelScope] | None = set()  # of all jobs; None when it is closed
        self._thread = threading.Thread(target=self._run, args=(ready,), name=name, daemon=True)
        self._thread.start()
        ready.result()

    def _run(self, ready: Future[None]) -> None:
        try:
            trio.run(self._serve, ready)
        except BaseException as error:
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
        # Each by its own scope, not by that of the nursery: so no cancellation leaves the job that
        # it is for.
        scopes = self._scopes or ()
        self._scopes = None
        for scope in scopes:
            scope.cancel()
        self._stop.set()

    def _later(self, function: Callable[[], object]) -> None:
        with suppress(trio.RunFinishedError):
            self._soon(function)

    def close(self) -> None:
        """Cancel everything and wait until it has unwound and the thread is gone.

        May be called again.
        """
        self.main.cancel()
        self._thread.join()

    def job(self, function: Callable[..., Awaitable[T]], *args: Any, **named: Any) -> Job[T]:
        """Create a job of an async function, to run in a task of its own.

        Who can be interrupted knows the job before it is started, and so can cancel it whatever had
        come of the start.

        Raises:
            RuntimeError: This is the trio thread; it cannot wait for itself.
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

        def end() -> (
            None
        ):  # what is scheduled comes in its order: what has not begun by now never will
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
            except BaseException as error:
                job.future.set_exception(error)
            if self._scopes is not None:
                self._scopes.discard(scope)
            if not job.future.done():
                job.future.set_exception(
                    CancelledError() if self._scopes is not None else _closed()
                )

        job: Job[T] = Job(lambda: self._soon(copy_context().run, begin), cancel)
        return job

    def submit(self, function: Callable[..., Awaitable[T]], *args: Any, **named: Any) -> Job[T]:
        """Run an async function in a task of its own, with a copy of the caller's context
        variables.

        Raises:
            trio.RunFinishedError: The portal was closed.
            RuntimeError: This is the trio thread; it cannot wait for itself.
        """
        job = self.job(function, *args, **named)
        job.start()
        return job

    def hold(self, manager: AbstractAsyncContextManager[T]) -> Held[T]:
        """Enter an async context manager in a task that, as trio demands, will leave it, too.

        Raises:
            trio.RunFinishedError: The portal was closed.
            RuntimeError: This is the trio thread; it cannot wait for itself.
        """
        held = Held(self, manager)
        held.job.start()
        return held


class Held(Generic[T]):
    """A context manager held open on the trio side, once its job is started.

    Attributes:
        entered: What it yields; its exception if it could not be entered.
        job: The task that holds it. It gives whether the manager swallowed the error that it was
            left with.
    """

    def __init__(self, portal: Portal, manager: AbstractAsyncContextManager[T]) -> None:
        self.entered: Future[T] = _running()
        self._portal = portal
        self._manager = manager
        self._left = trio.Event()
        self._error: BaseException | None = None
        self.job = portal.job(self._live)
        self.job.future.add_done_callback(self._over)

    def leave(self, error: BaseException | None = None) -> Job[bool]:
        """Leave it: with nothing, with an error, or, if the error is no ``Exception``, as a block
        that is cancelled.
        """
        self._error = error
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
                    await trio.lowlevel.checkpoint()
            return raised
        return False

    def _over(self, future: Future[bool]) -> None:
        if not self.entered.done():
            self.entered.set_exception(future.exception())


def _closed() -> trio.RunFinishedError:
    return trio.RunFinishedError("The portal was closed.")
