"""A kernel on a trio thread of its own, for hosts that do not run trio. ``hilum.aio`` and ``hilum.blocking`` stand on it.

Not guest mode: a host that blocks would slow it tenfold, and an abandoned guest run never unwinds.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import trio

T = TypeVar("T")


class Portal:
    """Runs functions on the trio thread. ``start`` and ``close`` bracket its life."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._main,), name="hilum", daemon=True)

    def start(self) -> None:
        """Start the thread and wait until trio runs in it."""
        self._thread.start()
        self._ready.wait()

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._stop = trio.Event()
        async with trio.open_nursery() as self._nursery:
            self._ready.set()
            await self._stop.wait()
            self._nursery.cancel_scope.cancel()

    def submit(
        self, function: Callable[..., Awaitable[T]], *args: Any, **named: Any
    ) -> tuple[Future[T], Callable[[], None]]:
        """Run an async function in a task of its own.

        Returns:
            Its future, and a function that cancels it. The future ends only when the task has unwound.
        """
        future: Future[T] = Future()
        scope = trio.CancelScope()

        async def task() -> None:
            try:
                with scope:
                    future.set_result(await function(*args, **named))
            except trio.Cancelled:
                future.cancel()
                raise
            except BaseException as error:
                future.set_exception(error)
            if not future.done():
                future.cancel()

        self._token.run_sync_soon(functools.partial(self._nursery.start_soon, task))
        return future, functools.partial(self._token.run_sync_soon, scope.cancel)

    def call(self, function: Callable[..., T], *args: Any, **named: Any) -> T:
        """Call a plain function on the trio thread and wait for what it gives."""

        async def run() -> T:
            return function(*args, **named)

        return self.submit(run)[0].result()

    def close(self) -> None:
        """End everything and wait for the thread."""
        self._token.run_sync_soon(self._stop.set)
        self._thread.join()


class Held:
    """An async context manager that is entered and left in one task of the portal, as trio demands."""

    def __init__(self, portal: Portal, manager: AbstractAsyncContextManager[Any]) -> None:
        self._portal, self._manager = portal, manager
        self._up: Future[Any] = Future()

    def enter(self) -> tuple[Future[Any], Callable[[], None]]:
        """Enter it; the future gives what it yields, the function gives up entering it."""
        self._over, cancel = self._portal.submit(self._hold)
        return self._up, cancel

    async def _hold(self) -> None:
        self._leave = trio.Event()
        try:
            async with self._manager as value:
                self._up.set_result(value)
                await self._leave.wait()
        except BaseException as error:
            if self._up.done():
                raise
            self._up.set_exception(error)

    def leave(self) -> Future[None]:
        """Leave it; the future ends when everything in it has ended."""
        self._portal.call(self._leave.set)
        return self._over


class Proxy:
    """Stands on the host's side for a kernel, session or run, which is ``trio`` here.

    Its attributes are those of the object it stands for: a plain method is called on the trio thread, an async method, an
    async iterator or an async context manager becomes what the host has for it.
    """

    def __init__(self, portal: Portal, target: Any) -> None:
        self._portal, self.trio = portal, target

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.trio, name)
        if inspect.iscoroutinefunction(value):
            return functools.partial(self._run, value)
        if callable(value):
            return lambda *args, **named: self._wrap(self._portal.call(value, *args, **named))
        return self._wrap(value)

    def _wrap(self, value: Any) -> Any:
        """Give a result to the host: our own objects as proxies, context managers as the host's kind."""
        if isinstance(value, AbstractAsyncContextManager):
            return self._hold(value)
        if hasattr(value, "__anext__"):
            return self._iterate(value)
        if isinstance(value, list):
            return [self._wrap(item) for item in value]
        return type(self)(self._portal, value) if type(value).__module__ in ("hilum.session", "hilum.kernel") else value

    def _run(self, function: Any, *args: Any, **named: Any) -> Any:
        raise AssertionError("the host's side says how to wait")

    _iterate = _hold = _run
