"""The one way to a provider: posts bytes, gives bytes back as they come, says what failed.

Never retries.

httpx is imported at the first request, and only here.
"""

from __future__ import annotations

import ssl
import sys
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import trio
from hilum.errors import ModelError

from hilum_models.failures import Who, clean, refusal

if TYPE_CHECKING:
    import httpx

LOOPBACK = ("localhost", "127.0.0.1", "::1")
CONNECT_TIMEOUT = 10.0
# Tools run between two requests of a turn: a connection that is kept saves a TLS handshake.
KEEP_SECONDS = 120.0
MAX_REFUSAL = 1 << 20
# Bytes that are unpacked at once.
UNPACKED = 1 << 16


def host_of(url: str) -> str:
    """The host of an address; empty where it has none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def is_loopback(url: str) -> bool:
    """Return whether an address is on this machine."""
    return host_of(url) in LOOPBACK


def shown(url: str) -> str:
    """Scheme, host and port of an address: what a message may show."""
    scheme, _, rest = url.partition("://")
    if rest:
        return f"{scheme}://{rest.partition('/')[0].rpartition('@')[2]}"
    return "an address that is none"


def proxy_for(url: str) -> str:
    """The proxy that the environment or the system names for an address.

    Empty for none, as for this machine.
    """
    if is_loopback(url) or not host_of(url):
        return ""
    import urllib.request

    parts = urlsplit(url)
    proxies = urllib.request.getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all") or ""
    if not proxy or urllib.request.proxy_bypass(parts.netloc.rpartition("@")[2]):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


class Response:
    """A response whose body has not been read."""

    def __init__(self, response: httpx.Response, who: Who, url: str) -> None:
        self._response = response
        self._who = who
        self._url = url
        self.status = response.status_code
        self.type = response.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Yield the body as it comes. Close the iterator.

        Raises:
            ModelError: ``broken``, the connection broke off.
        """
        import httpx

        # Asked for uncompressed; whoever compresses all the same is unpacked.
        packed = self._response.headers.get("content-encoding", "") in ("gzip", "x-gzip", "deflate")
        unpack = zlib.decompressobj(zlib.MAX_WBITS | 32) if packed else None
        source = self._response.aiter_raw()
        try:
            async for chunk in source:
                if unpack is None:
                    yield chunk
                    continue
                # Piece by piece: a megabyte may unpack to a gigabyte.
                yield unpack.decompress(chunk, UNPACKED)
                while unpack.unconsumed_tail:
                    yield unpack.decompress(unpack.unconsumed_tail, UNPACKED)
        except (httpx.HTTPError, httpx.StreamError, zlib.error) as error:
            raise _failure(error, self._who, self._url) from None
        finally:
            # httpx nests generators that do not close each other; a cancelled read ends them all.
            with trio.CancelScope() as scope, suppress(httpx.HTTPError, httpx.StreamError):
                scope.cancel()
                async for _ in source:
                    pass

    async def read(self, limit: int = MAX_REFUSAL) -> bytes:
        """Read the body, at most ``limit`` bytes of it.

        What breaks off is given as far as it came.
        """
        body = b""
        chunks = self.chunks()
        try:
            async for chunk in chunks:
                body += chunk
                if len(body) >= limit:
                    break
        except ModelError:
            pass
        finally:
            await chunks.aclose()
        return body[:limit]

    async def refusal(self) -> ModelError:
        """Read what the provider says about a status other than success."""
        return refusal(self.status, self._response.headers, await self.read(), self._who)


class _Once:
    """A body to send once. httpx has a generator for it, which nobody closes when the request is
    cancelled.
    """

    def __init__(self, body: bytes) -> None:
        self._left = [body]

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()


class Transport:
    """HTTP connections of a kernel, made at first use and shared by all models."""

    def __init__(self) -> None:
        self._clients: dict[tuple[bool, str], httpx.AsyncClient] = {}
        self._closed = False

    def _client(self, url: str) -> httpx.AsyncClient:
        """Return the client for an address: no proxy for this machine, no certificates where there
        is no TLS.
        """
        secure = not url.startswith("http://")
        proxy = proxy_for(url)
        client = self._clients.get((secure, proxy))
        if client is None:
            import httpx

            if self._closed:
                raise RuntimeError("the transport is closed")
            client = self._clients[secure, proxy] = httpx.AsyncClient(
                verify=(
                    httpx.create_ssl_context() if secure else False
                ),  # certificates cost 40 ms to load
                proxy=proxy or None,
                trust_env=False,  # httpx fails where NO_PROXY holds an IPv6 network, as containers are given it
                follow_redirects=False,  # a redirect would carry the key elsewhere
                limits=httpx.Limits(
                    max_connections=None,
                    max_keepalive_connections=64,
                    keepalive_expiry=KEEP_SECONDS,
                ),
                # The kernel watches for silence; waiting for a free connection is no failure.
                timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT),
            )
        return client

    @asynccontextmanager
    async def send(
        self, method: str, url: str, headers: Mapping[str, str], who: Who, body: bytes | None = None
    ) -> AsyncIterator[Response]:
        """Send a request and give the response, its body unread. Leaving closes it.

        Args:
            method: ``GET`` or ``POST``.
            url: Where to.
            headers: Headers, keys included.
            who: For messages.
            body: What to post.

        Raises:
            ModelError: ``connect``, ``broken`` or ``request``.
        """
        _leave_out_command_line()
        import httpx

        try:
            client = self._client(url)
            request = httpx.Request(
                method, url, headers=headers, content=body, extensions={"timeout": _TIMEOUT}
            )
            if body is not None:
                request.stream = type("Body", (_Once, httpx.AsyncByteStream), {})(body)
            response = await client.send(request, stream=True)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, ImportError, OSError) as error:
            raise _failure(error, who, url) from None
        try:
            yield Response(response, who, url)
        finally:
            await response.aclose()

    async def fetch(self, url: str, headers: Mapping[str, str], who: Who, seconds: float) -> bytes:
        """Get a small document.

        Raises:
            ModelError: It cannot be had within that many seconds.
        """
        with trio.move_on_after(seconds):
            async with self.send("GET", url, headers, who) as response:
                if response.status != 200:
                    raise await response.refusal()
                return await response.read(16 << 20)
        raise ModelError(f"{who.provider} did not answer within {seconds:g} s.", kind="timeout")

    async def aclose(self) -> None:
        """Close all connections."""
        self._closed = True
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()


_TIMEOUT: dict[str, float | None] = {
    "connect": CONNECT_TIMEOUT,
    "read": None,
    "write": None,
    "pool": None,
}


def _leave_out_command_line() -> None:
    """Keep httpx from loading its command line: where click and rich are installed that costs 40
    ms, and nobody calls it.
    """
    if "httpx" not in sys.modules:
        sys.modules["httpx._main"] = None  # type: ignore[assignment]  # as if click were not installed
        import httpx  # noqa: F401

        del sys.modules["httpx._main"]


def _failure(error: Exception, who: Who, url: str) -> ModelError:
    """Return what failed below HTTP. httpx's own messages are often empty."""
    import httpx

    where = f"{who.provider} at {shown(url)}"
    why = clean(str(error) or type(error).__name__, who).rstrip(".")
    if isinstance(error, ImportError):  # a SOCKS proxy, the only thing httpx lacks a package for
        return ModelError(
            f"{where} cannot be reached through the proxy {shown(proxy_for(url))}: {why}.",
            kind="request",
            hint="Install httpx[socks] beside hilum, or unset ALL_PROXY.",
        )
    if isinstance(error, OSError):
        return ModelError(
            f"The certificates to check {where} cannot be loaded: {error.strerror or why}.",
            kind="request",
            hint="Check SSL_CERT_FILE and SSL_CERT_DIR.",
        )
    tls = _tls_error(error)
    if tls is not None:
        return _tls_failure(tls, where, url)
    if isinstance(error, httpx.ConnectTimeout):
        return ModelError(
            f"{where} did not accept a connection within {CONNECT_TIMEOUT:g} s.",
            kind="connect",
            hint="Check the network, the proxy and the base URL.",
        )
    if isinstance(error, httpx.ConnectError | httpx.ProxyError):
        if is_loopback(url):
            hint = "Is the server running?"
        else:
            hint = "Check the network, the proxy and the base URL."
        return ModelError(f"{where} cannot be reached: {why}.", kind="connect", hint=hint)
    if isinstance(
        error, httpx.LocalProtocolError | UnicodeError
    ):  # whose message may quote a header
        if who.key_env:
            hint = f"Look for line breaks and odd letters in {who.key_env}."
        else:
            hint = ""
        return ModelError(
            f"{where} cannot be asked: a header has an illegal value.", kind="request", hint=hint
        )
    if isinstance(error, httpx.TimeoutException):
        return ModelError(f"{where} did not answer in time.", kind="timeout")
    broken = isinstance(error, httpx.TransportError | httpx.StreamError | zlib.error)
    if broken and not isinstance(error, httpx.UnsupportedProtocol):
        return ModelError(f"The connection to {where} broke off: {why}.", kind="broken")
    hint = "Check the base URL: it begins with http:// or https://."
    return ModelError(f"{where} cannot be asked: {why}.", kind="request", hint=hint)


def _tls_error(error: BaseException) -> ssl.SSLError | None:
    """Return the TLS error behind an error of httpx, whose own text is only the name of a type."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLError):
            return seen
        seen = seen.__cause__ or seen.__context__
    return None


def _tls_failure(error: ssl.SSLError, where: str, url: str) -> ModelError:
    """Return what is wrong with a certificate, or with TLS, and what to do.

    A retry would not help.
    """
    if not isinstance(error, ssl.SSLCertVerificationError):
        reason = (error.reason or str(error)).replace("_", " ").lower()
        if any(
            word in reason
            for word in ("wrong version number", "record layer failure", "http request")
        ):
            hint = (
                "The server seems to speak plain HTTP: try http:// in place of https://"
                f" ({shown(url)})."
            )
        else:
            hint = "Check the base URL, and proxies that inspect TLS."
        return ModelError(
            f"{where} cannot be reached over TLS: {reason}.", kind="request", hint=hint
        )
    why = error.verify_message.rstrip(".")
    if "expired" in why or "not yet valid" in why:
        hint = (
            "Check the clock of this machine; if it is right, the server needs a new certificate."
        )
    elif "mismatch" in why.lower() or "not valid for" in why:
        hint = "The certificate is for another name: check the host in the base URL."
    else:
        hint = "If you trust it, set SSL_CERT_FILE to a file with the certificate of its authority."
    return ModelError(
        f"The certificate of {where} is not accepted: {why}.", kind="request", hint=hint
    )
