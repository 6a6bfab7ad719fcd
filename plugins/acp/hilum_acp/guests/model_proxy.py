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
import secrets
import socket
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import attrs
import h11
import msgspec
import trio
from hilum import ModelError, UsageError
from hilum.events import ModelUsed
from hilum.messages import AssistantMessage, Usage
from hilum_models.gateway import HttpModel
from hilum_models.sse import SseDecoder

from hilum_acp.guests.budget import BYTES_PER_TOKEN, Budget, BudgetExhausted, estimate_usage

if TYPE_CHECKING:
    from hilum import Agent
    from hilum_models.answer_builder import Reader

_logger = logging.getLogger("hilum.acp")
MAX_CONNECTIONS = 32
MAX_BODY = 64 << 20  # bytes; requests contain images and whole conversations
MAX_ERROR = 1 << 20  # bytes of an error of the provider
MAX_DOCUMENT = 32 << 20  # bytes of an answer that is sent as one document
MIN_KEY = 8  # characters; a shorter key is a placeholder, such as "none"
CHUNK = 1 << 16
IDLE_TIMEOUT = 300.0  # seconds until the next request of a connection
# Seconds that a program has to read a part of a response.
WRITE_TIMEOUT = 60.0
GEMINI_STREAM = ":streamGenerateContent"
GEMINI_DOCUMENT = ":generateContent"
COUNT_TOKENS = "/count_tokens"
# The ends of the paths to which a format's requests are sent.
FORMATS = ("/chat/completions", "/responses", "/messages", GEMINI_STREAM)
# Headers of the program's requests that select a part of the provider's format. Those for features
# that are being tested could have the provider contact servers on behalf of the program.
_PASSED_HEADERS = ("anthropic-version",)
# Fields that choose another model or price, or have the provider contact servers.
_DROPPED_FIELDS = frozenset(
    "models route provider plugins service_tier background mcp_servers container"
    " web_search_options prompt".split()
)
# The types of tools that the program itself carries out; Anthropic's have none, or this one.
_OWN_TOOLS = ("function", "custom")
_ADDRESS_FIELDS = frozenset({"url", "image_url", "file_url", "file_uri", "fileUri", "server_url"})


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

    Attributes:
        token: What the program sends in place of a key.
        open_requests: Number of requests that wait for a model.
    """

    def __init__(
        self, agent: Agent, model: HttpModel, budget: Budget, on_activity: Callable[[], None]
    ) -> None:
        self.token = secrets.token_urlsafe(24)
        self.open_requests = 0
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

    def prepare_body(self, body: bytes) -> tuple[bytes, int]:
        """Return a request body for the agent's model, and the tokens that it is expected to use.

        Raises:
            ValueError: The body is not a JSON object, or has the provider fetch something.
        """
        fields = msgspec.json.decode(body)
        if not isinstance(fields, dict):
            raise ValueError("the body is not an object")
        fields = restrict_fields(fields)
        if self.format != GEMINI_STREAM:
            fields["model"] = self._model.endpoint.model
        if self.format == "/chat/completions" and fields.get("stream"):
            # Without this option, a stream does not report its tokens.
            options = fields.get("stream_options")
            options = options if isinstance(options, dict) else {}
            fields["stream_options"] = {**options, "include_usage": True}
        limits = (
            fields.get(name)
            for name in ("max_tokens", "max_completion_tokens", "max_output_tokens")
        )
        output = next((each for each in limits if isinstance(each, int) and each > 0), 0)
        return msgspec.json.encode(fields), len(body) // BYTES_PER_TOKEN + output

    async def forward(
        self, url: str, request: h11.Request, body: bytes, reply: _Connection
    ) -> None:
        """Send a request to the provider, pass the response on, and count its tokens.

        Raises:
            ModelError: The provider cannot be reached.
            BudgetExhausted: The budget does not allow another call.
            ValueError: The body is not a JSON object.
        """
        prepared, expected = self.prepare_body(body)
        given = {name.decode().lower(): value.decode() for name, value in request.headers}
        passed = {name: given[name] for name in _PASSED_HEADERS if name in given}
        headers = {**self._model.headers, **passed}
        began = trio.current_time()
        async with self._budget.reserve(expected):
            self.open_requests += 1
            meter = _Meter(self._model, prepared)
            is_sent = False
            try:
                async with self._model.transport.send(
                    "POST", url, headers, self._model.endpoint, prepared
                ) as response:
                    await reply.send_head(response.status, response.media_type)
                    if response.status != 200:
                        # Some providers repeat the key in an error.
                        error = await response.read(MAX_ERROR)
                        await reply.send_data(_remove_key(error, self._model.endpoint.key))
                        await reply.send_end()
                        return
                    is_sent = True
                    async with aclosing(response.chunks()) as chunks:
                        async for chunk in chunks:
                            self._on_activity()
                            meter.feed(chunk)
                            await reply.send_data(chunk)
                await reply.send_end()
            finally:
                self.open_requests -= 1
                self._on_activity()
                # A program that closes the connection early has used the tokens all the same.
                if is_sent and not url.endswith(COUNT_TOKENS):
                    self._record(meter.usage(), trio.current_time() - began)

    def _record(self, usage: Usage, seconds: float) -> None:
        price = self._model.info.price
        if usage.cost is None and price is not None:
            usage = msgspec.structs.replace(usage, cost=price.cost(usage))
        if self._agent.conversation.run is None:
            return
        self._agent.emit(
            ModelUsed(
                model=self._model.info.name,
                purpose="guest",
                message=AssistantMessage((), self._model.info.name),
                usage=usage,
                seconds=seconds,
            )
        )


def _prepared(listener: socket.socket) -> socket.socket:
    listener.setblocking(False)
    return listener


class _Meter:
    """Reads the tokens of a response, which the proxy passes on unchanged.

    Args:
        model: The model.
        body: The request.
    """

    def __init__(self, model: HttpModel, body: bytes) -> None:
        self._reader: Reader | None = model.create_reader(model.info.name, body, model.endpoint)
        self._decoder = SseDecoder()
        self._document: bytearray | None = None
        self._sent = len(body)
        self._received = 0

    def feed(self, chunk: bytes) -> None:
        """Read a part of the response."""
        if self._received == 0 and chunk.lstrip().startswith((b"{", b"[")):
            self._document = bytearray()
        self._received += len(chunk)
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
                    for _ in self._reader.feed(name, value):
                        pass
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
                used = self._reader.finish().usage
                if used.total:
                    return used
        return estimate_usage(self._sent, self._received)


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
        while True:
            with trio.move_on_after(IDLE_TIMEOUT) as limit:
                request, body = await self._read_request()
            if limit.cancelled_caught or request is None:
                return
            await self._answer(request, body)
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    async def _read_request(self) -> tuple[h11.Request | None, bytes]:
        request: h11.Request | None = None
        body = bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    await self._send(h11.InformationalResponse(status_code=100, headers=[]))
                self._http.receive_data(await self._stream.receive_some(CHUNK))
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > MAX_BODY:
                    raise trio.ClosedResourceError
            elif isinstance(event, h11.EndOfMessage):
                return request, bytes(body)
            else:  # the connection was closed
                return None, b""

    async def _answer(self, request: h11.Request, body: bytes) -> None:
        """Answer a request, with an error of the proxy if it cannot be forwarded."""
        reply = None
        try:
            reply = await self._forward(request, body)
        except BudgetExhausted as error:
            # With this status, programs do not try again.
            reply = _error(402, f"{error} Stop, and report what is done.", "insufficient_quota")
        except ValueError:
            reply = _error(400, "The request is not a JSON object.", "invalid_request_error")
        except ModelError as error:
            if self._http.our_state is not h11.SEND_RESPONSE:
                raise trio.ClosedResourceError from error  # the response has begun
            reply = _error(502, error.message, "server_error")
        if reply is not None:
            await self.send_head(reply.status, "application/json")
            await self.send_data(msgspec.json.encode(reply.body))
            await self.send_end()

    async def _forward(self, request: h11.Request, body: bytes) -> _Reply | None:
        """Forward a request, or return the proxy's own response."""
        target = urlsplit(request.target.decode("latin-1"))
        if not self._proxy.check_token(request, target.query):
            return _error(401, "The key is not the one that hilum gave.", "authentication_error")
        if request.method == b"GET" and target.path.endswith("/models"):
            return self._proxy.list_models()
        url = self._proxy.find_url(target.path) if request.method == b"POST" else ""
        if not url:
            end = self._proxy.format or "an unknown format"
            text = f"The model of this agent has no {target.path}; its requests end in {end}."
            return _error(404, text, "not_found_error")
        await self._proxy.forward(url, request, body, self)
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
            f"Another program cannot use the model {chosen}, which is not reached over HTTP.",
            hint="Name a model of a provider in the agent's file.",
        )
    return model


def restrict_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a request that let the provider only answer the program.

    A program without network must not reach servers through the provider, and it must not choose
    another model or price.

    Raises:
        ValueError: The request refers to a file on another server.
    """
    kept = {name: value for name, value in fields.items() if name not in _DROPPED_FIELDS}
    if "tools" in kept:
        kept["tools"] = _keep_own_tools(kept["tools"])
    if _has_address(kept):
        raise ValueError("the body refers to a file on another server")
    return kept


def _keep_own_tools(tools: object) -> list[Any]:
    """Return the tools that the program carries out, without those that the provider runs."""
    kept: list[Any] = []
    for tool in tools if isinstance(tools, list) else ():
        if not isinstance(tool, dict):
            continue
        declarations = tool.get("functionDeclarations") or tool.get("function_declarations")
        if declarations:
            kept.append({"functionDeclarations": declarations})
        elif tool.get("type", "custom") in _OWN_TOOLS and ("name" in tool or "function" in tool):
            kept.append(tool)
    return kept


def _has_address(value: object) -> bool:
    """Return whether a message or its parts refer to a file on another server."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, list):
            waiting += found
        elif isinstance(found, dict):
            for name, each in found.items():
                is_address = name in _ADDRESS_FIELDS and isinstance(each, str)
                if is_address and not each.startswith("data:"):
                    return True
                # The arguments and results of the program's own tools are only data.
                is_data = name in ("tools", "args", "functionResponse", "function_response")
                if not is_data and not (name == "input" and found.get("type") == "tool_use"):
                    waiting.append(each)
    return False
