"""hilum for asyncio programs: the kernel runs on a trio thread of its own; cancelling waits until its side has ended.

::

    async with hilum.aio.open_kernel(model="openai/gpt-5") as kernel, kernel.open_session(".") as session:
        print((await session.run("Fix the failing test")).text)
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from typing import Any

import trio

from hilum.kernel import open_kernel as open_on_trio
from hilum.portal import Cancel, Portal, Proxy
from hilum.tools import Tool
from hilum.tools import tool as trio_tool


async def _wait(future: Future[Any], cancel: Cancel) -> Any:
    """Wait for the trio side; if this task is cancelled, cancel it there and wait until it has unwound."""
    wrapped = asyncio.wrap_future(future)
    try:
        return await asyncio.shield(wrapped)
    except asyncio.CancelledError:
        if not wrapped.done():
            cancel()
            await asyncio.wait([wrapped])
        raise


class Aio(Proxy):
    """A kernel, session or run, seen from asyncio."""

    async def _run(self, function: Any, *args: Any, **named: Any) -> Any:
        return self._wrap(await _wait(*self._portal.submit(function, *args, **named)))

    async def _iterate(self, stream: Any) -> AsyncIterator[Any]:
        with suppress(StopAsyncIteration):
            while True:
                yield await self._run(stream.__anext__)

    @asynccontextmanager
    async def _hold(self, manager: Any) -> AsyncIterator[Any]:
        entered, cancel, leave = self._portal.hold(manager)
        value = await _wait(entered, cancel)
        try:
            yield self._wrap(value)
        finally:
            await _wait(leave(), lambda: None)


@asynccontextmanager
async def open_kernel(*args: Any, **options: Any) -> AsyncIterator[Any]:
    """Open a kernel on a thread of its own; takes what ``hilum.open_kernel`` takes."""
    portal = await asyncio.to_thread(Portal)
    try:
        async with Aio(portal, None)._hold(open_on_trio(*args, **options)) as kernel:
            yield kernel
    finally:
        await asyncio.to_thread(portal.close)


def tool(**options: Any) -> Callable[[Callable[..., Awaitable[Any]]], Tool]:
    """Like ``hilum.tool``, for a coroutine function that runs on the asyncio loop this is called in.

    A call that is cancelled (stopped, out of time) cancels the coroutine there and waits until it has ended.
    """
    loop = asyncio.get_running_loop()

    def make(function: Callable[..., Awaitable[Any]]) -> Tool:
        @functools.wraps(function)
        async def run(*args: Any, **kwargs: Any) -> Any:
            done, token = trio.Event(), trio.lowlevel.current_trio_token()
            tasks: list[asyncio.Future[Any]] = []

            def begin() -> None:
                tasks.append(asyncio.ensure_future(function(*args, **kwargs), loop=loop))
                tasks[0].add_done_callback(lambda _: token.run_sync_soon(done.set))

            loop.call_soon_threadsafe(begin)
            try:
                await done.wait()
            except trio.Cancelled:
                loop.call_soon_threadsafe(lambda: tasks[0].cancel())
                with trio.CancelScope(shield=True):
                    await done.wait()
                raise
            return tasks[0].result()

        return trio_tool(**options)(run)

    return make
