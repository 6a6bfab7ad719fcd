"""Requests to addresses that a server names for logging in: they go to checked addresses only, by a
connection of their own.

The address is checked where the socket is opened, so that a name which stands for one address when
it is checked and for another a moment later leads nowhere. Imported with the SDK only.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, cast
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2
from hilum_web import AddressRefused, Reach, checked, open_client
from mcp.client.auth import OAuthFlowError

from hilum_mcp.errors import reason_of

if TYPE_CHECKING:
    import httpx

LOCAL = ("127.0.0.1", "localhost", "::1")
MOST_BYTES = 1 << 20
MOST_REDIRECTS = 5
SECONDS = 30.0


def origin(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port of a URL.

    Raises:
        ValueError: Its port is no number.
    """
    parts = urlsplit(url)
    return (
        parts.scheme,
        parts.hostname or "",
        parts.port or {"https": 443, "http": 80}.get(parts.scheme, 0),
    )


def reach_of(server: str, hosts: frozenset[str] = frozenset()) -> Reach:
    """Return what a server may name: what is public, and what the user lists.

    A server on this machine may name others on this machine, as such servers are the user's own.
    """
    return Reach(loopback=urlsplit(server).hostname in LOCAL, hosts=hosts)


async def allow(url: str, server: str, reach: Reach) -> None:
    """Check an address that a server names: its own origin may be.

    Else it must be reachable and https.

    Raises:
        OAuthFlowError: It may not be reached.
    """
    try:
        if origin(url) == origin(server):
            return
        target = await checked(url, reach)
    except (AddressRefused, ValueError) as error:
        raise OAuthFlowError(
            f"The server names an address for logging in that is not reached. {error}"
        ) from None
    if target.scheme != "https" and target.host not in LOCAL:
        raise OAuthFlowError(
            f"The server names {target.host} for logging in without https, and it is not reached."
        )


async def send(request: httpx2.Request, reach: Reach) -> httpx2.Response:
    """Send a request; redirects are followed on its own origin only.

    Raises:
        OAuthFlowError: There is no answer, or not one that can be read.
    """
    import httpx

    url = str(request.url)
    sent = await request.aread()
    headers = {name: value for name, value in request.headers.items() if name.lower() != "host"}
    headers["accept-encoding"] = "identity"
    try:
        async with open_client(reach, timeout=SECONDS) as client:
            for _ in range(MOST_REDIRECTS):
                async with client.stream(
                    request.method, url, headers=headers, content=sent
                ) as response:
                    body = await _body(response)
                to = urljoin(url, response.headers.get("location", ""))
                kept = response.status_code in (307, 308) or request.method == "GET"
                if not (response.has_redirect_location and kept and origin(to) == origin(url)):
                    break
                url = to
    except AddressRefused as error:
        raise OAuthFlowError(
            f"The server names an address for logging in that is not reached. {error}"
        ) from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        host = urlsplit(url).netloc
        raise OAuthFlowError(
            f"{host}, which the server names for logging in, gave no answer. {reason_of(error)}"
        ) from None
    plain = {"content-type": response.headers.get("content-type", "")}
    return httpx2.Response(response.status_code, headers=plain, content=body, request=request)


async def _body(response: httpx.Response) -> bytes:
    """Read a body up to a limit, as it was sent: no compression was asked for."""
    data = bytearray()
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise ValueError("It is compressed, which was not asked for.")
    async with aclosing(cast("AsyncGenerator[bytes, None]", response.aiter_raw())) as chunks:
        async for chunk in chunks:
            data += chunk
            if len(data) > MOST_BYTES:
                await response.aclose()
                with suppress(
                    Exception
                ):  # the generators below end when they find the connection closed
                    await anext(chunks)
                raise ValueError(f"It is larger than {MOST_BYTES >> 20} MB.")
    return bytes(data)


def proxied(url: str) -> bool:
    """Return whether the environment has a proxy for a URL: then the proxy looks its host up, and
    decides what is reached.
    """
    parts = urlsplit(url)
    return parts.scheme in getproxies() and not proxy_bypass(parts.hostname or "")


class Apart:
    """What all ways of logging in share: the request itself goes its usual way, and every other to
    checked addresses.

    Attributes:
        server_url: The server.
        reach: What beyond its own origin may be reached.
    """

    server_url = ""
    reach = Reach()

    async def _auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        flow = self._steps(request)
        try:
            sent = await flow.__anext__()
            while True:
                if sent is request or origin(str(sent.url)) == origin(self.server_url):
                    response = yield sent
                else:
                    await allow(str(sent.url), self.server_url, self.reach)
                    response = (
                        (yield sent) if proxied(str(sent.url)) else await send(sent, self.reach)
                    )
                sent = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    def _steps(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Return all requests that a request needs, and itself."""
        return super()._auth_flow(request)  # type: ignore[misc, no-any-return]
