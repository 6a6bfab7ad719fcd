"""One HTTP/1.1 connection from a client, implemented with h11.

h11 reads and frames the messages. This module transfers the bytes, so that a response can be cut,
delayed or left open at any byte of its body.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import attrs
import h11
import trio

from hilum_replay.render_errors import render_error

MAX_BODY = 256 << 20  # bytes
_STATUSES_WITHOUT_BODY = (204, 304)
RECEIVE_SIZE = 1 << 20  # bytes


@attrs.frozen
class HttpRequest:
    """A request: method, path with query, headers with names in lower case, body."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class HttpConnection:
    """The server's side of a connection."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._http = h11.Connection(h11.SERVER)
        self._method = ""

    async def receive(self) -> HttpRequest | None:
        """Return the next request, or ``None`` if there cannot be one.

        No request can follow after the client has closed the connection, or after an incomplete
        response.

        Raises:
            h11.RemoteProtocolError: The client sent something other than a request.
        """
        # h11 reads the next request only after both sides have finished the last one.
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        if self._http.our_state is not h11.IDLE:
            return None
        request = await self._next_event()
        if not isinstance(request, h11.Request):
            return None
        self._method = request.method.decode("ascii")
        body = bytearray()
        while isinstance(event := await self._next_event(), h11.Data):
            body += event.data
            if len(body) > MAX_BODY:
                raise h11.RemoteProtocolError("the body is too large", error_status_hint=413)
        return HttpRequest(
            self._method,
            request.target.decode("latin-1"),
            # h11 has converted the names, which are case-insensitive (RFC 9110, 5.1), to lower
            # case.
            {name.decode("ascii"): value.decode("latin-1") for name, value in request.headers},
            bytes(body),
        )

    async def _next_event(self) -> h11.Event | type[h11.PAUSED]:
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event  # type: ignore[return-value]
            # A client that waits for status 100 would otherwise never send its body.
            if self._http.they_are_waiting_for_100_continue:
                await self._send(h11.InformationalResponse(status_code=100, headers=[]))
            data = await self._stream.receive_some(RECEIVE_SIZE)
            self._http.receive_data(bytes(data))

    async def _send(self, *events: h11.Event) -> None:
        # Small events are sent in one packet: separate packets would wait for each other's
        # acknowledgement (Nagle's algorithm).
        pieces = [self._http.send(event) or b"" for event in events]
        await self._stream.send_all(b"".join(pieces))

    async def send_json(
        self, status: int, body: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a whole response.

        Args:
            status: The status.
            body: The JSON.
            headers: Further headers, which take precedence.
        """
        fields = {"content-type": "application/json", "content-length": str(len(body))}
        for name, value in (headers or {}).items():
            fields[name.lower()] = value
        events: list[h11.Event] = [h11.Data(data=body)]
        if self._method == "HEAD" or status in _STATUSES_WITHOUT_BODY:
            # A response to HEAD, or with one of these statuses, has no body (RFC 9110, 6.4.1), and
            # h11 refuses to send one.
            events = []
        if status in _STATUSES_WITHOUT_BODY:
            fields.pop("content-length", None)
        response = h11.Response(status_code=status, headers=list(fields.items()))
        await self._send(response, *events, h11.EndOfMessage())

    async def send_protocol_error(self, error: h11.RemoteProtocolError) -> None:
        """Respond to invalid input, if the client can still receive a response."""
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        status = error.error_status_hint
        body = render_error("chat", status, f"Not HTTP: {error}.")
        await self.send_json(status, body, {"connection": "close"})

    async def start_stream(self, body: bytes = b"") -> None:
        """Begin a stream of events, with the first bytes of its body."""
        fields = [("content-type", "text/event-stream"), ("cache-control", "no-cache")]
        # Without a length, h11 sends the body in chunks.
        response = h11.Response(status_code=200, headers=fields)
        await self._send(response, h11.Data(data=body))

    async def send_data(self, body: bytes) -> None:
        """Send further bytes of the body."""
        await self._send(h11.Data(data=body))

    async def end_stream(self) -> None:
        """End the body properly."""
        await self._send(h11.EndOfMessage())

    async def wait_closed(self) -> None:
        """Wait until the client closes the connection."""
        while await self._stream.receive_some(RECEIVE_SIZE):
            pass

    async def aclose(self) -> None:
        """Close the connection, even if a response is incomplete."""
        await self._stream.aclose()


async def serve_connection(
    stream: trio.abc.Stream, respond: Callable[[HttpConnection, HttpRequest], Awaitable[None]]
) -> None:
    """Answer the requests of one connection until either side closes it.

    Args:
        stream: The connection.
        respond: Function that sends the response to a request, or only part of it.
    """
    connection = HttpConnection(stream)
    try:
        try:
            while (request := await connection.receive()) is not None:
                await respond(connection, request)
            await connection.aclose()
        except h11.RemoteProtocolError as error:
            await connection.send_protocol_error(error)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass  # clients may disconnect at any time
    except h11.LocalProtocolError:
        # Some faults require invalid HTTP, such as a wrong length. Other connections must not end
        # with this one.
        await connection.aclose()
