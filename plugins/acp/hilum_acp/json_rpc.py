"""JSON-RPC 2.0 in both directions over a pair of streams, one message per line.

The module knows nothing of the Agent Client Protocol. hilum uses it as an agent, and as the client
of other agents.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeGuard

import msgspec
import trio
from hilum import HilumError, has_more_values
from hilum.messages import replace_surrogates
from trio.to_thread import run_sync as in_thread

MAX_MESSAGE = 32_000_000
"""Maximum number of bytes in a message; images arrive as base64."""
MAX_VALUES = 250_000
"""Maximum number of values in a message, which may take a hundred times its size in memory."""
MAX_DECODED_AT_ONCE = 1 << 20
"""Maximum number of bytes in a message that is decoded in the event loop; larger ones take time."""
MAX_REQUESTS = 256
"""Maximum number of requests of the other side that run at once."""
QUEUED_MESSAGES = 64
"""Messages that wait for the other side to read; the next sender waits."""
CHUNK = 1 << 16
FLUSH_SECONDS = 2.0
"""How long the end of a connection waits until the last messages are written."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
SERVER_BUSY = -32099
REQUEST_CANCELLED = -32800

CANCEL_REQUEST = "$/cancel_request"

RequestHandler = Callable[[dict[str, Any]], Awaitable[Any]]
NotificationHandler = Callable[[dict[str, Any]], Awaitable[None]]
RequestId = int | str

_logger = logging.getLogger("hilum.acp")
MAX_ENDS = 1024
"""Number of bytes at either end of an oversized message in which its id is looked up."""
# Where known libraries write the id of a message: after the version and perhaps the method, or
# last. Anchored at either end, so that no text inside a message is taken for its id: in a text, the
# quotes would be escaped.
_ID_AT_START = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?(?P<method>"method"\s*:\s*"[^"\\]*"\s*,\s*)?'
    rb'"id"\s*:\s*(?P<id>-?\d{1,18}|"[^"\\]*")\s*,\s*(?P<next>"method")?'
)
_METHOD_AT_START = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"method"')
_ID_AT_END = re.compile(
    rb'(?P<method>,\s*"method"\s*:\s*"[^"\\]*"\s*)?(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?'
    rb',\s*"id"\s*:\s*(?P<id>-?\d{1,18}|"[^"\\]*")\s*'
    rb'(?P<next>,\s*"method"\s*:\s*"[^"\\]*"\s*)?(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z'
)


class RpcError(Exception):
    """An error response: one that a handler returns, or that the other side sent.

    Args:
        code: The code of JSON-RPC or of the protocol.
        message: What happened, in a sentence.
        data: Details, as plain data.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class UnreadableResponse(RpcError):
    """The other side has responded, but with something that is too large or no message."""


class ConnectionLost(Exception):
    """The other side has left before it responded."""


class Response:
    """What a handler returns if something must follow its response.

    Args:
        result: The result.
        after: Function that is called once the response is queued, so that all messages that are
            sent from then on follow it.
    """

    def __init__(self, result: Any, after: Callable[[], object]) -> None:
        self.result = result
        self.after = after


class _PendingRequest:
    """A request that waits for its response.

    Attributes:
        on_late: Called with the result once the caller no longer waits; ``None`` drops it.
    """

    def __init__(self) -> None:
        self.done = trio.Event()
        self.on_late: Callable[[Any], None] | None = None
        self.result: Any = None
        self.error: Exception | None = None

    def end(self, result: Any = None, error: Exception | None = None) -> None:
        """Set the response; only the first one counts."""
        if self.done.is_set():
            return
        self.result = result
        self.error = error
        self.done.set()
        if self.on_late is not None and error is None:
            self.on_late(result)


class _LineEnds:
    """The two ends of a line that is too long to be kept, or that cannot be decoded.

    Attributes:
        start: Its first bytes.
        end: Its last bytes.
    """

    def __init__(self) -> None:
        self.start = b""
        self.end = b""

    def add(self, data: bytes) -> None:
        """Add the next bytes of the line."""
        self.start += data[: MAX_ENDS - len(self.start)]
        self.end = (self.end + data[-MAX_ENDS:])[-MAX_ENDS:]

    @property
    def id(self) -> RequestId | None:
        """The id of the message, if it is where known libraries write it."""
        match = self._match()
        if match is None:
            return None
        try:
            found: RequestId = msgspec.json.decode(match["id"])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        return found

    @property
    def has_method(self) -> bool:
        """Whether the message is a request or a notification, as far as its ends show it."""
        match = self._match()
        if match is not None and (match["method"] or match["next"]):
            return True
        return _METHOD_AT_START.match(self.start) is not None

    def _match(self) -> re.Match[bytes] | None:
        return _ID_AT_START.match(self.start) or _ID_AT_END.search(self.end)


class Connection:
    """A connection to another program that sends and answers requests.

    A handler of requests is called when the request is read, in the order of the messages; what it
    returns is awaited in a task. A function that is not async can thus do something before the next
    message is read, and return a coroutine for the rest. The coroutines also begin in the order of
    the messages, each as far as its first wait. Handlers of notifications are awaited one
    after another, before the next message is read, so they must not wait for a response.

    Args:
        receive: The stream to read from.
        send: The stream to write to.
        requests: The handlers of requests by method.
        notifications: The handlers of notifications by method. Unknown notifications are ignored.
        max_message: Maximum number of bytes in a message of the other side.
        max_invalid: Number of lines that are no messages after which the other side counts as gone;
            by default, it is not limited.

    Attributes:
        closed: Set when the other side has stopped writing, so that nothing will answer a request.
        invalid: Number of lines of the other side that are no messages.
    """

    def __init__(
        self,
        receive: trio.abc.ReceiveStream,
        send: trio.abc.SendStream,
        *,
        requests: Mapping[str, RequestHandler] | None = None,
        notifications: Mapping[str, NotificationHandler] | None = None,
        max_message: int = MAX_MESSAGE,
        max_invalid: int | None = None,
    ) -> None:
        self.requests = dict(requests or {})
        self.notifications = dict(notifications or {})
        self.closed = trio.Event()
        self.invalid = 0
        self._receive = receive
        self._send = send
        self._max_message = max_message
        self._max_invalid = max_invalid
        self._pending: dict[RequestId, _PendingRequest] = {}
        self._running: dict[RequestId, trio.CancelScope] = {}
        self._last_id = 0
        self._outgoing, self._to_write = trio.open_memory_channel[bytes](QUEUED_MESSAGES)
        self._written = trio.Event()
        # What was sent before a cancellation still reaches the other side.
        self._writing = trio.CancelScope(shield=True)

    async def run(
        self, *, grace: float = 0.0, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Read and answer messages until the other side leaves.

        Args:
            grace: Seconds that requests of the other side may still run after it stopped writing.
            task_status: Reports to the nursery that messages can be sent.
        """
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write_messages, nursery.cancel_scope)
                try:
                    task_status.started()
                    async with trio.open_nursery() as handlers:
                        await self._read_messages(handlers)
                        self._fail_pending()
                        handlers.cancel_scope.deadline = trio.current_time() + grace
                finally:
                    self._fail_pending()
                    self._outgoing.close()
                    # Another side that does not read cannot hold up the end.
                    with trio.move_on_after(FLUSH_SECONDS, shield=True):
                        await self._written.wait()
                    self._writing.cancel()
        finally:
            self._fail_pending()

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        patience: float = 0.0,
        on_late: Callable[[Any], None] | None = None,
    ) -> Any:
        """Send a request and return the result.

        If the caller is cancelled, the other side receives a ``$/cancel_request``.

        Args:
            method: The method.
            params: The parameters.
            patience: Seconds that a cancelled caller still waits for the response. If it arrives in
                this time, it is returned, and the caller's next wait is cancelled.
            on_late: Called with the result if it arrives after the caller was cancelled, for a
                request that creates something that must not be left behind. It must not wait.

        Raises:
            RpcError: The other side responded with an error.
            ConnectionLost: The other side has left.
        """
        if self.closed.is_set():
            raise ConnectionLost
        self._last_id += 1
        request_id = self._last_id
        pending = self._pending[request_id] = _PendingRequest()
        try:
            message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
            await self._put(message)
            try:
                await pending.done.wait()
            except trio.Cancelled:
                if patience:
                    with trio.move_on_after(patience, shield=True):
                        await pending.done.wait()
                if not pending.done.is_set():
                    pending.on_late = on_late
                    self._put_if_possible(_notification(CANCEL_REQUEST, {"requestId": request_id}))
                    raise
                if not patience:
                    # The response and the cancellation have arrived together.
                    if on_late is not None and pending.error is None:
                        on_late(pending.result)
                    raise
        finally:
            if pending.on_late is None:
                self._pending.pop(request_id, None)
        if pending.error is not None:
            raise pending.error
        return pending.result

    def post(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a request whose response does not matter, unless too many messages wait."""
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        self._put_if_possible(message)

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification; wait while the other side reads too slowly.

        Raises:
            ConnectionLost: The other side has left.
        """
        await self._put(_notification(method, params))

    # Writing

    async def _put(self, message: Mapping[str, Any]) -> None:
        # The other side may still read after it has stopped writing.
        line = encode_line(message)
        try:
            await self._outgoing.send(line)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise ConnectionLost from None

    def _put_if_possible(self, message: Mapping[str, Any]) -> None:
        try:
            self._outgoing.send_nowait(encode_line(message))
        except (trio.WouldBlock, trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async def _write_messages(self, connection: trio.CancelScope) -> None:
        # One task writes, so that the cancellation of a sender never cuts a line short.
        try:
            async with self._to_write:
                with self._writing:
                    async for line in self._to_write:
                        await self._send.send_all(line)
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            self._fail_pending()
            connection.cancel()
        finally:
            self._written.set()

    # Reading

    async def _read_messages(self, handlers: trio.Nursery) -> None:
        buffer = bytearray()
        searched = 0
        large: _LineEnds | None = None
        while not self.has_flooded and (data := await self._receive_some()):
            buffer += data
            while not self.has_flooded and (end := buffer.find(b"\n", searched)) >= 0:
                line = bytes(memoryview(buffer)[:end])
                del buffer[: end + 1]
                searched = 0
                if large is not None or len(line) > self._max_message:
                    large = large or _LineEnds()
                    large.add(line)
                    text = f"The message has more than {self._max_message:,} bytes."
                    await self._refuse_large(large, text)
                    large = None
                elif line.strip():
                    await self._handle_line(line, handlers)
            searched = len(buffer)
            if large is not None or len(buffer) > self._max_message:
                # The rest of the line is dropped as it arrives.
                large = large or _LineEnds()
                large.add(bytes(buffer))
                buffer.clear()
                searched = 0

    @property
    def has_flooded(self) -> bool:
        """Whether the other side has sent too many lines that are no messages."""
        return self._max_invalid is not None and self.invalid > self._max_invalid

    async def _receive_some(self) -> bytes:
        try:
            return bytes(await self._receive.receive_some(CHUNK))
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            return b""

    async def _refuse_large(self, line: _LineEnds, text: str) -> None:
        """Answer a request that is too large, or fail our request whose response is."""
        error = UnreadableResponse(INVALID_REQUEST, text)
        if not line.has_method:
            if line.id in self._pending:
                self._pending[line.id].end(error=error)
                return
            if line.id is None:
                # It may respond to any request, which would otherwise wait forever.
                for pending in self._pending.values():
                    pending.end(error=error)
        if line.id is None:
            self._refuse_line(None, error)
        else:
            await self._respond_error(line.id, error)

    async def _handle_line(self, line: bytes, handlers: trio.Nursery) -> None:
        try:
            if len(line) <= MAX_DECODED_AT_ONCE:
                message = msgspec.json.decode(line)
            elif await in_thread(has_more_values, line, MAX_VALUES, abandon_on_cancel=True):
                large = _LineEnds()
                large.add(line)
                text = f"The message has more than {MAX_VALUES:,} values."
                await self._refuse_large(large, text)
                return
            else:
                message = await in_thread(msgspec.json.decode, line, abandon_on_cancel=True)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            ends = _LineEnds()
            ends.add(line)
            error = UnreadableResponse(PARSE_ERROR, "The line is not JSON.")
            if ends.has_method:
                self._refuse_line(ends.id, error)
            else:
                self._refuse_response(ends.id, error)
            return
        problem = _find_problem(message)
        if problem:
            request_id = message.get("id") if isinstance(message, dict) else None
            if not _is_id(request_id):
                request_id = None
            error = UnreadableResponse(INVALID_REQUEST, problem)
            if isinstance(message, dict) and "method" in message:
                self._refuse_line(request_id, error)
            else:
                self._refuse_response(request_id, error)
            return
        params = message.get("params") or {}
        if "method" not in message:
            self._receive_response(message)
        elif "id" in message:
            await self._start_request(message["id"], message["method"], params, handlers)
        else:
            await self._receive_notification(message["method"], params)

    def _refuse_line(self, request_id: RequestId | None, error: RpcError) -> None:
        """Report a line that is no message, without waiting for a side that does not read."""
        self.invalid += 1
        self._put_if_possible(_error_response(request_id, error))

    def _refuse_response(self, request_id: RequestId | None, error: RpcError) -> None:
        """Fail our request whose response is no message, or report a line that is none."""
        pending = self._pending.get(request_id) if request_id is not None else None
        if pending is None:
            self._refuse_line(request_id, error)
        else:
            pending.end(error=error)

    def _receive_response(self, message: Mapping[str, Any]) -> None:
        pending = self._pending.get(message["id"]) if _is_id(message["id"]) else None
        if pending is None:
            _logger.debug("A response to an unknown request was ignored.")
            return
        if pending.on_late is not None:
            del self._pending[message["id"]]
        error = message.get("error")
        if error is None:
            pending.end(result=message.get("result"))
            return
        code = error.get("code")
        text = str(error.get("message") or "The other side gave no reason.")
        code = code if isinstance(code, int) else INTERNAL_ERROR
        pending.end(error=RpcError(code, text, error.get("data")))

    async def _receive_notification(self, method: str, params: dict[str, Any]) -> None:
        if method == CANCEL_REQUEST:
            request_id = params.get("requestId")
            scope = self._running.get(request_id) if _is_id(request_id) else None
            if scope is not None:
                scope.cancel()
            return
        handler = self.notifications.get(method)
        if handler is None:
            return
        try:
            await handler(params)
        except RpcError as error:
            # A notification has no response.
            _logger.warning("%s: %s", method, error.message)
        except Exception:
            _logger.exception("The notification %s could not be handled.", method)

    async def _start_request(
        self, request_id: RequestId, method: str, params: dict[str, Any], handlers: trio.Nursery
    ) -> None:
        handler = self.requests.get(method)
        error: RpcError | None = None
        if handler is None:
            error = RpcError(METHOD_NOT_FOUND, f"There is no method {method!r}.")
        elif request_id in self._running:
            error = RpcError(INVALID_REQUEST, f"Another request has the id {request_id!r}.")
        elif len(self._running) >= MAX_REQUESTS:
            error = RpcError(SERVER_BUSY, f"More than {MAX_REQUESTS} requests are running.")
        if handler is None or error is not None:
            await self._respond_error(request_id, error)
            return
        scope = self._running[request_id] = trio.CancelScope()
        try:
            answer = handler(params)
        except Exception as raised:
            del self._running[request_id]
            await self._respond_error(request_id, _to_rpc_error(method, raised))
            return
        handlers.start_soon(self._answer, request_id, method, answer, scope)
        # Trio begins tasks that were started together in any order. What a request does before it
        # first waits, such as taking its place in a queue, must happen in the order of messages.
        await trio.lowlevel.checkpoint()

    async def _answer(
        self, request_id: RequestId, method: str, answer: Awaitable[Any], scope: trio.CancelScope
    ) -> None:
        result: Any = None
        error: RpcError | None = None
        finished = False
        try:
            with scope:
                try:
                    result = await answer
                except Exception as raised:
                    error = _to_rpc_error(method, raised)
                finished = True
        finally:
            del self._running[request_id]
        if not finished:
            error = RpcError(REQUEST_CANCELLED, "The request was cancelled.")
        if error is not None:
            await self._respond_error(request_id, error)
            return
        response = result if isinstance(result, Response) else Response(result, lambda: None)
        try:
            await self._put({"jsonrpc": "2.0", "id": request_id, "result": response.result})
        except ConnectionLost:
            return
        response.after()

    async def _respond_error(self, request_id: RequestId | None, error: RpcError | None) -> None:
        assert error is not None
        try:
            await self._put(_error_response(request_id, error))
        except ConnectionLost:
            pass

    def _fail_pending(self) -> None:
        self.closed.set()
        for pending in self._pending.values():
            pending.end(error=ConnectionLost("The other side has left."))


def encode_line(message: Mapping[str, Any]) -> bytes:
    """Return a message as a line of JSON; surrogates, which UTF-8 cannot represent, are replaced."""
    try:
        return msgspec.json.encode(message) + b"\n"
    except UnicodeEncodeError:
        return msgspec.json.encode(_replace_all_surrogates(message)) + b"\n"


def _replace_all_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, Mapping):
        return {replace_surrogates(key): _replace_all_surrogates(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_all_surrogates(item) for item in value]
    return value


def _notification(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def _error_response(request_id: RequestId | None, error: RpcError) -> dict[str, Any]:
    body: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        body["data"] = error.data
    return {"jsonrpc": "2.0", "id": request_id, "error": body}


def _is_id(value: object) -> TypeGuard[RequestId]:
    # In Python, `True` is also a number.
    return isinstance(value, int | str) and not isinstance(value, bool)


def _find_problem(message: object) -> str:
    """Return why a value is no message of JSON-RPC 2.0; empty if it is one."""
    if not isinstance(message, dict):
        return "The message is not an object."
    if message.get("jsonrpc") != "2.0":
        return 'The message has no "jsonrpc": "2.0".'
    if not isinstance(message.get("params", {}), dict | None):
        return "The parameters are not an object."
    if "method" in message:
        if not isinstance(message["method"], str):
            return "The method is not a string."
        if "id" in message and not _is_id(message["id"]):
            return "The id is neither a number nor a string."
        return ""
    if "id" not in message or ("result" not in message and "error" not in message):
        return "The message is neither a request nor a response."
    if not isinstance(message.get("error", {}), dict | None):
        return "The error is not an object."
    return ""


def _to_rpc_error(method: str, raised: Exception) -> RpcError:
    """Return the error response for an exception of a handler."""
    if isinstance(raised, RpcError):
        return raised
    if isinstance(raised, ConnectionLost):
        return RpcError(INTERNAL_ERROR, "The other side has left.")
    if isinstance(raised, HilumError):
        return RpcError(INTERNAL_ERROR, str(raised), {"code": raised.code, "hint": raised.hint})
    _logger.error("%s failed.", method, exc_info=raised)
    return RpcError(INTERNAL_ERROR, f"{method} failed: {type(raised).__name__}: {raised}")
