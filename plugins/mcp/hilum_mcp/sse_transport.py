"""The older HTTP transport, in which a stream of events announces the URL for messages.

The SDK's own transport is not used, for three reasons: it accepts events of at most 1 MB, but an
image may be larger; it sends one POST at a time, so no request can be cancelled; and if a POST
fails, the request that waits for the response is never notified.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urljoin

import anyio
import httpx2
import trio
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)

from hilum_mcp.errors import ERROR_STATUS, MAX_MESSAGE, ServerProtocolError
from hilum_mcp.stdio_transport import MAX_INVALID_LINES
from hilum_mcp.transport_state import TransportState

# Seconds that a server may take to accept a notification before the next message is sent.
NOTICE_TIMEOUT = 5.0


@asynccontextmanager
async def sse_transport(
    client: httpx2.AsyncClient,
    url: str,
    state: TransportState,
) -> AsyncIterator[tuple[Any, Any]]:
    """Connect to a server and yield the two streams that the SDK reads and writes.

    Args:
        client: The client that sends the requests; it follows redirects within the server's origin.
        url: The URL of the stream of events.
        state: The transport's state, which is updated when the transport is lost.

    Raises:
        ServerProtocolError: The server announces no URL for messages, or a URL with another origin.
        httpx2.HTTPError: The server cannot be reached, or refuses the request.
    """
    into, read = anyio.create_memory_object_stream[Any](0)
    # The buffer has no limit, because the SDK must not have to wait for space in it to send a
    # cancellation.
    write, out = anyio.create_memory_object_stream[Any](math.inf)
    async with client.sse(url, max_event_size=MAX_MESSAGE) as events:
        events.response.raise_for_status()
        async with trio.open_nursery() as nursery:
            # No message can be sent before the server has announced the URL for messages.
            address = await nursery.start(_read, events, into, state)
            nursery.start_soon(_write, client, address, out, into)
            try:
                yield read, write
            finally:
                nursery.cancel_scope.cancel()
                for stream in (into, read, write, out):
                    stream.close()


def is_same_origin(url: str, other: str) -> bool:
    """Return whether two URLs have the same origin, except that ``other`` may use HTTPS instead."""
    try:
        here = httpx2.URL(url)
        there = httpx2.URL(other)
    except httpx2.InvalidURL:
        return False
    if here.host != there.host:
        return False
    is_upgrade = (here.scheme, there.scheme) == ("http", "https")
    if is_upgrade and here.port is None and there.port is None:
        return True
    return (here.scheme, here.port) == (there.scheme, there.port)


async def _read(
    events: httpx2.EventSource,
    into: Any,
    state: TransportState,
    task_status: trio.TaskStatus[str],
) -> None:
    """Forward messages. The first event announces the URL for the client's own messages."""
    invalid_events = 0
    has_address = False
    async for event in events:
        # Only the first announcement counts, because a later one must not divert messages.
        if event.event == "endpoint" and not has_address:
            task_status.started(_check_address(events, event.data))
            has_address = True
        elif event.event == "message" and event.data:
            try:
                parsed = jsonrpc_message_adapter.validate_json(event.data, by_name=False)
                message: Any = SessionMessage(parsed)
            except ValueError as error:
                message = error
                invalid_events += 1
            if invalid_events > MAX_INVALID_LINES:
                raise ServerProtocolError("It sends events that are not messages of the protocol.")
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await into.send(message)
    if not has_address:
        raise ServerProtocolError("It ended the stream before it announced a URL for messages.")
    state.fail("The connection ended.")


def _check_address(events: httpx2.EventSource, path: str) -> str:
    """Return the URL for messages, which must be on the server's own origin."""
    url = str(events.response.url)
    address = urljoin(url, path.strip())
    # Messages contain the user's headers and tokens, which no other server may receive.
    if not is_same_origin(url, address):
        raise ServerProtocolError(
            f"It announced a URL on another server for messages, {address[:200]}."
        )
    return address


async def _write(client: httpx2.AsyncClient, address: str, out: Any, into: Any) -> None:
    """Send messages by POST.

    Messages are sent without waiting for earlier requests, because a server may respond to a POST
    only after it has processed the request. After a notification, the next message waits until the
    server has accepted the notification, because a server may refuse any request before
    ``initialized``.
    """
    async with trio.open_nursery() as nursery:
        async for message in out:
            accepted = trio.Event()
            nursery.start_soon(_post, client, address, message.message, into, accepted)
            if isinstance(message.message, JSONRPCNotification):
                with trio.move_on_after(NOTICE_TIMEOUT):
                    await accepted.wait()


async def _post(
    client: httpx2.AsyncClient,
    address: str,
    message: Any,
    into: Any,
    accepted: trio.Event,
) -> None:
    """POST a message; if the server refuses it, send the SDK an error: no event will follow."""
    data = message.model_dump(by_alias=True, mode="json", exclude_unset=True)
    answer = await client.post(address, json=data)
    accepted.set()
    # A redirect may turn the POST into a GET, which does not deliver the message.
    is_delivered = answer.status_code < 400 and answer.request.method == "POST"
    if not is_delivered and isinstance(message, JSONRPCRequest):
        error = ErrorData(code=INTERNAL_ERROR, message=ERROR_STATUS)
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await into.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=message.id, error=error)))
