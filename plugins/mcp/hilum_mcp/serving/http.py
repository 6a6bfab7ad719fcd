"""The protocol over HTTP on this machine: a gate before every request, and the server behind it."""

from __future__ import annotations

import hmac
import socket
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import TYPE_CHECKING, Any

import trio
from hilum import UsageError
from hilum.errors import E_BUSY

if TYPE_CHECKING:
    from mcp.server import Server

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

ADDRESS = "127.0.0.1"
PATH = "/mcp"
BODY = 8_000_000
GRACE = 0.5
_NAMES = (b"host", b"origin")


class Gate:
    """Lets a request through that comes to this machine by its name, from no foreign page, and with
    the token.

    A page in a browser can reach a server on its own machine, under a name of its own that it has
    pointed there. So the name is checked first, then the page, then the token; nothing of the body
    is read before.

    Args:
        app: What is behind it.
        token: The token.
        hosts: What a request may call the server: ``name:port``, in small letters.
        origins: Pages that may call it; one without an origin is no page.
    """

    def __init__(
        self, app: App, token: str, hosts: Collection[str], origins: Collection[str]
    ) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = frozenset(hosts)
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, then pass it on."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] != "http":
            await self._app(scope, receive, send)
        elif (refusal := self._refusal(scope)) is None:
            # Names are the same in small and capital letters; the library's own check takes them as
            # they are written.
            headers = [
                (key, text.lower() if key.lower() in _NAMES else text)
                for key, text in scope["headers"]
            ]
            await self._app({**scope, "headers": headers}, receive, send)
        else:
            status, text = refusal
            headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
            if status == 401:
                headers.append((b"www-authenticate", b'Bearer realm="hilum"'))
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": text.encode()})

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        def given(name: bytes) -> list[str]:
            return [
                value.decode("latin-1").strip()
                for key, value in scope["headers"]
                if key.lower() == name
            ]

        hosts = given(b"host")
        origins = given(b"origin")
        tokens = given(b"authorization")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return (
                403,
                "This server is not called by that name: the Host header must be its address.\n",
            )
        if any(origin.lower() not in self._origins for origin in origins):
            return 403, "Pages of other origins may not call this server.\n"
        kind, _, token = tokens[0].partition(" ") if len(tokens) == 1 else ("", "", "")
        if kind.lower() != "bearer" or not hmac.compare_digest(
            token.strip().encode("latin-1"), self._token
        ):
            return 401, "The token is missing or wrong: Authorization: Bearer TOKEN.\n"
        return None


def listen(port: int) -> socket.socket:
    """Listen on this machine only.

    Args:
        port: Port, 0 for any that is free.

    Raises:
        UsageError: It is taken, or may not be used.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((ADDRESS, port))
    except OSError as error:
        listener.close()
        hint = "Name another port, or 0 for any that is free."
        raise UsageError(
            f"Port {port} cannot be listened on: {error.strerror}.", code=E_BUSY, hint=hint
        ) from None
    listener.listen(100)
    return listener


def names(port: int, more: Collection[str] = ()) -> list[str]:
    """Return what the server may be called: this machine's names, and others that the user
    named.
    """
    return [f"{name}:{port}" for name in (ADDRESS, "localhost", "[::1]")] + [
        name.lower() for name in more
    ]


async def serve(
    server: Server[Any],
    listener: socket.socket,
    token: str,
    hosts: Collection[str],
    stop: trio.Event,
) -> None:
    """Serve until told to stop; requests under way then get a moment to end.

    Args:
        server: The server.
        listener: Where it listens; closed at the end.
        token: The token.
        hosts: What it may be called.
        stop: Set when it is to end.
    """
    from hypercorn.config import Config
    from hypercorn.trio import serve as run
    from mcp.server.transport_security import TransportSecuritySettings

    origins = [f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts]
    # The same again inside of the library: each check holds when the other one fails.
    inner = TransportSecuritySettings(
        enable_dns_rebinding_protection=True, allowed_hosts=list(hosts), allowed_origins=origins
    )
    app = server.streamable_http_app(
        streamable_http_path=PATH, max_request_body_size=BODY, transport_security=inner
    )
    config = Config()
    config.bind = [f"fd://{listener.detach()}"]
    config.loglevel = "WARNING"
    config.accesslog = None
    config.include_server_header = False
    config.graceful_timeout = config.shutdown_timeout = GRACE
    gate: Any = Gate(app, token, hosts, origins)
    await run(gate, config, shutdown_trigger=stop.wait, mode="asgi")
