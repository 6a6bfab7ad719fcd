"""Sends requests over httpcore, the transport of httpx; it is loaded for the first request.

httpx itself adds nothing that a request to a model needs (no redirects, cookies or decoding), and
importing it takes twice as long as importing httpcore.
"""

from __future__ import annotations

import base64
import functools
import os
import ssl
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from urllib.parse import SplitResult, quote, unquote, urlsplit

import certifi
import httpcore
import trio
from hilum import find_proxy
from hilum.errors import ModelError

from hilum_models.connection_errors import CONNECT_TIMEOUT, connection_error
from hilum_models.error_responses import response_error
from hilum_models.failures import Endpoint

# Seconds to keep an idle connection open. Tools run between two requests of a turn, and reusing the
# connection saves a TLS handshake.
KEEP_ALIVE = 120.0
MAX_IDLE_CONNECTIONS = 64
MAX_ERROR = 1 << 20  # maximum size, in bytes, of an error to read
# Maximum number of bytes to decompress at once, because a megabyte may decompress to a gigabyte.
MAX_DECOMPRESSED = 1 << 16
_COMPRESSED = ("gzip", "x-gzip", "deflate")
# This value accepts both gzip and zlib headers.
_ANY_HEADER = zlib.MAX_WBITS | 32
_DEFAULT_PORTS = {"http": 80, "https": 443}
_TRANSPORT_ERRORS = (
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.ProxyError,
    httpcore.TimeoutException,
    httpcore.UnsupportedProtocol,
)
# The kernel detects silence, and waiting for a free connection is not a failure.
_TIMEOUTS = {"connect": CONNECT_TIMEOUT, "read": None, "write": None, "pool": None}
# Characters that a path or a query may contain unchanged. "%" begins what is already quoted.
_UNQUOTED = "%/:?@!$&'()*+,;=~"


class Response:
    """A response whose body has not been read."""

    def __init__(self, response: httpcore.Response, endpoint: Endpoint, url: str) -> None:
        self._response = response
        self._endpoint = endpoint
        self._url = url
        self.status = response.status
        self._headers = _decode_headers(response)
        content_type = self._headers.get("content-type", "").partition(";")[0]
        self.media_type = content_type.strip().lower()

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Yield the body as it arrives; the caller must close the iterator.

        Raises:
            ModelError: ``broken`` if the connection was lost.
        """
        source = self._response.aiter_stream()
        # Requests ask for no compression, but some servers compress anyway.
        compressed = self._headers.get("content-encoding", "") in _COMPRESSED
        decompressor = zlib.decompressobj(_ANY_HEADER)
        try:
            async for chunk in source:
                if not compressed:
                    yield chunk
                    continue
                for piece in _decompress(decompressor, chunk):
                    yield piece
        except (*_TRANSPORT_ERRORS, zlib.error) as error:
            raise connection_error(error, self._endpoint, self._url) from None
        finally:
            # httpcore nests generators that do not close each other. A cancelled read ends all of
            # them.
            with trio.CancelScope() as scope, suppress(*_TRANSPORT_ERRORS):
                scope.cancel()
                async for _ in source:
                    pass

    async def read(self, limit: int) -> bytes:
        """Read the body, at most ``limit`` bytes of it.

        If the connection is lost, the part that arrived is returned.
        """
        body = b""
        chunks = self.chunks()
        try:
            async for chunk in chunks:
                body += chunk
                if len(body) >= limit:
                    break
        except ModelError:
            # Part of an error's body is better than nothing.
            pass
        finally:
            await chunks.aclose()
        return body[:limit]

    async def read_error(self) -> ModelError:
        """Read the body of an error response and return the error."""
        body = await self.read(MAX_ERROR)
        return response_error(self.status, self._headers, body, self._endpoint)


def _decompress(decompressor: zlib._Decompress, chunk: bytes) -> Iterator[bytes]:
    yield decompressor.decompress(chunk, MAX_DECOMPRESSED)
    while decompressor.unconsumed_tail:
        yield decompressor.decompress(decompressor.unconsumed_tail, MAX_DECOMPRESSED)


class SingleUseBody:
    """A request body that is sent once.

    httpcore's own body is a generator, which is not closed when the request is cancelled.
    """

    def __init__(self, body: bytes) -> None:
        self._left = [body] if body else []

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()


class HttpClient:
    """Pools of connections: one for each combination of proxy and TLS."""

    def __init__(self) -> None:
        self._pools: dict[tuple[bool, str], httpcore.AsyncConnectionPool] = {}

    def _pool(self, url: str) -> httpcore.AsyncConnectionPool:
        """Return the pool for a URL."""
        secure = not url.startswith("http://")
        proxy = find_proxy(url)
        if (secure, proxy) not in self._pools:
            self._pools[secure, proxy] = _open_pool(secure, proxy)
        return self._pools[secure, proxy]

    @asynccontextmanager
    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        endpoint: Endpoint,
        body: bytes | None,
    ) -> AsyncIterator[Response]:
        """Send a request and yield the response; see ``Transport.send``."""
        try:
            request = make_request(method, url, headers, body)
            response = await self._pool(url).handle_async_request(request)
        except (*_TRANSPORT_ERRORS, ValueError, ImportError, OSError) as error:
            raise connection_error(error, endpoint, url) from None
        try:
            yield Response(response, endpoint, url)
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        for pool in self._pools.values():
            await pool.aclose()
        self._pools.clear()


def make_request(
    method: str, url: str, headers: Mapping[str, str], body: bytes | None
) -> httpcore.Request:
    """Return the request for a URL.

    Args:
        method: ``GET`` or ``POST``.
        url: The URL; a user and password in it are sent as basic authentication.
        headers: Further headers.
        body: The body, if there is one.

    Raises:
        ValueError: The URL or a header is not valid.
    """
    parts = urlsplit(url)
    host = _encode_host(parts)
    all_headers = {"Host": _make_host_header(host, parts), **headers}
    if parts.username or parts.password:
        pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        all_headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    if body is not None or method == "POST":
        all_headers["Content-Length"] = str(len(body or b""))
    target = quote(parts.path or "/", _UNQUOTED)
    if parts.query:
        target += f"?{quote(parts.query, _UNQUOTED)}"
    return httpcore.Request(
        method,
        httpcore.URL(
            scheme=parts.scheme.encode("ascii"),
            host=host.encode("ascii"),
            port=parts.port,
            target=target.encode("ascii"),
        ),
        headers=[
            (name.encode("ascii"), value.encode("ascii")) for name, value in all_headers.items()
        ],
        content=SingleUseBody(body or b""),
        extensions={"timeout": _TIMEOUTS},
    )


def _encode_host(parts: SplitResult) -> str:
    """Return the host in a URL, in ASCII.

    Raises:
        ValueError: The URL has no host, or an impossible one.
    """
    host = parts.hostname or ""
    if not host:
        raise ValueError("it has no host")
    try:
        return host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        raise ValueError(f"the host {host!r} is not valid") from None


def _make_host_header(host: str, parts: SplitResult) -> str:
    shown = f"[{host}]" if ":" in host else host
    if parts.port is None or parts.port == _DEFAULT_PORTS.get(parts.scheme):
        return shown
    return f"{shown}:{parts.port}"


def _decode_headers(response: httpcore.Response) -> dict[str, str]:
    """Return the headers of a response by name in lower case; repeated ones are joined."""
    found: dict[str, str] = {}
    for name, value in response.headers:
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def _open_pool(secure: bool, proxy: str) -> httpcore.AsyncConnectionPool:
    """Return a pool of connections.

    Args:
        secure: Whether the connections use TLS.
        proxy: The URL of the proxy; empty for none.

    Raises:
        OSError: The certificates cannot be loaded.
        ImportError: The proxy needs a package that is not installed.
        ValueError: The proxy's URL is not valid.
    """
    # Certificates take 40 ms to load, and are not needed without TLS.
    context = create_tls_context() if secure else None
    if not proxy:
        return httpcore.AsyncConnectionPool(
            ssl_context=context,
            max_connections=None,
            max_keepalive_connections=MAX_IDLE_CONNECTIONS,
            keepalive_expiry=KEEP_ALIVE,
        )
    parts = urlsplit(proxy)
    scheme = parts.scheme.encode("ascii")
    address = httpcore.URL(scheme=scheme, host=_encode_host(parts), port=parts.port, target="")
    login = None
    if parts.username or parts.password:
        login = (unquote(parts.username or ""), unquote(parts.password or ""))
    if parts.scheme in ("http", "https"):
        return httpcore.AsyncHTTPProxy(
            address,
            proxy_auth=login,
            ssl_context=context,
            max_connections=None,
            max_keepalive_connections=MAX_IDLE_CONNECTIONS,
            keepalive_expiry=KEEP_ALIVE,
        )
    if parts.scheme not in ("socks5", "socks5h"):
        raise ValueError(f"the proxy has the unknown scheme {parts.scheme!r}")
    if find_spec("socksio") is None:
        raise ImportError("the package socksio is not installed")
    return httpcore.AsyncSOCKSProxy(
        address,
        proxy_auth=login,
        ssl_context=context,
        max_connections=None,
        max_keepalive_connections=MAX_IDLE_CONNECTIONS,
        keepalive_expiry=KEEP_ALIVE,
    )


def create_tls_context() -> ssl.SSLContext:
    """Return a TLS context with the certificates that the environment or certifi names. Cached.

    The first call blocks for 20 to 40 ms.

    Raises:
        OSError: The certificates cannot be loaded.
    """
    file = os.environ.get("SSL_CERT_FILE", "")
    folder = os.environ.get("SSL_CERT_DIR", "")
    if not file and not folder:
        file = certifi.where()
    return _load_certificates(file, "" if file else folder)


@functools.lru_cache(maxsize=4)
def _load_certificates(file: str, folder: str) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=file or None, capath=folder or None)
