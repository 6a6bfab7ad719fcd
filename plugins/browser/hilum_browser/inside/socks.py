"""The proxy that the browser is given: SOCKS 5 (RFC 1928) on the sandbox's own loopback, so that no name is looked up inside.

What is asked for on the loopback is looked for on this one first, where commands of the session have their servers; everything
else goes through the link, and hilum decides.
"""

from __future__ import annotations

from contextlib import suppress
from ipaddress import IPv6Address, ip_address

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream

from .link import GONE, Channel, Link, splice

_SUCCESS, _FAILED, _NO_SUCH_COMMAND = 0, 1, 7


async def serve(link: Link, listener: anyio.abc.Listener[anyio.abc.SocketStream]) -> None:
    """Serve the browser's connections until cancelled."""

    async def one(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            with suppress(*GONE, anyio.IncompleteRead, ValueError):
                await _connection(link, stream)

    await listener.serve(one)


async def _connection(link: Link, stream: anyio.abc.SocketStream) -> None:
    read = BufferedByteReceiveStream(stream).receive_exactly
    _, methods = await read(2)
    await read(methods)
    await stream.send(b"\x05\x00")
    _, command, _, kind = await read(4)
    length = {1: 4, 4: 16}.get(kind) or (await read(1))[0]
    raw = await read(length)
    host = raw.decode("ascii").strip("[]") if kind == 3 else str(ip_address(raw))
    port = int.from_bytes(await read(2))
    if command != 1:
        await _answer(stream, _NO_SUCH_COMMAND)
        return
    target = await _here(host, port) or await _outside(link, host, port)
    if target is None:
        await _answer(stream, _FAILED)
        return
    async with target:
        await _answer(stream, _SUCCESS)
        await splice(stream, target)


async def _answer(stream: anyio.abc.SocketStream, code: int) -> None:
    await stream.send(bytes((5, code, 0, 1)) + bytes(6))


async def _here(host: str, port: int) -> anyio.abc.SocketStream | None:
    for address in loopback(host):
        with suppress(OSError):
            return await anyio.connect_tcp(address, port)
    return None


async def _outside(link: Link, host: str, port: int) -> Channel | None:
    channel = link.dial(f"{host} {port}".encode())
    with suppress(*GONE):
        if await channel.receive(1) == b"\0":
            return channel
    await channel.aclose()
    return None


def loopback(host: str) -> tuple[str, ...]:
    """Give the addresses of this machine that a host stands for by itself, whatever any server of names says; or none."""
    if host == "localhost" or host.endswith(".localhost"):  # RFC 6761
        return ("127.0.0.1", "::1")
    try:
        address = ip_address(host)
    except ValueError:
        return ()
    inner = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (str(inner or address),) if (inner or address).is_loopback else ()
