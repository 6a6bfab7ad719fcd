"""The address on this machine that a browser is sent to after the user logged in.

It answers one request: the one with the state that was given out. Everything else on the port is
refused and changes nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import trio
from hilum import UsageError, errors

PATH = "/callback"
MOST_BYTES = 16_384
SECONDS = 10.0
_PAGE = "<!doctype html><meta charset=utf-8><title>hilum</title><p>{}"
_DONE = "You are logged in, or were refused; hilum says which. You can close this page."
_HEADERS = (
    "Content-Type: text/html; charset=utf-8\r\nCache-Control: no-store\r\nReferrer-Policy:"
    " no-referrer\r\nConnection: close"
)


class Answer(NamedTuple):
    """What the browser brought."""

    code: str
    state: str
    error: str
    issuer: str


class Loopback:
    """Waits for the browser on a port of 127.0.0.1.

    Args:
        port: The port it got.

    """

    def __init__(self, port: int) -> None:
        self.port = port
        self._state = ""
        self._came = trio.Event()
        self._answer = Answer("", "", "", "")

    @property
    def url(self) -> str:
        """Where the browser is sent to."""
        return f"http://127.0.0.1:{self.port}{PATH}"

    def expect(self, state: str) -> None:
        """Begin to wait for a browser: only the request that carries this is right."""
        self._state = state
        self._came = trio.Event()

    async def wait(self) -> Answer:
        """Wait for the browser."""
        await self._came.wait()
        return self._answer

    async def serve(self, stream: trio.SocketStream) -> None:
        """Answer one connection."""
        async with stream:
            with trio.move_on_after(SECONDS):
                try:
                    data = b""
                    while b"\r\n\r\n" not in data and len(data) < MOST_BYTES:
                        chunk = await stream.receive_some(4_096)
                        if not chunk:
                            return
                        data += chunk
                    status, text = self._take(data.split(b"\r\n\r\n")[0].decode("latin-1"))
                    body = _PAGE.format(text).encode()
                    head = f"HTTP/1.1 {status}\r\n{_HEADERS}\r\nContent-Length: {len(body)}\r\n\r\n"
                    await stream.send_all(head.encode() + body)
                except trio.BrokenResourceError:
                    pass

    def _take(self, head: str) -> tuple[str, str]:
        first, *rest = head.split("\r\n")
        method, _, target = first.partition(" ")
        parts = urlsplit(target.rpartition(" ")[0])
        hosts = [
            line.partition(":")[2].strip() for line in rest if line.lower().startswith("host:")
        ]
        if (
            method != "GET"
            or parts.path != PATH
            or hosts not in ([f"127.0.0.1:{self.port}"], [f"localhost:{self.port}"])
        ):
            return "404 Not Found", "There is nothing here."
        if not self.take(parts.query):
            return "400 Bad Request", "This is not the answer that hilum waits for."
        return "200 OK", _DONE

    def take(self, query: str) -> bool:
        """Take what stands behind the ``?`` of the address that the browser was sent to.

        Gives whether it is right.
        """
        given = {key: values[-1] for key, values in parse_qs(query).items()}
        state = given.get("state", "")
        if (
            not self._state
            or not secrets.compare_digest(state.encode(), self._state.encode())
            or self._came.is_set()
        ):
            return False
        error = " ".join(
            filter(None, (given.get("error", ""), given.get("error_description", "")))
        )[:500]
        self._answer = Answer(given.get("code", ""), state, error, given.get("iss", ""))
        self._came.set()
        return True


@asynccontextmanager
async def open_loopback(port: int = 0, wanted_by: str = "") -> AsyncIterator[Loopback]:
    """Listen on 127.0.0.1 while the block lasts.

    Args:
        port: The port; any if 0, or if it is taken.
        wanted_by: The server whose description wants this very port; empty where another will do.

    Raises:
        UsageError: The port cannot be had, and no other will do.
    """
    try:
        listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
    except OSError as error:
        if wanted_by:
            what = (
                f"Port {port} of this machine, at which {wanted_by} is logged in at, cannot be had:"
                f" {error.strerror}."
            )
            hint = (
                "End the program that uses it, or take callback_port out of the server's"
                " description."
            )
            raise UsageError(what, code=errors.E_FAILED, hint=hint) from None
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    loopback = Loopback(listeners[0].socket.getsockname()[1])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, loopback.serve, listeners)
        try:
            yield loopback
        finally:
            nursery.cancel_scope.cancel()
