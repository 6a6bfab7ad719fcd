"""Servers that are reached by HTTP: streamable HTTP over the SDK, and HTTP with SSE of the first
era.

Redirects are followed on the server's own origin only. Proxies and certificates are those of the
environment (``HTTPS_PROXY``, ``NO_PROXY``, ``SSL_CERT_FILE``).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from http.client import responses
from typing import TYPE_CHECKING, Any

import trio
from hilum import UsageError

from hilum_mcp.errors import NO_STATUS, TOO_LARGE, reason_of, single, too_large
from hilum_mcp.first import events_transport, same_origin
from hilum_mcp.login import takes_login
from hilum_mcp.stdio import LONGEST_LINE, Broken, Line

if TYPE_CHECKING:
    import httpx2

    from hilum_mcp.server import Server

CONNECT = 15.0
"""Seconds to reach a server.

An open stream may be silent for as long as a call may take: calls have limits of their own.
"""

GOODBYE = 0.2
"""Seconds to tell a server that its session is over."""

_WANTED = re.compile(
    r'(?i)^bearer\b(?=.*\berror="?insufficient_scope).*\bscope="([\x20-\x21\x23-\x5b\x5d-\x7e]+)"'
)

_GONE = (404, 410)
"""Status of a post in the first era that says that its stream is no more."""

MOMENT = 0.05
"""Seconds after the end of a stream within which the SDK raises why it ended."""

BETWEEN = 0.25
"""Seconds between two times a stream is opened, whatever a server wishes."""


@asynccontextmanager
async def http_transport(
    server: Server, line: Line, *, auth: httpx2.Auth | None = None, sse: bool = False
) -> AsyncIterator[tuple[Any, Any]]:
    """Reach a server and give the two streams that the SDK reads and writes.

    Args:
        server: Where, with variables filled in.
        line: Is told when it is over, and why requests fail.
        auth: What signs requests, if the user has logged in.
        sse: Whether to speak the HTTP of the first era.

    Raises:
        UsageError: A header is none.
    """
    import anyio
    import httpx2
    from mcp import MCPError
    from mcp.client.streamable_http import streamable_http_client

    watch = _Watch(server, line, signed=auth is not None, sse=sse)
    given = {"accept-encoding": "identity", **_headers(server)}

    def client() -> httpx2.AsyncClient:
        hooks: dict[str, list[Callable[..., Any]]] = {
            "request": [watch.asks],
            "response": [watch.hears],
        }
        return httpx2.AsyncClient(
            headers=given,
            timeout=httpx2.Timeout(CONNECT, read=None, pool=None),
            limits=httpx2.Limits(max_connections=None),
            follow_redirects=sse,  # as far as the hook lets it
            auth=auth,
            event_hooks=hooks,
        )

    try:
        async with AsyncExitStack() as stack:
            http = await stack.enter_async_context(client())
            if sse:
                yield await stack.enter_async_context(events_transport(http, server.url, line))
                return
            stack.push_async_callback(watch.goodbye, http)
            made = streamable_http_client(
                server.url,
                http_client=http,
                terminate_on_close=False,
                max_sse_event_size=LONGEST_LINE,
            )
            read, write = await stack.enter_async_context(made)
            into, heard = anyio.create_memory_object_stream[Any](0)
            nursery = await stack.enter_async_context(trio.open_nursery())
            nursery.start_soon(_pass_on, read, into, line)
            try:
                yield heard, write
            finally:
                nursery.cancel_scope.cancel()
                into.close()
                heard.close()
    except* httpx2.SSEError as group:  # what it sent is none of its events, or more than one may be
        why = reason_of(group)
        line.lose(TOO_LARGE.format(LONGEST_LINE >> 20) if too_large(why) else why)
        raise
    except* httpx2.TransportError as group:
        why = reason_of(group)
        if "CERTIFICATE_VERIFY" in why:
            trust = " SSL_CERT_FILE names a certificate of your own to trust."
        else:
            trust = ""
        line.lose(f"{place(server.url)} cannot be reached. {why}{trust}")
        raise
    except* (httpx2.HTTPStatusError, MCPError) as group:
        said = reason_of(group)
        if isinstance(single(group), httpx2.HTTPStatusError) or said.startswith(NO_STATUS):
            said = ""
        line.why = line.why or f"{line.refused} {said}".strip()
        raise


async def _pass_on(read: Any, into: Any, line: Line) -> None:
    """Pass on what a server sends.

    The end of it is the end of the connection, which the SDK does not tell.
    """
    import anyio

    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async for message in read:
            await into.send(message)
        if into.statistics().open_receive_streams:  # the SDK still listens
            await trio.sleep(MOMENT)
            line.lose("The connection ended.")
    into.close()


def place(url: str) -> str:
    """Return an address without what may be secret in it: user, password, query."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
    except ValueError:
        return "its address"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _headers(server: Server) -> dict[str, str]:
    """Return the headers of each request.

    A line break at the end of a value, as of a file, is no part of it.

    Raises:
        UsageError: One is none; its value is not told.
    """
    found = {name: value.strip() for name, value in server.headers.items()}
    for name, value in found.items():
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or not re.fullmatch(
            r"[\t\x20-\x7e]*", value
        ):
            raise UsageError(
                f"The header {name!r} of the MCP server {server.name} has characters that no header"
                " may have.",
                hint="Write letters, digits and signs of ASCII, on one line.",
            )
    return found


class _Watch:
    """Looks at each request and response: the SDK passes on no status, sets no bounds, and leaves
    sessions behind.
    """

    def __init__(self, server: Server, line: Line, signed: bool, sse: bool) -> None:
        self.server = server
        self.line = line
        self.signed = signed
        self.sse = sse
        self.session: dict[str, str] = {}
        self._next = 0.0

    async def asks(self, request: httpx2.Request) -> None:
        """Wait before a stream is opened again that was open a moment ago.

        Keep what is sent on the server's origin.
        """
        if (
            self.sse
            and "accept-encoding" in request.headers
            and not same_origin(self.server.url, str(request.url))
        ):
            self.line.lose(f"Redirect to {place(str(request.url))} not followed.")
            raise Broken(self.line.why)
        if request.method == "GET":
            await trio.sleep_until(self._next)
            self._next = trio.current_time() + BETWEEN
        kept = ("mcp-session-id", "mcp-protocol-version")
        if kept[0] in request.headers:
            self.session = {name: request.headers[name] for name in kept if name in request.headers}

    async def hears(self, response: httpx2.Response) -> None:
        """Note the status, and bound what is read."""
        event = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        if not event:  # each event is bounded by the SDK
            response.stream = _bounded(response.stream)
        if "accept-encoding" not in response.request.headers:
            return  # it belongs to a log-in
        line = self.line
        status = response.status_code
        line.status = status
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            line.lose("It sends compressed what was asked for as it is.")
            raise Broken(line.why)
        lost = (
            self.sse and response.request.method == "POST" and status in (301, 302, 303)
        )  # it goes on as a GET
        if status < 400 and not lost:
            return
        line.refused = (
            f"{place(str(response.request.url))} answers HTTP {status} {responses.get(status, '')}".rstrip()
            + "."
        )
        if status == 403 and self.signed:
            more = _WANTED.search(response.headers.get("www-authenticate", ""))
        else:
            more = None
        if more:
            login = f"hilum mcp login {self.server.name}"
            line.refused = f"It wants you to log in for more: {more[1][:200]} ({login})."
        if status == 401 and not self.signed:
            if takes_login(self.server):
                line.login = "It wants to know who asks (HTTP 401)."
            line.lose(line.login or "It does not accept the key in its description (HTTP 401).")
            raise Broken(line.why)
        elif (
            status == 404
            and response.request.method == "POST"
            and "mcp-session-id" in response.request.headers
        ):
            line.forgotten = True
        elif self.sse and response.request.method == "POST" and status in _GONE:
            line.lose(line.refused)

    async def goodbye(self, client: httpx2.AsyncClient) -> None:
        """Tell the server that the session is over, whatever is cancelled around."""
        if self.session and not self.line.lost.is_set():
            with trio.move_on_after(GOODBYE, shield=True), suppress(Exception):
                await client.delete(self.server.url, headers=self.session)


def _bounded(stream: Any) -> Any:
    """Return a stream of a body that breaks off when it is too large.

    The SDK tells whose answer it was, and nobody else.
    """
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in stream:
                size += len(chunk)
                if size > LONGEST_LINE:
                    raise httpx2.StreamError(TOO_LARGE.format(LONGEST_LINE >> 20))
                yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()
