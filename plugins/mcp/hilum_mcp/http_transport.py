"""Connects to HTTP servers with the SDK's streamable HTTP or the older SSE transport.

Redirects are followed only within the server's own origin. Proxies and certificates come from the
environment (``HTTPS_PROXY``, ``NO_PROXY``, ``SSL_CERT_FILE``).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from http.client import responses
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
import httpx2
import trio
from hilum import UsageError
from hilum.hooks import find_first_error
from mcp import MCPError
from mcp.client.streamable_http import streamable_http_client

from hilum_mcp.errors import (
    ERROR_STATUS,
    MAX_MESSAGE,
    TOO_LARGE,
    ServerProtocolError,
    describe_error,
    is_too_large,
)
from hilum_mcp.login import accepts_login
from hilum_mcp.sse_transport import is_same_origin, sse_transport

if TYPE_CHECKING:
    from hilum_mcp.server_config import ServerConfig
    from hilum_mcp.transport_state import TransportState

# Time limit, in seconds, for connecting to a server.
#
# Reading has no time limit, because a stream may be silent for as long as a call may take. Tool
# calls have their own time limits.
CONNECT_TIMEOUT = 15.0

# Time limit, in seconds, for notifying a server that its session has ended.
GOODBYE_TIMEOUT = 0.2

# Seconds to wait for the SDK to raise the reason after a stream has ended.
ERROR_DELAY = 0.05

# Minimum number of seconds between two attempts to open a stream, even if a server requests fewer.
REOPEN_INTERVAL = 0.25

# These statuses in response to a POST mean that an SSE server has closed the event stream.
_STREAM_GONE = (404, 410)

# RFC 6750, section 3.1: the scope that a token lacks.
_MISSING_SCOPE = re.compile(
    r'(?i)^bearer\b(?=.*\berror="?insufficient_scope).*\bscope="([\x20-\x21\x23-\x5b\x5d-\x7e]+)"'
)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
_SESSION_HEADERS = ("mcp-session-id", "mcp-protocol-version")


@asynccontextmanager
async def http_transport(
    server: ServerConfig,
    state: TransportState,
    *,
    auth: httpx2.Auth | None = None,
    sse: bool = False,
) -> AsyncIterator[tuple[Any, Any]]:
    """Connect to a server and yield the two streams that the SDK reads and writes.

    Args:
        server: The server's configuration, with variables expanded.
        state: The transport's state, which is updated when the transport is lost or requests fail.
        auth: The authentication for requests if the user has logged in.
        sse: Whether to use the older transport.

    Raises:
        UsageError: A configured header is not valid.
    """
    watcher = _RequestWatcher(server, state, has_auth=auth is not None, sse=sse)
    client = httpx2.AsyncClient(
        # Without compression, the size of a response can be limited while it is read.
        headers={"accept-encoding": "identity", **_make_headers(server)},
        timeout=httpx2.Timeout(CONNECT_TIMEOUT, read=None, pool=None),
        # Each open stream occupies a connection. With a limit on connections, calls would wait for
        # one another.
        limits=httpx2.Limits(max_connections=None),
        follow_redirects=sse,  # `check_request` limits redirects to the server's origin
        auth=auth,
        event_hooks={"request": [watcher.check_request], "response": [watcher.check_response]},
    )
    try:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(client)
            if sse:
                yield await stack.enter_async_context(sse_transport(client, server.url, state))
                return
            # `end_session` is registered before the transport is opened, so that it runs after the
            # transport has ended, while the client is still open.
            stack.push_async_callback(watcher.end_session, client)
            transport = streamable_http_client(
                server.url,
                http_client=client,
                terminate_on_close=False,  # `end_session` ends the session within a time limit
                max_sse_event_size=MAX_MESSAGE,
            )
            read, write = await stack.enter_async_context(transport)
            # The stream has no buffer, so that a fast server has to wait for the session.
            into, received = anyio.create_memory_object_stream[Any](0)
            nursery = await stack.enter_async_context(trio.open_nursery())
            nursery.start_soon(_forward, read, into, state)
            try:
                yield received, write
            finally:
                nursery.cancel_scope.cancel()
                into.close()
                received.close()
    except* httpx2.SSEError as group:  # raised for a malformed or oversized event
        reason = describe_error(group)
        state.fail(TOO_LARGE if is_too_large(reason) else reason)
        raise
    except* httpx2.TransportError as group:
        state.fail(_describe_transport_error(server.url, describe_error(group)))
        raise
    except* (httpx2.HTTPStatusError, MCPError) as group:
        reason = describe_error(group)
        is_status = isinstance(find_first_error(group), httpx2.HTTPStatusError)
        if is_status or reason.startswith(ERROR_STATUS):
            reason = ""  # `refusal` is more specific
        state.reason = state.reason or f"{state.refusal} {reason}".strip()
        raise


async def _forward(read: Any, into: Any, state: TransportState) -> None:
    """Forward messages; report the end of the stream as a failure, because the SDK does not."""
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async for message in read:
            await into.send(message)
        if into.statistics().open_receive_streams:  # the SDK is still listening
            await trio.sleep(ERROR_DELAY)
            state.fail("The connection ended.")
    into.close()


def _describe_transport_error(url: str, reason: str) -> str:
    hint = ""
    if "CERTIFICATE_VERIFY" in reason:
        hint = " To trust your own certificate, set SSL_CERT_FILE to its file."
    return f"{strip_secrets(url)} cannot be reached. {reason}{hint}"


def strip_secrets(url: str) -> str:
    """Return a URL without its user name, password and query, which may be secret."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "its URL"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _make_headers(server: ServerConfig) -> dict[str, str]:
    """Return the headers to send with every request.

    A trailing newline in a value, for example from a file, is removed.

    Raises:
        UsageError: A header is not valid; the error does not show its value.
    """
    headers = {name: value.strip() for name, value in server.headers.items()}
    for name, value in headers.items():
        # A line break in a value, for example from a variable, would add another header to the
        # request (header injection).
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise UsageError(
                f"The header {name!r} of the MCP server {server.name} contains characters that are "
                "not allowed in a header.",
                hint="Use ASCII letters, digits and punctuation on one line.",
            )
    return headers


class _RequestWatcher:
    """A watcher that checks each request and response.

    The SDK does not report HTTP statuses, limit the size of a response, or end sessions in time.

    Args:
        server: The server.
        state: The transport's state, which is updated with the results of the checks.
        has_auth: Whether requests are signed.
        sse: Whether the older transport is used.
    """

    def __init__(
        self,
        server: ServerConfig,
        state: TransportState,
        *,
        has_auth: bool,
        sse: bool,
    ) -> None:
        self._server = server
        self._state = state
        self._has_auth = has_auth
        self._sse = sse
        self._session: dict[str, str] = {}
        self._next_open = 0.0

    async def check_request(self, request: httpx2.Request) -> None:
        """Delay a stream that is reopened too soon, and keep requests on the server's origin."""
        if self._sse and _is_own(request) and not self._is_allowed(str(request.url)):
            self._state.fail(f"Redirect to {strip_secrets(str(request.url))} not followed.")
            raise ServerProtocolError(self._state.reason)
        if request.method == "GET":
            await trio.sleep_until(self._next_open)
            self._next_open = trio.current_time() + REOPEN_INTERVAL
        headers = request.headers
        # `end_session` sends these headers again.
        if _SESSION_HEADERS[0] in headers:
            self._session = {name: headers[name] for name in _SESSION_HEADERS if name in headers}

    def _is_allowed(self, url: str) -> bool:
        return is_same_origin(self._server.url, url)

    async def check_response(self, response: httpx2.Response) -> None:
        """Record the status, and limit the size of the body."""
        kind = response.headers.get("content-type", "").lower()
        if not kind.startswith("text/event-stream"):  # the SDK limits the size of each event
            response.stream = _LimitedStream(response.stream)
        if not _is_own(response.request):
            return
        state = self._state
        state.status = response.status_code
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            state.fail("It sent a compressed response, which was not requested.")
            raise ServerProtocolError(state.reason)
        if response.status_code >= 400 or self._loses_message(response):
            self._note_refusal(response)

    def _loses_message(self, response: httpx2.Response) -> bool:
        """Return whether a redirect turns a POST into a GET, which loses the message."""
        is_post = response.request.method == "POST"
        return self._sse and is_post and response.status_code in (301, 302, 303)

    def _note_missing_scope(self, response: httpx2.Response) -> None:
        missing = _MISSING_SCOPE.search(response.headers.get("www-authenticate", ""))
        if missing:
            hint = f"{self._server.prog} login {self._server.name}"
            self._state.refusal = (
                f"It requires a login with a wider scope: {missing[1][:200]} ({hint})."
            )

    def _note_refusal(self, response: httpx2.Response) -> None:
        state = self._state
        status = response.status_code
        request = response.request
        answer = f"HTTP {status} {responses.get(status, '')}".rstrip()
        state.refusal = f"{strip_secrets(str(request.url))} responded with {answer}."
        if status == 401 and not self._has_auth:
            self._require_login()
        if status == 403 and self._has_auth:
            self._note_missing_scope(response)
        if request.method != "POST":
            return
        # MCP, transports, "Session Management": 404 in response to a request with a session ID
        # means that the session has ended.
        if status == 404 and _SESSION_HEADERS[0] in request.headers:
            state.session_expired = True
        elif self._sse and status in _STREAM_GONE:
            state.fail(state.refusal)

    def _require_login(self) -> None:
        state = self._state
        if accepts_login(self._server):
            state.login_reason = "It requires a login (HTTP 401)."
            state.fail(state.login_reason)
        else:
            state.fail("It does not accept the key in its configuration (HTTP 401).")
        raise ServerProtocolError(state.reason)

    async def end_session(self, client: httpx2.AsyncClient) -> None:
        """Notify the server that the session has ended, even during a cancellation."""
        # MCP, transports, "Session Management": a client that no longer needs a session should end
        # it with DELETE.
        if self._session and not self._state.lost.is_set():
            with trio.move_on_after(GOODBYE_TIMEOUT, shield=True), suppress(Exception):
                await client.delete(self._server.url, headers=self._session)


def _is_own(request: httpx2.Request) -> bool:
    """Return whether a request belongs to the protocol rather than to a login."""
    # The SDK creates requests for a login without the client's own headers.
    return "accept-encoding" in request.headers


class _LimitedStream(httpx2.AsyncByteStream):
    """A response body that raises an error if it exceeds the size limit.

    The SDK raises the error in the request that waits for this response.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > MAX_MESSAGE:
                raise httpx2.StreamError(TOO_LARGE)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
