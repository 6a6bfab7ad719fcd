"""Plugin coroutines that run in separate tasks.

The owner of such a task can wait for it, cancel it, and finally abandon it. The task is in no
nursery: a nursery cannot be left while a task in it ignores its cancellation, and one plugin that
shields itself would hang the session. So the owner must end it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import Any

import trio

GRACE_SECONDS = 5.0
"""Seconds that a cancelled task has to clean up before its shields are removed."""
BROKEN_SECONDS = 1.0
"""Seconds that it then has to end, before it is abandoned."""


class Supervised:
    """A coroutine function that runs in a separate task.

    Args:
        function: The coroutine function.
        args: Its arguments.
        name: Name of the task.
        on_end: Called in the task when the function has ended, for whatever reason.

    Attributes:
        scope: Cancel scope of the function.
        over: Set when it has ended.
        value: Its return value.
        error: The exception that it raised.
        returned: Whether it returned.
    """

    def __init__(
        self,
        function: Callable[..., Awaitable[Any]],
        *args: Any,
        name: str,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self.scope: trio.CancelScope = trio.CancelScope()
        self.over: trio.Event = trio.Event()
        self.value: Any = None
        self.error: BaseException | None = None
        self.returned: bool = False
        self._on_end = on_end
        # A system task does not inherit context variables, such as the environment of the kernel.
        trio.lowlevel.spawn_system_task(
            self._run, function, args, name=name, context=copy_context()
        )

    async def _run(self, function: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> None:
        # An exception that escaped from a system task would crash the program.
        try:
            with self.scope:
                self.value = await function(*args)
                self.returned = True
        except BaseException as error:
            self.error = error
        self.over.set()
        self._on_end()

    async def cancel(self, grace: float = GRACE_SECONDS) -> bool:
        """Cancel it and wait until it has ended, whether or not the caller is cancelled.

        Args:
            grace: Seconds for which it may shield itself.

        Returns:
            Whether it has ended; if not, it is abandoned.
        """
        self.scope.cancel()
        with trio.move_on_after(grace, shield=True):
            await self.over.wait()
        if not self.over.is_set():
            _break_shields(self.scope)
            with trio.move_on_after(BROKEN_SECONDS, shield=True):
                await self.over.wait()
        return self.over.is_set()


async def call_within(
    seconds: float, function: Callable[..., Awaitable[Any]], *args: Any, name: str
) -> Any:
    """Call a coroutine function of a plugin in a separate task.

    A caller that is cancelled cancels the call and waits for its end, but never longer than
    ``GRACE_SECONDS``.

    Args:
        seconds: Maximum duration.
        function: The function.
        args: Its arguments.
        name: Name of the task.

    Returns:
        What it returned.

    Raises:
        trio.TooSlowError: It took longer, whether or not it ended when it was cancelled.
    """
    task = Supervised(function, *args, name=name)
    deadline = trio.current_time() + seconds
    task.scope.deadline = deadline
    try:
        with trio.move_on_after(seconds + GRACE_SECONDS):
            await task.over.wait()
    except trio.Cancelled:
        await task.cancel()
        # A value that was created meanwhile, such as an opened store, must not be lost. The
        # cancellation is delivered again.
        if not task.returned and task.error is None:
            raise
    if not task.over.is_set() and not await task.cancel(0):
        raise trio.TooSlowError("It ignored its cancellation and was abandoned.")
    if task.error is not None:
        if isinstance(task.error, trio.Cancelled) and not task.scope.cancel_called:
            await trio.lowlevel.checkpoint_if_cancelled()
            raise RuntimeError(
                "It raised trio.Cancelled although nothing was cancelled."
            ) from task.error
        raise task.error
    # A function that blocked, or that caught its cancellation and returned, was too slow as well.
    if not task.returned or trio.current_time() >= deadline:
        raise trio.TooSlowError
    return task.value


def _break_shields(scope: trio.CancelScope) -> None:
    """Remove the shields of all scopes inside a cancelled one.

    trio has no other way to end a task that shields itself forever, and ``trio.run`` does not
    return before it has ended. The tree of scopes is not a public API: if it is missing, the
    shields stay.
    """
    waiting = [getattr(scope, "_cancel_status", None)]
    while waiting:
        status = waiting.pop()
        for child in tuple(getattr(status, "_children", ())):
            child._scope.shield = False
            waiting.append(child)
