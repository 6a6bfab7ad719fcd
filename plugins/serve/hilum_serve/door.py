"""The door of the server: checks every request before any operation sees it.

A web page can send requests to a server on the user's machine, under its own name if that resolves
to the machine (DNS rebinding). Therefore, the Host header is checked first, then the Origin header,
then the token. No part of the body is read before these checks.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

import attrs
import msgspec
import trio
from hilum import UsageError
from hilum.errors import E_BAD_ARGS, E_INTERNAL, E_TOO_LARGE, E_UNKNOWN
from starlette.types import ASGIApp, Receive, Scope, Send
from trio import sleep

from hilum_serve.http_server import find_facts
from hilum_serve.peer_group import FORWARDED, NONCE_HEADER, PROOF_PATH, PeerGroup
from hilum_serve.problems import (
    E_HOST,
    E_METHOD,
    E_ORIGIN,
    E_RATE,
    E_RIGHTS,
    E_TOKEN,
    Problem,
    make_reply,
)
from hilum_serve.tokens import COOKIE_SECONDS, Tokens
from hilum_serve.users import User

Headers = Iterable[tuple[bytes, bytes]]
MAX_HEADER_BYTES = 16 * 1024
MAX_TARGET_BYTES = 8 * 1024
MAX_FAILURES = 20
"""Wrong tokens within ``FAILURE_SECONDS`` after which further ones are refused with 429."""
FAILURE_SECONDS = 60.0
FAILURE_DELAY = 0.2
"""Seconds before the answer to a wrong token."""
CREDENTIAL = "hilum_credential"
"""The key in the scope of a request for the header with which the client proved who it is."""
IS_FORWARDED = "hilum_is_forwarded"
"""The key in the scope of a request for whether another server of the group has passed it on."""
POLICY_VIOLATION = 1008  # RFC 6455, section 7.4.1
LOGGED_OUT = 4401
"""WebSocket close code for a page whose login has ended."""
SAFE = ("GET", "HEAD", "OPTIONS", "TRACE")
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; font-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script';"
    " trusted-types hilum dompurify lit-html"
)
_SECURITY_HEADERS = [
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
]
_CHOOSE_HEADER = (
    "Choose a header that only your proxy sets and that it removes from requests of clients, such as"
    " X-Forwarded-User."
)
_ASK_TOKEN = (
    "Open the address that `hilum serve` printed, or send the header Authorization: Bearer TOKEN."
)
_LOGIN_PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>hilum</title>'
    "<h1>This address no longer works</h1><p>{text}</p>"
    "<p>Open the address that <code>hilum serve</code> or <code>/share</code> printed last.</p>"
    "</html>"
)


# Headers that HTTP itself, browsers, other clients or proxies set. A client could name any user in
# them, and an ordinary value could be taken for the name of a user.
_SET_BY_OTHERS = frozenset(
    "alt-used authorization cache-control connection cookie cookie2 date dnt downlink dpr ect expect"
    " forwarded from host http2-settings keep-alive last-event-id link max-forwards origin pragma"
    " priority proxy-authenticate proxy-authorization proxy-connection purpose range referer rtt"
    " save-data server set-cookie te trailer transfer-encoding upgrade upgrade-insecure-requests"
    " user-agent vary via viewport-width warning width www-authenticate x-client-ip"
    " x-forwarded-for x-forwarded-host x-forwarded-port x-forwarded-proto x-forwarded-server"
    " x-http-method-override x-real-ip x-requested-with".split()
)
_SET_BY_OTHERS_PREFIXES = ("accept", "access-control-", "content-", "hilum-", "if-", "sec-")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # RFC 9110, section 5.6.2


def check_user_header(name: str) -> str:
    """Return the name of the header in which a reverse proxy names the user.

    Raises:
        UsageError: It is no name of a header, or not only the proxy sets this header.
    """
    if name and not _HEADER_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not the name of a header.", code=E_BAD_ARGS, hint=_CHOOSE_HEADER
        )
    plain = name.lower()
    if plain in _SET_BY_OTHERS or plain.startswith(_SET_BY_OTHERS_PREFIXES):
        raise UsageError(
            f"The header {name} cannot name the user: clients or HTTP itself set it.",
            code=E_BAD_ARGS,
            hint=_CHOOSE_HEADER,
        )
    return name


@attrs.define
class _Budget:
    """The requests that a user may still send; it refills steadily."""

    left: float
    at: float


@attrs.frozen
class _Caller:
    """Who sends a request.

    Attributes:
        user: The user.
        is_ambient: Whether the browser proves it without the page's knowledge.
        credential: The header that proves it, with nothing else in it.
    """

    user: User
    is_ambient: bool
    credential: tuple[bytes, bytes]


class Door:
    """An ASGI application that lets only allowed requests through.

    Args:
        app: The application behind the door.
        tokens: The accepted tokens.
        hosts: Allowed values of the Host header, ``name:port`` in lower case.
        cookie: Name of the cookie, which contains the port because cookies ignore ports.
        is_public: Function that tells whether a path needs no token, such as the page's files.
        requests_per_minute: Most requests of one user in a minute.
        user_header: Name of the header in which a reverse proxy names the user; empty for none.
        note_error: Function that is called with unexpected errors.
        group: The group of servers that this one belongs to, if any.
        on_logout: Function that ends the login with the number of a cookie; by default, it ends
            at this server only.
    """

    def __init__(
        self,
        app: ASGIApp,
        tokens: Tokens,
        hosts: Collection[str],
        cookie: str,
        *,
        is_public: Callable[[str], bool],
        requests_per_minute: int = 1_200,
        user_header: str = "",
        note_error: Callable[[BaseException], None] = lambda error: None,
        group: PeerGroup | None = None,
        on_logout: Callable[[int], Awaitable[None]] | None = None,
    ) -> None:
        self._app = app
        self._on_logout = on_logout
        self._group = group
        self._tokens = tokens
        self._hosts = frozenset(host.lower() for host in hosts)
        schemes = ("http", "https")
        self._origins = frozenset(f"{each}://{host}" for each in schemes for host in self._hosts)
        self._cookie = cookie
        self._is_public = is_public
        self._per_minute = requests_per_minute
        self._user_header = user_header.lower().encode()
        self._note_error = note_error
        self._budgets: dict[str, _Budget] = {}
        self._failures: deque[float] = deque(maxlen=MAX_FAILURES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, and forward or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            return
        answer = _Answer(scope, send)
        try:
            await self._let_in(scope, receive, answer)
        except Problem as problem:
            await answer.refuse(problem)
        except Exception as error:
            self._note_error(error)
            text = "The server could not carry out the request because of an error of its own."
            await answer.refuse(Problem(503, E_INTERNAL, text))

    async def _let_in(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        """Check a request and forward it.

        Raises:
            Problem: The request is refused.
        """
        headers: Headers = scope["headers"]
        self._check_form(scope, headers)
        origin = self._check_origin(headers)
        path: str = scope["path"]
        if path in ("/login", "/logout"):
            await self._log_in_or_out(scope, headers, answer, is_own=bool(origin))
            return
        if path == PROOF_PATH and self._group is not None and not origin:
            await self._prove(scope, headers, answer, self._group)
            return
        if self._is_public(path):
            await self._app(scope, receive, answer.send)
            return
        if not {"cross-site", "same-site"}.isdisjoint(_values(headers, b"sec-fetch-site")):
            raise _foreign_origin()
        caller = await self._identify(headers)
        method = scope.get("method", "GET")
        changes = scope["type"] == "websocket" or method not in SAFE
        # A browser sends the cookie automatically, so the page must prove that it is ours.
        if caller.is_ambient and changes and not origin:
            raise Problem(403, E_ORIGIN, "The Origin header is missing.")
        # From now on, the connection is not closed to make place for others.
        find_facts(scope).is_known = True
        self._count(caller.user)
        scope["hilum_user"] = caller.user
        scope[CREDENTIAL] = caller.credential
        # A client that sends the header itself has no signature for it.
        marks = _values(headers, FORWARDED)
        scope[IS_FORWARDED] = self._group is not None and any(map(self._group.is_mark, marks))
        await self._app(scope, receive, answer.send)

    def _check_form(self, scope: Scope, headers: Headers) -> None:
        """Check size and form of the headers, and that the request is for this server."""
        size = sum(len(name) + len(value) + 4 for name, value in headers)
        if size > MAX_HEADER_BYTES:
            raise Problem(431, E_TOO_LARGE, "The headers are larger than 16 KB.")
        if len(scope.get("raw_path", b"")) + len(scope["query_string"]) > MAX_TARGET_BYTES:
            raise Problem(431, E_TOO_LARGE, "The address is longer than 8 KB.")
        hosts = _values(headers, b"host")
        # If a header occurred twice, a proxy and this server might read different values.
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            raise Problem(
                421,
                E_HOST,
                "The Host header is not an address of this server.",
                "For a tunnel or a proxy, start the server with --allow-host NAME:PORT.",
            )
        lengths = _values(headers, b"content-length")
        if len(lengths) > 1 or (lengths and _values(headers, b"transfer-encoding")):
            text = "Content-Length and Transfer-Encoding contradict each other."
            raise Problem(400, E_BAD_ARGS, text, headers=(("connection", "close"),))
        # The server decoded the path. What is not plain text belongs to no address of ours.
        if any(ord(each) < 32 or 0xD800 <= ord(each) < 0xE000 for each in scope["path"]):
            raise Problem(400, E_BAD_ARGS, "The address contains control characters.")

    def _check_origin(self, headers: Headers) -> str:
        """Return the Origin header if there is one; refuse foreign ones."""
        origins = _values(headers, b"origin")
        if not origins:
            return ""
        if len(origins) > 1 or origins[0].lower() not in self._origins:
            raise _foreign_origin()
        return origins[0]

    async def _identify(self, headers: Headers) -> _Caller:
        """Return who sends a request."""
        bearers = _values(headers, b"authorization")
        if bearers:
            kind, _, token = bearers[0].partition(" ")
            user = None
            if len(bearers) == 1 and kind.lower() == "bearer":
                user = self._tokens.find_user(token.strip())
            if user is None:
                await self._fail("The token is wrong or has expired.")
            assert user is not None
            credential = (b"authorization", bearers[0].encode("latin-1"))
            return _Caller(user, is_ambient=False, credential=credential)
        if self._user_header:
            names = _values(headers, self._user_header)
            if names:
                user = self._find_named(names)
                credential = (self._user_header, names[0].encode("latin-1"))
                return _Caller(user, is_ambient=True, credential=credential)
        secret = self._read_cookie(headers)
        if secret:
            user = self._tokens.find_cookie_user(secret)
            if user is not None:
                # Cookies of other programs on the machine are nobody's business.
                credential = (b"cookie", f"{self._cookie}={secret}".encode("latin-1"))
                return _Caller(user, is_ambient=True, credential=credential)
            await self._fail("This page's login has ended, or the server was restarted.")
        raise Problem(401, E_TOKEN, "The request has no token.", _ASK_TOKEN, headers=_challenge())

    async def _prove(
        self, scope: Scope, headers: Headers, answer: _Answer, group: PeerGroup
    ) -> None:
        """Prove to another server that this one belongs to its group.

        This needs no token: the other server sends none before it has the proof.
        """
        nonces = _values(headers, NONCE_HEADER)
        proof = group.answer_nonce(nonces[0].encode("latin-1")) if len(nonces) == 1 else ""
        if not proof or scope.get("method") != "GET":
            raise Problem(404, E_UNKNOWN, "There is nothing at this address.")
        await answer.data(msgspec.json.encode({"proof": proof}))

    def _find_named(self, names: list[str]) -> User:
        """Return the user that a reverse proxy named."""
        user = self._tokens.find_named(names[0]) if len(names) == 1 else None
        if user is None:
            raise Problem(
                403,
                E_RIGHTS,
                "The proxy named a user that this server does not know.",
                "Create one with this name: hilum serve token add NAME --rights watch",
            )
        return user

    def _read_cookie(self, headers: Headers) -> str:
        # Cookies of other programs on this machine arrive as well, with names and values that no
        # parser for strict cookies accepts.
        found = ""
        for text in _values(headers, b"cookie"):
            for part in text.split(";"):
                name, _, value = part.strip().partition("=")
                if name == self._cookie:
                    found = value
        return found

    async def _fail(self, text: str) -> None:
        """Refuse a wrong token, slowly, and after many only with 429.

        Raises:
            Problem: Always.
        """
        now = trio.current_time()
        is_full = len(self._failures) == MAX_FAILURES
        if is_full and now - self._failures[0] < FAILURE_SECONDS:
            wait = math.ceil(FAILURE_SECONDS - (now - self._failures[0]))
            await sleep(FAILURE_DELAY)
            raise Problem(
                429,
                E_RATE,
                "Too many wrong tokens were sent to this server.",
                "Wait a minute. A right token works meanwhile.",
                headers=(("retry-after", str(wait)),),
            )
        self._failures.append(now)
        await sleep(FAILURE_DELAY)
        raise Problem(401, E_TOKEN, text, _ASK_TOKEN, headers=_challenge())

    def _count(self, user: User) -> None:
        """Count a request of a user.

        Raises:
            Problem: The user has sent too many (429).
        """
        now = trio.current_time()
        key = user.token or user.name
        budget = self._budgets.setdefault(key, _Budget(self._per_minute, now))
        refill = (now - budget.at) * self._per_minute / 60
        budget.left = min(budget.left + refill, self._per_minute)
        budget.at = now
        if budget.left < 1:
            raise Problem(
                429,
                E_RATE,
                f"You have sent more than {self._per_minute} requests in a minute.",
                "Wait a moment. The event stream shows changes without repeated requests.",
                headers=(("retry-after", "1"),),
            )
        budget.left -= 1

    # --- logging in -------------------------------------------------------------------------------

    async def _log_in_or_out(
        self, scope: Scope, headers: Headers, answer: _Answer, *, is_own: bool
    ) -> None:
        """Exchange a token for a cookie, or end the cookie."""
        if scope["type"] != "http":
            raise Problem(400, E_BAD_ARGS, "There is no WebSocket here.")
        method = scope["method"]
        wanted = "GET" if scope["path"] == "/login" else "POST"
        if method != wanted:
            text = f"This address takes only {wanted}."
            raise Problem(405, E_METHOD, text, headers=(("allow", wanted),))
        if wanted == "POST":
            if not is_own:
                raise Problem(403, E_ORIGIN, "The Origin header is missing.")
            # A copy of the cookie must not be of use after logging out.
            number = self._tokens.find_cookie_number(self._read_cookie(headers))
            if number is not None and self._on_logout is not None:
                await self._on_logout(number)
            elif number is not None:
                self._tokens.end_cookie(number)
            await answer.redirect("/", f"{self._cookie}=; Max-Age=0; {_FLAGS}")
            return
        # A foreign page must not log the user in with a token of its own: the user would type
        # secrets into a session that others read.
        site = _values(headers, b"sec-fetch-site")
        if site and site != ["none"] and site != ["same-origin"]:
            await answer.page(
                403, "Another web site sent you here. Copy the address into a new tab."
            )
            return
        query = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=10)
        given = query.get("token", [])
        user = self._tokens.find_login_user(given[0]) if len(given) == 1 else None
        if user is None:
            try:
                await self._fail("The token in the address is wrong or has expired.")
            except Problem as problem:
                await answer.page(problem.status, problem.message)
            return
        secret = self._tokens.make_cookie(user)
        await answer.redirect("/", f"{self._cookie}={secret}; Max-Age={COOKIE_SECONDS}; {_FLAGS}")


_FLAGS = "Path=/; HttpOnly; SameSite=Strict"


class _Answer:
    """Sends responses with the security headers.

    Args:
        scope: The request.
        send: The function to send with.
    """

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self._has_begun = False

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send a message of the application, with the security headers added."""
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            self._has_begun = True
            headers = list(message.get("headers", ()))
            headers.extend(_SECURITY_HEADERS)
            if not any(name.lower() == b"cache-control" for name, _ in headers):
                headers.append((b"cache-control", b"no-store"))
            message = {**message, "headers": headers}
        elif message["type"] == "websocket.accept":
            self._has_begun = True
        await self._send(message)

    async def refuse(self, problem: Problem) -> None:
        """Answer with an error; if an answer has begun, only end it."""
        is_socket = self._scope["type"] == "websocket"
        if problem.status == 401 and is_socket and self._is_own_page():
            # Browsers do not tell the page why a WebSocket was refused, and it would try again for
            # ever. Nothing but the code is sent.
            await self._send({"type": "websocket.accept"})
            await self._send({"type": "websocket.close", "code": LOGGED_OUT})
            return
        if self._has_begun:
            if self._scope["type"] == "websocket":
                await self._send({"type": "websocket.close", "code": POLICY_VIOLATION})
            return
        headers = [(name.encode(), value.encode()) for name, value in problem.headers]
        body = msgspec.json.encode(make_reply(problem))
        # The body of a refused request was not read, so the connection cannot be used again.
        if self._scope.get("method") not in ("GET", "HEAD"):
            headers.append((b"connection", b"close"))
        await self._respond(problem.status, b"application/json", body, headers)

    def _is_own_page(self) -> bool:
        """Return whether our page sent the request; foreign origins were refused before."""
        return any(name.lower() == b"origin" for name, _ in self._scope["headers"])

    async def data(self, body: bytes) -> None:
        """Answer with JSON."""
        await self._respond(200, b"application/json", body, [])

    async def page(self, status: int, text: str) -> None:
        """Answer with a page that contains a sentence."""
        body = _LOGIN_PAGE.format(text=text).encode()
        await self._respond(status, b"text/html; charset=utf-8", body, [])

    async def redirect(self, where: str, cookie: str) -> None:
        """Answer with a redirect and a cookie."""
        headers = [(b"location", where.encode()), (b"set-cookie", cookie.encode())]
        await self._respond(303, b"text/plain", b"", headers)

    async def _respond(
        self, status: int, media: bytes, body: bytes, headers: list[tuple[bytes, bytes]]
    ) -> None:
        prefix = "websocket." if self._scope["type"] == "websocket" else ""
        all_headers = [
            (b"content-type", media),
            (b"content-length", str(len(body)).encode()),
            *headers,
        ]
        start = {"type": f"{prefix}http.response.start", "status": status, "headers": all_headers}
        await self.send(start)
        if self._scope.get("method") == "HEAD":
            body = b""
        await self._send({"type": f"{prefix}http.response.body", "body": body})


def _values(headers: Headers, name: bytes) -> list[str]:
    return [value.decode("latin-1").strip() for key, value in headers if key.lower() == name]


def _challenge() -> tuple[tuple[str, str], ...]:
    return (("www-authenticate", 'Bearer realm="hilum"'),)


def _foreign_origin() -> Problem:
    return Problem(403, E_ORIGIN, "Pages of other sites may not use this server.")
