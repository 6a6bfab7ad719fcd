"""The proxy that the browser is given: HTTP on the sandbox's own loopback, so that no name is
looked up inside.

Commands of the session share that loopback and must not get out this way, so the proxy wants a
password, which the browser alone knows. What is asked for on the loopback is looked for on this one
first, where commands of the session have their servers; everything else goes through the link, and
hilum decides.

A connection carries one request, or a tunnel (RFC 9110, 9.3.6): nothing of a second one, with the
password, is passed on.
"""

from __future__ import annotations

import base64
import hmac
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream

from .link import GONE, Channel, Link, splice

LONGEST_HEAD = 1 << 18
_WHO = (
    b'HTTP/1.1 407 \r\nProxy-Authenticate: Basic realm="hilum"\r\nContent-Length: 0\r\nConnection:'
    b" close\r\n\r\n"
)
_NONE = b"HTTP/1.1 502 \r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_MADE = b"HTTP/1.1 200 \r\n\r\n"
_NOT_PASSED_ON = (b"connection", b"keep-alive", b"proxy-authorization", b"proxy-connection")


class Proxy:
    """The proxy.

    Args:
        link: The way out.
        user: Who may use it.
        password: With which password.
    """

    def __init__(self, link: Link, user: str, password: str) -> None:
        self._link = link
        self._secret = b"Basic " + base64.b64encode(f"{user}:{password}".encode())

    async def serve(self, listener: anyio.abc.Listener[anyio.abc.SocketStream]) -> None:
        """Serve the browser's connections until cancelled."""

        async def one(stream: anyio.abc.SocketStream) -> None:
            async with stream:
                with suppress(*GONE, anyio.IncompleteRead, anyio.DelimiterNotFound, ValueError):
                    await self._connection(stream)

        await listener.serve(one)

    async def _connection(self, stream: anyio.abc.SocketStream) -> None:
        buffered = BufferedByteReceiveStream(stream)
        head = await buffered.receive_until(b"\r\n\r\n", LONGEST_HEAD)
        line, *lines = head.split(b"\r\n")
        method, where, _ = line.split(b" ")
        headers = [
            (name, value.strip()) for name, _, value in (each.partition(b":") for each in lines)
        ]
        found = {name.lower(): value for name, value in headers}
        if not hmac.compare_digest(found.get(b"proxy-authorization", b""), self._secret):
            await stream.send(_WHO)
            return
        parts = urlsplit(b"//" + where if method == b"CONNECT" else where)
        host = (parts.hostname or b"").decode("ascii")
        port = parts.port or 80
        target = await _here(host, port) or await self._outside(host, port)
        if method == b"CONNECT":
            await self._tunnel(stream, target)
        elif target is not None:
            path = where.partition(b"//")[2][len(parts.netloc) :]
            passed = [
                name + b": " + value
                for name, value in headers
                if name.lower() not in _NOT_PASSED_ON
            ]
            first = b"\r\n".join(
                [b"%s %s HTTP/1.1" % (method, path), *passed, b"Connection: close", b"", b""]
            )
            async with target:
                await target.send(first)
                await _one_request(
                    buffered, stream, target, int(found.get(b"content-length", b"0"))
                )

    async def _tunnel(
        self, stream: anyio.abc.SocketStream, target: anyio.abc.ByteStream | None
    ) -> None:
        if target is None:
            await stream.send(_NONE)
            return
        async with target:
            await stream.send(_MADE)
            await splice(stream, target)

    async def _outside(self, host: str, port: int) -> Channel | None:
        channel = self._link.dial(f"{host} {port}".encode())
        with suppress(*GONE):
            if await channel.receive(1) == b"\0":
                return channel
        await channel.aclose()
        return None


async def _one_request(
    source: BufferedByteReceiveStream,
    stream: anyio.abc.SocketStream,
    target: anyio.abc.ByteStream,
    length: int,
) -> None:
    """Pass on the body of a request, and the answer until its end.

    What comes after the request ends the connection.
    """

    async def ask() -> None:
        rest = length
        with suppress(*GONE):
            while rest > 0:
                data = await source.receive(min(rest, 65536))
                rest -= len(data)
                await target.send(data)
            await source.receive(1)
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        with suppress(*GONE):
            while True:
                await stream.send(await target.receive())
        tasks.cancel_scope.cancel()


async def _here(host: str, port: int) -> anyio.abc.SocketStream | None:
    for address in loopback(host):
        with suppress(OSError):
            return await anyio.connect_tcp(address, port)
    return None


def loopback(host: str) -> tuple[str, ...]:
    """Return the addresses of this machine that a host stands for by itself, whatever any server of
    names says; or none.
    """
    if host == "localhost" or host.endswith(".localhost"):  # RFC 6761
        return ("127.0.0.1", "::1")
    try:
        address = ip_address(host)
    except ValueError:
        return ()
    inner = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    if (inner or address).is_loopback:
        return (str(inner or address),)
    return ()
