"""Lifespans: one supervised task per plugin, from opening to closing, in which a crash ends that plugin alone."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

import msgspec
import trio

from hilum_hooks.table import FAULTS, single

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

    async def open(self, plugin: str, module: object, nursery: trio.Nursery) -> object:
        """Enter a plugin's lifespan, if it has one; gives the half it yields, or returns if it is a plain function.

        Args:
            plugin: Name of the plugin.
            module: Its module.
            nursery: Owns the task.

        Raises:
            Exception: It failed to come up, or took too long (``trio.TooSlowError``).
        """
        function: Any = getattr(module, self.hook, None)
        if not hasattr(function, f"{self.project}_impl"):
            return None
        arguments = (self.owner,)[: len(inspect.signature(function).parameters)]
        with trio.fail_after(self.deadline):
            if inspect.isasyncgenfunction(function):
                lifespan = _Lifespan(asynccontextmanager(function)(*arguments))
                half = await nursery.start(lifespan.live, plugin, self.crashed, name=f"lifespan of {plugin}")
                self._open.append(lifespan)
            else:
                half = function(*arguments)
                half = await half if inspect.isawaitable(half) else half
        self._halves.append(half)
        return half

    def half(self, kind: type[T]) -> T | None:
        """Give a half by its type, ``None`` if there is none."""
        return next((half for half in self._halves if isinstance(half, kind)), None)

    async def close(self) -> None:
        """Leave them in reverse order: each is asked to stop, has a bounded time, and then is cancelled."""
        for lifespan in reversed(self._open):
            lifespan.stop.set()
            lifespan.scope.deadline = trio.current_time() + CLOSE_SECONDS
            with trio.move_on_after(2 * CLOSE_SECONDS, shield=True):
                await lifespan.over.wait()


class _Lifespan(msgspec.Struct, eq=False):
    manager: AbstractAsyncContextManager[object]
    stop: trio.Event = msgspec.field(default_factory=trio.Event)
    over: trio.Event = msgspec.field(default_factory=trio.Event)
    scope: trio.CancelScope = msgspec.field(default_factory=trio.CancelScope)

    async def live(self, plugin: str, crashed: Crashed, task_status: trio.TaskStatus[object]) -> None:
        up = False
        try:
            with self.scope:
                async with self.manager as half:
                    up = True
                    task_status.started(half)
                    # From here on the plugin outlives a cancelled session until it was asked to stop.
                    self.scope.shield = True
                    await self.stop.wait()
        except FAULTS as error:
            if not up:
                raise
            crashed(plugin, error)
        finally:
            self.over.set()


@asynccontextmanager
async def open_nursery() -> AsyncIterator[trio.Nursery]:
    """A nursery whose tasks end with its block, and out of which a single exception comes as it was raised."""
    try:
        async with trio.open_nursery() as nursery:
            yield nursery
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        error = single(group)
        if error is group:
            raise
        raise error from error.__cause__
