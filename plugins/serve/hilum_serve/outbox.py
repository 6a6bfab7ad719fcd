"""The operations of a client on a session, which are carried out one after another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio
from hilum import HilumError
from hilum.errors import E_BUSY

MAX_WAITING = 1_000
Send = Callable[[], Awaitable[Any]]


class PendingOperation:
    """An operation that waits for its turn or its response."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.result: Any = None
        self.error: HilumError | None = None

    async def wait(self) -> Any:
        """Wait for the result.

        Raises:
            HilumError: The server refused the operation, or cannot be reached.
        """
        await self.done.wait()
        if self.error is not None:
            raise self.error
        return self.result


class Outbox:
    """Operations that wait for their turn, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._waiting, self._operations = trio.open_memory_channel[Send](MAX_WAITING)

    async def run(self) -> None:
        """Carry out operations, until cancelled."""
        async for operation in self._operations:
            await operation()

    def submit(self, send: Send) -> PendingOperation:
        """Carry out an operation after those before it; it is carried out even if nobody waits.

        Raises:
            HilumError: Too many operations wait (``E_BUSY``).
        """
        pending = PendingOperation()

        async def carry_out() -> None:
            try:
                pending.result = await send()
            except HilumError as error:
                pending.error = error
            pending.done.set()

        self._add(carry_out)
        return pending

    def send_later(self, send: Send, on_problem: Callable[[HilumError], None]) -> None:
        """Carry out an operation without waiting for the result.

        Args:
            send: Function that carries out the operation.
            on_problem: Function that is called with the error if the operation fails.

        Raises:
            HilumError: Too many operations wait (``E_BUSY``).
        """

        async def carry_out() -> None:
            try:
                await send()
            except HilumError as error:
                on_problem(error)

        self._add(carry_out)

    def _add(self, operation: Send) -> None:
        try:
            self._waiting.send_nowait(operation)
        except trio.WouldBlock:
            raise HilumError(
                f"{MAX_WAITING:,} operations wait to be sent to the server.",
                code=E_BUSY,
                hint="Wait for the results of earlier operations.",
            ) from None

    async def drain(self) -> None:
        """Wait until all operations so far have been carried out."""
        done = trio.Event()

        async def note_done() -> None:
            done.set()

        await self._waiting.send(note_done)
        await done.wait()
