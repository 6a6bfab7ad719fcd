"""The connection of a client to a server: requests that are repeated safely, and event streams."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import httpx
import msgspec
import trio
from hilum import HilumError, UsageError
from hilum.errors import E_INTERNAL, E_INTERRUPTED, E_UNREACHABLE

from hilum_serve.mirror import Mirror
from hilum_serve.problems import ErrorReply

SILENCE_SECONDS = 25.0
"""Seconds without anything on the event stream after which the client connects again."""
RETRY_SECONDS = 60.0
"""Seconds for which the client tries to reach a server that does not answer."""
REFUSED_SECONDS = 10.0
"""Seconds after which a stream that the server refuses again and again is given up."""
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 3.0
_LOST = (httpx.TransportError, httpx.StreamError)
_GONE = (400, 401, 403, 404, 421)
"""Statuses of an event stream after which connecting again is of no use."""


class ServerConnection:
    """A connection to a server.

    Attributes:
        url: The address of the server, without a path.
        user: Name of the user whose token this is.
        rights: What the user may do.
    """

    def __init__(self, url: str, client: httpx.AsyncClient) -> None:
        self.url = url
        self.user = ""
        self.rights = ""
        self._client = client
        self._instance = ""

    async def start(self) -> None:
        """Reach the server, and learn who the client is.

        Raises:
            HilumError: The server cannot be reached, or refuses the token.
        """
        me, _ = await self.call("GET", "/api/me")
        self.user = me["name"]
        self.rights = me["rights"]
        self._instance = me["instance"]

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        *,
        seen: int | None = None,
    ) -> tuple[Any, int]:
        """Carry out an operation, and return its result and the session's last number.

        A lost connection is made again. The server carries out a change with the same id once.

        Args:
            method: The HTTP method.
            path: The path.
            body: The body; ``None`` for none.
            query: The query.
            seen: The last sequence number that the program has seen.

        Raises:
            HilumError: The server refuses the operation, or cannot be reached.
        """
        headers = {}
        content = None
        if method != "GET":
            headers["hilum-request"] = os.urandom(16).hex()
        if seen is not None:
            headers["hilum-seen"] = str(seen)
        if body is not None:
            headers["content-type"] = "application/json"
            content = msgspec.json.encode(body)
        send = partial(
            self._client.request,
            method,
            path,
            content=content,
            headers=headers,
            params=dict(query or {}),
        )
        deadline = trio.current_time() + RETRY_SECONDS
        pause = FIRST_PAUSE
        was_sent = False
        while True:
            try:
                # A read changes nothing, so that it may be repeated on any instance.
                if was_sent and method != "GET":
                    await self._check_instance()
                response = await send()
                break
            except _LOST as error:
                was_sent = was_sent or not isinstance(error, httpx.ConnectError)
                if trio.current_time() > deadline:
                    raise self._unreachable(error) from None
            await trio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
        if response.is_success:
            result: Any = response.content or None
            if response.headers.get("content-type", "").startswith("application/json"):
                result = msgspec.json.decode(response.content)
            return result, int(response.headers.get("hilum-last", 0))
        raise read_error(response.status_code, response.content)

    async def _check_instance(self) -> None:
        """Check that the server is still the one to which a request was sent.

        Raises:
            HilumError: The server was restarted, so that it does not know whether the request
                was carried out.
        """
        response = await self._client.get("/api/me")
        if not response.is_success:
            raise read_error(response.status_code, response.content)
        instance = msgspec.json.decode(response.content)["instance"]
        if self._instance and instance != self._instance:
            self._instance = instance
            raise HilumError(
                "The server was restarted. The operation may or may not have been carried out.",
                code=E_INTERRUPTED,
                hint="Look at the session before you repeat it.",
            )

    def _unreachable(self, error: Exception) -> HilumError:
        return HilumError(
            f"The server at {self.url} cannot be reached: {error or type(error).__name__}.",
            code=E_UNREACHABLE,
            hint="Check that `hilum serve` runs there, and the tunnel to it.",
        )

    async def follow(
        self, path: str, mirror: Mirror, handle: Callable[[dict[str, Any]], bool]
    ) -> None:
        """Follow a session's event stream until the mirror is closed.

        A stream that ends is opened again where the mirror ends.

        Args:
            path: The path of the session.
            mirror: The mirror.
            handle: Function that is called with each element, and returns whether to read on.
        """
        pause = FIRST_PAUSE
        refused_since: float | None = None
        while not mirror.closed:
            before = mirror.last
            refusal: HilumError | None = None
            with suppress(*_LOST):
                refusal = await self.stream(path, mirror, handle)
            if refusal is None:
                refused_since = None
            else:
                refused_since = refused_since or trio.current_time()
                if trio.current_time() - refused_since > REFUSED_SECONDS:
                    mirror.close(refusal)
            pause = FIRST_PAUSE if mirror.last > before else min(pause * 2, LONGEST_PAUSE)
            if not mirror.closed:
                await trio.sleep(pause)

    async def stream(
        self, path: str, mirror: Mirror, handle: Callable[[dict[str, Any]], bool]
    ) -> HilumError | None:
        """Read a session's event stream from where a mirror ends, until it ends.

        If the server refuses the stream for good, the mirror is closed with the error.

        Args:
            path: The path of the session.
            mirror: The mirror.
            handle: Function that is called with each element, and returns whether to continue.

        Returns:
            Why the server refused the stream; None if it did not, or for good.
        """
        query: dict[str, str | int] = {"after": mirror.last, "vocabulary": "events"}
        timeout = httpx.Timeout(SILENCE_SECONDS)
        request = self._client.stream("GET", f"{path}/stream", params=query, timeout=timeout)
        # The generators of httpx must not be left in the middle, so that they are cancelled.
        with trio.CancelScope() as scope:
            async with request as response:
                if not response.is_success:
                    error = read_error(response.status_code, await response.aread())
                    if response.status_code not in _GONE:
                        return error
                    mirror.close(error)
                    return None
                async for line in _read_lines(response):
                    if scope.cancel_called or not line.startswith(b"data:"):
                        continue
                    if not handle(msgspec.json.decode(line[5:])):
                        scope.cancel()
        return None


async def _read_lines(response: httpx.Response) -> AsyncIterator[bytes]:
    """Yield the lines of an event stream.

    ``Response.aiter_lines`` would also split at characters such as U+2028, which JSON contains
    unescaped.
    """
    rest = b""
    async for chunk in response.aiter_bytes():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line


def read_error(status: int, content: bytes) -> HilumError:
    """Return the error that a response reports."""
    try:
        reply = msgspec.json.decode(content, type=ErrorReply)
    except msgspec.MsgspecError:
        text = f"The server answered with the status {status} and no explanation."
        return HilumError(text, code=E_INTERNAL)
    kind = UsageError if 400 <= status < 500 else HilumError
    return kind(reply.message, code=reply.code, hint=reply.hint)
