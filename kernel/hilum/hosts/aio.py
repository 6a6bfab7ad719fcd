"""Support for a trio program inside an asyncio program.

A cancelled host task ends only when the trio side has unwound.

::

    open_on_asyncio = hosted(open_on_trio, wraps=(Client, Stream))

    async with open_on_asyncio("example.org") as client:
        await client.fetch("/")
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import wraps as like
from typing import Any, ParamSpec, TypeVar

import trio

from hilum.hosts.portal import Job, Portal
from hilum.hosts.proxy import Proxy

P = ParamSpec("P")
T = TypeVar("T")


async def _ended(future: Future[Any]) -> None:
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    # The callback runs on the trio thread, and an asyncio event is not thread-safe.
    future.add_done_callback(lambda _: loop.call_soon_threadsafe(event.set))
    await event.wait()


async def wait(job: Job[Any], future: Future[T] | None = None) -> T:
    """Wait for a job, or for a future that the job will complete.

    Raises:
        asyncio.CancelledError: The current task was cancelled, once or more often. The job was also
            cancelled and has unwound.
        BaseException: The job's exception, even if it was raised while the job unwound.
    """
    ending: Future[Any] = future or job.future
    cancelled = None
    while not ending.done():
        try:
            await _ended(ending)
        except asyncio.CancelledError as error:
            # The wait continues, because the task must not leave early, even if it is cancelled
            # again.
            job.cancel()
            cancelled = error
            # Only the job is certain to end; a future that the job would have completed may stay
            # pending.
            ending = job.future
    if cancelled is not None and isinstance(
        ending.exception(), CancelledError | trio.RunFinishedError | None
    ):
        raise cancelled
    result: T = ending.result()
    return result


async def call(
    portal: Portal, function: Callable[..., Awaitable[T]], *args: Any, **named: Any
) -> T:
    """Run an async function on the trio side and wait for it, as ``wait`` does."""
    return await wait(portal.submit(function, *args, **named))


async def iterate(portal: Portal, stream: Any) -> AsyncIterator[Any]:
    """Iterate over an async iterator that runs on the trio side.

    When this iterator is closed, the iterator on the trio side is also closed, if it can be.
    """
    try:
        with suppress(StopAsyncIteration):
            while True:
                yield await call(portal, stream.__anext__)
    finally:
        if hasattr(stream, "aclose"):
            with suppress(trio.RunFinishedError):
                await call(portal, stream.aclose)


@asynccontextmanager
async def hold(portal: Portal, manager: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
    """Enter and leave an async context manager on the trio side, in a single task.

    An error in the block is raised in the manager on the trio side; if the block is cancelled, so
    is the manager.
    """
    held = portal.hold(manager)
    value = await wait(held.job, held.entered)
    try:
        yield value
    except BaseException as error:
        # As for every context manager, a true result means that the manager handled the error.
        if not await wait(held.leave(error)):
            raise
    else:
        await wait(held.leave())


class AioProxy(Proxy):
    """A proxy in an asyncio program for an object on the trio side."""

    async def _call(self, function: Any, *args: Any, **named: Any) -> Any:
        return self.wrap(await call(self._portal, function, *args, **named))

    def _iterate(self, stream: Any) -> AsyncIterator[Any]:
        return iterate(self._portal, stream)

    @asynccontextmanager
    async def _hold(self, manager: Any) -> AsyncIterator[Any]:
        async with hold(self._portal, manager) as value:
            yield self.wrap(value)


def hosted(
    function: Callable[P, AbstractAsyncContextManager[T]],
    *,
    wraps: tuple[type, ...] = (),
    name: str = "trio",
) -> Callable[P, AbstractAsyncContextManager[T]]:
    """Convert a function that returns a trio context manager into one for asyncio programs.

    Entering the new context manager starts a trio thread; leaving it ends everything on that
    thread. The context manager yields an ``AioProxy``, which is used in asyncio as the original
    object is used in trio, and is therefore annotated with the original's type.

    Args:
        function: The function, which is called on the host's side.
        wraps: Types of objects that the host always receives as proxies.
        name: Name of the thread.
    """

    @like(function)
    @asynccontextmanager
    async def opened(*args: P.args, **named: P.kwargs) -> AsyncIterator[T]:
        portal = Portal(name)
        try:
            async with AioProxy(portal, None, wraps)._hold(function(*args, **named)) as value:
                yield value
        finally:
            portal.main.cancel()
            await wait(portal.main)

    return opened


def from_trio(function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Convert a coroutine function of the current asyncio loop into one for trio tasks.

    Trio tasks on any thread can await the new function.

    If the trio task is cancelled, the coroutine is also cancelled, and the task waits for its end.
    The trio task gets a ``RuntimeError`` if the coroutine's own loop cancelled it, or if the loop
    is closed.
    """
    loop = asyncio.get_running_loop()

    @like(function)
    async def run(*args: P.args, **named: P.kwargs) -> T:
        ended = trio.Event()
        token = trio.lowlevel.current_trio_token()
        tasks: list[asyncio.Task[T]] = []

        async def work() -> T:
            return await function(*args, **named)

        def begin() -> None:
            tasks.append(loop.create_task(work()))
            tasks[0].add_done_callback(lambda _: token.run_sync_soon(ended.set))

        loop.call_soon_threadsafe(begin)
        try:
            await ended.wait()
        except trio.Cancelled:
            # The loop runs callbacks in order, so `begin` has created the task before this callback
            # runs.
            loop.call_soon_threadsafe(lambda: tasks[0].cancel())
            # The coroutine may take a while to end; without the shield, it would continue
            # unobserved.
            with trio.CancelScope(shield=True):
                await ended.wait()
            if tasks[0].cancelled() or tasks[0].exception() is None:
                raise
        if tasks[0].cancelled():
            raise RuntimeError("The coroutine was cancelled on its asyncio loop.")
        return tasks[0].result()

    return run
