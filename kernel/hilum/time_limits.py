"""Time limits for calls, enforced even if a tool ignores its cancellation.

A call that does not end in time is abandoned, and the session continues.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import Any

import msgspec
import trio

_left_behind: set[int] = set()


def calls_left_behind() -> int:
    """Return how many abandoned calls of this process are still running.

    When the program ends, ``trio.run`` waits for these calls, however long that takes. A program
    that must not wait can end its process with ``os._exit`` once everything is closed and written.
    """
    return len(_left_behind)


class TimedCall(msgspec.Struct, eq=False):
    """A function that runs within a time limit, in a task that its caller can abandon.

    Attributes:
        plugin: Name of the plugin that the function belongs to.
        deadline: Time on trio's clock at which the function is cancelled.
        grace: Seconds that the function has to end after its cancellation.
        value: The return value of the function.
        error: The exception that the function raised, except its own cancellation.
        ended_at: Time on trio's clock at which the function ended.
        abandoned: Whether the caller no longer waits for the function.
        stopped: Whether the user stopped the call.
    """

    plugin: str
    deadline: float
    grace: float
    value: Any = None
    error: BaseException | None = None
    ended_at: float = 0.0
    abandoned: bool = False
    stopped: bool = False
    _scope: trio.CancelScope = msgspec.field(default_factory=trio.CancelScope)
    _patience: trio.CancelScope = msgspec.field(default_factory=trio.CancelScope)
    _ended: trio.Event = msgspec.field(default_factory=trio.Event)

    @property
    def cancelled(self) -> bool:
        """Whether the function ended because it was cancelled."""
        return self._scope.cancelled_caught

    def cancel(self) -> None:
        """Cancel the function; if it does not end within its grace period, it is abandoned."""
        self._scope.cancel()
        self._patience.deadline = min(self._patience.deadline, trio.current_time() + self.grace)

    async def run(self, function: Callable[[], Awaitable[Any]]) -> None:
        """Run the function until it ends or is abandoned.

        If this method is cancelled, it cancels the function and waits until it has ended or its
        grace period is over.
        """
        self._scope.deadline = self.deadline
        self._patience.deadline = self.deadline + self.grace
        # The task runs in trio's system nursery, because a separate nursery could not be left while
        # the task ignores its cancellation. A system task is protected from Ctrl-C, so that Ctrl-C
        # reaches the program and is never mistaken for an error in the tool. A system task does not
        # inherit context variables either, so they are copied.
        trio.lowlevel.spawn_system_task(
            self._run, function, name=f"call of {self.plugin}", context=copy_context()
        )
        try:
            with self._patience:
                await self._ended.wait()
        except trio.Cancelled:
            self.cancel()
            # The wait is shielded, because the run must not end while the tool still changes
            # something. The wait also has a deadline, because the tool may ignore its cancellation.
            with trio.CancelScope(shield=True, deadline=self._patience.deadline):
                await self._ended.wait()
            self._leave()
            raise
        self._leave()

    def _leave(self) -> None:
        """Abandon the function if it has not ended."""
        if not self._ended.is_set():
            self.abandoned = True
            # The id stays unique, because the abandoned task keeps this object alive until it
            # discards the id.
            _left_behind.add(id(self))

    async def _run(self, function: Callable[[], Awaitable[Any]]) -> None:
        try:
            with self._scope:
                self.value = await function()
        # No exception may escape from a system task; the caller checks ``error``.
        except BaseException as error:
            self.error = error
        self.ended_at = trio.current_time()
        self._ended.set()
        _left_behind.discard(id(self))
