"""Serves the redirect URI, which the browser opens on this machine after the user has logged in.

Only one request is accepted: the one with the expected state. Every other request to the port is
refused and changes nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import trio
from hilum import UsageError, errors

PATH = "/callback"
MAX_HEAD = 16_384
MAX_ERROR = 500
REQUEST_TIMEOUT = 10.0
_PAGE = "<!doctype html><meta charset=utf-8><title>hilum</title><p>{}"
_DONE = "The login has ended; hilum shows the result. You can close this page."
# The page's URL contains the authorization code, which must reach neither a cache nor another site.
_HEADERS = (
    "Content-Type: text/html; charset=utf-8\r\nCache-Control: no-store\r\nReferrer-Policy:"
    " no-referrer\r\nConnection: close"
)


class BrowserAnswer(NamedTuple):
    """The query parameters of the redirect URL that the browser opened."""

    code: str
    state: str
    error: str
    issuer: str


class Loopback:
    """A server on a port of 127.0.0.1 that waits for the browser.

    Args:
        port: The port.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self._state = ""
        self._answered = trio.Event()
        self._answer = BrowserAnswer("", "", "", "")

    @property
    def url(self) -> str:
        """The redirect URI."""
        return f"http://127.0.0.1:{self.port}{PATH}"

    def expect(self, state: str) -> None:
        """Start waiting for the request with the given state."""
        self._state = state
        self._answered = trio.Event()

    async def wait(self) -> BrowserAnswer:
        """Wait for the browser's request, and return its parameters."""
        await self._answered.wait()
        return self._answer

    async def serve(self, stream: trio.SocketStream) -> None:
        """Respond to one connection."""
        async with stream:
            with trio.move_on_after(REQUEST_TIMEOUT):
                try:
                    await self._answer_request(stream)
                except trio.BrokenResourceError:
                    pass

    async def _answer_request(self, stream: trio.SocketStream) -> None:
        data = b""
        while b"\r\n\r\n" not in data and len(data) < MAX_HEAD:
            chunk = await stream.receive_some(4_096)
            if not chunk:
                return
            data += chunk
        head = data.split(b"\r\n\r\n")[0]
        status, text = self._handle(head.decode("latin-1"))
        body = _PAGE.format(text).encode()
        answer = f"HTTP/1.1 {status}\r\n{_HEADERS}\r\nContent-Length: {len(body)}\r\n\r\n"
        await stream.send_all(answer.encode() + body)

    def _handle(self, head: str) -> tuple[str, str]:
        request, *headers = head.split("\r\n")
        method, _, target = request.partition(" ")
        parts = urlsplit(target.rpartition(" ")[0])
        # All Host headers are compared, so that a request with two of them is refused as well.
        hosts = [
            line.partition(":")[2].strip() for line in headers if line.lower().startswith("host:")
        ]
        # Any other Host header may come from a web page whose domain resolves to this machine (DNS
        # rebinding).
        is_local = hosts in ([f"127.0.0.1:{self.port}"], [f"localhost:{self.port}"])
        if method != "GET" or parts.path != PATH or not is_local:
            return "404 Not Found", "There is nothing here."
        if not self.accept(parts.query):
            return "400 Bad Request", "This is not the response hilum is waiting for."
        return "200 OK", _DONE

    def accept(self, query: str) -> bool:
        """Accept the query of the redirect URL that the browser opened.

        Returns:
            Whether the query contains the expected state.
        """
        given = {key: values[-1] for key, values in parse_qs(query).items()}
        state = given.get("state", "")
        if not self._state or self._answered.is_set():
            return False
        # The comparison takes constant time, so its duration reveals nothing about the expected
        # state.
        if not secrets.compare_digest(state.encode(), self._state.encode()):
            return False
        texts = [given.get("error", ""), given.get("error_description", "")]
        error = " ".join(filter(None, texts))[:MAX_ERROR]
        code = given.get("code", "")
        self._answer = BrowserAnswer(code, state, error, given.get("iss", ""))
        self._answered.set()
        return True


@asynccontextmanager
async def open_loopback(port: int = 0, required_by: str = "") -> AsyncIterator[Loopback]:
    """Listen on 127.0.0.1 while the block runs.

    Args:
        port: The preferred port; 0 for any. If the port is in use, another one is chosen.
        required_by: The name of the server whose configuration requires this port; empty if other
            ports are acceptable.

    Raises:
        UsageError: The required port is not available.
    """
    # RFC 8252, section 8.3: the IP address rather than `localhost`, which may resolve to another
    # interface.
    try:
        listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
    except OSError as error:
        if required_by:
            raise UsageError(
                f"Port {port} of this machine, which the login to {required_by} requires, is not"
                f" available: {error.strerror}.",
                code=errors.E_FAILED,
                hint=(
                    "Stop the program that uses it, or remove callback_port from the server's"
                    " configuration."
                ),
            ) from None
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    loopback = Loopback(listeners[0].socket.getsockname()[1])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, loopback.serve, listeners)
        try:
            yield loopback
        finally:
            nursery.cancel_scope.cancel()
