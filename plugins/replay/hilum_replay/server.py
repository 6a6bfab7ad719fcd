"""An emulator of model providers, which serves a cassette or a function in four wire formats.

With the emulator, tests and the demo use the real gateway. The server listens only on the loopback
interface.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Union

import attrs
import msgspec
import trio
from hilum import Redactor
from hilum.errors import HilumError, ModelError
from hilum.hooks import describe_error, is_failure
from hilum.messages import AssistantMessage, Text, ToolCall, Usage

from hilum_replay.cassette import Cassette
from hilum_replay.faults import Ending, Fault, Faults, apply_fault, break_arguments, find_fault
from hilum_replay.matching import Mode
from hilum_replay.model import Pace, to_factor
from hilum_replay.placeholders import PathPlaceholders
from hilum_replay.playback import Playback
from hilum_replay.render import render, render_chat_whole
from hilum_replay.render_errors import render_error, render_error_event
from hilum_replay.rules import RULES, Rule
from hilum_replay.wire_request import WireRequest

if TYPE_CHECKING:
    from hilum.testing import Scripted

    from hilum_replay.http_connection import HttpConnection, HttpRequest

_API_BY_PATH_END = {
    "/chat/completions": "chat",
    "/responses": "responses",
    "/messages": "anthropic",
    ":streamGenerateContent": "gemini",
}
# The last events, which mark the answer as complete, are sent together, as real servers do.
LAST_EVENTS = 3


@attrs.frozen
class Answer:
    """A scripted model's answer: a message with usage and timing.

    Args:
        message: The answer.
        usage: Its tokens.
        first: Seconds until the first event of the answer.
        seconds: Seconds until its end.
    """

    message: AssistantMessage
    usage: Usage = Usage()
    first: float = 0.0
    seconds: float = 0.0


ScriptedAnswer = Union[AssistantMessage, Answer, "Scripted"]
Script = Callable[[WireRequest], ScriptedAnswer | Awaitable[ScriptedAnswer]]


class _Stream(NamedTuple):
    """The events of an answer, the seconds before the first event, and the total seconds."""

    events: list[bytes]
    first: float
    seconds: float


class CassetteServer:
    """A server that answers requests. ``serve`` creates it.

    Attributes:
        url: Base URL without a path, for example ``http://127.0.0.1:41234``; the APIs are at
            ``/v1`` and ``/v1beta``.
        count: Number of requests to a model so far, including those with faults.
        requests: The latest ``keep`` requests.
        failures: Exceptions raised by a script, and mismatches, oldest first.
        playback: The playback of a cassette; ``None`` for a script.
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
        self.failures: list[BaseException] = []
        self.playback = playback
        self._source = source
        self._pace = pace
        self._faults = faults
        self._parse = parse
        self._keep = keep
        # Benchmarks request the same exchange many times.
        self._rendered: dict[tuple[int, str, str, bool], _Stream] = {}

    @property
    def bodies(self) -> list[bytes]:
        """The bodies of the requests that were kept."""
        return [request.body for request in self.requests]

    @property
    def environ(self) -> dict[str, str]:
        """Environment variables that direct the gateways of all four formats to this server."""
        return {
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_KEY": "test",
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "test",
            "GOOGLE_GEMINI_BASE_URL": f"{self.url}/v1beta",
            "GEMINI_API_KEY": "test",
        }

    async def handle(self, stream: trio.abc.Stream) -> None:
        """Serve one connection until either side closes it."""
        # h11 is loaded with the first connection; cassettes that are played in process never need
        # it.
        from hilum_replay.http_connection import serve_connection

        await serve_connection(stream, self._respond)

    async def _respond(self, connection: HttpConnection, http: HttpRequest) -> None:
        """Answer one request."""
        # Some clients send a slash at the end of the path.
        path = http.path.partition("?")[0].rstrip("/")
        if http.method == "GET" and path.endswith("/models"):
            await connection.send_json(200, self._list_models(path))
            return
        api = _find_api(path)
        if not api:
            error = render_error("chat", 404, f"There is nothing at {path}.")
            await connection.send_json(404, error)
            return
        if http.method != "POST":
            await connection.send_json(405, render_error("chat", 405, "Use POST."))
            return
        self.count += 1
        request = WireRequest(api, http.path, http.headers, http.body, self.count)
        # Otherwise, a long benchmark would keep gigabytes in memory.
        if self._keep:
            self.requests.append(request)
            del self.requests[: -self._keep]
        fault = find_fault(self._faults, request.number)
        await trio.sleep(fault.delay)
        if fault.refuse:
            return
        if fault.status:
            body = fault.body
            if body is None:
                body = render_error(api, fault.status, fault.message)
            await connection.send_json(fault.status, body, fault.headers)
            return
        await self._answer(connection, request, fault)

    async def _answer(self, connection: HttpConnection, request: WireRequest, fault: Fault) -> None:
        try:
            if self._answers_whole(request):
                body = await self._find_body(request)
                await connection.send_json(200, body)
                return
            stream = await self._find_stream(request, fault.bad_arguments)
        except BaseException as error:
            # A script may raise anything, `SystemExit` included, which would end the server in the
            # middle of a request. The client gets an error, and the test can check `failures`.
            if not is_failure(error):
                raise
            self.failures.append(error)
            if isinstance(error, HilumError):
                status = getattr(error, "status", 0) or 400
                text = str(error)
            else:
                status = 500
                text = f"The script failed: {describe_error(error)}"
            text = text.encode(errors="replace").decode()  # JSON has no lone surrogates
            await connection.send_json(status, render_error(request.api, status, text))
            return
        error_event = render_error_event(request.api, fault.message)
        events, ending = apply_fault(fault, stream.events, error_event)
        await self._send(connection, stream._replace(events=events), ending)

    async def _send(self, connection: HttpConnection, stream: _Stream, ending: Ending) -> None:
        """Send a stream with its timing, and end it as the fault requires."""
        if self._pace and stream.seconds:
            await self._send_slowly(connection, stream)
        else:
            # Send everything at once: benchmarks measure the client, not the server's packets.
            await connection.start_stream(b"".join(stream.events))
        if ending == "end":
            await connection.end_stream()
        elif ending == "silence":
            await connection.wait_closed()

    async def _send_slowly(self, connection: HttpConnection, stream: _Stream) -> None:
        start = trio.current_time() + stream.first * self._pace
        last = max(1, len(stream.events) - LAST_EVENTS)
        step = max(0.0, stream.seconds - stream.first) * self._pace / last
        # Send the headers at once, as real servers do, and the events later.
        await connection.start_stream()
        for index, event in enumerate(stream.events):
            await trio.sleep_until(start + min(index, last) * step)
            await connection.send_data(event)

    def _answers_whole(self, request: WireRequest) -> bool:
        """Return whether a request gets its answer as one JSON object instead of a stream.

        Only scripts answer in this way, and only in the format of chat completions, which agents of
        all kinds send without streaming. hilum's gateways always stream.
        """
        is_chat = request.api == "chat" and self.playback is None
        return self._parse and is_chat and not request.stream

    async def _find_body(self, request: WireRequest) -> bytes:
        answer = await self._run_script(request)
        if self._pace and answer.seconds:
            await trio.sleep(answer.seconds * self._pace)
        model = request.model or "model"
        return render_chat_whole(answer.message, answer.usage, model, request.number)

    async def _find_stream(self, request: WireRequest, bad_arguments: bool) -> _Stream:
        """Return the answer to a request."""
        if self._parse and not request.stream:
            raise ModelError(
                "This server only supports streaming in this format.",
                kind="request",
                status=400,
                hint="Set `stream` to true.",
            )
        # Reading the model's name would decode the body, which benchmarks avoid.
        model = (request.model if self._parse else "") or "model"
        if self.playback is None:
            answer = await self._run_script(request)
            return _render_stream(answer, request.api, model, request.number, bad_arguments)
        if self._parse:
            index = self.playback.take(request.delta)
        else:
            index = self.playback.take_next()
        key = (index, request.api, model, bad_arguments)
        if key not in self._rendered:
            exchange = self.playback.exchange(index)
            answer = Answer(exchange.answer, exchange.usage, exchange.first, exchange.seconds)
            stream = _render_stream(answer, request.api, model, index + 1, bad_arguments)
            self._rendered[key] = stream
        return self._rendered[key]

    async def _run_script(self, request: WireRequest) -> Answer:
        assert not isinstance(self._source, Cassette)
        result = self._source(request)
        if inspect.isawaitable(result):
            result = await result
        return _to_answer(result, request.number)

    def _list_models(self, path: str) -> bytes:
        # Clients expect at least one model.
        names = ["model"]
        if isinstance(self._source, Cassette):
            found = {exchange.answer.model for exchange in self._source.exchanges} - {""}
            names = [name.rpartition("/")[2] for name in sorted(found)] or names
        if "/v1beta/" in path:
            return msgspec.json.encode({"models": [{"name": f"models/{name}"} for name in names]})
        entry = {"object": "model", "created": 0, "owned_by": "hilum-replay"}
        return msgspec.json.encode(
            {"object": "list", "data": [{"id": name, **entry} for name in names]}
        )


def _find_api(path: str) -> str:
    for end, api in _API_BY_PATH_END.items():
        if path.endswith(end):
            return api
    return ""


def _render_stream(
    answer: Answer, api: str, model: str, number: int, bad_arguments: bool
) -> _Stream:
    message = break_arguments(answer.message) if bad_arguments else answer.message
    events = render(api, message, answer.usage, model, number, checked=not bad_arguments)
    return _Stream(events, answer.first, answer.seconds)


def _to_answer(value: Any, number: int) -> Answer:
    if isinstance(value, Answer):
        return value
    if isinstance(value, str):
        return Answer(AssistantMessage((Text(value, "model"),)))
    if not isinstance(value, AssistantMessage):
        # The testing kit imports more than the demo and recordings need.
        from hilum_replay.scripted_answers import build_message

        value = build_message(value, number)
    has_calls = any(isinstance(part, ToolCall) for part in value.parts)
    if has_calls and value.stop == "end":
        value = msgspec.structs.replace(value, stop="calls")
    return Answer(value)


@asynccontextmanager
async def serve(
    source: Cassette | Script | Sequence[Scripted],
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
        source: A cassette; answers in order, as in ``hilum.testing``; or a function (``async`` or
            not) that takes a ``WireRequest`` and returns such an answer, an ``AssistantMessage`` or
            an ``Answer``.
        pace: Factor applied to the recorded times: 0 for no delays, ``"recorded"`` or 1 for the
            original ones.
        faults: The faults, by the number of the request.
        parse: Whether requests are parsed and checked; if not, answers are sent in order for any
            request.
        keep: Maximum number of requests to keep.
        workspace: The workspace on this machine; the current folder by default.
        mode: How strictly requests are compared: ``strict``, ``text`` or ``shape``.
        redactor: The redactor that removes secrets from requests before they are compared.
        rules: Rules for the differences to ignore in the mode ``text``.
        port: Port to listen on; 0 for any free port.

    Yields:
        The server, which listens until the ``async with`` block ends.

    Raises:
        OSError: The port is already in use.
    """
    playback = None
    if isinstance(source, Sequence):
        from hilum_replay.scripted_answers import play_answers

        source = play_answers(source)
    if isinstance(source, Cassette):
        playback = Playback(
            source,
            placeholders=PathPlaceholders.for_this_machine(workspace),
            mode=mode,
            redactor=redactor,
            rules=rules,
        )
    server = CassetteServer(source, playback, to_factor(pace), faults, parse, keep)
    error: BaseException | None = None
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
        server.url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        nursery.start_soon(trio.serve_listeners, server.handle, listeners)
        try:
            yield server
        except BaseException as raised:
            # The error is raised outside the nursery, which would wrap it in an exception group.
            # This includes the exceptions with which pytest fails or skips a test.
            if isinstance(raised, trio.Cancelled):
                raise
            error = raised
        nursery.cancel_scope.cancel()
    if error is not None:
        raise error
