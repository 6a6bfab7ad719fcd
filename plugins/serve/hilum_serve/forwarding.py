"""Passes requests on to the server of the group that has their session open.

Every request about a session asks the store who has it open. What another server gets is what the
client could have sent there itself: its own credentials, which are checked again there, and no header
of which this server does not know the meaning. A request that was passed on is marked, and not passed
on again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Set
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from typing import Any, cast
from urllib.parse import quote

import attrs
import h11
import trio
from hilum import HilumError, StoreError
from hilum.errors import E_BUSY, E_INTERRUPTED, E_UNREACHABLE
from hilum.store import LeaseHolder, SessionBusy, SharedStore
from starlette.types import Message, Receive, Scope, Send

from hilum_serve.door import CREDENTIAL, CSP, IS_FORWARDED
from hilum_serve.hub import Hub
from hilum_serve.peer_connection import (
    SILENCE_SECONDS,
    Headers,
    PeerConnection,
    PeerLost,
    PeerSocket,
    SocketRefused,
    connect,
)
from hilum_serve.peer_group import FORWARDED, PeerAddress, PeerGroup
from hilum_serve.problems import Problem
from hilum_serve.streams import BYE_SECONDS, CLOSE_CODES, make_bye, refuse_socket
from hilum_serve.token_watch import TokenWatch
from hilum_serve.tokens import START
from hilum_serve.users import User

ELSEWHERE = "hilum-elsewhere"
"""Header of the response to such a request if the session is not here: nothing was carried out."""
PATIENCE_SECONDS = 3.0
"""Seconds for which a server that cannot be reached is tried again. It may have died just now."""
PAUSE_SECONDS = 0.1
WATCH_SECONDS = 2.0
"""Seconds between two checks whether a server that does not respond still has the session."""
NOTE_SECONDS = 60.0
MAX_NOTED = 100
_PASSED = frozenset(
    (
        b"accept",
        b"content-length",
        b"content-type",
        b"hilum-request",
        b"hilum-seen",
        b"last-event-id",
        b"transfer-encoding",
    )
)
"""The headers of requests that have a meaning for operations and streams."""
_RETURNED = frozenset(
    (
        b"allow",
        b"cache-control",
        b"content-disposition",
        b"content-length",
        b"content-security-policy",
        b"content-type",
        b"hilum-last",
        b"retry-after",
        b"www-authenticate",
        b"x-accel-buffering",
    )
)
"""The headers of responses that operations and streams set themselves."""


@attrs.frozen
class Target:
    """What a request is about.

    Attributes:
        session: The session in its path.
        user: Who sends it.
        opens: Whether the session is opened for it.
        reads: Whether it only reads.
    """

    session: str
    user: User
    opens: bool
    reads: bool


class _Elsewhere(Exception):
    """The other server does not have the session either; nothing was carried out."""


class Forwarder:
    """Finds the server that has a session open, and passes requests on to it.

    Args:
        hub: The sessions of this server.
        group: The group of servers.
        store: The store that all of them use.
        watch: What ends streams whose token or login ends.
        note: Function that shows a sentence to whoever runs the server.
    """

    def __init__(
        self,
        hub: Hub,
        group: PeerGroup,
        store: SharedStore,
        watch: TokenWatch,
        note: Callable[[str], None],
    ) -> None:
        self._hub = hub
        self._group = group
        self._store = store
        self._token_watch = watch
        self._note = note
        self._noted: dict[str, float] = {}

    async def serve(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        target: Target,
        serve_here: Callable[[], Awaitable[None]],
    ) -> None:
        """Serve a request about a session here, or pass it on.

        Args:
            scope: The request.
            receive: Function that receives its body.
            send: Function that sends the response.
            target: What it is about.
            serve_here: Function that serves it in this server.

        Raises:
            HilumError: The session cannot be used, or its server cannot be reached.
        """
        try:
            await self._serve(scope, receive, send, target, serve_here)
        except HilumError as error:
            is_marked = isinstance(error, Problem) and any(
                name == ELSEWHERE for name, _ in error.headers
            )
            if scope["type"] != "websocket" or is_marked:
                raise
            await refuse_socket(send, error)

    async def _serve(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        target: Target,
        serve_here: Callable[[], Awaitable[None]],
    ) -> None:
        deadline = trio.current_time() + PATIENCE_SECONDS
        lost_peers: set[PeerAddress] = set()
        while True:
            async with self._use_here(target, lost_peers) as peer:
                if peer is None:
                    await serve_here()
                    return
            self._check_forwardable(scope, target.user)
            forward = (
                self._forward_socket if scope["type"] == "websocket" else self._forward_request
            )
            try:
                await forward(scope, receive, send, target, peer)
                return
            except PeerLost as lost:
                if lost.was_sent and not _is_repeatable(scope):
                    raise _interrupted() from None
                problem = f"A request cannot be passed on: {lost}."
            except _Elsewhere:
                problem = f"{peer.url} does not have a session that the database says it has."
            lost_peers.add(peer)
            if trio.current_time() > deadline:
                self._note_once(problem)
                raise _unreachable()
            # If the server has died, the session is opened here as soon as its lease ends.
            await trio.sleep(PAUSE_SECONDS)

    # --- finding ----------------------------------------------------------------------------------

    @asynccontextmanager
    async def _use_here(
        self, target: Target, lost: Set[PeerAddress]
    ) -> AsyncIterator[PeerAddress | None]:
        """Keep a session open here within the block; or yield the address of its server.

        Args:
            target: What the request is about.
            lost: Servers that could not be reached or did not have the session.

        Raises:
            HilumError: The session does not exist, or a process has it open that is no server of the
                group.
        """
        holder: LeaseHolder | None = None
        if not await self._hub.holds(target.session, target.user):
            await self._hub.find_info(target.session, target.user)
            holder = await self._find_holder(target.session)
        peer = await self._find_peer(target.session, holder, lost)
        async with AsyncExitStack() as stack:
            if peer is None and target.opens:
                if holder is not None and holder.holds and self._is_stranger(holder):
                    # It is a server, so that waiting for the end of its lease is of no use.
                    raise _other_key(holder)
                resumes = holder is not None and not holder.holds and self._is_member(holder)
                # A server that nobody reaches has died: its runs go on here.
                reads = target.reads and not lost
                using = self._hub.use(target.session, target.user, resumes=resumes, reads=reads)
                try:
                    await stack.enter_async_context(using)
                except SessionBusy as busy:
                    # Another server was faster.
                    peer = await self._find_peer(target.session, busy.holder, lost)
                    if peer is None:
                        raise
            yield peer

    async def _find_holder(self, session: str) -> LeaseHolder | None:
        return (await self._store.find_holders([session])).get(session)

    async def _find_peer(
        self, session: str, holder: LeaseHolder | None, lost: Set[PeerAddress]
    ) -> PeerAddress | None:
        """Return the address of the server that has a session open, if it is one of the group.

        One that lost its connection to the database a moment ago still has it, unless it cannot be
        reached either.
        """
        if holder is None:
            return None
        if not holder.holds and not await self._hub.store.is_open(session):
            return None
        peer = self._group.read_announcement(holder.address)
        if peer is None and holder.address:
            self._note_once(
                f"The address of process {holder.pid} on {holder.host} in the database is not signed"
                " with serve.peer_key, or it is not encrypted and serve.peer_plain_http is not set."
            )
        if peer == self._group.own or (peer in lost and not holder.holds):
            return None
        return peer

    def _note_once(self, text: str) -> None:
        """Show a sentence, but not again within a minute."""
        now = trio.current_time()
        if now - self._noted.get(text, -NOTE_SECONDS) < NOTE_SECONDS:
            return
        if len(self._noted) >= MAX_NOTED:
            self._noted.clear()
        self._noted[text] = now
        self._note(text)

    def _is_member(self, holder: LeaseHolder) -> bool:
        return self._group.read_announcement(holder.address) is not None

    def _is_stranger(self, holder: LeaseHolder) -> bool:
        """Return whether a process is a server to which no requests can be passed on."""
        return bool(holder.address) and not self._is_member(holder)

    def _check_forwardable(self, scope: Scope, user: User) -> None:
        """Check that a request may be passed on.

        Raises:
            Problem: It was passed on already, or the other server does not know its token.
        """
        if scope[IS_FORWARDED]:
            raise Problem(
                409,
                E_BUSY,
                "Another server has opened the session while the request was passed on.",
                "Nothing was carried out. Send the request again.",
                headers=((ELSEWHERE, "1"),),
            )
        if user.token == START:
            raise Problem(
                409,
                E_BUSY,
                "Another server has the session open, and does not accept the token that this"
                " server printed at its start.",
                "Use a named token: hilum serve token add NAME --rights watch",
            )

    # --- passing on -------------------------------------------------------------------------------

    async def _forward_request(
        self, scope: Scope, receive: Receive, send: Send, target: Target, peer: PeerAddress
    ) -> None:
        """Pass an HTTP request on, and its response back.

        Raises:
            PeerLost: The server was lost before the response began.
            _Elsewhere: The server does not have the session.
            Problem: The server was lost in the middle of the response.
        """
        async with connect(self._group, peer) as connection:
            exchange = _Exchange(connection, scope, receive, send)

            async def watch() -> None:
                await self._watch(target.session, peer, exchange)

            with self._token_watch.watching(target.user, exchange.end_stream):
                await exchange.run(self._make_headers(scope, peer), watch)

    async def _watch(self, session: str, peer: PeerAddress, exchange: _Exchange) -> None:
        """Give up a server that loses the session while it does not respond, such as a frozen one."""
        while not exchange.has_begun:
            await trio.sleep(WATCH_SECONDS)
            # While the database is away, nothing is known about the server.
            with suppress(StoreError):
                holder = await self._find_holder(session)
                if await self._find_peer(session, holder, frozenset()) != peer:
                    exchange.give_up()

    async def _forward_socket(
        self, scope: Scope, receive: Receive, send: Send, target: Target, peer: PeerAddress
    ) -> None:
        """Pass a WebSocket on.

        Raises:
            PeerLost: The server was lost before it accepted the WebSocket.
            _Elsewhere: The server does not have the session.
        """
        async with connect(self._group, peer) as connection:
            # wsproto writes the Host header itself.
            headers = [pair for pair in self._make_headers(scope, peer) if pair[0] != b"host"]
            try:
                socket = await connection.open_socket(_make_target(scope), headers)
            except SocketRefused as refused:
                await _return_refusal(refused, send)
                return
            await send({"type": "websocket.accept"})
            relay = _Relay(socket, receive, send)
            with self._token_watch.watching(target.user, relay.end):
                await relay.run()

    def _make_headers(self, scope: Scope, peer: PeerAddress) -> Headers:
        """Return the headers of a request that is passed on.

        Of several credentials, only the one counts that was checked. A header in which a proxy of
        the other server names the user is not passed on, unless this server's proxy sets it, too.
        """
        mark = self._group.make_mark(peer)
        headers = [(b"host", peer.netloc.encode()), (FORWARDED, mark), scope[CREDENTIAL]]
        for name, value in scope["headers"]:
            if name in _PASSED:
                headers.append((name, value))
            elif name == b"origin":
                # The door has compared it with the addresses of this server. The other server knows
                # its own, and still refuses changes with a cookie and without the header.
                headers.append((name, peer.url.encode()))
        return headers


class _Exchange:
    """A request that is passed on over a connection, and its response.

    Args:
        connection: The connection.
        scope: The request.
        receive: Function that receives its body.
        send: Function that sends the response.

    Attributes:
        has_begun: Whether the head of the response has arrived.
    """

    def __init__(
        self, connection: PeerConnection, scope: Scope, receive: Receive, send: Send
    ) -> None:
        self.has_begun = False
        self._connection = connection
        self._scope = scope
        self._receive = receive
        self._send = send
        self._running = trio.CancelScope()
        self._lost: PeerLost | None = None
        self._is_elsewhere = False
        self._is_stream = False
        self._has_ended = False
        self._tail = b""

    def end_stream(self) -> None:
        """End an event stream, because its token or login has ended; leave other responses alone."""
        if self._is_stream:
            self._has_ended = True
            self._running.cancel()

    def give_up(self) -> None:
        """End the exchange, because the server does not respond any more."""
        self._lost = self._connection.lost("it does not respond")
        self._running.cancel()

    async def run(self, headers: Headers, watch: Callable[[], Awaitable[None]]) -> None:
        """Pass the request and its response on.

        Args:
            headers: The headers of the request.
            watch: Function that watches the server until the response begins.

        Raises:
            PeerLost: The server was lost before the response began.
            _Elsewhere: The server does not have the session.
            Problem: The server was lost in the middle of the response.
        """
        method = self._scope["method"]
        await self._connection.send_head(method, _make_target(self._scope), headers)
        with self._running:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch)
                nursery.start_soon(self._send_body)
                nursery.start_soon(self._return_response)
        if self._has_ended:
            await self._say_bye()
            return
        if self._is_elsewhere:
            raise _Elsewhere
        if self._lost is not None:
            # A response that was begun is cut off, as if the connection were lost.
            raise _interrupted() if self.has_begun else self._lost

    async def _say_bye(self) -> None:
        """Tell the client that its token or login has ended, and end the response."""
        # An event of which a part was sent cannot be completed: the client ignores it, and so it
        # would the reason.
        body = b"" if self._tail.strip(b"\n") else f"data: {make_bye('token')}\n\n".encode()
        with trio.move_on_after(BYE_SECONDS, shield=True):
            await self._send({"type": "http.response.body", "body": body})

    async def _send_body(self) -> None:
        """Send the body, and end the exchange when the client leaves."""
        is_sending = True
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._running.cancel()
                return
            if not is_sending:
                continue
            try:
                if message.get("body"):
                    await self._connection.send_data(message["body"])
                if not message.get("more_body"):
                    is_sending = False
                    await self._connection.end_request()
            except PeerLost:
                # The server may have refused the request before it read all of the body.
                is_sending = False

    async def _return_response(self) -> None:
        try:
            head = cast("h11.Response", await self._connection.read())
            await self._return_head(head)
            while not self._is_elsewhere:
                with trio.fail_after(SILENCE_SECONDS):
                    event = await self._connection.read()
                if not isinstance(event, h11.Data):
                    await self._send({"type": "http.response.body", "body": b""})
                    break
                self._tail = (self._tail + bytes(event.data))[-2:]
                await self._send(_make_piece(bytes(event.data)))
        except trio.TooSlowError:
            self._lost = self._connection.lost("it sends nothing")
        except PeerLost as lost:
            self._lost = lost
        self._running.cancel()

    async def _return_head(self, head: h11.Response) -> None:
        headers = list(head.headers)
        if _is_marked(headers) and _is_repeatable(self._scope):
            self._is_elsewhere = True
            return
        if 300 <= head.status_code < 400:
            # No operation redirects. What a redirect names must get no token.
            raise self._connection.lost("it sent a redirect")
        self.has_begun = True
        self._is_stream = any(
            name == b"content-type" and value.startswith(b"text/event-stream")
            for name, value in headers
        )
        await self._send(
            {
                "type": "http.response.start",
                "status": head.status_code,
                "headers": _choose_headers(headers),
            }
        )


class _Relay:
    """Passes the messages of an open WebSocket on, in both directions, until a side closes it.

    Args:
        socket: The WebSocket to the other server.
        receive: Function that receives messages of the client.
        send: Function that sends messages to the client.
    """

    def __init__(self, socket: PeerSocket, receive: Receive, send: Send) -> None:
        self._socket = socket
        self._receive = receive
        self._send = send
        self._running = trio.CancelScope()
        self._is_gone = False
        # A page whose server is lost connects again, wherever that leads.
        self._code = CLOSE_CODES["restart"]
        self._bye = ""

    def end(self) -> None:
        """End the WebSocket, because its token or login has ended."""
        self._bye = make_bye("token")
        self._code = CLOSE_CODES["token"]
        self._running.cancel()

    async def run(self) -> None:
        """Pass messages on until a side closes the WebSocket, or it is ended."""
        with self._running:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._listen)
                nursery.start_soon(self._return_texts)
        if self._is_gone:
            return
        with trio.move_on_after(BYE_SECONDS, shield=True):
            if self._bye:
                await self._send({"type": "websocket.send", "text": f"[{self._bye}]"})
            await self._send({"type": "websocket.close", "code": self._code})

    async def _listen(self) -> None:
        with suppress(PeerLost):
            while True:
                message = await self._receive()
                if message["type"] == "websocket.disconnect":
                    self._is_gone = True
                    self._running.cancel()
                    return
                # What a client sends has no meaning; that it sends something has.
                await self._socket.send_sign_of_life()

    async def _return_texts(self) -> None:
        with suppress(PeerLost):
            async with aclosing(self._socket.texts()) as texts:
                async for text in texts:
                    await self._send({"type": "websocket.send", "text": text})
            self._code = self._socket.close_code
        self._running.cancel()


async def _return_refusal(refused: SocketRefused, send: Send) -> None:
    """Refuse a WebSocket as the other server did.

    Raises:
        _Elsewhere: The other server does not have the session.
    """
    if _is_marked(refused.headers):
        raise _Elsewhere
    headers = _choose_headers(refused.headers)
    start = {"type": "websocket.http.response.start", "status": refused.status}
    await send({**start, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": refused.body})


def _make_target(scope: Scope) -> str:
    """Return the target of a request: what this server has read, and not what the client wrote."""
    path = quote(scope["path"], safe="/-_.~", errors="surrogateescape")
    query: bytes = scope["query_string"]
    return f"{path}?{query.decode('latin-1')}" if query else path


def _choose_headers(headers: Any) -> list[tuple[bytes, bytes]]:
    """Return the headers of a response that is passed back; the door adds its own."""
    return [
        (name, value)
        for name, value in headers
        if name in _RETURNED and not (name == b"content-security-policy" and value == CSP.encode())
    ]


def _make_piece(data: bytes) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": True}


def _is_marked(headers: Any) -> bool:
    return any(name == ELSEWHERE.encode() for name, _ in headers)


def _is_repeatable(scope: Scope) -> bool:
    """Return whether a request may be sent twice: it changes nothing, and has no body."""
    return scope["type"] == "websocket" or scope["method"] in ("GET", "HEAD")


def _other_key(holder: LeaseHolder) -> Problem:
    return Problem(
        409,
        E_BUSY,
        f"The server with process {holder.pid} on {holder.host} has the session open, and requests"
        " cannot be passed on to it.",
        "Nothing was carried out. Give all servers the same serve.peer_key, and addresses with https"
        " or serve.peer_plain_http.",
    )


def _unreachable() -> Problem:
    return Problem(
        503,
        E_UNREACHABLE,
        "The server that has the session open cannot be reached.",
        "Nothing was carried out. If that server has died, the session opens here within half a"
        " minute.",
        headers=(("retry-after", "5"),),
    )


def _interrupted() -> Problem:
    return Problem(
        503,
        E_INTERRUPTED,
        "The server that has the session open was lost. The request may or may not have been"
        " carried out.",
        "Look at the session before you repeat it.",
    )
