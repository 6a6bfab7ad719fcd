"""Sends requests over httpx. Only this module imports httpx; it is loaded on the first request."""

from __future__ import annotations

import os
import ssl
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import lru_cache

import httpx
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
MAX_KNOWN_URLS = 64
MAX_ERROR = 1 << 20  # maximum size, in bytes, of an error to read
# Maximum number of bytes to decompress at once, because a megabyte may decompress to a gigabyte.
MAX_DECOMPRESSED = 1 << 16
_COMPRESSED = ("gzip", "x-gzip", "deflate")
# This value accepts both gzip and zlib headers.
_ANY_HEADER = zlib.MAX_WBITS | 32


class Response:
    """A response whose body has not been read."""

    def __init__(self, response: httpx.Response, endpoint: Endpoint, url: str) -> None:
        self._response = response
        self._endpoint = endpoint
        self._url = url
        self.status = response.status_code
        content_type = response.headers.get("content-type", "").partition(";")[0]
        self.media_type = content_type.strip().lower()

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Yield the body as it arrives; the caller must close the iterator.

        Raises:
            ModelError: ``broken`` if the connection was lost.
        """
        source = self._response.aiter_raw()
        # Requests ask for no compression, but some servers compress anyway.
        compressed = self._response.headers.get("content-encoding", "") in _COMPRESSED
        decompressor = zlib.decompressobj(_ANY_HEADER)
        try:
            async for chunk in source:
                if not compressed:
                    yield chunk
                    continue
                for piece in _decompress(decompressor, chunk):
                    yield piece
        except (httpx.HTTPError, httpx.StreamError, zlib.error) as error:
            raise connection_error(error, self._endpoint, self._url) from None
        finally:
            # httpx nests generators that do not close each other. A cancelled read ends all of
            # them.
            with trio.CancelScope() as scope, suppress(httpx.HTTPError, httpx.StreamError):
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
        return response_error(self.status, self._response.headers, body, self._endpoint)


def _decompress(decompressor: zlib._Decompress, chunk: bytes) -> Iterator[bytes]:
    yield decompressor.decompress(chunk, MAX_DECOMPRESSED)
    while decompressor.unconsumed_tail:
        yield decompressor.decompress(decompressor.unconsumed_tail, MAX_DECOMPRESSED)


class SingleUseBody(httpx.AsyncByteStream):
    """A request body that is sent once.

    httpx's own body is a generator, which is not closed when the request is cancelled.
    """

    def __init__(self, body: bytes) -> None:
        self._left = [body]

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()


class HttpClient:
    """httpx transports: one for each combination of proxy and TLS.

    A client of httpx would add redirects, which hilum does not follow, because following one would
    send the key to another server; and authentication and cookies, which no provider needs. In each
    turn, these take 0.2 ms (tests/benchmarks/real_project.py).
    """

    def __init__(self) -> None:
        self._transports: dict[tuple[bool, str], httpx.AsyncHTTPTransport] = {}
        # Parsing a URL takes 40 µs, and most requests go to the same one.
        self._parse_url = lru_cache(MAX_KNOWN_URLS)(httpx.URL)

    def _transport(self, url: str) -> httpx.AsyncHTTPTransport:
        """Return the transport for a URL."""
        secure = not url.startswith("http://")
        proxy = find_proxy(url)
        if (secure, proxy) not in self._transports:
            self._transports[secure, proxy] = _open_transport(secure, proxy)
        return self._transports[secure, proxy]

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
            request = httpx.Request(
                method,
                self._parse_url(url),
                headers=headers,
                content=body,
                extensions={"timeout": _TIMEOUT.as_dict()},
            )
            if body is not None:
                request.stream = SingleUseBody(body)
            response = await self._transport(url).handle_async_request(request)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, ImportError, OSError) as error:
            raise connection_error(error, endpoint, url) from None
        try:
            yield Response(response, endpoint, url)
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        for transport in self._transports.values():
            await transport.aclose()
        self._transports.clear()


# The kernel detects silence, and waiting for a free connection is not a failure.
_TIMEOUT = httpx.Timeout(None, connect=CONNECT_TIMEOUT)


def _open_transport(secure: bool, proxy: str) -> httpx.AsyncHTTPTransport:
    return httpx.AsyncHTTPTransport(
        # Certificates take 40 ms to load, and even an empty context takes 4 ms. Without a context,
        # httpcore would create one with certificates for the first connection with TLS.
        verify=create_tls_context() if secure else None,  # type: ignore[arg-type]
        proxy=proxy or None,
        # httpx fails if NO_PROXY contains an IPv6 network, as it does in many containers.
        trust_env=False,
        limits=httpx.Limits(
            max_connections=None,
            max_keepalive_connections=MAX_IDLE_CONNECTIONS,
            keepalive_expiry=KEEP_ALIVE,
        ),
    )


def create_tls_context() -> ssl.SSLContext:
    """Return a TLS context with the certificates that the environment or certifi names.

    They are loaded once, which takes 40 ms.

    Raises:
        OSError: The certificates cannot be loaded.
    """
    return _load_certificates(
        os.environ.get("SSL_CERT_FILE", ""), os.environ.get("SSL_CERT_DIR", "")
    )


@lru_cache(maxsize=4)
def _load_certificates(file: str, folder: str) -> ssl.SSLContext:
    # httpx reads the same two variables; here they only say whether they have changed.
    return httpx.create_ssl_context()
