"""Sends login requests to URLs that a server specifies, if the URLs pass the address check.

The requests use separate connections, and each address is checked when its socket is opened.
Therefore, a name cannot bypass the check by resolving to another address later (DNS rebinding).
This module imports the MCP SDK.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import cast
from urllib.parse import urljoin, urlsplit

import httpx
import httpx2
from hilum import is_loopback
from hilum_web import AddressRefused, Reach, open_client, resolve_url
from mcp.client.auth import OAuthFlowError

from hilum_mcp.address_check import uses_proxy
from hilum_mcp.errors import describe_error

# Maximum size of a response in bytes. Metadata and tokens take a few kilobytes.
MAX_BODY = 1 << 20
MAX_REDIRECTS = 5
REQUEST_TIMEOUT = 30.0
_PORTS = {"https": 443, "http": 80}


def origin_of(url: str) -> tuple[str, str, int]:
    """Return the scheme, host and port of a URL.

    Raises:
        ValueError: The port is not a number.
    """
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)


def allowed_reach(server: str, hosts: frozenset[str] = frozenset()) -> Reach:
    """Return the addresses that a server may specify: public ones, and hosts in the settings.

    A server on this machine may also specify addresses on this machine, because only the user can
    configure such a server.

    Args:
        server: The server's URL.
        hosts: Hosts on the user's network.
    """
    return Reach(loopback=is_loopback(server), hosts=hosts)


async def check_auth_address(url: str, server: str, reach: Reach) -> None:
    """Check a URL that a server specifies. The server's own origin is always allowed.

    Raises:
        OAuthFlowError: The URL is not allowed, or does not use HTTPS.
    """
    try:
        # The session contacts this origin anyway; it was checked before the connection was opened.
        if origin_of(url) == origin_of(server):
            return
        target, _ = await resolve_url(url, reach)
    except (AddressRefused, ValueError) as error:
        raise OAuthFlowError(_refusal(error)) from None
    # MCP, authorization, "Communication Security": endpoints of authorization servers must use
    # HTTPS. Tokens and codes would otherwise be readable on the network.
    if target.scheme != "https" and not is_loopback(url):
        raise OAuthFlowError(
            f"The server specifies a login URL on {target.host} without https, so it is not"
            " contacted."
        )


def _refusal(error: Exception) -> str:
    return f"The server specifies a login URL that hilum does not contact. {error}"


async def send_checked(request: httpx2.Request, reach: Reach) -> httpx2.Response:
    """Send a request, and follow redirects only within the request's origin.

    Raises:
        OAuthFlowError: No response arrived, or the response cannot be read.
    """
    url = str(request.url)
    content = await request.aread()
    headers = {name: value for name, value in request.headers.items() if name.lower() != "host"}
    # Without compression, a small response cannot expand beyond the limit (decompression bomb).
    headers["accept-encoding"] = "identity"
    try:
        async with open_client(reach, timeout=REQUEST_TIMEOUT) as client:
            for _ in range(MAX_REDIRECTS):
                async with client.stream(
                    request.method,
                    url,
                    headers=headers,
                    content=content,
                ) as response:
                    body = await _read_body(response)
                target = urljoin(url, response.headers.get("location", ""))
                if not _may_follow(response, url, target):
                    break
                url = target
    except AddressRefused as error:
        raise OAuthFlowError(_refusal(error)) from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        host = urlsplit(url).netloc
        raise OAuthFlowError(
            f"{host}, which the server specifies as a login URL, did not respond. "
            f"{describe_error(error)}"
        ) from None
    kept = {"content-type": response.headers.get("content-type", "")}
    return httpx2.Response(response.status_code, headers=kept, content=body, request=request)


def _may_follow(response: httpx.Response, url: str, target: str) -> bool:
    # After a 301, 302 or 303 response, a POST usually becomes a GET (RFC 9110, section 15.4), and a
    # token request would lose its body.
    keeps_method = response.status_code in (307, 308) or response.request.method == "GET"
    if not response.has_redirect_location or not keeps_method:
        return False
    # The request may contain codes and client secrets, which no other origin may receive.
    return origin_of(target) == origin_of(url)


async def _read_body(response: httpx.Response) -> bytes:
    """Read a response body up to the size limit; reject a compressed body."""
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise ValueError("The response is compressed, which was not requested.")
    data = bytearray()
    async with aclosing(cast("AsyncGenerator[bytes, None]", response.aiter_raw())) as chunks:
        async for chunk in chunks:
            data += chunk
            if len(data) > MAX_BODY:
                await response.aclose()
                with suppress(Exception):
                    # Reading on lets httpx's nested generators notice the closed connection and
                    # end.
                    await anext(chunks)
                raise ValueError(f"It is larger than {MAX_BODY >> 20} MB.")
    return bytes(data)


class CheckedAuthFlow:
    """A base class for login methods that checks the destinations of requests.

    The request to the server itself is sent as usual. All other requests are sent only to addresses
    that pass the check.

    Attributes:
        server_url: The server's URL.
        reach: The addresses that may be contacted in addition to the server's own origin.
    """

    server_url = ""
    reach = Reach()

    async def _auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        flow = self._run_flow(request)
        try:
            step = await flow.__anext__()
            while True:
                url = str(step.url)
                is_own = step is request or origin_of(url) == origin_of(self.server_url)
                if not is_own:
                    await check_auth_address(url, self.server_url, self.reach)
                # A proxy resolves names itself, so there is no socket whose address could be
                # checked.
                if is_own or uses_proxy(url):
                    response = yield step
                else:
                    response = await send_checked(step, self.reach)
                step = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    def _run_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Yield a request and all requests on which it depends."""
        return super()._auth_flow(request)  # type: ignore[misc, no-any-return]
