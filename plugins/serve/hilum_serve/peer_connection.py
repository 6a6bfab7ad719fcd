"""A connection to another server of the group, for one request or one WebSocket.

There is no pool, no redirect, no proxy and no cookie jar: what arrives goes to the client as it is,
in pieces, and nothing more is read before the client has taken the last piece.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager

import h11
import msgspec
import trio
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    CloseConnection,
    Event,
    Ping,
    RejectConnection,
    RejectData,
    TextMessage,
)
from wsproto.events import Request as Handshake
from wsproto.utilities import ProtocolError

from hilum_serve.peer_group import (
    NONCE_HEADER,
    PROOF_PATH,
    PeerAddress,
    PeerGroup,
    make_nonce,
)

CONNECT_SECONDS = 3.0
"""Seconds within which a server must be connected and have proved that it belongs to the group."""
SILENCE_SECONDS = 25.0
"""Seconds without anything after which a response that has begun is given up; streams beat."""
PIECE = 64 * 1024
MAX_PROOF = 4 * 1024
MAX_MESSAGE = 32 * 1024 * 1024
"""Maximum number of characters of a WebSocket message of another server."""
MAX_REFUSAL = 64 * 1024
"""Maximum number of bytes of the response that refuses a WebSocket."""
Headers = Sequence[tuple[bytes, bytes]]
_BROKEN = (
    OSError,
    trio.BrokenResourceError,
    trio.ClosedResourceError,
    h11.ProtocolError,
    ProtocolError,
)


class PeerLost(Exception):
    """The other server cannot be reached, does not belong to the group, or was lost.

    Args:
        was_sent: Whether the request may have arrived there.
    """

    def __init__(self, message: str, *, was_sent: bool) -> None:
        super().__init__(message)
        self.was_sent = was_sent


class SocketRefused(Exception):
    """The other server refused a WebSocket.

    Args:
        status: The HTTP status.
        headers: The headers of the response.
        body: The body of the response.
    """

    def __init__(self, status: int, headers: Headers, body: bytes) -> None:
        super().__init__(f"The status is {status}.")
        self.status = status
        self.headers = headers
        self.body = body


class _Proof(msgspec.Struct, frozen=True):
    """The response of ``PROOF_PATH``."""

    proof: str


class PeerConnection:
    """A connection to a server of the group, which has proved that it is one.

    Args:
        stream: The connection.
        peer: The address of the server.
    """

    def __init__(self, stream: trio.abc.Stream, peer: PeerAddress) -> None:
        self.peer = peer
        self._stream = stream
        self._http = h11.Connection(h11.CLIENT)
        self._was_sent = False

    def lost(self, error: BaseException | str) -> PeerLost:
        """Return the error for a connection that is of no use any more."""
        return PeerLost(
            f"{self.peer.url}: {error or type(error).__name__}", was_sent=self._was_sent
        )

    async def prove(self, group: PeerGroup, nonce: bytes) -> None:
        """Have the server prove that it belongs to the group and has the address.

        Args:
            group: The group.
            nonce: The random text that it must sign.

        Raises:
            PeerLost: It does not.
        """
        headers = [(b"host", self.peer.netloc.encode()), (NONCE_HEADER, nonce)]
        await self._send(h11.Request(method="GET", target=PROOF_PATH, headers=headers))
        await self._send(h11.EndOfMessage())
        response = await self.read()
        body = b""
        while isinstance(event := await self.read(), h11.Data):
            body += event.data
            if len(body) > MAX_PROOF:
                raise self.lost("the proof is too long")
        try:
            proof = msgspec.json.decode(body, type=_Proof).proof
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            proof = ""
        is_right = isinstance(response, h11.Response) and response.status_code == 200
        if not is_right or not group.is_proof(proof, nonce, self.peer):
            raise self.lost("it does not belong to this group of servers")
        try:
            self._http.start_next_cycle()
        except h11.ProtocolError as error:
            raise self.lost(error) from None

    async def send_head(self, method: str, target: str, headers: Headers) -> None:
        """Send the head of the request."""
        self._was_sent = True
        await self._send(h11.Request(method=method, target=target, headers=list(headers)))

    async def send_data(self, data: bytes) -> None:
        """Send a part of the request's body."""
        await self._send(h11.Data(data=data))

    async def end_request(self) -> None:
        """End the request."""
        await self._send(h11.EndOfMessage())

    async def _send(self, event: h11.Event) -> None:
        try:
            data = self._http.send(event)
            if data:
                await self._stream.send_all(data)
        except _BROKEN as error:
            raise self.lost(error) from None

    async def read(self) -> h11.Event:
        """Return the next part of the response.

        Raises:
            PeerLost: The connection was lost, or what arrived is not HTTP.
        """
        try:
            while True:
                event = self._http.next_event()
                if event is h11.NEED_DATA:
                    self._http.receive_data(bytes(await self._stream.receive_some(PIECE)))
                elif event is h11.PAUSED:
                    raise self.lost("it sent more than was asked for")
                elif not isinstance(event, h11.InformationalResponse):
                    assert isinstance(event, h11.Event)
                    break
        except _BROKEN as error:
            raise self.lost(error) from None
        if isinstance(event, h11.ConnectionClosed):
            raise self.lost("it closed the connection")
        return event

    async def open_socket(self, target: str, headers: Headers) -> PeerSocket:
        """Open a WebSocket on the connection.

        Raises:
            SocketRefused: The server refused it.
            PeerLost: The connection was lost.
        """
        self._was_sent = True
        socket = PeerSocket(self._stream, self)
        await socket.open(Handshake(self.peer.netloc, target, extra_headers=list(headers)))
        return socket


class PeerSocket:
    """A WebSocket to a server of the group.

    Args:
        stream: The connection.
        connection: The connection, which makes its errors.

    Attributes:
        close_code: The code with which the server closed the WebSocket; 0 while it is open.
    """

    def __init__(self, stream: trio.abc.Stream, connection: PeerConnection) -> None:
        self._stream = stream
        self._lost = connection.lost
        self._protocol = WSConnection(ConnectionType.CLIENT)
        self._early: list[Event] = []
        self._parts: list[str] = []
        self._length = 0
        self._lock = trio.Lock()
        self.close_code = 0

    async def open(self, handshake: Handshake) -> None:
        """Send the handshake, and wait for the answer."""
        await self._send(handshake)
        status = 0
        headers: Headers = []
        body = b""
        while True:
            events = await self._receive()
            for number, event in enumerate(events, 1):
                if isinstance(event, AcceptConnection):
                    # Messages may have arrived together with the answer to the handshake.
                    self._early = events[number:]
                    return
                if isinstance(event, RejectConnection):
                    status = event.status_code
                    headers = list(event.headers)
                    if not event.has_body:
                        raise SocketRefused(status, headers, b"")
                elif isinstance(event, RejectData):
                    body += event.data
                    if event.body_finished or len(body) > MAX_REFUSAL:
                        raise SocketRefused(status, headers, body[:MAX_REFUSAL])

    async def send_sign_of_life(self) -> None:
        """Tell the server that somebody still reads.

        Raises:
            PeerLost: The connection was lost.
        """
        await self._send(TextMessage(data='{"type":"beat"}'))

    async def _send(self, event: Event) -> None:
        """Send an event.

        Raises:
            PeerLost: The connection was lost.
        """
        try:
            async with self._lock:
                await self._stream.send_all(self._protocol.send(event))
        except _BROKEN as error:
            raise self._lost(error) from None

    async def texts(self) -> AsyncGenerator[str]:
        """Yield the messages of the server until it closes the WebSocket.

        Raises:
            PeerLost: The connection was lost.
        """
        events = self._early
        while True:
            for event in events:
                text = await self._take(event)
                if text is not None:
                    yield text
            if self.close_code:
                return
            events = await self._receive()

    async def _take(self, event: Event) -> str | None:
        """Handle an event, and return the message that it completes."""
        if isinstance(event, TextMessage):
            self._parts.append(event.data)
            self._length += len(event.data)
            if self._length > MAX_MESSAGE:
                raise self._lost("a message is too large")
            if event.message_finished:
                text = "".join(self._parts)
                self._parts.clear()
                self._length = 0
                return text
        elif isinstance(event, Ping):
            await self._send(event.response())
        elif isinstance(event, CloseConnection):
            self.close_code = event.code
        return None

    async def _receive(self) -> list[Event]:
        """Wait for data, and return the events in it."""
        try:
            with trio.fail_after(SILENCE_SECONDS):
                data = await self._stream.receive_some(PIECE)
            self._protocol.receive_data(bytes(data) or None)
            events = list(self._protocol.events())
        except trio.TooSlowError:
            raise self._lost("it sends nothing") from None
        except _BROKEN as error:
            raise self._lost(error) from None
        if not data:
            raise self._lost("it closed the connection")
        return events


@asynccontextmanager
async def connect(
    group: PeerGroup, peer: PeerAddress, nonce: bytes = b""
) -> AsyncIterator[PeerConnection]:
    """Connect to a server of the group, which proves that it is one.

    Args:
        group: The group.
        peer: The address, from a signed announcement.
        nonce: The random text that it must sign; by default, a new one.

    Raises:
        PeerLost: It cannot be reached in time, or does not belong to the group.
    """
    with trio.CancelScope(deadline=trio.current_time() + CONNECT_SECONDS) as connecting:
        try:
            stream: trio.abc.Stream = await trio.open_tcp_stream(peer.host, peer.port)
        except OSError as error:
            raise PeerLost(f"{peer.url}: {error}", was_sent=False) from None
        if peer.scheme == "https":
            context = ssl.create_default_context()
            stream = trio.SSLStream(
                stream, context, server_hostname=peer.host, https_compatible=True
            )
    if connecting.cancelled_caught:
        raise PeerLost(f"{peer.url}: it does not answer", was_sent=False)
    try:
        connection = PeerConnection(stream, peer)
        with trio.CancelScope(deadline=connecting.deadline) as proving:
            await connection.prove(group, nonce or make_nonce())
        if proving.cancelled_caught:
            raise connection.lost("it does not answer")
        yield connection
    finally:
        # The other server sees at once that nobody reads any more, and ends what it does.
        await trio.aclose_forcefully(stream)
