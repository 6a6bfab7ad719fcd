"""A kernel on a trio thread of its own, for hosts that do not run trio. ``hilum.aio`` and ``hilum.blocking`` stand on it.

Not guest mode: a host that blocks would slow it tenfold, and an abandoned guest run never unwinds.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import trio

T = TypeVar("T")


class Portal:
    """Runs functions on the trio thread. ``start`` and ``close`` bracket its life."""

    def __init__(self) -> None:
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self._stop: trio.Event | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread and wait until trio runs in it."""
        ready = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._main, ready), name="hilum", daemon=True)
        self._thread.start()
        ready.wait()

    async def _main(self, ready: threading.Event) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._stop = trio.Event()
        async with trio.open_nursery() as self._nursery:
            ready.set()
            await self._stop.wait()
            self._nursery.cancel_scope.cancel()

    def submit(self, function: Callable[..., Awaitable[T]], *args: Any) -> tuple[Future[T], Callable[[], None]]:
        """Run an async function in a task of its own.

        Returns:
            Its future, and a function that cancels it. The future ends only when the task has unwound.
        """
        assert self._token is not None
        assert self._nursery is not None
        future: Future[T] = Future()
        scope = trio.CancelScope()
        nursery, token = self._nursery, self._token

        async def task() -> None:
            try:
                with scope:
                    future.set_result(await function(*args))
            except trio.Cancelled:
                future.cancel()
                raise
            except BaseException as error:
                future.set_exception(error)
            else:
                if not future.done():
                    future.cancel()

        def begin() -> None:
            nursery.start_soon(task, name=f"portal {getattr(function, '__qualname__', function)}")

        def cancel() -> None:
            token.run_sync_soon(scope.cancel)

        token.run_sync_soon(begin)
        return future, cancel

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call a plain function on the trio thread and wait for what it gives."""

        async def run() -> T:
            return function(*args)

        return self.submit(run)[0].result()

    def close(self) -> None:
        """End everything and wait for the thread."""
        if self._token is not None and self._stop is not None and self._thread is not None:
            self._token.run_sync_soon(self._stop.set)
            self._thread.join()


class Held:
    """An async context manager entered and left in one task of the portal, as trio demands."""

    def __init__(self, portal: Portal, manager: Any) -> None:
        self._portal, self._manager = portal, manager
        self._up: Future[Any] = Future()
        self._leave: trio.Event | None = None
        self._over: Future[None] | None = None
        self._cancel: Callable[[], None] = lambda: None

    def enter(self) -> Future[Any]:
        """Enter it; the future gives what it yields."""
        self._over, self._cancel = self._portal.submit(self._hold)
        return self._up

    async def _hold(self) -> None:
        self._leave = trio.Event()
        try:
            async with self._manager as value:
                self._up.set_result(value)
                await self._leave.wait()
        except BaseException as error:
            if not self._up.done():
                self._up.set_exception(error)
                return
            raise

    def leave(self) -> Future[None]:
        """Leave it; the future ends when everything in it has ended."""
        assert self._over is not None
        if self._leave is not None:
            self._portal.call(self._leave.set)
        return self._over

    def cancel(self) -> None:
        """Give up entering it."""
        self._cancel()
