"""A coroutine of a plugin in a task of its own, which its owner can wait for, cancel, and at last
leave behind.

Such a task lives in no nursery of ours: a nursery cannot be left while a task in it ignores its
cancellation, and one plugin that shields itself would hang the session. Its owner ends it: nothing
else here starts a task.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import Any

import trio

GRACE_SECONDS = 5.0
"""Time that a cancelled task has to clean up before it is left behind."""
BROKEN_SECONDS = 1.0
"""Time that it has when its shields were taken away."""


class Supervised:
    """A coroutine function at work in a task of its own.

    Args:
        function: What runs.
        args: Its arguments.
        name: Name of the task.
        on_end: Called in the task when the function has ended, however it did.

    Attributes:
        scope: Cancels it.
        over: Set when it has ended.
        value: What it returned.
        error: What it raised.
        returned: Whether it returned.
    """

    def __init__(
        self,
        function: Callable[..., Awaitable[Any]],
        *args: Any,
        name: str,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self.scope = trio.CancelScope()
        self.over = trio.Event()
        self.value: Any = None
        self.error: BaseException | None = None
        self.returned = False
        self._on_end = on_end
        trio.lowlevel.spawn_system_task(
            self._run, function, args, name=name, context=copy_context()
        )

    async def _run(self, function: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> None:
        # An exception that left a system task would end the program.
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
            grace: Seconds that it may shield itself.

        Returns:
            Whether it has ended; else it is left behind.
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
    """Call a coroutine function of a plugin in a task of its own.

    A caller that is cancelled cancels the call and waits for its end, but never longer than
    ``GRACE_SECONDS``.

    Args:
        seconds: Time it may take.
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
        # A value that was made meanwhile (an opened store) must not be lost. The cancellation comes
        # again.
        if not task.returned and task.error is None:
            raise
    if not task.over.is_set() and not await task.cancel(0):
        raise trio.TooSlowError("It did not end when it was cancelled, and was left behind.")
    if task.error is not None:
        if isinstance(task.error, trio.Cancelled) and not task.scope.cancel_called:
            await trio.lowlevel.checkpoint_if_cancelled()
            raise RuntimeError(
                "It raised trio.Cancelled, and nothing had been cancelled."
            ) from task.error
        raise task.error
    # One that blocked, or that caught its cancellation and returned, was too slow as well.
    if not task.returned or trio.current_time() >= deadline:
        raise trio.TooSlowError
    return task.value


def _break_shields(scope: trio.CancelScope) -> None:
    """Take the shields of all scopes inside a cancelled one away.

    trio has no other way to end a task that shields itself for ever, and ``trio.run`` does not
    return before it has ended. The tree of scopes is not public: where it is not there, the shields
    stay.
    """
    waiting = [getattr(scope, "_cancel_status", None)]
    while waiting:
        status = waiting.pop()
        for child in tuple(getattr(status, "_children", ())):
            child._scope.shield = False
            waiting.append(child)
