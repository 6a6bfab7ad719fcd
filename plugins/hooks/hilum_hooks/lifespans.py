"""Lifespans: one supervised task per plugin, from opening to closing, in which a crash ends that
plugin alone.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

import msgspec
import trio

from hilum_hooks.failures import single, split_failure
from hilum_hooks.supervised import Supervised, call_within

T = TypeVar("T")
Crashed = Callable[[str, BaseException], None]
CLOSE_SECONDS = 5.0


class Lifespans(msgspec.Struct, eq=False):
    """The lifespans of all plugins in a program, or in a part of it.

    Args:
        hook: The function that opens one, an attribute of a plugin's module.
        owner: What they live in, which an implementation may take.
        crashed: Called with plugin and error when one fails after it came up.
        project: The project of pluggy's marker, which the function must bear.
        deadline: Seconds that opening may take.
    """

    hook: str
    owner: object
    crashed: Crashed
    project: str
    deadline: float = 30.0
    _halves: list[object] = msgspec.field(default_factory=list)
    _open: list[_Lifespan] = msgspec.field(default_factory=list)

    async def open(self, plugin: str, module: object) -> object:
        """Enter a plugin's lifespan, if it has one.

        Args:
            plugin: Name of the plugin.
            module: Its module.

        Returns:
            The half that it yields, or returns if it is a plain function.

        Raises:
            Exception: It failed to come up, or took too long (``trio.TooSlowError``).
        """
        function: Any = getattr(module, self.hook, None)
        if not hasattr(function, f"{self.project}_impl"):
            return None
        if inspect.isgeneratorfunction(function):
            raise TypeError(f"{self.hook} yields and is a plain def: write async def {self.hook}.")
        arguments = (self.owner,)[: len(inspect.signature(function).parameters)]
        if inspect.isasyncgenfunction(function):
            half = await self._enter(plugin, asynccontextmanager(function)(*arguments))
        elif inspect.iscoroutinefunction(function):
            half = await call_within(
                self.deadline, function, *arguments, name=f"{self.hook} of {plugin}"
            )
        else:
            half = function(*arguments)
        self._halves.append(half)
        return half

    async def _enter(self, plugin: str, manager: AbstractAsyncContextManager[object]) -> object:
        lifespan = _Lifespan(plugin, manager, self.crashed)
        # Closing finds it from now on: the caller may be cancelled in the very moment in which it
        # comes up.
        self._open.append(lifespan)
        lifespan.begin()
        try:
            with trio.move_on_after(self.deadline):
                await lifespan.settled.wait()
        except trio.Cancelled:
            await lifespan.abandon()
            raise
        if not lifespan.settled.is_set():
            ended = await lifespan.abandon()
            raise trio.TooSlowError(
                "" if ended else "It did not end when it was cancelled, and was left behind."
            )
        if not lifespan.up:
            raise lifespan.failure()
        return lifespan.half

    def half(self, kind: type[T]) -> T | None:
        """Return a half by its type, ``None`` if there is none."""
        return next((half for half in self._halves if isinstance(half, kind)), None)

    async def close(self) -> None:
        """Leave them in reverse order: each is asked to stop, has a bounded time, and then is
        cancelled.
        """
        for lifespan in reversed(self._open):
            await lifespan.close()


class _Lifespan:
    """A plugin's lifespan at work.

    Attributes:
        settled: Set when it has come up, or has failed to.
        up: Whether it came up.
        half: What it yielded.
    """

    def __init__(
        self, plugin: str, manager: AbstractAsyncContextManager[object], crashed: Crashed
    ) -> None:
        self.settled = trio.Event()
        self.up = False
        self.half: object = None
        self._plugin = plugin
        self._manager = manager
        self._crashed = crashed
        self._stop = trio.Event()
        self._abandoned = False

    def begin(self) -> None:
        """Start its task."""
        name = f"lifespan of {self._plugin}"
        self._task = Supervised(self._live, name=name, on_end=self._ended)

    async def _live(self) -> None:
        async with self._manager as self.half:
            self.up = True
            self.settled.set()
            await self._stop.wait()

    def _ended(self) -> None:
        self.settled.set()
        if not self.up or self._abandoned:
            return
        error = self._task.error
        failure = split_failure(error)[0] if error is not None else None
        if failure is None and not self._stop.is_set() and not self._task.scope.cancel_called:
            failure = RuntimeError("It ended before it was asked to.")
        if failure is not None:
            self._crashed(self._plugin, failure)

    def failure(self) -> BaseException:
        """Return why it did not come up."""
        error = self._task.error
        failure = split_failure(error)[0] if error is not None else None
        if failure is not None:
            return single(failure)
        return RuntimeError("It ended before it came up.")

    async def abandon(self) -> bool:
        """End it before it came up; returns whether it ended."""
        self._abandoned = True
        return await self._task.cancel(CLOSE_SECONDS)

    async def close(self) -> None:
        """Ask it to stop, wait, cancel it, wait again, and at last leave it behind.

        Cancelling the caller shortens nothing.
        """
        self._stop.set()
        if self._abandoned:
            return
        with trio.move_on_after(CLOSE_SECONDS, shield=True):
            await self._task.over.wait()
        if not self._task.over.is_set() and not await self._task.cancel(CLOSE_SECONDS):
            self._abandoned = True
            late = trio.TooSlowError("It did not end when it was cancelled, and was left behind.")
            self._crashed(self._plugin, late)


@asynccontextmanager
async def open_nursery() -> AsyncIterator[trio.Nursery]:
    """A nursery whose tasks end with its block, and out of which a single exception comes as it was
    raised.
    """
    try:
        async with trio.open_nursery() as nursery:
            yield nursery
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        error = single(group)
        if error is group:
            raise
        raise error from error.__cause__
