"""A kernel's connections to providers. The HTTP code is in ``http_client``."""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

import trio
from hilum.errors import ModelError
from hilum.module_archive import cache_compiling

from hilum_models.failures import Endpoint

if TYPE_CHECKING:
    from hilum_models.http_client import HttpClient, Response

_CLIENT_MODULE = "hilum_models.http_client"
MAX_DOCUMENT = 16 << 20  # maximum size, in bytes, of a list of models


# Several threads may import the module at the same time.
_loading = threading.Lock()


# If click is installed, httpx imports its command-line program, and with it rich. If h2 is installed,
# httpcore imports it. These take 40 ms and 10 ms (tests/benchmarks/first_request.py), although hilum
# uses neither: without a request for HTTP/2, a client speaks HTTP/1.1. A client that asks for HTTP/2
# imports httpcore's part for it when a server agrees to use it.
_UNUSED = ("httpx._main", "httpcore._async.http2", "httpcore._sync.http2")


def load_http_client() -> ModuleType:
    """Return the HTTP client module; importing it blocks for 50 to 100 ms."""
    with _loading:
        if "httpx" not in sys.modules:
            with cache_compiling():
                _import_httpx()
        return import_module(_CLIENT_MODULE)


def _import_httpx() -> None:
    """Import httpx and httpcore without the modules that hilum does not use."""
    left_out = [name for name in _UNUSED if name not in sys.modules]
    # A None makes the import fail as if click and h2 were missing, which both packages handle.
    sys.modules.update(dict.fromkeys(left_out))  # type: ignore[arg-type]
    try:
        import httpx  # noqa: F401

        # httpx would import this package in the event loop, with its first client.
        import_module("httpcore")
    finally:
        for name in left_out:
            del sys.modules[name]


class Transport:
    """The HTTP connections of a kernel, opened on first use and shared by all models.

    The transport never retries a request; that is up to the kernel.
    """

    def __init__(self) -> None:
        self._client: HttpClient | None = None
        self._closed = False

    @asynccontextmanager
    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        endpoint: Endpoint,
        body: bytes | None = None,
    ) -> AsyncIterator[Response]:
        """Send a request and yield the response with an unread body, then close the response.

        Args:
            method: ``GET`` or ``POST``.
            url: The address.
            headers: Headers, the key included.
            endpoint: The provider, for messages.
            body: The content of the request.

        Raises:
            ModelError: ``connect``, ``broken`` or ``request``.
        """
        if self._closed:
            raise RuntimeError("the transport is closed")
        if self._client is None:
            module = await self._load()
            # Another task may have opened the client in the meantime.
            self._client = self._client or module.HttpClient()
        async with self._client.send(method, url, headers, endpoint, body) as response:
            yield response

    async def preload(self, *, tls: bool = False) -> None:
        """Import the HTTP client, so that the first request need not wait for it.

        Args:
            tls: Whether to load the certificates, too.
        """
        # The first request reports what fails.
        with suppress(ImportError, OSError):
            module = await self._load()
            if tls:
                await trio.to_thread.run_sync(module.create_tls_context, abandon_on_cancel=True)

    async def _load(self) -> ModuleType:
        loaded = sys.modules.get(_CLIENT_MODULE)
        if loaded is not None and hasattr(loaded, "HttpClient"):
            return loaded
        # In the event loop, the import would delay the keys that the user types.
        return await trio.to_thread.run_sync(load_http_client, abandon_on_cancel=True)

    async def fetch(
        self, url: str, headers: Mapping[str, str], endpoint: Endpoint, timeout: float
    ) -> bytes:
        """Return a small document.

        Raises:
            ModelError: The document could not be read within ``timeout`` seconds.
        """
        with trio.move_on_after(timeout):
            async with self.send("GET", url, headers, endpoint) as response:
                if response.status != 200:
                    raise await response.read_error()
                return await response.read(MAX_DOCUMENT)
        message = f"{endpoint.provider} did not respond within {timeout:g} s."
        raise ModelError(message, kind="timeout")

    async def aclose(self) -> None:
        """Close all connections."""
        self._closed = True
        if self._client is not None:
            await self._client.aclose()
