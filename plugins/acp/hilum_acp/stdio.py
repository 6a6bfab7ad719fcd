"""Standard input and output as trio streams, which nothing but the protocol uses.

Reading and writing use threads instead of the event loop: making a file descriptor non-blocking
would affect every process that shares it, and the loop cannot wait for files at all. The thread of
a cancelled task is abandoned and ends with the process.
"""

from __future__ import annotations

import os
import sys

import trio
from trio.to_thread import run_sync as in_thread

CHUNK = 1 << 16


def claim_stdio() -> tuple[StdinStream, StdoutStream]:
    """Reserve standard input and output for the protocol.

    From then on, other code gets end-of-file when it reads standard input, and its output goes to
    standard error. No child process inherits the streams.
    """
    sys.stdout.flush()
    receive = os.dup(0)
    send = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return StdinStream(receive), StdoutStream(send)


class StdinStream(trio.abc.ReceiveStream):
    """The standard input."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        # A read that waits for hours must not occupy one of the shared threads.
        self._limiter = trio.CapacityLimiter(1)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return what has arrived; empty at the end."""
        size = max_bytes or CHUNK
        return await in_thread(
            os.read, self._descriptor, size, abandon_on_cancel=True, limiter=self._limiter
        )

    async def aclose(self) -> None:
        """Do nothing: a thread may still read, and the process ends soon."""
        await trio.lowlevel.checkpoint()


class StdoutStream(trio.abc.SendStream):
    """The standard output."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._limiter = trio.CapacityLimiter(1)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Write all of the data.

        Raises:
            trio.BrokenResourceError: The reader has gone.
        """
        try:
            await in_thread(
                _write_all,
                self._descriptor,
                bytes(data),
                abandon_on_cancel=True,
                limiter=self._limiter,
            )
        except OSError as error:
            raise trio.BrokenResourceError from error

    async def wait_send_all_might_not_block(self) -> None:
        """Return at once: a pipe in a thread never blocks the event loop."""
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """Do nothing: a thread may still write, and the process ends soon."""
        await trio.lowlevel.checkpoint()


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    # A pipe may accept only a part of the data.
    while rest:
        rest = rest[os.write(descriptor, rest) :]
