"""HTTP that connects to checked addresses only.

The check stands where the socket is opened, so that nothing can come between the two: no second
look-up, no redirect. Imported at the first request: httpx takes 100 ms.
"""

from __future__ import annotations

import math
import os
import ssl
from functools import cache
from typing import Any

import httpcore
import httpx
import trio

from hilum_web.addresses import Reach
from hilum_web.connecting import AddressRefused, located

# Seconds until the next address is tried beside the one that has not answered (RFC 8305, section
# 5).
STAGGER = 0.25
# These would connect past the check, or have no effect beside it.
_NOT_OURS = "app cert http1 http2 limits mounts proxies proxy transport trust_env verify".split()


class Backend(httpcore.AsyncNetworkBackend):
    """Opens connections to addresses that were checked the moment before."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._inner = httpcore.TrioBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the address of a host that answers first.

        Each is given a moment's start over the next.

        Raises:
            AddressRefused: The host may not be reached.
            httpcore.ConnectError: None answers.
        """
        shown = f"[{host}]" if ":" in host else host
        opened: list[httpcore.AsyncNetworkStream] = []
        failed: list[httpcore.ConnectError] = []

        async def attempt(address: str, done: trio.Event, scope: trio.CancelScope) -> None:
            try:
                opened.append(
                    await self._inner.connect_tcp(
                        address, port, None, local_address, socket_options
                    )
                )
            except httpcore.ConnectError as error:
                failed.append(error)
                done.set()
            else:
                scope.cancel()

        kept = False
        try:
            with trio.move_on_after(math.inf if timeout is None else timeout) as limit:
                _, addresses = await located(f"http://{shown}:{port}/", self._reach)
                async with trio.open_nursery() as nursery:
                    for address in _alternating(addresses):
                        done = trio.Event()
                        nursery.start_soon(attempt, address, done, nursery.cancel_scope)
                        with trio.move_on_after(STAGGER):
                            await done.wait()
            kept = bool(opened)
        finally:
            with trio.CancelScope(shield=True):
                for stream in opened[kept:]:
                    await stream.aclose()
        if opened:
            return opened[0]
        if limit.cancelled_caught:
            raise httpcore.ConnectTimeout(
                f"{host} did not accept a connection within {timeout:g} s"
            )
        raise failed[-1]

    async def connect_unix_socket(self, *_: Any, **__: Any) -> httpcore.AsyncNetworkStream:
        """Refuse: no URL leads to a socket of this machine."""
        raise AddressRefused("A socket of this machine is not fetched from.")

    async def sleep(self, seconds: float) -> None:
        """Wait between two tries."""
        await self._inner.sleep(seconds)


def _alternating(addresses: tuple[str, ...]) -> list[str]:
    """Put the first address of the other family second: where one family is broken, all of its
    addresses are.
    """
    order = list(addresses)
    other = next((each for each in order if (":" in each) != (":" in order[0])), None)
    if other is not None:
        order.remove(other)
        order.insert(1, other)
    return order


def client(reach: Reach, **options: Any) -> httpx.AsyncClient:
    """Open a client; see ``hilum_web.open_client``."""
    wrong = sorted(options.keys() & _NOT_OURS)
    if wrong:
        raise TypeError(f"open_client takes no {wrong[0]}: it connects by itself")
    context = _tls(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
    transport = httpx.AsyncHTTPTransport(verify=context, trust_env=False)
    # httpx has no argument for the network below it; its pool is a plain one of httpcore.
    if not isinstance(getattr(transport, "_pool", None), httpcore.AsyncConnectionPool):
        raise RuntimeError(
            f"this version of httpx ({httpx.__version__}) does not connect through httpcore's pool"
        )
    transport._pool = httpcore.AsyncConnectionPool(
        ssl_context=context,
        network_backend=Backend(reach),
        max_connections=None,
        max_keepalive_connections=20,
        keepalive_expiry=30.0,
    )
    options.setdefault("follow_redirects", False)
    return httpx.AsyncClient(transport=transport, trust_env=False, **options)


@cache
def _tls(file: str | None, folder: str | None) -> ssl.SSLContext:
    # Reading the certificates takes 20 ms and more; a company's own are found where the environment
    # says.
    return httpx.create_ssl_context()
