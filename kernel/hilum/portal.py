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
Cancel = Callable[[], None]


class Portal:
    """Runs functions on a trio thread, which lives until ``close``."""

    def __init__(self) -> None:
        ready = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._main, ready), name="hilum", daemon=True)
        self._thread.start()
        ready.wait()

    async def _main(self, ready: threading.Event) -> None:
        self._soon = trio.lowlevel.current_trio_token().run_sync_soon
        async with trio.open_nursery() as self._nursery:
            ready.set()
            await trio.sleep_forever()

    def close(self) -> None:
        """End everything and wait for the thread."""
        self._soon(self._nursery.cancel_scope.cancel)
        self._thread.join()

    def submit(self, function: Callable[..., Awaitable[T]], *args: Any, **named: Any) -> tuple[Future[T], Cancel]:
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
                raise
            except BaseException as error:
                future.set_exception(error)
            finally:
                future.cancel()  # unless it has ended

        self._soon(self._nursery.start_soon, task)
        return future, functools.partial(self._soon, scope.cancel)

    def hold(self, manager: AbstractAsyncContextManager[T]) -> tuple[Future[T], Cancel, Callable[[], Future[None]]]:
        """Enter a context manager in a task of its own; as trio demands, that task leaves it, too.

        Returns:
            The future of what it yields, a function that gives up entering it, and one that leaves it and gives the
            future of its end.
        """
        up: Future[T] = Future()
        stop = trio.Event()

        async def live() -> None:
            try:
                async with manager as value:
                    up.set_result(value)
                    await stop.wait()
            except BaseException as error:
                if up.done():
                    raise
                up.set_exception(error)

        def leave() -> Future[None]:
            self._soon(stop.set)
            return over

        over, cancel = self.submit(live)
        return up, cancel, leave


class Proxy:
    """Stands on the host's side for a kernel, session or run, which is ``trio`` here.

    Its attributes are those of the object it stands for: a plain method is called on the trio thread, an async method, an
    async iterator or an async context manager becomes what the host has for it (``_run``, ``_iterate``, ``_hold``).
    """

    _run: Any
    _iterate: Any
    _hold: Any

    def __init__(self, portal: Portal, target: Any) -> None:
        self._portal, self.trio = portal, target

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.trio, name)
        if inspect.iscoroutinefunction(value):
            return functools.partial(self._run, value)
        return functools.partial(self._call, value) if callable(value) else self._wrap(value)

    def _call(self, function: Any, *args: Any, **named: Any) -> Any:
        async def call() -> Any:
            return function(*args, **named)

        return self._wrap(self._portal.submit(call)[0].result())

    def _wrap(self, value: Any) -> Any:
        """Give a result to the host: our own objects as proxies, context managers as the host's kind."""
        if isinstance(value, AbstractAsyncContextManager):
            return self._hold(value)
        if hasattr(value, "__anext__"):
            return self._iterate(value)
        if isinstance(value, list):
            return [self._wrap(item) for item in value]
        return type(self)(self._portal, value) if type(value).__module__ in ("hilum.session", "hilum.kernel") else value
