"""Serves the protocol over HTTP on this machine, and checks every request."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import TYPE_CHECKING, Any

import trio
from hypercorn.config import Config
from hypercorn.trio import serve as run_hypercorn
from mcp.server.transport_security import TransportSecuritySettings

if TYPE_CHECKING:
    import socket

    from mcp.server import Server

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

PATH = "/mcp"
MAX_BODY = 8_000_000
GRACE = 0.5
POLICY_VIOLATION = 1008  # RFC 6455, section 7.4.1
_CASE_INSENSITIVE = (b"host", b"origin")


class RequestGate:
    """An ASGI application that forwards only requests with an allowed host, origin and token.

    A web page can reach a server on the user's machine under the page's own domain, if that domain
    resolves to the machine (DNS rebinding). Therefore, the host is checked first, then the origin,
    then the token. No part of the body is read before these checks.

    Args:
        app: The application behind the gate.
        token: The token.
        hosts: Allowed values of the Host header, ``name:port`` in lower case.
        origins: Allowed values of the Origin header; a request without an Origin header does not
            come from a web page.
    """

    def __init__(
        self,
        app: App,
        token: str,
        hosts: Collection[str],
        origins: Collection[str],
    ) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = frozenset(hosts)
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, and forward or refuse it."""
        # The protocol uses no WebSockets, and browsers let any page open one to any host.
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._check(scope["headers"])
        if refusal is not None:
            await _refuse(send, *refusal)
            return
        # Host names are case-insensitive, but the SDK's check is case-sensitive.
        headers = [
            (key, value.lower() if key.lower() in _CASE_INSENSITIVE else value)
            for key, value in scope["headers"]
        ]
        await self._app({**scope, "headers": headers}, receive, send)

    def _check(self, headers: Collection[tuple[bytes, bytes]]) -> tuple[int, str] | None:
        """Return the status and text of a refusal, or ``None`` if the request may pass."""
        hosts = _header_values(headers, b"host")
        # If a header occurred twice, this check and the SDK might read different values.
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return 403, "The Host header must be the address of this server.\n"
        origins = _header_values(headers, b"origin")
        if any(origin.lower() not in self._origins for origin in origins):
            return 403, "Pages from other origins may not call this server.\n"
        if not self._is_authorized(_header_values(headers, b"authorization")):
            return 401, "The token is missing or wrong: Authorization: Bearer TOKEN.\n"
        return None

    def _is_authorized(self, values: list[str]) -> bool:
        if len(values) != 1:
            return False
        kind, _, token = values[0].partition(" ")
        # A constant-time comparison reveals nothing about the token.
        is_right = hmac.compare_digest(token.strip().encode("latin-1"), self._token)
        return kind.lower() == "bearer" and is_right


def _header_values(headers: Collection[tuple[bytes, bytes]], name: bytes) -> list[str]:
    return [value.decode("latin-1").strip() for key, value in headers if key.lower() == name]


async def _refuse(send: Send, status: int, text: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    if status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="hilum"'))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})


async def serve(
    server: Server[Any],
    listener: socket.socket,
    token: str,
    hosts: Collection[str],
    stop: trio.Event,
) -> None:
    """Serve until ``stop`` is set. Active requests then get a short time to finish.

    Args:
        server: The server.
        listener: The listening socket; it is closed when the server ends.
        token: The token.
        hosts: Allowed values of the Host header.
        stop: The event that ends the server.
    """
    origins = [f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts]
    # The SDK repeats these checks, as a second line of defence.
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=list(hosts),
        allowed_origins=origins,
    )
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=MAX_BODY,
        transport_security=security,
    )
    config = Config()
    # The socket was opened before the session, so that a port in use is reported at once.
    config.bind = [f"fd://{listener.detach()}"]
    config.loglevel = "WARNING"
    config.accesslog = None
    config.include_server_header = False
    config.graceful_timeout = config.shutdown_timeout = GRACE
    gate: Any = RequestGate(app, token, hosts, origins)
    await run_hypercorn(gate, config, shutdown_trigger=stop.wait, mode="asgi")
