"""Lifespans: each plugin has one supervised task, from opening to closing.

A crash in such a task ends only its plugin.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, TypeVar

import msgspec
import trio

from hilum.hooks.current import running_plugin
from hilum.hooks.failures import PLUGIN_EXCEPTIONS, split_failure, unwrap_group
from hilum.hooks.supervised import Supervised, call_within

T = TypeVar("T")
Crashed = Callable[[str, BaseException], None]
CLOSE_SECONDS = 5.0


class Lifespans(msgspec.Struct, eq=False):
    """The lifespans of all plugins in a program or a part of the program.

    Args:
        hook: Name of the function in a plugin's module that opens its lifespan.
        owner: The kernel or session, which is passed to each implementation.
        crashed: Called with the plugin's name and the error when a lifespan fails after it has
            opened.
        project: The pluggy project whose marker the function must have.
        deadline: Maximum number of seconds that opening may take.
    """

    hook: str
    owner: object
    crashed: Crashed
    project: str
    deadline: float = 30.0
    _instances: list[object] = []
    _preferred: list[object] = []
    _open: list[_Lifespan] = []
    _found: dict[type, object] = {}

    async def open(self, plugin: str, module: object, *, preferred: bool = False) -> object:
        """Open a plugin's lifespan, if it has one.

        Args:
            plugin: Name of the plugin.
            module: Its module.
            preferred: Whether ``plugin`` returns this instance in preference to others with the
                same methods.

        Returns:
            The instance that the function yields, or returns if it is not a generator.

        Raises:
            Exception: The lifespan failed to open or took too long (``trio.TooSlowError``).
        """
        function: Any = getattr(module, self.hook, None)
        if not hasattr(function, f"{self.project}_impl"):
            return None
        if inspect.isgeneratorfunction(function):
            raise TypeError(f"{self.hook} yields but is a plain def: write async def {self.hook}.")
        # As in every hook, an implementation may leave out the parameter.
        arguments = (self.owner,)[: len(inspect.signature(function).parameters)]
        with running_plugin(plugin):
            if inspect.isasyncgenfunction(function):
                instance = await self._enter(plugin, asynccontextmanager(function)(*arguments))
            elif inspect.iscoroutinefunction(function):
                instance = await call_within(
                    self.deadline, function, *arguments, name=f"{self.hook} of {plugin}"
                )
            else:
                instance = function(*arguments)
        (self._preferred if preferred else self._instances).append(instance)
        # The new instance may be preferred to what was found before.
        self._found.clear()
        return instance

    async def _enter(self, plugin: str, manager: AbstractAsyncContextManager[object]) -> object:
        lifespan = _Lifespan(plugin, manager, self.crashed)
        # From here on, `close` ends the lifespan even if the caller is cancelled while it opens.
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
                "" if ended else "The task ignored its cancellation and was abandoned."
            )
        if not lifespan.up:
            raise lifespan.failure()
        return lifespan.instance

    def plugin(self, kind: type[T]) -> T | None:
        """Return the instance of a type; ``None`` if there is no such instance."""
        # A check against a protocol is slow: in a turn that reads a file, the checks of all
        # instances took 0.3 ms of 7 (tests/benchmarks/real_project.py).
        found: T | None = self._found.get(kind)  # type: ignore[assignment]
        if found is not None:
            return found
        method = _find_method(kind)  # type: ignore[arg-type]  # a class is hashable
        for instance in (*self._preferred, *self._instances):
            # A check against a protocol reads attributes, and a plugin's property may raise an
            # exception.
            with suppress(*PLUGIN_EXCEPTIONS):
                if method and not hasattr(instance, method):
                    continue
                if isinstance(instance, kind):
                    self._found[kind] = instance
                    return instance
        return None

    async def close(self) -> None:
        """Close all lifespans in reverse order.

        Each lifespan is asked to stop, and is cancelled if it does not stop in time.
        """
        for lifespan in reversed(self._open):
            await lifespan.close()


@functools.lru_cache(maxsize=1000)
def _find_method(kind: type) -> str:
    """Return a method without which no object is an instance of a protocol.

    Returns:
        The method's name; empty if the type is not a protocol or has no public method.
    """
    if not getattr(kind, "_is_protocol", False):
        return ""
    for name, value in vars(kind).items():
        if inspect.isfunction(value) and not name.startswith("_"):
            return name
    return ""


class _Lifespan:
    """The lifespan of one plugin.

    Attributes:
        settled: Set when the lifespan has opened or failed to open.
        up: Whether the lifespan has opened.
        instance: The object that the plugin's function yielded.
    """

    def __init__(
        self, plugin: str, manager: AbstractAsyncContextManager[object], crashed: Crashed
    ) -> None:
        self.settled = trio.Event()
        self.up = False
        self.instance: object = None
        self._plugin = plugin
        self._manager = manager
        self._crashed = crashed
        self._stop = trio.Event()
        self._abandoned = False

    def begin(self) -> None:
        """Start the lifespan's task."""
        name = f"lifespan of {self._plugin}"
        self._task = Supervised(self._live, name=name, on_end=self._ended)

    async def _live(self) -> None:
        async with self._manager as self.instance:
            self.up = True
            self.settled.set()
            await self._stop.wait()

    def _ended(self) -> None:
        self.settled.set()
        if not self.up or self._abandoned:
            return
        failure = self._find_failure()
        if failure is None and not self._stop.is_set() and not self._task.scope.cancel_called:
            failure = RuntimeError("The lifespan ended before it was asked to stop.")
        if failure is not None:
            self._crashed(self._plugin, failure)

    def failure(self) -> BaseException:
        """Return the exception that kept the lifespan from opening."""
        failure = self._find_failure()
        if failure is not None:
            return unwrap_group(failure)
        return RuntimeError("The lifespan ended before it opened.")

    def _find_failure(self) -> BaseException | None:
        """Return the exception that ended the task, without cancellations."""
        error = self._task.error
        return None if error is None else split_failure(error)[0]

    async def abandon(self) -> bool:
        """End a lifespan that has not opened, and return whether it ended."""
        self._abandoned = True
        return await self._task.cancel(CLOSE_SECONDS)

    async def close(self) -> None:
        """Stop the lifespan: request it, wait, cancel the task, wait again, and abandon the task.

        Cancelling the caller does not shorten the wait.
        """
        self._stop.set()
        if self._abandoned:
            return
        with trio.move_on_after(CLOSE_SECONDS, shield=True):
            await self._task.over.wait()
        if not self._task.over.is_set() and not await self._task.cancel(CLOSE_SECONDS):
            self._abandoned = True
            late = trio.TooSlowError("The task ignored its cancellation and was abandoned.")
            self._crashed(self._plugin, late)


@asynccontextmanager
async def open_nursery() -> AsyncIterator[trio.Nursery]:
    """Open a nursery whose tasks are cancelled at the end of its block.

    A single exception propagates as it was raised, not in a group.
    """
    try:
        async with trio.open_nursery() as nursery:
            yield nursery
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        error = unwrap_group(group)
        if error is group:
            raise
        raise error from error.__cause__
