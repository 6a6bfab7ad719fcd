"""Lifespans: one supervised task per plugin, from opening to closing, in which a crash ends that plugin alone."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

from hilum.hooks import FAULTS, single

CLOSE_SECONDS = 5.0


@attrs.define(eq=False)
class Lifespan:
    """A plugin's lifespan while it is up.

    Attributes:
        plugin: Whose it is.
        half: What it yielded.
    """

    plugin: str
    half: object = None
    _stop: trio.Event = attrs.field(factory=trio.Event)
    _over: trio.Event = attrs.field(factory=trio.Event)
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    async def open(
        self,
        nursery: trio.Nursery,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        deadline: float,
        crashed: Callable[[str, BaseException], None],
    ) -> object:
        """Enter the lifespan; returns when it has yielded its half.

        Args:
            nursery: Owns the task.
            function: Async generator function, or a plain or async function that returns the half.
            arguments: What it may take.
            deadline: Seconds it may take to come up.
            crashed: Called with plugin and error when it fails after it came up.

        Raises:
            Exception: It failed to come up, or took too long (``trio.TooSlowError``).
        """
        arguments = arguments[: len(inspect.signature(function).parameters)]
        with trio.fail_after(deadline):
            if not inspect.isasyncgenfunction(function):
                self.half = function(*arguments)
                if inspect.isawaitable(self.half):
                    self.half = await self.half
                self._over.set()
            else:
                name = f"lifespan of {self.plugin}"
                self.half = await nursery.start(self._live, function, arguments, crashed, name=name)
        return self.half

    async def _live(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        crashed: Callable[[str, BaseException], None],
        task_status: trio.TaskStatus[object],
    ) -> None:
        up = False
        try:
            with self._scope:
                async with asynccontextmanager(function)(*arguments) as half:
                    up = True
                    task_status.started(half)
                    # From here on the plugin outlives a cancelled session until it was asked to stop.
                    self._scope.shield = True
                    await self._stop.wait()
        except FAULTS as error:
            if not up:
                raise
            crashed(self.plugin, error)
        finally:
            self._over.set()

    async def close(self) -> None:
        """Leave the lifespan: ask it to stop, wait a bounded time, then cancel it."""
        self._stop.set()
        with trio.CancelScope(shield=True):
            with trio.move_on_after(CLOSE_SECONDS):
                await self._over.wait()
                return
            self._scope.shield = False
            self._scope.cancel()
            with trio.move_on_after(CLOSE_SECONDS):
                await self._over.wait()


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
