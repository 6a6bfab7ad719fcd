"""A cassette, or a function, behind HTTP in the wire formats of four vendors.

Tests and the demo go through the real gateway this way. It listens on the loopback interface only.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import attrs
import msgspec
import trio
from hilum.errors import HilumError, ModelError
from hilum.messages import AssistantMessage, Text, ToolCall, Usage
from hilum_guard import Redactor

from hilum_replay import http1
from hilum_replay.cassette import Cassette
from hilum_replay.faults import Fault, Faults, fault_of, spoil, with_bad_arguments
from hilum_replay.matching import RULES, Mode, Rule
from hilum_replay.model import Pace
from hilum_replay.places import Places
from hilum_replay.playback import Playback
from hilum_replay.render import error_event, failure, render
from hilum_replay.requests import WireRequest

_ENDINGS = (
    ("/chat/completions", "chat"),
    ("/responses", "responses"),
    ("/messages", "anthropic"),
    (":streamGenerateContent", "gemini"),
)

LAST_EVENTS = 3


@attrs.frozen
class Answer:
    """An answer of a scripted model, with what a message alone does not say.

    Args:
        message: The answer.
        usage: Its tokens.
        first: Seconds until its first event.
        seconds: Seconds until its end.
    """

    message: AssistantMessage
    usage: Usage = Usage()
    first: float = 0.0
    seconds: float = 0.0


Scripted = AssistantMessage | Answer | str
Script = Callable[[WireRequest], Scripted | Awaitable[Scripted]]


class _Play(NamedTuple):
    """What to send: the events, and the seconds before the first and until the end."""

    events: list[bytes]
    first: float
    seconds: float


class CassetteServer:
    """Answers requests. Made by ``serve``.

    Attributes:
        url: Base URL without a path, for example ``http://127.0.0.1:41234``; the APIs are at
            ``/v1`` and ``/v1beta``.
        count: Requests to a model so far, faults included.
        requests: The requests themselves, the latest ``keep`` of them.
        failures: What a script raised, and mismatches, oldest first.
        playback: How far a cassette was played, ``None`` for a script.
    """

    def __init__(
        self,
        source: Cassette | Script,
        playback: Playback | None,
        pace: float,
        faults: Faults | None,
        parse: bool,
        keep: int,
    ) -> None:
        self.url = ""
        self.count = 0
        self.requests: list[WireRequest] = []
        self.failures: list[Exception] = []
        self.playback = playback
        self._script = None if isinstance(source, Cassette) else source
        self._pace = pace
        self._faults = faults
        self._parse = parse
        self._keep = keep
        if isinstance(source, Cassette):
            self._models = sorted({e.answer.model for e in source.exchanges} - {""})
        else:
            self._models = []
        self._rendered: dict[tuple[int, str, str, bool], _Play] = {}

    @property
    def bodies(self) -> list[bytes]:
        """The bodies of the requests that were kept."""
        return [request.body for request in self.requests]

    async def handle(self, stream: trio.abc.Stream) -> None:
        """Serve one connection until either side closes it."""
        connection = http1.Connection(stream)
        try:
            while (request := await connection.receive()) is not None:
                if not await self._respond(connection, request):
                    break
            await stream.aclose()
        except http1.BadRequest as error:
            await connection.send(
                http1.whole(
                    400, failure("chat", 400, f"Not HTTP: {error}."), {"connection": "close"}
                )
            )
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client went away, as it may

    async def _respond(self, connection: http1.Connection, request: http1.HttpRequest) -> bool:
        """Answer one request; says whether the connection can be used again."""
        path = request.path.partition("?")[0].rstrip("/")
        if request.method == "GET" and path.endswith("/models"):
            await connection.send(http1.whole(200, self._list(path)))
            return True
        api = next((api for ending, api in _ENDINGS if path.endswith(ending)), "")
        if not api or request.method != "POST":
            status, text = (404, f"There is nothing at {path}.") if not api else (405, "Use POST.")
            await connection.send(http1.whole(status, failure("chat", status, text)))
            return True
        self.count += 1
        asked = WireRequest(api, request.path, request.headers, request.body, self.count)
        if self._keep:
            self.requests.append(asked)
            del self.requests[: -self._keep]
        fault = fault_of(self._faults, asked.number)
        if fault is not None:
            await trio.sleep(fault.delay)
            if fault.refuse:
                return False
            if fault.status:
                if fault.body is None:
                    body = failure(api, fault.status, fault.message)
                else:
                    body = fault.body
                await connection.send(http1.whole(fault.status, body, fault.headers))
                return True
        return await self._answer(connection, asked, fault)

    async def _answer(
        self, connection: http1.Connection, asked: WireRequest, fault: Fault | None
    ) -> bool:
        try:
            play = await self._play(asked, bool(fault and fault.bad_arguments))
        except Exception as error:
            # A script is foreign code: what it raises reaches the client as an error, and the test
            # through `failures`.
            self.failures.append(error)
            status = 400 if isinstance(error, HilumError) else 500
            if isinstance(error, HilumError):
                text = str(error)
            else:
                text = f"The script failed: {type(error).__name__}: {error}"
            await connection.send(http1.whole(status, failure(asked.api, status, text)))
            return True
        events = play.events
        ending = "end"
        if fault is not None:
            events, ending = spoil(fault, events, error_event(asked.api, fault.message))
        if not self._pace or not play.seconds:
            body = http1.chunk(b"".join(events))
            await connection.send(
                http1.EVENT_STREAM + body + (http1.LAST_CHUNK if ending == "end" else b"")
            )
        else:
            await self._send_slowly(connection, events, play, ending)
        if ending == "silence":
            await connection.wait_closed()
        return ending == "end"

    async def _send_slowly(
        self, connection: http1.Connection, events: list[bytes], play: _Play, ending: str
    ) -> None:
        start = trio.current_time() + play.first * self._pace
        # What says that the answer is whole comes at once with its last piece, as from real
        # servers.
        last = max(1, len(events) - LAST_EVENTS)
        step = max(0.0, play.seconds - play.first) * self._pace / last
        await connection.send(http1.EVENT_STREAM)
        for index, each in enumerate(events):
            await trio.sleep_until(start + min(index, last) * step)
            data = http1.chunk(each)
            if data:
                await connection.send(data)
        if ending == "end":
            await connection.send(http1.LAST_CHUNK)

    async def _play(self, asked: WireRequest, bad: bool) -> _Play:
        """Find the answer to a request, as events."""
        if self._parse and not asked.stream:
            raise ModelError(
                "Only streams are served.", kind="request", status=400, hint="Ask with `stream` on."
            )
        if self._script is not None:
            given = self._script(asked)
            answer = _answer_of(await given if inspect.isawaitable(given) else given)
            if bad:
                answer = attrs.evolve(answer, message=with_bad_arguments(answer.message))
            events = render(
                asked.api, answer.message, answer.usage, self._model(asked), asked.number, not bad
            )
            return _Play(events, answer.first, answer.seconds)
        assert self.playback is not None
        if self._parse:
            index = self.playback.take(asked.asked)
        else:
            index = self.playback.take_next()
        key = (index, asked.api, self._model(asked), bad)
        known = self._rendered.get(key)
        if known is None:
            exchange = self.playback.exchange(index)
            message = with_bad_arguments(exchange.answer) if bad else exchange.answer
            events = render(asked.api, message, exchange.usage, key[2], index + 1, not bad)
            known = self._rendered[key] = _Play(events, exchange.first, exchange.seconds)
        return known

    def _model(self, asked: WireRequest) -> str:
        return (asked.model if self._parse else "") or "model"

    def _list(self, path: str) -> bytes:
        names = [name.rpartition("/")[2] for name in self._models] or ["model"]
        if "/v1beta/" in path:
            return msgspec.json.encode({"models": [{"name": f"models/{name}"} for name in names]})
        entries = [
            {"id": name, "object": "model", "created": 0, "owned_by": "hilum-replay"}
            for name in names
        ]
        return msgspec.json.encode({"object": "list", "data": entries})


def _answer_of(value: object) -> Answer:
    if isinstance(value, Answer):
        return value
    if isinstance(value, str):
        return Answer(AssistantMessage((Text(value, "model"),)))
    if isinstance(value, AssistantMessage):
        if any(isinstance(part, ToolCall) for part in value.parts) and value.stop == "end":
            value = msgspec.structs.replace(value, stop="calls")
        return Answer(value)
    raise TypeError(f"a script gives an AssistantMessage, an Answer or a text, not {value!r:.80}")


@asynccontextmanager
async def serve(
    source: Cassette | Script,
    *,
    pace: Pace = 0.0,
    faults: Faults | None = None,
    parse: bool = True,
    keep: int = 1000,
    workspace: str | os.PathLike[str] = "",
    mode: Mode = "text",
    redactor: Redactor | None = None,
    rules: Sequence[Rule] = RULES,
    port: int = 0,
) -> AsyncIterator[CassetteServer]:
    """Serve a cassette, or a function, on the loopback interface.

    Args:
        source: A cassette; or a function that takes a ``WireRequest`` and gives an
            ``AssistantMessage``, an ``Answer`` or a text (``async`` or not).
        pace: Seconds that pass: 0 none, ``"recorded"`` or 1 as recorded, 0.5 half of that.
        faults: What goes wrong, by the number of the request.
        parse: Whether requests are read and checked; without it answers come in their order,
            whatever is asked.
        keep: How many requests are kept.
        workspace: Where the workspace is now; the current folder by default.
        mode: How strictly requests are compared: ``strict``, ``text`` or ``shape``.
        redactor: What to take out of requests before they are compared.
        rules: What is forgiven in the mode ``text``.
        port: Port to listen on, 0 for any free one.

    Raises:
        OSError: The port is taken.
    """
    playback = None
    if isinstance(source, Cassette):
        playback = Playback(
            source, places=Places.here(workspace), mode=mode, redactor=redactor, rules=rules
        )
    factor = 1.0 if pace == "recorded" else float(pace)
    server = CassetteServer(source, playback, factor, faults, parse, keep)
    error: Exception | None = None
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
        server.url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        nursery.start_soon(trio.serve_listeners, server.handle, listeners)
        try:
            yield server
        except Exception as raised:
            error = raised  # not inside the nursery, which would wrap it
        nursery.cancel_scope.cancel()
    if error is not None:
        raise error
