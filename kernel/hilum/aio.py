"""hilum for asyncio programs: the kernel runs on a trio thread of its own; cancelling waits until its side has ended.

async with hilum.aio.open_kernel(model="openai/gpt-5") as kernel, kernel.open_session(".") as session:
    print((await session.run("Fix the failing test")).text)
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import trio

from hilum.portal import Held, Portal
from hilum.tools import Tool
from hilum.tools import tool as trio_tool

if TYPE_CHECKING:
    from hilum.events import AnyEvent, Delta, RunEnded
    from hilum.kernel import Kernel as TrioKernel
    from hilum.session import Run as TrioRun
    from hilum.session import Session as TrioSession

T = TypeVar("T")


async def _await(portal: Portal, function: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Run a function on the trio side; if this task is cancelled, cancel it there and wait until it has unwound."""
    future, cancel = portal.submit(function, *args)
    wrapped = asyncio.wrap_future(future)
    try:
        return await asyncio.shield(wrapped)
    except asyncio.CancelledError:
        if not wrapped.done():
            cancel()
            await asyncio.wait([wrapped])
        raise


class Run:
    """An agent working on one prompt, seen from asyncio."""

    def __init__(self, portal: Portal, run: TrioRun) -> None:
        self._portal, self.trio = portal, run

    async def wait(self) -> RunEnded:
        """Wait for the end."""
        return await _await(self._portal, self.trio.wait)

    def stop(self) -> None:
        """End the run at once, with everything it started."""
        self._portal.call(self.trio.stop)


class Session:
    """A session, seen from asyncio; ``trio`` is the session itself, to be touched on its own thread only."""

    def __init__(self, portal: Portal, session: TrioSession) -> None:
        self._portal, self.trio = portal, session

    @property
    def id(self) -> str:
        """The session's id."""
        return self.trio.id

    async def prompt(self, text: str, **options: Any) -> Run:
        """Give an agent something to do; see ``hilum.Session.prompt``."""
        return Run(self._portal, await _await(self._portal, functools.partial(self.trio.prompt, text, **options)))

    async def run(self, text: str, **options: Any) -> RunEnded:
        """Prompt and wait for the end; cancelling stops the run and waits for that."""
        run = await self.prompt(text, **options)
        try:
            return await run.wait()
        except asyncio.CancelledError:
            run.stop()
            await run.wait()
            raise

    def answer(self, approval: str, accepted: bool, **options: Any) -> None:
        """Answer an approval; see ``hilum.Session.answer``."""
        self._portal.call(functools.partial(self.trio.answer, approval, accepted, **options))

    def set(self, **changes: Any) -> None:
        """Change mode, model or approval policy; see ``hilum.Session.set``."""
        self._portal.call(functools.partial(self.trio.set, **changes))

    def stop(self) -> None:
        """End everything that runs in the session."""
        self._portal.call(self.trio.stop)

    async def events(self, after: int = 0, *, deltas: bool = False) -> AsyncIterator[AnyEvent | Delta]:
        """Read events in order, until the session closes; see ``hilum.Session.events``."""
        stream = self.trio.events(after, deltas=deltas)
        try:
            while True:
                try:
                    event = await _await(self._portal, stream.__anext__)
                except StopAsyncIteration:
                    return
                yield event
        finally:
            await _await(self._portal, stream.aclose)  # type: ignore[attr-defined]


class Kernel:
    """A kernel, seen from asyncio."""

    def __init__(self, portal: Portal, kernel: TrioKernel) -> None:
        self._portal, self.trio = portal, kernel

    @asynccontextmanager
    async def open_session(self, workspace: str = ".", **options: Any) -> AsyncIterator[Session]:
        """Open a session; see ``hilum.Kernel.open_session``."""
        async with _held(self._portal, self.trio.open_session(workspace, **options)) as session:
            yield Session(self._portal, session)


@asynccontextmanager
async def _held(portal: Portal, manager: Any) -> AsyncIterator[Any]:
    held = Held(portal, manager)
    entering = asyncio.wrap_future(held.enter())
    try:
        value = await asyncio.shield(entering)
    except asyncio.CancelledError:
        held.cancel()
        await asyncio.wait([entering])
        raise
    try:
        yield value
    finally:
        leaving = asyncio.wrap_future(await asyncio.to_thread(held.leave))
        try:
            await asyncio.shield(leaving)
        except asyncio.CancelledError:
            await asyncio.wait([leaving])
            raise


@asynccontextmanager
async def open_kernel(*args: Any, **options: Any) -> AsyncIterator[Kernel]:
    """Open a kernel on a thread of its own; takes what ``hilum.open_kernel`` takes."""
    from hilum.kernel import open_kernel as opened

    portal = Portal()
    await asyncio.to_thread(portal.start)
    try:
        async with _held(portal, opened(*args, **options)) as kernel:
            yield Kernel(portal, kernel)
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
            coroutine: Any = function(*args, **kwargs)
            future: Any = asyncio.run_coroutine_threadsafe(coroutine, loop)
            done = trio.Event()
            token = trio.lowlevel.current_trio_token()
            future.add_done_callback(lambda _: token.run_sync_soon(done.set))
            try:
                await done.wait()
            except trio.Cancelled:
                future.cancel()
                with trio.CancelScope(shield=True):
                    await done.wait()
                raise
            return future.result()

        return trio_tool(**options)(run)

    return make
