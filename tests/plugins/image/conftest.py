"""A server on loopback that speaks the formats of OpenAI's images and of Stable Diffusion's web
API.
"""

import base64
import json
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import attrs
import hilum_files
import hilum_image
import pytest
from hilum.messages import ToolResult
from hilum.testing import open_bench


def png(width: int = 8, height: int = 8, *, alpha: bool = False) -> bytes:
    """A real PNG, all black; or transparent."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    rows = zlib.compress(
        b"".join(b"\0" + b"\0" * (4 if alpha else 3) * width for _ in range(height))
    )
    head = struct.pack(">IIBBBBB", width, height, 8, 6 if alpha else 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@attrs.define
class Asked:
    """A request that came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.body)


@attrs.define
class Painter:
    """The server.

    Attributes:
        url: Where it is.
        answers: By path: status and answer; bytes are sent as they are.
        asked: What came, in order.
        moved: By path: where it is now.
        headers: By path: further headers.
        waits: By path: an event that the answer waits for.
        came: Set with each request, by path.
    """

    url: str = ""
    answers: dict[str, tuple[int, Any]] = attrs.field(factory=dict)
    asked: list[Asked] = attrs.field(factory=list)
    moved: dict[str, str] = attrs.field(factory=dict)
    headers: dict[str, dict[str, str]] = attrs.field(factory=dict)
    waits: dict[str, threading.Event] = attrs.field(factory=dict)
    came: dict[str, threading.Event] = attrs.field(factory=dict)

    def at(self, path: str) -> list[Asked]:
        return [each for each in self.asked if each.path.partition("?")[0] == path]

    def arrival(self, path: str) -> threading.Event:
        return self.came.setdefault(path, threading.Event())


def serve(painter: Painter) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            painter.asked.append(
                Asked(
                    self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body
                )
            )
            path = self.path.partition("?")[0]
            painter.arrival(path).set()
            if path in painter.waits:
                painter.waits[path].wait(30)
            if path in painter.moved:
                self.send_response(307)
                self.send_header("location", painter.moved[path])
                self.send_header("content-length", "0")
                self.end_headers()
                return
            status, answer = painter.answers.get(path, (404, {"detail": "Not Found"}))
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            for name, value in painter.headers.get(path, {}).items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(ConnectionError):  # who has heard enough hangs up
                self.wfile.write(data)

        do_GET = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)


@pytest.fixture
def painter() -> Iterator[Painter]:
    painter = Painter()
    server = serve(painter)
    server.daemon_threads = True
    painter.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield painter
    for event in painter.waits.values():
        event.set()
    server.shutdown()
    thread.join()
    server.server_close()


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.fixture
def draw(painter: Painter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Call the tool through the real loop, in ``tmp_path / "proj"``."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (tmp_path / "proj").mkdir()
    count = iter(range(100))

    async def draw(settings: dict[str, Any], **arguments: Any) -> ToolResult:
        async with open_bench(
            hilum_files, hilum_image, workspace=tmp_path / "proj", folder=tmp_path / f"bench{next(count)}",
            settings={"approve": "auto", "image": settings},
        ) as bench:  # fmt: skip
            return await bench.call("generate_image", **{"description": "a red dot", **arguments})

    return draw
