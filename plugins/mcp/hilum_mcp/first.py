"""HTTP of the first era: a stream of events that names where messages are posted, and answers to
them as events.

Not the SDK's transport: that takes events of 1 MB at most, where an image is larger, waits for each
post before the next one, so that nothing can be cancelled, and leaves who waits for an answer alone
where a post fails.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

import trio

from hilum_mcp.errors import NO_STATUS
from hilum_mcp.stdio import LONGEST_LINE, MOST_GARBAGE, Broken, Line

if TYPE_CHECKING:
    import httpx2

HEARD = 5.0
"""Seconds in which a server hears of a notice before the next message is sent."""


@asynccontextmanager
async def events_transport(
    client: httpx2.AsyncClient, url: str, line: Line
) -> AsyncIterator[tuple[Any, Any]]:
    """Reach a server and give the two streams that the SDK reads and writes.

    Args:
        client: Sends the requests, and follows redirects on the server's own origin.
        url: Where the stream of events is.
        line: Is told when it is over.

    Raises:
        Broken: It does not say where messages are posted, or names another server.
        httpx2.HTTPError: It cannot be reached, or refuses.
    """
    import anyio

    into, read = anyio.create_memory_object_stream[Any](0)
    write, out = anyio.create_memory_object_stream[Any](math.inf)
    async with client.sse(url, max_event_size=LONGEST_LINE) as events:
        events.response.raise_for_status()
        async with trio.open_nursery() as nursery:
            place = await nursery.start(_read, events, into, line)
            nursery.start_soon(_write, client, place, out, into)
            try:
                yield read, write
            finally:
                nursery.cancel_scope.cancel()
                for each in (into, read, write, out):
                    each.close()


def same_origin(url: str, other: str) -> bool:
    """Return whether two addresses have one origin, or the other is the same host by ``https``."""
    import httpx2

    try:
        here = httpx2.URL(url)
        there = httpx2.URL(other)
    except httpx2.InvalidURL:
        return False
    plain = (here.scheme, here.port, there.scheme, there.port) == ("http", None, "https", None)
    return here.host == there.host and (
        plain or (here.scheme, here.port) == (there.scheme, there.port)
    )


async def _read(
    events: httpx2.EventSource, into: Any, line: Line, task_status: trio.TaskStatus[str]
) -> None:
    """Pass on messages; the first event says where the client's own are posted."""
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    garbage = 0
    posted = False
    url = str(events.response.url)
    async for event in events:
        if event.event == "endpoint" and not posted:
            place = urljoin(url, event.data.strip())
            posted = True
            if not same_origin(url, place):
                raise Broken(f"It wants messages to be sent to another server, {place[:200]}.")
            task_status.started(place)
        elif event.event == "message" and event.data:
            try:
                message: Any = SessionMessage(
                    jsonrpc_message_adapter.validate_json(event.data, by_name=False)
                )
            except ValueError as error:
                message = error
                garbage = garbage + 1
                if garbage > MOST_GARBAGE:
                    raise Broken("It sends what is no message of the protocol.") from None
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await into.send(message)
    if not posted:
        raise Broken("It ended the stream without a word of where messages are to be sent.")
    line.lose("The connection ended.")


async def _write(client: httpx2.AsyncClient, place: str, out: Any, into: Any) -> None:
    """Post messages.

    None waits for a request before it: a server may answer a post when its work is done.

    A notice is heard first: before ``initialized`` a server may refuse whatever else is asked.
    """
    from mcp_types import JSONRPCNotification

    async with trio.open_nursery() as nursery:
        async for message in out:
            heard = trio.Event()
            nursery.start_soon(_post, client, place, message.message, into, heard)
            if isinstance(message.message, JSONRPCNotification):
                with trio.move_on_after(HEARD):
                    await heard.wait()


async def _post(
    client: httpx2.AsyncClient, place: str, message: Any, into: Any, heard: trio.Event
) -> None:
    """Post a message; whose post is refused is told, since no event will answer it."""
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCRequest

    answer = await client.post(
        place, json=message.model_dump(by_alias=True, mode="json", exclude_unset=True)
    )
    heard.set()
    arrived = answer.status_code < 400 and answer.request.method == "POST"
    if not arrived and isinstance(message, JSONRPCRequest):
        error = ErrorData(code=INTERNAL_ERROR, message=NO_STATUS)
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await into.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=message.id, error=error)))
