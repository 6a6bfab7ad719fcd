"""Speaks HTTP/1.1 and WebSocket with hypercorn, without what hypercorn should not do here.

hypercorn is pinned in ``pyproject.toml``: this module replaces parts of its connections. It does
not change hypercorn itself, because other packages in the process may use it.
"""

from __future__ import annotations

import logging
import socket
import struct
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, cast

import attrs
import h11
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData
from hypercorn.protocol import ProtocolWrapper
from hypercorn.protocol.events import Data, Request
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.h11 import STREAM_ID, H11Protocol, H11WSConnection
from hypercorn.protocol.ws_stream import (
    ASGIWebsocketState,
    FrameTooLargeError,
    WebsocketBuffer,
    WSStream,
)
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState
from hypercorn.utils import parse_socket_addr
from starlette.types import Scope
from wsproto.events import Message

App = Callable[..., Awaitable[None]]
FRAME = "hilum.frame"
FACTS = "hilum_connection"
SEND_SECONDS = 5.0
"""Seconds after which a client that reads nothing is dropped."""
HEADER_SECONDS = 5.0
"""Seconds within which the next request of an idle connection must have arrived."""
GRACE_SECONDS = 0.5
"""Seconds that requests get to end when the server stops."""
MAX_MESSAGE = 64 * 1024
"""Largest WebSocket message in bytes that a client may send."""
CLOSE_SECONDS = 2.0
"""Seconds after which the connection of a client with a too large message is closed by force."""
SEND_BUFFER = 64 * 1024
PIECE = 16 * 1024
MAX_HEADERS = 16 * 1024
MAX_CONNECTIONS = 512
_QUIET = logging.getLogger("hilum.serve.http")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


@attrs.define
class ConnectionFacts:
    """What is known about a connection; each request has it in its scope (``find_facts``).

    Attributes:
        is_slow: Whether the connection was dropped because its client did not read.
        is_known: Whether a request on the connection has proved who sends it.
    """

    is_slow: bool = False
    is_known: bool = False


def find_facts(scope: Scope) -> ConnectionFacts:
    """Return the facts about the connection of a request."""
    facts: ConnectionFacts = scope.get("state", {}).get(FACTS) or ConnectionFacts()
    return facts


class _Protocol(H11Protocol):
    """HTTP/1.1 that never becomes HTTP/2, and WebSockets without compression."""

    async def _check_protocol(self, event: h11.Request) -> None:
        """Refuse HTTP/2, and bodies that another server on the way might end elsewhere."""
        upgrades = [value.lower() for name, value in event.headers if name.lower() == b"upgrade"]
        # HTTP/2 would avoid the checks that count on one request after another.
        is_http2 = event.method == b"PRI" and event.target == b"*"
        if is_http2 or any(b"h2c" in value for value in upgrades) or _has_doubtful_body(event):
            await self._send_error_response(400)
            await self.send(Closed())
            raise _Refused

    async def _send_error_response(self, status_code: int) -> None:
        # h11 proposes 501 for a transfer coding that it does not know. That is not a missing
        # feature but a sign of request smuggling, and is refused like the other signs.
        await super()._send_error_response(400 if status_code == 501 else status_code)

    async def _create_stream(self, request: h11.Request) -> None:
        if not _wants_websocket(request):
            await super()._create_stream(request)
            return
        stream = _WebSocket(
            self.app,
            self.config,
            self.context,
            self.task_group,
            self.ssl,
            self.client,
            self.server,
            self.stream_send,
            STREAM_ID,
        )
        stream.buffer = _MessageBuffer(self.config, self._close_soon)
        self.stream = stream
        self.connection = H11WSConnection(cast(h11.Connection, self.connection))
        # Without an offer, nothing is compressed. Compression would cost more than it saves here.
        headers = [pair for pair in request.headers if pair[0] != b"sec-websocket-extensions"]
        await stream.handle(
            Request(
                stream_id=STREAM_ID,
                headers=headers,
                http_version=request.http_version.decode(),
                method="GET",
                raw_path=request.target,
                state=self.connection_state,
            )
        )
        self.keep_alive_requests += 1
        if stream.closed:
            # The handshake was refused. Nothing else would end the connection.
            await self.send(Closed())

    def _close_soon(self) -> None:
        self.task_group.spawn(self._close_after_grace)

    async def _close_after_grace(self) -> None:
        """Close the connection although the client may not have answered the close frame."""
        await trio.sleep(CLOSE_SECONDS)
        await self.send(Closed())

    async def handle(self, event: Event) -> None:
        """Handle what arrived; ends quietly after a refusal."""
        try:
            await super().handle(event)
        except _Refused:
            pass


def _wants_websocket(request: h11.Request) -> bool:
    """Return whether a request asks for a WebSocket, as hypercorn decides it."""
    found = {name.lower(): value.strip().lower() for name, value in request.headers}
    tokens = [token.strip() for token in found.get(b"connection", b"").split(b",")]
    is_websocket = found.get(b"upgrade", b"") == b"websocket"
    return is_websocket and b"upgrade" in tokens and request.method == b"GET"


def _has_doubtful_body(request: h11.Request) -> bool:
    """Return whether a request has a body that it must not have.

    What follows the request of a WebSocket is frames, and HTTP/1.0 has no transfer codings (RFC
    9112, section 6.1). A proxy that reads a body there would see other requests than this server.
    """
    found = {name.lower(): value for name, value in request.headers}
    is_coded = b"transfer-encoding" in found
    if _wants_websocket(request):
        return is_coded or int(found.get(b"content-length", b"0")) > 0
    return is_coded and request.http_version == b"1.0"


class _WebSocket(WSStream):
    """A WebSocket to which the application can also send frames that it has encoded itself."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # Set when the application has accepted or refused the WebSocket, or has ended.
        self._decided = trio.Event()

    async def handle(self, event: StreamEvent) -> None:
        """Handle what arrived.

        A client must not send frames before it has the answer to its handshake (RFC 6455, section
        4.1). Frames that come earlier wait until the application has decided; meanwhile, nothing
        more is read from the connection. If the WebSocket is refused, they are dropped.
        """
        if isinstance(event, Data) and not self.closed:
            await self._decided.wait()
            if self.state is not ASGIWebsocketState.CONNECTED:
                return
        await super().handle(event)

    async def app_send(self, message: Any) -> None:
        """Send a message of the application; ``hilum.frame`` is not part of ASGI."""
        if message is None or message["type"] != FRAME:
            try:
                await super().app_send(message)
            finally:
                if message is None or self.state is not ASGIWebsocketState.HANDSHAKE:
                    self._decided.set()
        elif not self.closed and self.state is ASGIWebsocketState.CONNECTED:
            await self.send(Data(stream_id=self.stream_id, data=message["data"]))


def encode_frame(text: str) -> bytes:
    """Return a text message as a WebSocket frame.

    Frames of a server are not masked, so the same frame can be sent to many clients (RFC 6455,
    section 5.2). ``tests/benchmarks/serve.py`` shows what the clients cost.
    """
    data = text.encode()
    if len(data) < 126:
        head = struct.pack("!BB", 0x81, len(data))
    elif len(data) < 65_536:
        head = struct.pack("!BBH", 0x81, 126, len(data))
    else:
        head = struct.pack("!BBQ", 0x81, 127, len(data))
    return head + data


class _Refused(Exception):
    """The request was refused, and the connection is closed."""


class _MessageBuffer(WebsocketBuffer):
    """Collects the frames of a message, and has the connection closed if it is too large."""

    def __init__(self, config: Config, close: Callable[[], None]) -> None:
        super().__init__(config.websocket_max_message_size)
        self._close = close

    def extend(self, event: Message[Any]) -> None:
        """Add a frame.

        Raises:
            FrameTooLargeError: The message is too large.
        """
        try:
            super().extend(event)
        except FrameTooLargeError:
            self._close()
            # Nothing more of this message is kept.
            self.clear()
            raise


class _Connection(TCPServer):
    """A connection that drops clients that do not read."""

    facts: ConnectionFacts

    async def run(self) -> None:
        """Serve the connection until it closes."""
        stream = cast("trio.SocketStream", self.stream)
        plain = stream.socket
        try:
            # A small buffer of the system shows early that a client does not read.
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
            client = parse_socket_addr(plain.family, plain.getpeername())
            server = parse_socket_addr(plain.family, plain.getsockname())
            async with TaskGroup() as task_group:
                self._task_group = task_group
                state = ConnectionState(cast(Any, {FACTS: self.facts}))
                arguments: Any = (
                    self.app,
                    self.config,
                    self.context,
                    task_group,
                    state,
                    False,
                    client,
                    server,
                    self.protocol_send,
                )
                self.protocol = ProtocolWrapper(*arguments)
                self.protocol.protocol = _Protocol(*arguments)
                await self.protocol.initiate()
                await self.idle_task.restart(self._task_group, self._idle_timeout)
                await self._read_data()
                # It would keep the place of a connection that the client has closed.
                await self.idle_task.stop()
        except OSError:
            pass
        finally:
            with trio.CancelScope(shield=True):
                await self._close()

    async def protocol_send(self, event: Event) -> None:
        """Send data, within a time limit; hypercorn itself would wait for ever."""
        if not isinstance(event, RawData):
            await super().protocol_send(event)
            return
        async with self.send_lock:
            try:
                if await self._send_in_time(event.data):
                    return
                self.facts.is_slow = True
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass
        await trio.aclose_forcefully(self.stream)
        await self.protocol.handle(Closed())

    async def _send_in_time(self, data: bytes) -> bool:
        """Send data in pieces, and return whether the client took each of them in time.

        The time limit is for a piece, so that a slow line is no reason to drop a client.
        """
        for start in range(0, len(data), PIECE):
            # A response that was begun must not be cut off by a cancelled task.
            with trio.move_on_after(SEND_SECONDS, shield=True) as limit:
                await self.stream.send_all(data[start : start + PIECE])
            if limit.cancelled_caught:
                return False
        return True

    async def _close(self) -> None:
        """Close the connection, politely unless something is being sent on it."""
        with trio.move_on_after(CLOSE_SECONDS):
            try:
                # Between two pieces, another task holds the lock without using the stream. Without
                # the lock, its next piece and the end of the stream would collide.
                self.send_lock.acquire_nowait()
            except trio.WouldBlock:
                pass
            else:
                try:
                    await self.stream.send_eof()
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    pass
                finally:
                    self.send_lock.release()
        await trio.aclose_forcefully(self.stream)


@attrs.frozen
class _Place:
    """A connection that is open.

    Attributes:
        stream: The connection.
        peer: The address of the other side, without its port.
        facts: What is known about the connection.
    """

    stream: trio.SocketStream
    peer: str
    facts: ConnectionFacts


class _Places:
    """The connections that are open, oldest first.

    Whoever has no token could otherwise hold all of them, and connect again whenever one times out.
    A limit for each address would not help: clients behind a tunnel or a proxy share one.

    Args:
        limit: Most connections at the same time.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._places: dict[trio.SocketStream, _Place] = {}

    @property
    def streams(self) -> list[trio.SocketStream]:
        """The connections."""
        return list(self._places)

    async def take(self, stream: trio.SocketStream, facts: ConnectionFacts) -> bool:
        """Take a place for a connection, and return whether there was one."""
        dropped = None
        if len(self._places) >= self._limit:
            dropped = self._find_unknown()
            if dropped is None:
                return False
            del self._places[dropped]
        self._places[stream] = _Place(stream, _find_peer(stream), facts)
        if dropped is not None:
            await trio.aclose_forcefully(dropped)
        return True

    def free(self, stream: trio.SocketStream) -> None:
        """Free the place of a connection that has ended."""
        self._places.pop(stream, None)

    def _find_unknown(self) -> trio.SocketStream | None:
        """Return the oldest connection without a known user, of the address that has most."""
        unknown = [place for place in self._places.values() if not place.facts.is_known]
        if not unknown:
            return None
        peers = Counter(place.peer for place in unknown)
        busiest, _ = peers.most_common(1)[0]
        return next(place.stream for place in unknown if place.peer == busiest)


def _find_peer(stream: trio.SocketStream) -> str:
    try:
        return str(stream.socket.getpeername()[0])
    except OSError:
        # The other side has left already.
        return ""


def make_config() -> Config:
    """Return the configuration of hypercorn."""
    config = Config()
    config.h11_max_incomplete_size = MAX_HEADERS
    config.keep_alive_timeout = HEADER_SECONDS
    config.websocket_max_message_size = MAX_MESSAGE
    config.include_server_header = False
    # Requests are not logged: a path may contain a token. Unexpected errors are the door's.
    config.accesslog = None
    config.errorlog = _QUIET
    return config


async def serve(
    app: App,
    listeners: list[socket.socket],
    stop: trio.Event,
    *,
    max_connections: int = MAX_CONNECTIONS,
) -> None:
    """Serve until ``stop`` is set; requests then get ``GRACE_SECONDS`` to end.

    Args:
        app: The ASGI application.
        listeners: The listening sockets, which are closed at the end.
        stop: The event that ends the server.
        max_connections: Most connections at the same time. For a new one beyond, a connection is
            closed on which nobody has proved who they are; if there is none, the new one.
    """
    config = make_config()
    context = WorkerContext(None)
    wrapped = ASGIWrapper(cast(Any, app))
    places = _Places(max_connections)

    async def handle(stream: trio.SocketStream) -> None:
        facts = ConnectionFacts()
        if not await places.take(stream, facts):
            await trio.aclose_forcefully(stream)
            return
        connection = _Connection(wrapped, config, context, cast(Any, {}), cast(Any, stream))
        connection.facts = facts
        try:
            await connection
        except (Exception, BaseExceptionGroup):
            # A mistake in one connection must not end the server.
            _QUIET.exception("A connection ended with an error.")
        finally:
            places.free(stream)

    async with trio.open_nursery() as connections:
        sockets = [
            trio.SocketListener(trio.socket.from_stdlib_socket(listener)) for listener in listeners
        ]
        async with trio.open_nursery() as accepting:
            accepting.start_soon(_accept, handle, sockets, connections)
            await stop.wait()
            accepting.cancel_scope.cancel()
        await context.terminated.set()
        connections.cancel_scope.deadline = trio.current_time() + GRACE_SECONDS
        connections.start_soon(_close_all_after, places, GRACE_SECONDS)


async def _close_all_after(places: _Places, seconds: float) -> None:
    """Close the connections by force, because sending is shielded from cancellation."""
    with trio.CancelScope(shield=True):
        with trio.move_on_after(seconds):
            while places.streams:  # noqa: ASYNC110 - the last one to close is not worth an event
                await trio.sleep(0.02)
        for stream in places.streams:
            await trio.aclose_forcefully(stream)


async def _accept(
    handle: Callable[[trio.SocketStream], Awaitable[None]],
    sockets: list[trio.SocketListener],
    connections: trio.Nursery,
) -> None:
    await trio.serve_listeners(handle, sockets, handler_nursery=connections)
