"""Plugin coroutines that run in separate tasks.

The owner of such a task can wait for the task, cancel it, and finally abandon it. The task is not
in a nursery. A nursery cannot be left while one of its tasks ignores its cancellation, so a plugin
that shields itself would hang the session. The owner must therefore end the task.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import Any

import trio

GRACE_SECONDS = 5.0
"""Seconds that a cancelled task has to clean up before its shields are removed."""
BROKEN_SECONDS = 1.0
"""Seconds that the task then has to end before it is abandoned."""


class Supervised:
    """A coroutine function that runs in a separate task.

    Args:
        function: The coroutine function.
        args: The function's arguments.
        name: Name of the task.
        on_end: Called in the task when the function has ended, for whatever reason.

    Attributes:
        scope: The cancel scope of the function.
        over: Set when the function has ended.
        value: The return value of the function.
        error: The exception that the function raised.
        returned: Whether the function returned.
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
        """Cancel the task and wait until it has ended, even if the caller is cancelled.

        Args:
            grace: Seconds for which the task may shield itself.

        Returns:
            Whether the task has ended; if not, the task is abandoned.
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

    If the caller is cancelled, the call is cancelled, and the caller waits for its end, but only
    for a limited time (see ``Supervised.cancel``).

    Args:
        seconds: Maximum duration.
        function: The function.
        args: The function's arguments.
        name: Name of the task.

    Returns:
        The return value of the function.

    Raises:
        trio.TooSlowError: The function took longer than ``seconds``, even if it ended when it was
            cancelled.
    """
    task = Supervised(function, *args, name=name)
    deadline = trio.current_time() + seconds
    task.scope.deadline = deadline
    try:
        with trio.move_on_after(seconds + GRACE_SECONDS):
            await task.over.wait()
    except trio.Cancelled:
        await task.cancel()
        # If the function has returned a value, such as an opened store, the value must not be lost.
        # trio delivers the cancellation again at the caller's next checkpoint.
        if not task.returned and task.error is None:
            raise
    if not task.over.is_set() and not await task.cancel(0):
        raise trio.TooSlowError("The task ignored its cancellation and was abandoned.")
    if task.error is not None:
        if isinstance(task.error, trio.Cancelled) and not task.scope.cancel_called:
            await trio.lowlevel.checkpoint_if_cancelled()
            raise RuntimeError(
                "The plugin raised trio.Cancelled although nothing was cancelled."
            ) from task.error
        raise task.error
    # A function that blocked, or that caught its cancellation and returned, was also too slow.
    if not task.returned or trio.current_time() >= deadline:
        raise trio.TooSlowError
    return task.value


def _break_shields(scope: trio.CancelScope) -> None:
    """Remove the shields of all scopes inside a cancelled scope.

    trio has no other way to end a task that shields itself forever, and ``trio.run`` does not
    return before all tasks have ended. The tree of scopes is not a public API of trio. If it is
    missing, the shields stay.
    """
    waiting = [getattr(scope, "_cancel_status", None)]
    while waiting:
        status = waiting.pop()
        for child in tuple(getattr(status, "_children", ())):
            child._scope.shield = False
            waiting.append(child)
