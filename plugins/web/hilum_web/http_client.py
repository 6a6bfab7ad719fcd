"""HTTP clients, and explanations of their failures. This is the only module that imports httpx.

Addresses are checked when the socket is opened, so that no second lookup and no redirect can occur
between the check and the connection. httpx takes 100 ms to import, so import this module only for
the first request.
"""

from __future__ import annotations

import math
import os
import re
import ssl
from functools import cache
from typing import Any
from urllib.parse import urljoin

import httpcore
import httpx
import trio
from hilum import AddressRefused, ToolError, errors, find_proxy

from hilum_web.addresses import Reach
from hilum_web.messages import format_site
from hilum_web.reader.visible_text import to_line
from hilum_web.resolver import resolve_url
from hilum_web.urls import InvalidUrl, UnknownHost

Client = httpx.AsyncClient
Response = httpx.Response
# The exceptions that a request may raise. httpx.InvalidURL and StreamError do not derive from
# HTTPError.
REQUEST_ERRORS = (
    httpx.HTTPError,
    httpx.InvalidURL,
    httpx.StreamError,
    AddressRefused,
    OSError,
)
USER_AGENT = "hilum/0.1 (coding agent; fetches single pages on a user's behalf)"
# The encodings that ``read_body`` decodes. Other encodings can turn a few bytes into gigabytes in
# one step.
ENCODINGS = "gzip, deflate"
_HEADERS = {"user-agent": USER_AGENT, "accept-encoding": ENCODINGS}

# Seconds to wait for an address before the next one is tried in parallel (RFC 8305, section 5).
STAGGER = 0.25
# Client options that would bypass the address check, or have no effect with it.
_FORBIDDEN_OPTIONS = (
    "app cert http1 http2 limits mounts proxies proxy transport trust_env verify".split()
)
# Matches the user name and password in a URL. A redirecting site may have put a secret into the
# URL.
_USERINFO = re.compile(r"//[^/?#]*@")


class CheckedBackend(httpcore.AsyncNetworkBackend):
    """A network backend that connects only to addresses that it has just checked."""

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
        """Connect to the first address of a host that accepts a connection.

        Each address has a short head start over the next.

        Raises:
            AddressRefused: hilum must not contact the host.
            httpcore.ConnectError: No address accepts the connection.
        """
        shown = f"[{host}]" if ":" in host else host
        opened: list[httpcore.AsyncNetworkStream] = []
        failed: list[httpcore.ConnectError] = []

        async def attempt(address: str, done: trio.Event, scope: trio.CancelScope) -> None:
            try:
                # No time limit is needed here, because `limit` below applies to all attempts.
                stream = await self._inner.connect_tcp(
                    address, port, None, local_address, socket_options
                )
                opened.append(stream)
            except httpcore.ConnectError as error:
                failed.append(error)
                done.set()
            else:
                scope.cancel()

        unused = opened
        try:
            with trio.move_on_after(math.inf if timeout is None else timeout) as limit:
                _, addresses = await resolve_url(f"http://{shown}:{port}/", self._reach)
                async with trio.open_nursery() as nursery:
                    for address in _alternate_families(addresses):
                        done = trio.Event()
                        nursery.start_soon(attempt, address, done, nursery.cancel_scope)
                        with trio.move_on_after(STAGGER):
                            await done.wait()
            unused = opened[1:]
        finally:
            # Two attempts may succeed at the same moment, and a cancelled one may leave a stream
            # open.
            with trio.CancelScope(shield=True):
                for stream in unused:
                    await stream.aclose()
        if opened:
            return opened[0]
        if limit.cancelled_caught:
            raise httpcore.ConnectTimeout(
                f"{host} did not accept a connection within {timeout:g} s"
            )
        raise failed[-1]

    async def connect_unix_socket(self, *_: Any, **__: Any) -> httpcore.AsyncNetworkStream:
        """Refuse the connection, because no URL can refer to a Unix socket."""
        raise AddressRefused("Unix sockets on this machine are never contacted.")

    async def sleep(self, seconds: float) -> None:
        """Wait between two connection attempts."""
        await self._inner.sleep(seconds)


def _alternate_families(addresses: tuple[str, ...]) -> list[str]:
    """Move the first address of the other address family to the second position.

    If one address family does not work, none of its addresses does.
    """
    order = list(addresses)
    is_ipv6 = ":" in order[0]
    for each in addresses:
        if (":" in each) != is_ipv6:
            order.remove(each)
            order.insert(1, each)
            break
    return order


def open_client(reach: Reach, **options: Any) -> Client:
    """Open a client that checks each connection; see ``hilum_web.open_client``."""
    forbidden = sorted(options.keys() & _FORBIDDEN_OPTIONS)
    if forbidden:
        raise TypeError(f"open_client does not accept {forbidden[0]}: it opens its own connections")
    context = _create_tls_context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
    transport = httpx.AsyncHTTPTransport(verify=context, trust_env=False)
    # httpx has no argument for the network backend of its pool, so the pool is replaced.
    if not isinstance(getattr(transport, "_pool", None), httpcore.AsyncConnectionPool):
        raise RuntimeError(
            f"this version of httpx ({httpx.__version__}) does not use httpcore's connection pool"
        )
    transport._pool = httpcore.AsyncConnectionPool(
        ssl_context=context,
        network_backend=CheckedBackend(reach),
        max_connections=None,  # no limit is needed: a session fetches only a few pages at once
        max_keepalive_connections=20,
        keepalive_expiry=30.0,
    )
    options.setdefault("follow_redirects", False)
    return httpx.AsyncClient(transport=transport, trust_env=False, **options)


@cache
def _create_tls_context(cert_file: str | None, cert_dir: str | None) -> ssl.SSLContext:
    # Loading the certificates takes at least 20 ms. The arguments are the cache key, because they
    # are the values of variables that httpx also reads; a company may set these variables.
    return httpx.create_ssl_context()


def open_page_client(reach: Reach) -> Client:
    """Open a client for pages. The caller is responsible for time limits."""
    return open_client(reach, headers=_HEADERS, timeout=None)


def open_provider_client(url: str) -> Client:
    """Open a client for a server that the user configured, which may be on a private network.

    The client uses the proxy that is configured in the environment.
    """
    # With `trust_env`, httpx would also send passwords from the user's .netrc file.
    return httpx.AsyncClient(
        headers=_HEADERS, trust_env=False, timeout=None, proxy=find_proxy(url) or None
    )


def find_redirect(response: Response, url: str) -> str:
    """Return the URL that a response redirects to, or an empty string if it does not redirect."""
    location: str = response.headers.get("location", "")
    if not location or not response.is_redirect:
        return ""
    return urljoin(url, location.strip())


def to_tool_error(error: Exception, url: str, seconds: float, redirected_by: str = "") -> ToolError:
    """Return the error that explains a failure below HTTP; httpx's own message may be empty.

    Args:
        error: One of ``REQUEST_ERRORS``.
        url: The URL that was fetched.
        seconds: The time limit.
        redirected_by: The site that redirected to the URL; empty if none did.
    """
    host = format_site(url)
    reason = to_line(str(error), 300).rstrip(".")
    if isinstance(error, AddressRefused):
        return _explain_refused_address(error, url, reason, redirected_by)
    # Timeouts are checked before TLS errors, because a timeout may have a TLS error as its context.
    if isinstance(error, httpx.TimeoutException):
        return ToolError(
            f"{host} did not respond within {seconds:g} s.",
            code=errors.E_TIMEOUT,
            hint="Try another page, or try again later.",
        )
    tls_error = _find_tls_error(error)
    if tls_error is not None:
        detail = getattr(tls_error, "verify_message", "") or tls_error.reason or str(tls_error)
        return ToolError(
            f"{host} cannot be trusted: its TLS certificate or protocol is invalid ({detail}).",
            code=errors.E_UNREACHABLE,
            hint="Use another source; nothing was read.",
        )
    reason = reason or type(error).__name__
    if isinstance(error, httpx.ConnectError):
        return ToolError(
            f"{host} does not accept connections: {reason}.",
            code=errors.E_UNREACHABLE,
            hint="Check the address, or try another source.",
        )
    return ToolError(
        f"The connection to {host} was interrupted: {reason}.",
        code=errors.E_UNREACHABLE,
        hint="Try again, or use another source.",
    )


def _explain_refused_address(
    error: AddressRefused, url: str, reason: str, redirected_by: str
) -> ToolError:
    if isinstance(error, UnknownHost):
        return ToolError(
            f"{reason}.", code=errors.E_UNREACHABLE, hint="Check the spelling of the host."
        )
    if error.listable:
        hint = "The user can list a host on their own network in web.hosts."
    elif isinstance(error, InvalidUrl):
        reason = f"{reason[:1].lower()}{reason[1:]}"
        hint = "Write the address in its usual notation."
    else:
        hint = "Use an address on the public web."
    if redirected_by:
        hint = f"{redirected_by} redirects to it. {hint}"
    shown = to_line(_USERINFO.sub("//…@", url), 300)
    return ToolError(f"{shown} is not fetched: {reason}.", code=errors.E_ADDRESS, hint=hint)


def _find_tls_error(error: BaseException | None) -> ssl.SSLError | None:
    """Return the TLS error that caused an httpx error, if there is one."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    return error
