"""The protocol on standard input and output, one JSON message a line.

Nothing else gets onto the wire.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as t
import trio
from hilum import UsageError
from hilum.errors import E_TOO_LARGE
from mcp.shared.message import SessionMessage

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.server import Server

LONGEST = 32_000_000
PIECE = 1 << 16


def claim() -> tuple[int, int]:
    """Take standard input and output for the wire.

    Whoever reads or prints now reads nothing and writes to standard error.

    Returns:
        Descriptors to read from and to write to, which no child process inherits.
    """
    sys.stdout.flush()
    wire = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return wire


async def serve(server: Server[Any], wire: tuple[int, int]) -> None:
    """Serve one client until it closes its side, or is gone.

    Args:
        server: The server.
        wire: Descriptors to read from and to write to.

    Raises:
        UsageError: A message is too long.
    """
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_read, wire[0], to_server, to_client.clone())
        async with trio.open_nursery() as writing:
            writing.start_soon(_write, wire[1], from_server, nursery.cancel_scope)
            await server.run(from_client, to_client, server.create_initialization_options())
        nursery.cancel_scope.cancel()


# Threads, and not the loop: a descriptor that is made non-blocking is so for everyone who shares
# it, and files cannot be waited for at all. Who is cancelled leaves the thread behind, and it ends
# with the process.


async def _read(
    fd: int,
    to_server: MemoryObjectSendStream[SessionMessage | Exception],
    to_client: MemoryObjectSendStream[SessionMessage],
) -> None:
    limiter = trio.CapacityLimiter(1)
    rest = bytearray()
    async with to_server, to_client:
        while data := await trio.to_thread.run_sync(
            os.read, fd, PIECE, abandon_on_cancel=True, limiter=limiter
        ):
            begun = len(rest)
            rest += data
            if b"\n" in data:
                *lines, rest = (bytearray(line) for line in bytes(rest).split(b"\n"))
                for line in filter(bytes.strip, map(bytes, lines)):
                    try:
                        await to_server.send(
                            SessionMessage(
                                t.jsonrpc_message_adapter.validate_json(line, by_name=False)
                            )
                        )
                    except ValueError:
                        await to_client.send(_complaint(line))
            elif begun > LONGEST:
                raise UsageError(
                    f"The client sent a message of more than {LONGEST:,} bytes.", code=E_TOO_LARGE
                )


def _complaint(line: bytes) -> SessionMessage:
    """Answer what is no message, so that nobody waits for ever: by its id, where it has one."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        error = t.ErrorData(code=t.PARSE_ERROR, message="The line is not JSON.")
        return SessionMessage(t.JSONRPCError(jsonrpc="2.0", id=None, error=error))
    identity = data.get("id") if isinstance(data, dict) else None
    error = t.ErrorData(
        code=t.INVALID_REQUEST,
        message="The line is no message of the protocol, or its text is not Unicode.",
    )
    known = isinstance(identity, str | int) and not isinstance(identity, bool)
    return SessionMessage(
        t.JSONRPCError(jsonrpc="2.0", id=identity if known else None, error=error)
    )


async def _write(
    fd: int, from_server: MemoryObjectReceiveStream[SessionMessage], all_of_it: trio.CancelScope
) -> None:
    limiter = trio.CapacityLimiter(1)
    async with from_server:
        async for message in from_server:
            data = (
                message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
            )
            try:
                await trio.to_thread.run_sync(
                    _write_all, fd, data, abandon_on_cancel=True, limiter=limiter
                )
            except OSError:  # the client is gone
                all_of_it.cancel()
                return


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
