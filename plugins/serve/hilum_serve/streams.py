"""Event streams: any number of readers of a session, by WebSocket or as server-sent events.

A reader is a position in the session's feed and one message that is being sent; there is no queue
for each reader. Readers are woken in groups, one after another, so that many of them do not stall
the agents, which work in the same thread.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Annotated, Literal

import msgspec
import trio
from hilum import HilumError
from hilum.errors import E_BAD_ARGS, E_FAILED
from hilum.hooks import unwrap_group
from starlette.types import Receive, Scope, Send

from hilum_serve.feed import Element, encode_text, join_elements
from hilum_serve.http_server import FRAME, find_facts
from hilum_serve.hub import HostedSession, Hub, is_session_id, unknown_session
from hilum_serve.problems import E_METHOD, E_RATE, E_RIGHTS, Problem, find_status, make_reply
from hilum_serve.queries import read_query
from hilum_serve.token_watch import TokenWatch
from hilum_serve.users import User
from hilum_serve.vocabularies import VOCABULARIES, Vocabulary

TICK = 0.05
"""Seconds between two messages to a reader."""
PHASES = 20
"""Number of groups that the readers are divided into."""
BEAT_SECONDS = 10.0
SILENCE_SECONDS = 30.0
"""Seconds after which a WebSocket client that sends nothing is dropped."""
BYE_SECONDS = 1.0
MAX_REMEMBERED = 1_000
MAX_AFTER = 2**53 - 1
SendFrame = Callable[[bytes], Awaitable[None]]
SendElements = Callable[[list[Element]], Awaitable[None]]
_QUERY_HINT = f"after is a whole number; vocabulary is one of {', '.join(VOCABULARIES)}."
SOCKET = "/api/sessions/{session}/socket"
STREAM = "/api/sessions/{session}/stream"
CLOSE_CODES = {
    "token": 4401,
    "restart": 1012,
    "closed": 4404,
    "unshared": 4410,
    "slow": 1008,
    "silent": 1001,
}
"""WebSocket close codes, by the reason why the server ends a stream."""
ERROR_CODES = {401: 4401, 403: 4403, 404: 4404, 400: 1008, 429: 1013}


class StreamQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What a reader wants.

    Attributes:
        after: Number of the last event that the reader has; 0 for none.
        vocabulary: The names of the events.
    """

    after: Annotated[int, msgspec.Meta(ge=0, le=MAX_AFTER)] = 0
    vocabulary: Literal["events", "view", "002", "003"] = "events"


class Phases:
    """Wakes groups of readers, one group after another, as long as there is news."""

    def __init__(self) -> None:
        self._events = [trio.Event() for _ in range(PHASES)]
        self._news = trio.Event()
        self._count = 0

    def note_news(self) -> None:
        """Have all groups woken, each at its time."""
        self._news.set()

    def choose(self) -> int:
        """Return the group of a new reader."""
        self._count += 1
        return self._count % PHASES

    async def run(self) -> None:
        """Wake the groups, until cancelled."""
        step = TICK / PHASES
        while True:
            await self._news.wait()
            self._news = trio.Event()
            at = trio.current_time()
            for phase in range(PHASES):
                self.wake(phase)
                at += step
                await trio.sleep_until(at)

    def wake(self, phase: int) -> None:
        """Wake one group."""
        event = self._events[phase]
        self._events[phase] = trio.Event()
        event.set()

    def find_event(self, phase: int) -> trio.Event:
        """Return the event that is set when a group is woken the next time."""
        return self._events[phase]


class _Reader:
    """One reader.

    Attributes:
        user: Who reads.
        why: Why the server ends the stream; empty while it does not.
        scope: The scope of everything that the reader does.
    """

    def __init__(self, user: User, session: str, vocabulary: Vocabulary, phase: int) -> None:
        self.user = user
        self.session = session
        self.vocabulary = vocabulary
        self.phase = phase
        self.why = ""
        self.scope = trio.CancelScope()
        self.heard = trio.current_time()

    @property
    def key(self) -> tuple[str, str, str]:
        """What a client that connects again has in common with this reader."""
        return (self.user.token, self.session, self.vocabulary)

    def end(self, why: str) -> None:
        """End the stream; the reader receives the reason."""
        if not self.why:
            self.why = why
            self.scope.cancel()


class Streams:
    """The event streams of a server.

    Args:
        hub: The sessions.
        watch: What ends streams whose token or login ends.
        max_per_user: Most streams of one user at the same time.
    """

    def __init__(self, hub: Hub, watch: TokenWatch, max_per_user: int = 256) -> None:
        self._hub = hub
        self._watch = watch
        self._max_per_user = max_per_user
        self._phases = Phases()
        self.readers: set[_Reader] = set()
        self._per_user: Counter[str] = Counter()
        # Readers that were dropped because they did not read; they learn it when they return.
        self._slow: OrderedDict[tuple[str, str, str], None] = OrderedDict()
        self._is_ending = False
        self._all_gone = trio.Event()
        hub.on_news = self._phases.note_news

    async def run(self) -> None:
        """Wake readers, until cancelled."""
        await self._phases.run()

    async def end_all(self, why: str) -> None:
        """End all streams, and wait shortly until the readers have received the reason."""
        self._is_ending = True
        for reader in list(self.readers):
            reader.end(why)
        with trio.move_on_after(BYE_SECONDS / 2):
            if self.readers:
                await self._all_gone.wait()

    # --- WebSocket --------------------------------------------------------------------------------

    async def serve_socket(
        self, scope: Scope, receive: Receive, send: Send, user: User, path: dict[str, str]
    ) -> None:
        """Serve a session's events by WebSocket, as JSON arrays."""
        if scope["type"] != "websocket":
            text = "This address is a WebSocket."
            raise Problem(400, E_BAD_ARGS, text, "For server-sent events: …/stream")
        # No page asks for such a session, so the status need not be sent over a WebSocket.
        if not is_session_id(path["session"]):
            raise unknown_session()
        is_accepted = False
        try:
            query = read_query(scope, StreamQuery, _QUERY_HINT)
            await receive()  # websocket.connect
            async with self._open(scope, user, path["session"], query) as (reader, hosted):
                await send({"type": "websocket.accept"})
                is_accepted = True
                await self._run_socket(reader, hosted, query.after, receive, send)
        except Exception as error:
            # The socket is served in a nursery, which wraps errors in groups.
            first = unwrap_group(error)
            if not isinstance(first, HilumError):
                raise
            await refuse_socket(send, first, is_accepted=is_accepted)

    async def _run_socket(
        self, reader: _Reader, hosted: HostedSession, after: int, receive: Receive, send: Send
    ) -> None:
        async def send_text(text: str) -> None:
            await send({"type": "websocket.send", "text": text})

        async def send_elements(elements: list[Element]) -> None:
            await send_text(join_elements(elements))

        async def send_frame(frame: bytes) -> None:
            await send({"type": FRAME, "data": frame})

        with reader.scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._listen, reader, receive)
                await send_elements([(0, self._hello(reader, hosted))])
                await self._pump(reader, hosted, after, send_elements, send_frame)
                nursery.cancel_scope.cancel()
        if reader.why == "gone":
            return
        with trio.move_on_after(BYE_SECONDS, shield=True):
            why = reader.why or "closed"
            await send_text(f"[{make_bye(why)}]")
            await send({"type": "websocket.close", "code": CLOSE_CODES.get(why, 1000)})

    async def _listen(self, reader: _Reader, receive: Receive) -> None:
        """Note that the client is still there; what it sends has no meaning."""
        while True:
            deadline = reader.heard + SILENCE_SECONDS
            with trio.CancelScope(deadline=deadline) as waiting:
                message = await receive()
            if waiting.cancelled_caught:
                reader.end("silent")
                return
            if message["type"] == "websocket.disconnect":
                reader.end("gone")
                return
            reader.heard = trio.current_time()

    # --- server-sent events -----------------------------------------------------------------------

    async def serve_events(
        self, scope: Scope, receive: Receive, send: Send, user: User, path: dict[str, str]
    ) -> None:
        """Serve a session's events as server-sent events."""
        if scope["type"] != "http":
            raise Problem(400, E_BAD_ARGS, "This address is not a WebSocket.", "Use …/socket.")
        if scope["method"] != "GET":
            text = "This address takes only GET."
            raise Problem(405, E_METHOD, text, headers=(("allow", "GET"),))
        query = read_query(scope, StreamQuery, _QUERY_HINT)
        query.after = max(query.after, _read_last_id(scope))
        async with self._open(scope, user, path["session"], query) as (reader, hosted):
            headers = [
                (b"content-type", b"text/event-stream; charset=utf-8"),
                (b"cache-control", b"no-store"),
                (b"x-accel-buffering", b"no"),
            ]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            with reader.scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_wait_gone, reader, receive)
                    await self._follow_as_events(reader, hosted, query.after, send)
                    nursery.cancel_scope.cancel()
            if reader.why == "gone":
                return
            with trio.move_on_after(BYE_SECONDS, shield=True):
                body = f"data: {make_bye(reader.why or 'closed')}\n\n".encode()
                await send({"type": "http.response.body", "body": body})

    async def _follow_as_events(
        self, reader: _Reader, hosted: HostedSession, after: int, send: Send
    ) -> None:
        async def send_elements(elements: list[Element]) -> None:
            lines = []
            for seq, text in elements:
                # A piece of output has no number of its own, so a client that returns gets all of
                # the output again, and loses nothing.
                lines.append(f"id: {seq}\n" if seq else "")
                lines.append(f"data: {text}\n\n")
            body = "".join(lines).encode()
            await send({"type": "http.response.body", "body": body, "more_body": True})

        await send_elements([(0, self._hello(reader, hosted))])
        await self._pump(reader, hosted, after, send_elements, None)

    # --- both -------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _open(
        self, scope: Scope, user: User, session: str, query: StreamQuery
    ) -> AsyncIterator[tuple[_Reader, HostedSession]]:
        """Count a reader, and keep its session open.

        Raises:
            HilumError: The user has too many streams, or the session cannot be used.
        """
        if not user.may("watch"):
            raise Problem(403, E_RIGHTS, "This needs the right 'watch'.")
        if self._is_ending:
            raise Problem(503, E_FAILED, "The server is stopping.", "Connect again in a moment.")
        reader = _Reader(user, session, query.vocabulary, self._phases.choose())
        with self._counted(reader):
            async with self._hub.use(session, user, reads=True) as hosted:
                # A reader of the view gets a snapshot, which replaces whatever it has.
                if query.vocabulary != "view":
                    hosted.check_reached(query.after)
                with hosted.feed.join(query.vocabulary):
                    yield reader, hosted
                if find_facts(scope).is_slow:
                    self._remember_slow(reader)

    @contextmanager
    def _counted(self, reader: _Reader) -> Iterator[None]:
        key = reader.user.token or reader.user.name
        if self._per_user[key] >= self._max_per_user:
            raise Problem(
                429,
                E_RATE,
                f"You have {self._max_per_user} event streams open, which is the limit.",
                "Close some of them.",
                headers=(("retry-after", "5"),),
            )
        self._per_user[key] += 1
        self.readers.add(reader)
        try:
            with self._watch.watching(reader.user, lambda: reader.end("token")):
                yield
        finally:
            self._per_user[key] -= 1
            self.readers.discard(reader)
            if self._is_ending and not self.readers:
                self._all_gone.set()

    def _remember_slow(self, reader: _Reader) -> None:
        self._slow[reader.key] = None
        while len(self._slow) > MAX_REMEMBERED:
            self._slow.popitem(last=False)

    def _hello(self, reader: _Reader, hosted: HostedSession) -> str:
        hello: dict[str, object] = {"type": "hello", "last": hosted.last}
        if reader.key in self._slow:
            del self._slow[reader.key]
            hello["dropped"] = "slow"
        return encode_text(hello)

    async def _pump(
        self,
        reader: _Reader,
        hosted: HostedSession,
        after: int,
        send_elements: SendElements,
        send_frame: SendFrame | None,
    ) -> None:
        """Send what a reader lacks and then what is new, until the feed ends.

        Args:
            reader: The reader.
            hosted: The session.
            after: Number of the last event that the reader has.
            send_elements: Function that sends elements.
            send_frame: Function that sends a message that is encoded already and shared by
                readers; None if elements must be sent one by one.
        """
        feed = hosted.feed
        vocabulary = reader.vocabulary
        position = -1
        beat_at = trio.current_time() + BEAT_SECONDS
        while True:
            # Fetched before reading, because news that arrives while something is sent sets it.
            woken = self._phases.find_event(reader.phase)
            if position < 0:
                parts, position, seen = await feed.catch_up(vocabulary, after)
                async with aclosing(parts):
                    async for part in parts:
                        await send_elements(part)
                after = max(seen, after)
            taken = feed.take(vocabulary, position)
            if taken is None:
                # The reader is so far behind that the feed has forgotten what comes next.
                position = -1
                continue
            elements, next_position, seq = taken
            if elements and send_frame is None:
                await send_elements(elements)
            elif elements and send_frame is not None:
                await send_frame(feed.join_shared(vocabulary, position, next_position, elements))
            moved = next_position > position
            position = next_position
            after = max(seq, after)
            if moved and position < feed.end_position:
                continue
            if feed.ended.is_set() and position >= feed.end_position:
                reader.why = reader.why or feed.why
                return
            if trio.current_time() >= beat_at:
                await send_elements([(0, '{"type":"beat"}')])
                beat_at = trio.current_time() + BEAT_SECONDS
            with trio.CancelScope(deadline=beat_at):
                await woken.wait()


async def refuse_socket(send: Send, error: HilumError, *, is_accepted: bool = False) -> None:
    """Tell the client of a WebSocket about an error, and close the WebSocket."""
    # Browsers do not show the status of a refused WebSocket to the page.
    status = find_status(error)
    if not is_accepted:
        await send({"type": "websocket.accept"})
    reply = {"type": "error", "status": status, **msgspec.to_builtins(make_reply(error))}
    await send({"type": "websocket.send", "text": f"[{encode_text(reply)}]"})
    await send({"type": "websocket.close", "code": ERROR_CODES.get(status, 1013)})


async def _wait_gone(reader: _Reader, receive: Receive) -> None:
    """End a reader whose connection has closed."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            reader.end("gone")
            return


def make_bye(why: str) -> str:
    """Return the last element of a stream, with the reason why it ends."""
    return encode_text({"type": "bye", "why": why})


def _read_last_id(scope: Scope) -> int:
    """Return the number in the header ``Last-Event-ID``, which browsers send when they return.

    Raises:
        Problem: The header occurs twice, or is not a number that an event can have (400).
    """
    values = [value for name, value in scope["headers"] if name.lower() == b"last-event-id"]
    if not values:
        return 0
    digits = int(math.log10(MAX_AFTER)) + 1
    if len(values) > 1 or not values[0].isdigit() or len(values[0]) > digits:
        text = f"Last-Event-ID must be one whole number of at most {digits} digits."
        raise Problem(400, E_BAD_ARGS, text, "Leave it out to start again.")
    return int(values[0])
