"""The browser's HTTP proxy, on the sandbox's own loopback interface.

Because the browser uses a proxy, it does not resolve names inside the sandbox. The session's
commands share this interface but must not leave the sandbox through the proxy, so the proxy
requires a password that only the browser knows. A loopback address is first tried inside the
sandbox, where the session's commands run their servers. All other connections go through the link,
and hilum decides whether to open them.

A connection carries one request, or a tunnel (RFC 9110, section 9.3.6). A second request would
contain the password, so it is not forwarded.
"""

from __future__ import annotations

import base64
import hmac
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream

from .link import STREAM_ERRORS, Channel, Link, splice
from .loopback import loopback_addresses

MAX_HEAD = 1 << 18
_UNAUTHORIZED = (
    b'HTTP/1.1 407 \r\nProxy-Authenticate: Basic realm="hilum"\r\nContent-Length: 0\r\nConnection:'
    b" close\r\n\r\n"
)
_BAD_GATEWAY = b"HTTP/1.1 502 \r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_CONNECTED = b"HTTP/1.1 200 \r\n\r\n"
# Headers between the browser and its proxy (RFC 9110, section 7.6.1), including the password.
_HOP_HEADERS = (b"connection", b"keep-alive", b"proxy-authorization", b"proxy-connection")


class _Head(NamedTuple):
    """The request line and headers of a request."""

    method: bytes
    target: bytes
    headers: list[tuple[bytes, bytes]]

    def find(self, name: bytes) -> bytes:
        """Return the last value of a header, or an empty value if it is missing."""
        values = [value for key, value in self.headers if key.lower() == name]
        return values[-1] if values else b""


def _parse_head(data: bytes) -> _Head:
    line, *lines = data.split(b"\r\n")
    # A line without exactly three words raises ValueError, which ends the connection.
    method, target, _ = line.split(b" ")
    headers = []
    for each in lines:
        name, _, value = each.partition(b":")
        headers.append((name, value.strip()))
    return _Head(method, target, headers)


def _format_head(head: _Head) -> bytes:
    """Convert the head of a proxy request to that of a request to the server itself."""
    after_scheme = head.target.partition(b"//")[2]
    path = after_scheme[len(urlsplit(head.target).netloc) :]
    lines = [b"%s %s HTTP/1.1" % (head.method, path)]
    for name, value in head.headers:
        if name.lower() not in _HOP_HEADERS:
            lines.append(name + b": " + value)
    # The server then ends the response by closing the connection, so the length of the response
    # need not be parsed here.
    lines += [b"Connection: close", b"", b""]
    return b"\r\n".join(lines)


class Proxy:
    """The HTTP proxy of the browser.

    Args:
        link: The connection out of the sandbox.
        user: The browser's user name for the proxy.
        password: The browser's password for the proxy.
    """

    def __init__(self, link: Link, user: str, password: str) -> None:
        self._link = link
        self._secret = b"Basic " + base64.b64encode(f"{user}:{password}".encode())

    async def serve(self, listener: anyio.abc.Listener[anyio.abc.SocketStream]) -> None:
        """Serve the browser's connections until cancelled."""

        async def serve_one(stream: anyio.abc.SocketStream) -> None:
            async with stream:
                with suppress(
                    *STREAM_ERRORS, anyio.IncompleteRead, anyio.DelimiterNotFound, ValueError
                ):
                    await self._serve(stream)

        await listener.serve(serve_one)

    async def _serve(self, stream: anyio.abc.SocketStream) -> None:
        buffered = BufferedByteReceiveStream(stream)
        head = _parse_head(await buffered.receive_until(b"\r\n\r\n", MAX_HEAD))
        # The comparison takes constant time, because other processes in the sandbox could measure
        # the time.
        if not hmac.compare_digest(head.find(b"proxy-authorization"), self._secret):
            await stream.send(_UNAUTHORIZED)
            return
        is_tunnel = head.method == b"CONNECT"  # TLS and WebSockets; plain HTTP sends a full URL
        parts = urlsplit(b"//" + head.target if is_tunnel else head.target)
        host = (parts.hostname or b"").decode("ascii")
        # The target of a tunnel always has a port, so the default is that of plain HTTP.
        port = parts.port or 80
        target = await _connect_inside(host, port) or await self._connect_outside(host, port)
        if is_tunnel:
            await self._tunnel(stream, target)
        elif target is not None:
            # Chromium sends the bodies of HTTP/1.1 requests with a length, not in chunks.
            length = int(head.find(b"content-length") or b"0")
            async with target:
                await target.send(_format_head(head))
                await _forward_one_request(buffered, stream, target, length)

    async def _tunnel(
        self, stream: anyio.abc.SocketStream, target: anyio.abc.ByteStream | None
    ) -> None:
        if target is None:
            # The browser shows this response as ERR_TUNNEL_CONNECTION_FAILED. The tool replaces
            # this error with the reason that the gateway recorded.
            await stream.send(_BAD_GATEWAY)
            return
        async with target:
            await stream.send(_CONNECTED)
            await splice(stream, target)

    async def _connect_outside(self, host: str, port: int) -> Channel | None:
        # The name is looked up outside the sandbox, where addresses are checked. There is no name
        # server inside the sandbox.
        channel = self._link.open_channel(f"{host} {port}".encode())
        with suppress(*STREAM_ERRORS):
            if await channel.receive(1) == b"\0":
                return channel
        await channel.aclose()
        return None


async def _forward_one_request(
    source: BufferedByteReceiveStream,
    stream: anyio.abc.SocketStream,
    target: anyio.abc.ByteStream,
    length: int,
) -> None:
    """Forward the body of a request, and then the complete response.

    If the browser sends any data after the request, the connection ends.
    """

    async def forward_body() -> None:
        rest = length
        with suppress(*STREAM_ERRORS):
            while rest > 0:
                data = await source.receive(min(rest, 65536))
                rest -= len(data)
                await target.send(data)
            # A further byte, or the end of the connection: in both cases, the exchange has ended.
            await source.receive(1)
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(forward_body)
        with suppress(*STREAM_ERRORS):
            while True:
                await stream.send(await target.receive())
        tasks.cancel_scope.cancel()


async def _connect_inside(host: str, port: int) -> anyio.abc.SocketStream | None:
    for address in loopback_addresses(host):
        with suppress(OSError):
            return await anyio.connect_tcp(address, port)
    return None
