"""A provider on loopback that answers as a test tells it, and what the tests share."""

from __future__ import annotations

import functools
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import attrs
import pytest
import trio
from hilum_models.transport import Transport

STREAMS = Path(__file__).parent / "streams"
SSE = {"content-type": "text/event-stream; charset=utf-8"}


@attrs.frozen
class Seen:
    """A request as the server saw it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@attrs.frozen
class Reply:
    """What the server does about one request.

    ``pieces`` are sent one by one, each as an HTTP chunk; ``die`` breaks the connection off after
    them, ``hold`` keeps it open and silent.
    """

    status: int = 200
    headers: dict[str, str] = attrs.field(factory=lambda: dict(SSE))
    pieces: tuple[bytes, ...] = ()
    die: bool = False
    hold: bool = False


@attrs.define
class Server:
    """An HTTP/1.1 server for tests. Replies are used up in order; the last is repeated."""

    port: int = 0
    replies: list[Reply] = attrs.field(factory=list)
    by_path: dict[str, Reply] = attrs.field(factory=dict)
    seen: list[Seen] = attrs.field(factory=list)
    connections: int = 0
    closed: trio.Event = attrs.field(factory=trio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def say(self, *pieces: bytes, **rest: object) -> Server:
        self.replies = [Reply(pieces=pieces, **rest)]  # type: ignore[arg-type]
        return self

    async def handle(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        try:
            buffer = b""
            while True:
                while b"\r\n\r\n" not in buffer:
                    data = await stream.receive_some()
                    if not data:
                        return
                    buffer += data
                head, _, buffer = buffer.partition(b"\r\n\r\n")
                first, *lines = head.decode().split("\r\n")
                headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines)}
                size = int(headers.get("content-length", 0))
                while len(buffer) < size:
                    buffer += await stream.receive_some()
                method, path, _ = first.split(" ")
                self.seen.append(Seen(method, path, headers, buffer[:size]))
                buffer = buffer[size:]
                if not await self._answer(stream, path):
                    return
        except trio.BrokenResourceError:
            pass
        finally:
            self.closed.set()
            await trio.aclose_forcefully(stream)

    async def _answer(self, stream: trio.SocketStream, path: str) -> bool:
        reply = self.by_path.get(path)
        if reply is None:
            reply = (
                self.replies.pop(0)
                if len(self.replies) > 1
                else self.replies[0]
                if self.replies
                else Reply(404)
            )
        lines = [
            f"HTTP/1.1 {reply.status} Whatever",
            *(f"{k}: {v}" for k, v in reply.headers.items()),
        ]
        head = "\r\n".join([*lines, "transfer-encoding: chunked"]) + "\r\n\r\n"
        await stream.send_all(head.encode("latin-1"))
        for piece in reply.pieces:
            if piece:
                await stream.send_all(b"%x\r\n%b\r\n" % (len(piece), piece))
        if reply.hold:
            await stream.receive_some()  # until the client goes
            return False
        if reply.die:
            return False
        await stream.send_all(b"0\r\n\r\n")
        return True


@pytest.fixture
async def server(nursery: trio.Nursery) -> Server:
    made = Server()
    serve = functools.partial(trio.serve_tcp, made.handle, 0, host="127.0.0.1")
    (listener,) = await nursery.start(serve)
    made.port = listener.socket.getsockname()[1]
    return made


@pytest.fixture
def reply() -> type[Reply]:
    """The type of what the server answers."""
    return Reply


@pytest.fixture
async def transport() -> AsyncIterator[Transport]:
    made = Transport()
    yield made
    await made.aclose()


@pytest.fixture
def stream_of() -> Callable[[str], bytes]:
    """Give a recorded stream by name."""
    return lambda name: (STREAMS / f"{name}.sse").read_bytes()


@pytest.fixture
def free_port() -> Iterator[int]:
    """A port on which nothing listens, and nobody else can."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
