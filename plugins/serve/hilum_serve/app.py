"""The application behind the door: finds the operation for a request and carries it out."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing
from typing import Any

import attrs
import msgspec
import trio
from hilum import HilumError
from hilum.errors import E_BAD_ARGS, E_INTERNAL, E_TOO_LARGE, E_UNKNOWN
from hilum.hooks import unwrap_group
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from hilum_serve import api
from hilum_serve.forwarding import Forwarder, Target
from hilum_serve.hub import HostedSession, Hub, is_session_id
from hilum_serve.openapi import MAX_SEEN, make_document
from hilum_serve.operations import OPERATIONS, Call, Operation
from hilum_serve.problems import (
    E_METHOD,
    E_RIGHTS,
    E_SEEN,
    Problem,
    find_status,
    make_reply,
)
from hilum_serve.queries import read_query
from hilum_serve.repeated_requests import RepeatedRequests
from hilum_serve.seen import check_not_moved, check_seen
from hilum_serve.users import User

BODY_SECONDS = 30.0
"""Seconds within which the whole body of a request must arrive."""
SEEN = "hilum-seen"
JSON = "application/json"
_MAX_EXACT = 2**53
_encode = msgspec.json.Encoder(enc_hook=str).encode

RawHandler = Callable[[Scope, Receive, Send, User, dict[str, str]], Awaitable[None]]


@attrs.frozen
class _Route:
    """A path, with its operations by method."""

    pattern: re.Pattern[str]
    path: str
    methods: dict[str, Operation]


class App:
    """An ASGI application with the operations; the door has checked who asks.

    Args:
        hub: The sessions of the server.
        streams: Function that serves an event stream by WebSocket or as server-sent events.
        pages: Function that serves files of the page.
        note_error: Function that is called with unexpected errors.
        forwarder: What passes requests on to other servers, if there are any.
    """

    def __init__(
        self,
        hub: Hub,
        streams: Mapping[str, RawHandler],
        pages: Callable[[Scope, Receive, Send], Awaitable[None]],
        note_error: Callable[[BaseException], None],
        forwarder: Forwarder | None = None,
    ) -> None:
        self._hub = hub
        self._forwarder = forwarder
        self._streams = [(compile_path(path), handler) for path, handler in streams.items()]
        self._pages = pages
        self._note_error = note_error
        api.load_operations()
        self._routes = _make_routes()
        self._repeated = RepeatedRequests()
        self._document: bytes = _encode(make_document(OPERATIONS))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "websocket":
            await self._serve(scope, receive, send)
            return
        has_begun = False

        async def send_noting_start(message: Message) -> None:
            nonlocal has_begun
            has_begun = has_begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._serve(scope, receive, send_noting_start)
            return
        except ClientDisconnect:
            return
        except HilumError as error:
            response = make_error_response(error)
        except Exception as error:
            # Streams and exports are sent from nurseries, which wrap errors in groups.
            first = unwrap_group(error)
            if isinstance(first, HilumError):
                response = make_error_response(first)
            else:
                self._note_error(error)
                response = make_error_response(_internal_error())
        # The status of a response that has begun cannot change; the server cuts it off.
        if not has_begun:
            await response(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Find what is at the address of a request, and send its response.

        Raises:
            HilumError: The request is refused, or cannot be carried out.
        """
        user: User | None = scope.get("hilum_user")
        target = self._find_target(scope, user) if self._forwarder is not None else None
        if target is None or self._forwarder is None:
            await self._serve_here(scope, receive, send, user)
            return

        async def serve_here() -> None:
            await self._serve_here(scope, receive, send, user)

        await self._forwarder.serve(scope, receive, send, target, serve_here)

    def _find_target(self, scope: Scope, user: User | None) -> Target | None:
        """Return the session that a request is about; ``None`` if it is about none."""
        if user is None:
            return None
        for pattern, _ in self._streams:
            match = pattern.fullmatch(scope["path"])
            if match and is_session_id(match["session"]):
                return Target(match["session"], user, opens=True, reads=True)
        if scope["type"] == "websocket":
            return None
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        for route in self._routes:
            match = route.pattern.fullmatch(scope["path"])
            if match is None:
                continue
            operation = route.methods.get(method)
            if operation is None or not operation.has_session:
                return None
            return Target(
                match["session"], user, opens=operation.opens, reads=not operation.changes
            )
        return None

    async def _serve_here(
        self, scope: Scope, receive: Receive, send: Send, user: User | None
    ) -> None:
        """Send the response to a request in this server.

        Raises:
            HilumError: The request is refused, or cannot be carried out.
        """
        for pattern, handler in self._streams:
            match = pattern.fullmatch(scope["path"])
            if match and user is not None:
                await handler(scope, receive, send, user, match.groupdict())
                return
        if scope["type"] == "websocket":
            raise Problem(404, E_UNKNOWN, "There is no WebSocket at this address.")
        path: str = scope["path"]
        if not path.startswith("/api/") and path != "/openapi.json":
            await self._pages(scope, receive, send)
            return
        response = await self._answer(Request(scope, receive), user)
        await response(scope, receive, send)

    async def _answer(self, request: Request, user: User | None) -> Response:
        assert user is not None, "the door lets nobody without a name in"
        path: str = request.scope["path"]
        if path == "/openapi.json":
            if request.method not in ("GET", "HEAD"):
                raise wrong_method(["GET"])
            return Response(self._document, media_type=JSON)
        for route in self._routes:
            match = route.pattern.fullmatch(path)
            if match is None:
                continue
            method = "GET" if request.method == "HEAD" else request.method
            operation = route.methods.get(method)
            if operation is None:
                raise wrong_method(route.methods)
            return await self._carry_out(operation, request, user, match.groupdict())
        raise Problem(404, E_UNKNOWN, "There is nothing at this address.", "See /openapi.json.")

    async def _carry_out(
        self, operation: Operation, request: Request, user: User, path: dict[str, str]
    ) -> Response:
        """Check a request for an operation, and carry the operation out."""
        if not user.may(operation.rights):
            raise Problem(
                403,
                E_RIGHTS,
                f"This needs the right {operation.rights!r}; your token has {user.rights!r}.",
                "Ask who runs the server for a token with more rights.",
            )
        query = read_query(request.scope, operation.query)
        body = await _read_body(operation, request)
        if not operation.changes:
            return await self._perform(operation, request, user, path, query, body)

        async def carry_out() -> Response:
            try:
                return await self._perform(operation, request, user, path, query, body)
            except HilumError as error:
                return make_error_response(error)

        return await self._repeated.answer(
            request, user.token or user.name, (query, body), carry_out
        )

    async def _perform(
        self,
        operation: Operation,
        request: Request,
        user: User,
        path: dict[str, str],
        query: Any,
        body: Any,
    ) -> Response:
        """Carry an operation out, and return its result as a response."""
        async with AsyncExitStack() as stack:
            hosted: HostedSession | None = None
            seen: int | None = None
            if operation.needs_seen:
                seen = _read_seen(request)
            if operation.has_session and operation.opens:
                using = self._hub.use(path["session"], user, reads=not operation.changes)
                hosted = await stack.enter_async_context(using)
            call = Call(self._hub, user, query, body, path, seen, request, hosted)
            if hosted is not None and seen is not None:
                check_not_moved(call)
                await check_seen(call, operation.decides)
            result = await operation.handler(call)
            if hosted is not None and operation.changes:
                await hosted.catch_up()
        headers = {"hilum-last": str(hosted.last)} if hosted is not None else {}
        if isinstance(result, Response):
            result.headers.update(headers)
            return result
        if operation.returns is None:
            return Response(status_code=operation.status, headers=headers)
        # Surrogates cannot be encoded; no text of a session contains any.
        return Response(_encode(result), operation.status, headers, JSON)


def compile_path(path: str) -> re.Pattern[str]:
    """Return the pattern of a path with variable parts in braces."""
    return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path))


def _make_routes() -> list[_Route]:
    routes: dict[str, _Route] = {}
    for operation in OPERATIONS:
        route = routes.get(operation.path)
        if route is None:
            route = _Route(compile_path(operation.path), operation.path, {})
            routes[operation.path] = route
        route.methods[operation.method] = operation
    # Fixed parts come before variable ones: /approvals/batch before /approvals/{approval}.
    return sorted(routes.values(), key=lambda route: route.path.count("{"))


def wrong_method(allowed: Mapping[str, object] | list[str]) -> Problem:
    """Return the error for a method that a path does not have."""
    names = ", ".join(sorted(allowed))
    return Problem(405, E_METHOD, f"This address takes only {names}.", headers=(("allow", names),))


def make_error_response(error: HilumError) -> Response:
    """Return the response for an error."""
    headers = dict(error.headers) if isinstance(error, Problem) else {}
    return Response(_encode(make_reply(error)), find_status(error), headers, JSON)


def _internal_error() -> Problem:
    return Problem(
        503,
        E_INTERNAL,
        "The server could not carry out the request because of an error of its own.",
        "The server's terminal shows what happened. Try again, and report it if it stays.",
    )


def _read_seen(request: Request) -> int:
    """Return the sequence number in the header ``Hilum-Seen``."""
    values = request.headers.getlist(SEEN)
    if not values:
        raise Problem(
            428,
            E_SEEN,
            "The header Hilum-Seen is missing.",
            "Send the last sequence number of the session that you have seen.",
        )
    if len(values) > 1 or not re.fullmatch(r"[0-9]{1,16}", values[0]):
        raise Problem(400, E_SEEN, "Hilum-Seen must be one whole number.")
    seen = int(values[0])
    if seen > MAX_SEEN:
        raise Problem(400, E_SEEN, "Hilum-Seen is too large.")
    return seen


async def _read_body(operation: Operation, request: Request) -> Any:
    """Return the body of a request, converted to the operation's type.

    Raises:
        Problem: The body is not JSON (415, 400), too large (413), late (408) or has the wrong form.
    """
    if not operation.changes:
        return None
    data = await _receive_body(request, operation.max_body)
    if operation.body is None:
        if data and data.strip() not in (b"{}", b"null"):
            raise Problem(400, E_BAD_ARGS, "This operation takes no body.")
        return None
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        raise Problem(415, E_BAD_ARGS, f"The body must be {JSON}.")
    try:
        plain = _unify_numbers(msgspec.json.decode(data))
        return msgspec.convert(plain, operation.body)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise Problem(400, E_BAD_ARGS, f"The body has a mistake: {error}.") from None


async def _receive_body(request: Request, limit: int) -> bytes:
    pieces = []
    size = 0
    too_large = Problem(413, E_TOO_LARGE, f"The body is larger than {limit:,} bytes.")
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared[:20]) > limit:
        raise too_large
    try:
        with trio.fail_after(BODY_SECONDS):
            # A body that is refused is not read to its end, so the generator must be closed.
            async with aclosing(request.stream()) as stream:
                async for piece in stream:
                    size += len(piece)
                    if size > limit:
                        raise too_large
                    pieces.append(piece)
    except trio.TooSlowError:
        raise Problem(408, E_BAD_ARGS, "The body did not arrive in time.") from None
    return b"".join(pieces)


def _unify_numbers(value: Any) -> Any:
    """Return JSON data with whole numbers as integers, since JSON does not tell 5.0 from 5."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _MAX_EXACT:
        return int(value)
    if isinstance(value, list):
        return [_unify_numbers(each) for each in value]
    if isinstance(value, dict):
        return {key: _unify_numbers(each) for key, each in value.items()}
    return value
