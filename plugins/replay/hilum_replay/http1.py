"""The little of HTTP/1.1 that a server for tests needs: requests with a body, responses whole or in
chunks.

Written out because faults need every byte in hand, and because a library would cost more time than
the rest of an exchange.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import trio

LIMIT = 256 * 1024 * 1024
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    429: "Too Many Requests",
}


class BadRequest(Exception):
    """What came is no HTTP request."""


@attrs.frozen
class HttpRequest:
    """A request: method, path with query, headers with names in lower case, body."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Connection:
    """One connection of a client."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._buffer = bytearray()

    async def _more(self) -> bool:
        data = await self._stream.receive_some(1 << 20)
        self._buffer += data
        return bool(data)

    async def receive(self) -> HttpRequest | None:
        """Read the next request, ``None`` when the client has closed the connection.

        Raises:
            BadRequest: What came is none.
        """
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > 1 << 16:
                raise BadRequest("the headers are too long")
            if not await self._more():
                return None
        lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        first = lines[0].split(" ")
        if len(first) != 3:
            raise BadRequest(f"the first line is {lines[0][:100]!r}")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines[1:])
        }
        if headers.get("expect", "").lower() == "100-continue":
            await self._stream.send_all(b"HTTP/1.1 100 Continue\r\n\r\n")
        if "chunked" in headers.get("transfer-encoding", ""):
            body = await self._chunked()
        else:
            length = headers.get("content-length", "0")
            if not length.isdigit() or int(length) > LIMIT:
                raise BadRequest(f"the length is {length!r}")
            body = await self._exactly(int(length))
        return HttpRequest(first[0], first[1], headers, body)

    async def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            if not await self._more():
                raise BadRequest("the body broke off")
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    async def _chunked(self) -> bytes:
        body = bytearray()
        while True:
            while (end := self._buffer.find(b"\r\n")) < 0:
                if not await self._more():
                    raise BadRequest("the body broke off")
            word = bytes(self._buffer[:end]).split(b";")[0].strip()
            del self._buffer[: end + 2]
            try:
                size = int(word, 16)
            except ValueError:
                raise BadRequest(f"the length of a chunk is {word[:20]!r}") from None
            if size < 0 or len(body) + size > LIMIT:
                raise BadRequest("the body is too long")
            data = await self._exactly(size + 2)
            if size == 0:
                return bytes(body)
            body += data[:-2]

    async def send(self, data: bytes) -> None:
        """Send bytes."""
        await self._stream.send_all(data)

    async def wait_closed(self) -> None:
        """Wait until the client closes the connection."""
        while await self._more():
            self._buffer.clear()


def head(status: int, headers: Mapping[str, str]) -> bytes:
    """The head of a response."""
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Error' if status >= 400 else 'OK')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def whole(
    status: int,
    body: bytes,
    headers: Mapping[str, str] | None = None,
    kind: str = "application/json",
) -> bytes:
    """A whole response."""
    return (
        head(status, {"content-type": kind, "content-length": str(len(body)), **(headers or {})})
        + body
    )


def chunk(data: bytes) -> bytes:
    """A piece of a response in chunks.

    Nothing gives nothing, because an empty chunk would end the response.
    """
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


LAST_CHUNK = b"0\r\n\r\n"
EVENT_STREAM = head(
    200,
    {
        "content-type": "text/event-stream",
        "cache-control": "no-cache",
        "transfer-encoding": "chunked",
    },
)
