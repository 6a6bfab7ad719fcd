"""HTTP that connects to checked addresses only.

The check stands where the socket is opened, so that nothing can come between the two: no second look-up, no redirect.
Imported at the first request: httpx takes 100 ms.
"""

from __future__ import annotations

import math
from typing import Any

import httpcore
import httpx
import trio

from hilum_web.addresses import Reach
from hilum_web.connecting import AddressRefused, addresses
from hilum_web.urls import read_url


class Backend(httpcore.AsyncNetworkBackend):
    """Opens connections to addresses that were checked the moment before."""

    def __init__(self, reach: Reach) -> None:
        self._reach, self._inner = reach, httpcore.TrioBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first address of a host that answers.

        Raises:
            AddressRefused: The host may not be reached.
            httpcore.ConnectError: None answers.
        """
        shown = f"[{host}]" if ":" in host else host
        failed: Exception | None = None
        with trio.move_on_after(math.inf if timeout is None else timeout):
            for address in await addresses(read_url(f"http://{shown}:{port}/"), self._reach):
                try:
                    return await self._inner.connect_tcp(address, port, None, local_address, socket_options)
                except httpcore.ConnectError as error:
                    failed = error
            raise failed or httpcore.ConnectError(f"{host} has no address")
        raise httpcore.ConnectTimeout(f"{host} did not accept a connection within {timeout:g} s")

    async def connect_unix_socket(self, *_: Any, **__: Any) -> httpcore.AsyncNetworkStream:
        """Refuse: no URL leads to a socket of this machine."""
        raise AddressRefused("A socket of this machine is not fetched from.")

    async def sleep(self, seconds: float) -> None:
        """Wait between two tries."""
        await self._inner.sleep(seconds)


def client(reach: Reach, **options: Any) -> httpx.AsyncClient:
    """Open a client; see ``hilum_web.open_client``."""
    context = httpx.create_ssl_context()
    transport = httpx.AsyncHTTPTransport(verify=context, trust_env=False)
    # httpx has no argument for the network below it; its pool is a plain one of httpcore.
    transport._pool = httpcore.AsyncConnectionPool(
        ssl_context=context,
        network_backend=Backend(reach),
        max_connections=None,
        max_keepalive_connections=20,
        keepalive_expiry=30.0,
    )
    options.setdefault("follow_redirects", False)
    return httpx.AsyncClient(transport=transport, trust_env=False, **options)
