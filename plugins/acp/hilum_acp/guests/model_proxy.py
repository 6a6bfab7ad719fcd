"""A proxy between a program in the sandbox and the models: it adds the key and counts the tokens.

::

    program ── 127.0.0.1 in the sandbox's network ──► proxy ── with the user's key ──► provider

The program sends requests in the provider's own format. The proxy replaces the model and the key,
passes the response on unchanged as it arrives, and reads the used tokens from it. A program
therefore never holds a key, cannot choose a more expensive model, and is stopped by its budget
whatever it reports about itself.
"""

from __future__ import annotations

import hmac
import logging
import re
import secrets
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import attrs
import h11
import msgspec
import trio
from hilum import (
    ModelCall,
    ModelCallDenied,
    ModelError,
    UsageError,
    admit_model_call,
    has_more_values,
)
from hilum.events import ModelUsed
from hilum.messages import AssistantMessage, Usage
from hilum.models import CallChunk, TextChunk, ThinkingChunk, add_cost
from hilum_models.addresses import get_host
from hilum_models.gateway import HttpModel
from hilum_models.openai_chat import find_limit_name
from hilum_models.sse import SseDecoder

from hilum_acp.guests.budget import (
    BYTES_PER_TOKEN,
    Budget,
    BudgetExhausted,
    estimate_usage,
)
from hilum_acp.guests.request_filter import Files, RequestRefused
from hilum_acp.guests.request_formats import FORMATS, GEMINI_STREAM, restrict_request
from hilum_acp.guests.request_sizes import RequestSize, limit_output, measure_input

if TYPE_CHECKING:
    from hilum import Agent
    from hilum.models import Chunk
    from hilum_models.answer_builder import Reader

_logger = logging.getLogger("hilum.acp")
MAX_CONNECTIONS = 32
MAX_BODY = 32 << 20  # bytes; providers accept no larger requests with images
MAX_BODIES = 64 << 20  # bytes of all requests of a program that are in memory at the same time
MAX_VALUES = 1_000_000  # values in a request; a window of a million tokens has fewer
MAX_REFUSED = 1 << 20  # bytes to read of a request that is refused, so that the reason arrives
REFUSED_TIMEOUT = 2.0  # seconds to read them
SETTLE_TIMEOUT = 2.0  # seconds that requests have to end when a program has ended its work
MAX_ERROR = 1 << 20  # bytes of an error of the provider
MAX_DOCUMENT = 32 << 20  # bytes of an answer that is sent as one document
MIN_KEY = 8  # characters; a shorter key is a placeholder, such as "none"
CHUNK = 1 << 16
IDLE_TIMEOUT = 300.0  # seconds until the next request of a connection
# Seconds that a program has to read a part of a response.
WRITE_TIMEOUT = 60.0
PURPOSE = "guest"
"""The purpose of a program's calls in the log."""
GEMINI_DOCUMENT = ":generateContent"
COUNT_TOKENS = "/count_tokens"
# A byte order mark, blank lines and complete comments.
_BEFORE_CONTENT = re.compile(rb"\A(?:[\s\xef\xbb\xbf]++|:[^\r\n]*+[\r\n])*+")
# Headers of the program's requests that select a part of the provider's format. Those for features
# that are being tested could have the provider contact servers on behalf of the program.
_PASSED_HEADERS = ("anthropic-version",)
# The kinds of failures in which the provider has not received a request.
_NEVER_SENT = ("connect", "request")


@attrs.frozen
class _Reply:
    """A response that the proxy itself sends."""

    status: int
    body: Mapping[str, Any]


class ModelProxy:
    """The proxy of one program.

    Args:
        agent: The agent for which the program works; the used tokens count towards its run.
        model: The model that answers all requests.
        budget: The budget of the agent.
        on_activity: Called when a request begins or ends, and when a part of a response arrives.
        plugin: The plugin to which the requests belong in the bill.

    Attributes:
        token: What the program sends in place of a key.
        body_space: Bytes that the bodies of requests may still take in memory.
    """

    def __init__(
        self,
        agent: Agent,
        model: HttpModel,
        budget: Budget,
        on_activity: Callable[[], None],
        plugin: str = "",
    ) -> None:
        self.token = secrets.token_urlsafe(24)
        self.body_space = MAX_BODIES
        # The requests that wait for a model, each with an event for its end.
        self._open: dict[trio.CancelScope, trio.Event] = {}
        self._decoding = trio.Lock()
        self._is_closed = False
        self._plugin = plugin
        self._agent = agent
        self._model = model
        self._budget = budget
        self._on_activity = on_activity
        path = urlsplit(model.url).path
        self.format = next((end for end in FORMATS if path.endswith(end)), "")

    async def serve(self, listener: socket.socket) -> None:
        """Answer the program's requests until cancelled; closes the socket."""
        listening = trio.SocketListener(trio.socket.from_stdlib_socket(_prepared(listener)))
        limiter = trio.CapacityLimiter(MAX_CONNECTIONS)

        async def handle(stream: trio.SocketStream) -> None:
            # A connection beyond the limit is closed at once, so that nothing waits without end.
            try:
                limiter.acquire_nowait()
            except trio.WouldBlock:
                await stream.aclose()
                return
            try:
                async with stream:
                    await _Connection(self, stream).run()
            except Exception as error:
                # The program closed the connection, does not read or does not speak HTTP. Nothing
                # that it does may end the proxy.
                _logger.debug("A connection of a guest ended: %r", error)
            finally:
                limiter.release()

        await trio.serve_listeners(handle, [listening])

    def check_token(self, request: h11.Request, query: str) -> bool:
        """Return whether a request carries the token."""
        headers = dict(request.headers)
        bearer = headers.get(b"authorization", b"").removeprefix(b"Bearer ").strip()
        found = [bearer, headers.get(b"x-api-key", b""), headers.get(b"x-goog-api-key", b"")]
        found += [key.encode() for key in parse_qs(query).get("key", [])]
        return any(hmac.compare_digest(value, self.token.encode()) for value in found)

    def find_url(self, path: str) -> str:
        """Return the provider's address for a path; empty if the path is not in its format."""
        url = self._model.url
        if self.format and path.endswith(self.format):
            return url
        if self.format == GEMINI_STREAM and path.endswith(GEMINI_DOCUMENT):
            return url.replace(GEMINI_STREAM, GEMINI_DOCUMENT).removesuffix("?alt=sse")
        if self.format == "/messages" and path.endswith(f"/messages{COUNT_TOKENS}"):
            return url + COUNT_TOKENS
        return ""

    def list_models(self) -> _Reply:
        """Return the list of models, which contains the one model that answers."""
        name = self._model.endpoint.model
        entry = {"id": name, "name": f"models/{name}", "object": "model", "owned_by": "hilum"}
        return _Reply(200, {"object": "list", "data": [entry], "models": [entry]})

    @property
    def open_requests(self) -> int:
        """Number of requests that wait for a model."""
        return len(self._open)

    def open(self) -> None:
        """Accept requests again, because the program has a new prompt."""
        self._is_closed = False

    async def settle(self) -> None:
        """Wait for the open requests, and end those that take too long, so that all are counted.

        Further requests are refused until the program has a new prompt.
        """
        self._is_closed = True
        waiting = list(self._open.items())
        with trio.move_on_after(SETTLE_TIMEOUT):
            for _, ended in waiting:
                await ended.wait()
        for scope, ended in waiting:
            scope.cancel()
            await ended.wait()

    def refuse(self, request: h11.Request) -> _Reply | None:
        """Return the proxy's own response to a request, from its head; ``None`` to forward it."""
        target = urlsplit(request.target.decode("latin-1"))
        if not self.check_token(request, target.query):
            return _error(401, "Invalid key. Use $GUEST_MODEL_KEY.", "authentication_error")
        if request.method == b"GET" and target.path.endswith("/models"):
            return self.list_models()
        if request.method != b"POST" or not self.find_url(target.path):
            end = self.format or "an unknown format"
            text = f"The model of this agent has no {target.path}; its requests end in {end}."
            return _error(404, text, "not_found_error")
        return None

    def prepare_body(self, body: bytes, *, counts_only: bool = False) -> tuple[bytes, RequestSize]:
        """Return a request body for the agent's model, and the tokens that it is expected to use.

        Blocks, because a body may have many megabytes.

        Args:
            body: The body that the program sent.
            counts_only: Whether the provider only counts the tokens of the request.

        Raises:
            RequestRefused: The body is not a JSON object, or contains something not to pass on.
            RecursionError: The body is nested too deeply.
        """
        if has_more_values(body, MAX_VALUES):
            raise RequestRefused(f"The request has more than {MAX_VALUES:,} values.")
        try:
            given = msgspec.json.decode(body)
        except ValueError:
            raise RequestRefused("The request is not JSON.") from None
        request = restrict_request(given, self.format, Files())
        del given
        size = RequestSize(measure_input(request, self.format), 0)
        if counts_only:
            for name in ("stream", *FORMATS[self.format].limits):
                request.pop(name, None)
        else:
            name = ""
            if self.format == "/chat/completions":
                provider = self._model.endpoint.provider
                name = find_limit_name(provider, get_host(self._model.url))
            output = limit_output(request, self.format, self._model.info.max_output, name)
            size = size._replace(output=output)
        if self.format != GEMINI_STREAM:
            request["model"] = self._model.endpoint.model
        if self.format == "/chat/completions" and request.get("stream"):
            # Without this option, a stream does not report its tokens.
            options = request.get("stream_options") or {}
            request["stream_options"] = {**options, "include_usage": True}
        return msgspec.json.encode(request), size

    async def forward(self, request: h11.Request, body: bytes, reply: _Connection) -> None:
        """Send a request to the provider, pass the response on, and count its tokens.

        Raises:
            ModelError: The provider cannot be reached.
            BudgetExhausted: The budget of the run does not allow another call.
            ModelCallDenied: A plugin refuses the call, for example because of its budget.
            RequestRefused: The body contains something that is not passed on.
            trio.ClosedResourceError: The request was ended.
        """
        url = self.find_url(urlsplit(request.target.decode("latin-1")).path)
        counts_only = url.endswith(COUNT_TOKENS)
        # A decoded request is many times as large, so that there is one of each program at a time.
        async with self._decoding:
            prepared, size = await trio.to_thread.run_sync(
                partial(self.prepare_body, body, counts_only=counts_only)
            )
        if self._is_closed:
            raise BudgetExhausted("The work has ended.")
        given = {name.decode().lower(): value.decode() for name, value in request.headers}
        passed = {name: given[name] for name in _PASSED_HEADERS if name in given}
        headers = {**self._model.headers, **passed}
        scope = trio.CancelScope()
        ended = self._open[scope] = trio.Event()
        try:
            with scope:
                if counts_only:
                    # Counting uses no tokens.
                    await self._send(url, headers, prepared, reply)
                else:
                    await self._send_admitted(url, headers, prepared, size, reply)
        finally:
            del self._open[scope]
            ended.set()
            self._on_activity()
        if scope.cancelled_caught:
            raise trio.ClosedResourceError("the request was ended")

    async def _send_admitted(
        self,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        size: RequestSize,
        reply: _Connection,
    ) -> None:
        """Send a request once the budgets of the run and of the session allow it."""
        info = self._model.info
        call = ModelCall(
            model=info.name,
            input=size.input,
            max_output=size.output,
            price=info.price,
            plugin=self._plugin,
            purpose=PURPOSE,
        )
        async with self._budget.reserve(size.input + size.output):
            try:
                async with admit_model_call(self._agent, call):
                    await self._send(url, headers, body, reply, call)
            except ModelCallDenied as error:
                self._budget.deny(error)
                raise

    async def _send(
        self,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        reply: _Connection,
        call: ModelCall | None = None,
    ) -> None:
        """Send a request, and pass the response on; if it is a call, count its tokens."""
        began = trio.current_time()
        meter = _Meter(self._model, body)
        status = 0
        failed = ""
        is_broken = False
        try:
            async with self._model.transport.send(
                "POST", url, headers, self._model.endpoint, body
            ) as response:
                status = response.status
                await reply.send_head(status, response.media_type)
                if status != 200:
                    # Some providers repeat the key in an error.
                    error = await response.read(MAX_ERROR)
                    await reply.send_data(_remove_key(error, self._model.endpoint.key))
                    await reply.send_end()
                    return
                async with aclosing(response.chunks()) as chunks:
                    async for chunk in chunks:
                        self._on_activity()
                        meter.feed(chunk)
                        await reply.send_data(chunk)
            await reply.send_end()
        except ModelError as error:
            failed = error.kind
            raise
        except Exception:
            # The program has closed the connection, or does not read.
            is_broken = not self._budget.has_ended
            raise
        finally:
            # The provider has counted a request that was broken off at any time, also before the
            # response began.
            is_counted = status == 200 or (not status and failed not in _NEVER_SENT)
            if call is not None and is_counted:
                usage = meter.usage()
                if is_broken and not meter.is_reported:
                    # The provider may go on with the answer. A program that could have answers for
                    # the price of their first bytes would evade its budgets. More than the limit
                    # can arrive from a server that ignores it.
                    usage = Usage(
                        input=max(usage.input, call.input),
                        output=max(meter.written, call.max_output),
                    )
                call.usage = self._record(usage, trio.current_time() - began)
            elif call is not None:
                call.failed = failed or ("server" if status >= 500 else "request")

    def _record(self, usage: Usage, seconds: float) -> Usage:
        """Write what a call has used to the log; return it with its cost."""
        info = self._model.info
        usage = add_cost(usage, info)
        event = ModelUsed(
            model=info.name,
            purpose=PURPOSE,
            message=AssistantMessage((), info.name),
            usage=usage,
            seconds=seconds,
            plugin=self._plugin,
            price=info.price,
        )
        # The run may have ended meanwhile; its calls count all the same.
        self._agent.session.emit(event, self._agent, self._budget.run)
        return usage


def _prepared(listener: socket.socket) -> socket.socket:
    listener.setblocking(False)
    return listener


class _Meter:
    """Reads the tokens of a response, which the proxy passes on unchanged.

    Args:
        model: The model.
        body: The request.

    Attributes:
        is_reported: Whether the returned usage is the one that the provider reported.
        written: Estimated number of tokens in what has arrived of the answer.
    """

    def __init__(self, model: HttpModel, body: bytes) -> None:
        self._reader: Reader | None = model.create_reader(model.info.name, body, model.endpoint)
        self._decoder = SseDecoder()
        self._document: bytearray | None = None
        # What has arrived before it is known whether the response is a document.
        self._beginning: bytes | None = b""
        self._sent = len(body)
        self._received = 0
        self._text_size = 0
        self.is_reported = False

    @property
    def written(self) -> int:
        return self._text_size // BYTES_PER_TOKEN + 1

    def feed(self, chunk: bytes) -> None:
        """Read a part of the response."""
        self._received += len(chunk)
        if self._beginning is not None:
            # Providers send blank lines and comments while a model has not begun its answer.
            chunk = _BEFORE_CONTENT.sub(b"", self._beginning + chunk, count=1)
            if not chunk or chunk.startswith(b":"):
                self._beginning = chunk[:1]
                return
            self._beginning = None
            if chunk.startswith((b"{", b"[")):
                self._document = bytearray()
        if self._document is None:
            self._feed_events(chunk)
        elif len(self._document) < MAX_DOCUMENT:
            self._document += chunk

    def _feed_events(self, chunk: bytes) -> None:
        if self._reader is None:
            return
        try:
            for name, value in self._decoder.feed(chunk):
                if value.strip() and not self._reader.ended:
                    for part in self._reader.feed(name, value):
                        self._text_size += _measure_chunk(part)
        except ModelError:
            # The provider reported an error in the stream; what it used is estimated.
            self._reader = None

    def usage(self) -> Usage:
        """Return the usage that the provider reported, or an estimate."""
        with suppress(ModelError):
            if self._reader is not None:
                if self._document is not None:
                    for _ in self._reader.feed(b"", bytes(self._document)):
                        pass
                else:
                    self._feed_last_event(self._reader)
                used = self._reader.finish().usage
                if used.total:
                    self.is_reported = True
                    return used
        return estimate_usage(self._sent, self._received)

    def _feed_last_event(self, reader: Reader) -> None:
        """Read a last event that is not followed by a blank line, which often has the usage."""
        # The stream may also have broken off within the event. What was reported before counts then.
        with suppress(ModelError):
            for name, value in self._decoder.flush():
                if value.strip() and not reader.ended:
                    for part in reader.feed(name, value):
                        self._text_size += _measure_chunk(part)


def _measure_chunk(chunk: Chunk) -> int:
    """Return the bytes of the text in a part of an answer."""
    if isinstance(chunk, TextChunk | ThinkingChunk):
        return len(chunk.text.encode())
    return len(chunk.arguments.encode()) if isinstance(chunk, CallChunk) else 0


class _Connection:
    """One connection of the program.

    Args:
        proxy: The proxy.
        stream: The connection.
    """

    def __init__(self, proxy: ModelProxy, stream: trio.SocketStream) -> None:
        self._proxy = proxy
        self._stream = stream
        self._http = h11.Connection(h11.SERVER)

    async def run(self) -> None:
        """Answer requests until the program closes the connection."""
        while await self._answer_next():
            self._http.start_next_cycle()

    async def _answer_next(self) -> bool:
        """Answer the next request; return whether another one may follow."""
        reserved = 0
        try:
            with trio.move_on_after(IDLE_TIMEOUT) as limit:
                request = await self._read_head()
                if request is None:
                    return False
                # Only the program that has the token can fill the memory with bodies.
                reply = self._proxy.refuse(request)
                if reply is None:
                    body = bytearray()
                    async with aclosing(self._read_body()) as parts:
                        async for data in parts:
                            size = len(data)
                            if len(body) + size > MAX_BODY or self._proxy.body_space < size:
                                reply = _TOO_LARGE
                                break
                            self._proxy.body_space -= size
                            reserved += size
                            body += data
            if limit.cancelled_caught or request is None:
                return False
            if reply is None:
                reply = await self._forward(request, bytes(body))
            if reply is not None:
                await self._send_reply(reply)
        finally:
            self._proxy.body_space += reserved
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    async def _next_event(self) -> Any:
        """Return the next event of the connection, other than that data is missing."""
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event
            if self._http.they_are_waiting_for_100_continue:
                await self._send(h11.InformationalResponse(status_code=100, headers=[]))
            self._http.receive_data(await self._stream.receive_some(CHUNK))

    async def _read_head(self) -> h11.Request | None:
        """Return the head of the next request; ``None`` if the connection was closed."""
        event = await self._next_event()
        return event if isinstance(event, h11.Request) else None

    async def _read_body(self) -> AsyncGenerator[bytes, None]:
        """Yield the parts of a request's body.

        Raises:
            trio.ClosedResourceError: The connection was closed before the end.
        """
        while True:
            event = await self._next_event()
            if isinstance(event, h11.EndOfMessage):
                return
            if not isinstance(event, h11.Data):
                raise trio.ClosedResourceError
            yield bytes(event.data)

    async def _send_reply(self, reply: _Reply) -> None:
        """Send a response of the proxy itself."""
        await self.send_head(reply.status, "application/json")
        await self.send_data(msgspec.json.encode(reply.body))
        await self.send_end()
        if self._http.their_state is not h11.SEND_BODY:
            return
        # A connection that is closed with data that nobody has read may lose the response.
        left = MAX_REFUSED
        with trio.move_on_after(REFUSED_TIMEOUT):
            async with aclosing(self._read_body()) as parts:
                async for data in parts:
                    left -= len(data)
                    if left < 0:
                        return

    async def _forward(self, request: h11.Request, body: bytes) -> _Reply | None:
        """Forward a request; return an error of the proxy if that is not possible."""
        try:
            await self._proxy.forward(request, body, self)
        except (BudgetExhausted, ModelCallDenied) as error:
            # With this status, programs do not try again.
            reason = error.message if isinstance(error, ModelCallDenied) else str(error)
            return _error(402, f"{reason} Stop, and report what is done.", "insufficient_quota")
        except RequestRefused as error:
            return _error(400, str(error), "invalid_request_error")
        except RecursionError:
            return _error(400, "The request is nested too deeply.", "invalid_request_error")
        except ModelError as error:
            if self._http.our_state is not h11.SEND_RESPONSE:
                raise trio.ClosedResourceError from error  # the response has begun
            return _error(502, error.message, "server_error")
        return None

    async def send_head(self, status: int, media_type: str) -> None:
        """Send the beginning of a response."""
        headers = [("content-type", media_type or "application/octet-stream")]
        await self._send(h11.Response(status_code=status, headers=headers))

    async def send_data(self, data: bytes) -> None:
        """Send a part of a response."""
        if data:
            await self._send(h11.Data(data=data))

    async def send_end(self) -> None:
        """Send the end of a response."""
        await self._send(h11.EndOfMessage())

    async def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            with trio.fail_after(WRITE_TIMEOUT):
                await self._stream.send_all(data)


def _remove_key(text: bytes, key: str) -> bytes:
    return text.replace(key.encode(), b"***") if len(key) >= MIN_KEY else text


def _error(status: int, message: str, kind: str) -> _Reply:
    # The common part of the error bodies of all formats.
    return _Reply(status, {"type": "error", "error": {"message": message, "type": kind}})


_TOO_LARGE = _error(413, "The requests are too large.", "request_too_large")


async def find_http_model(agent: Agent, name: str) -> HttpModel:
    """Return the model that answers a program's requests.

    Args:
        agent: The agent for which the program works.
        name: The model in the agent's file; empty for the session's model.

    Raises:
        UsageError: The model does not exist, or is not reached over HTTP.
    """
    router = agent.session.kernel.router
    chosen = router.resolve(name or agent.session.model) or await router.default()
    model = router.model(chosen)
    if not isinstance(model, HttpModel):
        raise UsageError(
            f"A guest cannot use the model {chosen}, which is not reached over HTTP.",
            hint="Name a model of a provider in the agent's file.",
        )
    return model
