"""Serves the protocol on standard input and output, one JSON message per line.

The SDK's transport is not used: with that transport, anything that other code prints gets into the
protocol, and invalid messages get no response.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as t
import trio
from hilum import UsageError
from hilum.errors import E_TOO_LARGE
from mcp.shared.message import SessionMessage
from trio.to_thread import run_sync as in_thread

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.server import Server

MAX_MESSAGE = 32_000_000
CHUNK = 1 << 16


async def serve(server: Server[Any], wire: tuple[int, int]) -> None:
    """Serve one client until it closes the connection or disappears.

    Args:
        server: The server.
        wire: File descriptors to read from and to write to.

    Raises:
        UsageError: A message is too long.
    """
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    async with trio.open_nursery() as nursery:
        # The channel is cloned, because the reader and the server both send to the client, and each
        # closes its own end.
        nursery.start_soon(_read, wire[0], to_server, to_client.clone())
        # The writer's nursery is inside the reader's, so that pending responses are written before
        # reading is cancelled.
        async with trio.open_nursery() as writing:
            writing.start_soon(_write, wire[1], from_server, nursery.cancel_scope)
            await server.run(from_client, to_client, server.create_initialization_options())
        nursery.cancel_scope.cancel()


# Reading and writing use threads instead of the event loop: making a file descriptor non-blocking
# would affect every process that shares it, and the loop cannot wait for files at all. The thread
# of a cancelled task is abandoned and ends with the process.


async def _read(
    fd: int,
    to_server: MemoryObjectSendStream[SessionMessage | Exception],
    to_client: MemoryObjectSendStream[SessionMessage],
) -> None:
    # Reads have their own limiter, because a read that waits for hours must not occupy one of the
    # shared threads.
    limiter = trio.CapacityLimiter(1)
    partial = b""
    async with to_server, to_client:
        while data := await in_thread(
            os.read,
            fd,
            CHUNK,
            abandon_on_cancel=True,
            limiter=limiter,
        ):
            if b"\n" not in data and len(partial) > MAX_MESSAGE:
                raise UsageError(
                    f"The client sent a message of more than {MAX_MESSAGE:,} bytes.",
                    code=E_TOO_LARGE,
                )
            *lines, partial = (partial + data).split(b"\n")
            for line in lines:
                if line.strip():
                    await _forward(line, to_server, to_client)


async def _forward(
    line: bytes,
    to_server: MemoryObjectSendStream[SessionMessage | Exception],
    to_client: MemoryObjectSendStream[SessionMessage],
) -> None:
    try:
        message = SessionMessage(t.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        await to_client.send(_make_error(line))
    else:
        await to_server.send(message)


def _make_error(line: bytes) -> SessionMessage:
    """Return the response to an invalid message, with the ID of the message if it has one.

    Without a response, the client would wait forever.
    """
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        error = t.ErrorData(code=t.PARSE_ERROR, message="The line is not JSON.")
        return SessionMessage(t.JSONRPCError(jsonrpc="2.0", id=None, error=error))
    message = "The line is not a protocol message, or its text is not valid Unicode."
    error = t.ErrorData(code=t.INVALID_REQUEST, message=message)
    request_id = data.get("id") if isinstance(data, dict) else None
    # JSON-RPC 2.0, section 4: an id is a string or a number. In Python, `True` is also a number.
    if not isinstance(request_id, str | int) or isinstance(request_id, bool):
        request_id = None
    return SessionMessage(t.JSONRPCError(jsonrpc="2.0", id=request_id, error=error))


async def _write(
    fd: int,
    from_server: MemoryObjectReceiveStream[SessionMessage],
    all_tasks: trio.CancelScope,
) -> None:
    limiter = trio.CapacityLimiter(1)
    async with from_server:
        async for message in from_server:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            data = text.encode() + b"\n"
            try:
                await in_thread(
                    _write_all,
                    fd,
                    data,
                    abandon_on_cancel=True,
                    limiter=limiter,
                )
            except OSError:  # the client is gone
                all_tasks.cancel()
                return


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    # A pipe may accept only a part of the data.
    while rest:
        rest = rest[os.write(fd, rest) :]
