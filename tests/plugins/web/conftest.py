"""Sites on loopback that the tests start, the tools called through the real loop, and a recorded
network.
"""

import errno
import json
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import attrs
import hilum_web
import pytest
import trio
from hilum.messages import ToolResult
from hilum.testing import open_bench

Answer = tuple[int, dict[str, str], bytes]


@attrs.define
class Site:
    """A site.

    Attributes:
        url: Where it is.
        pages: By path: what it answers, or a function of the handler that answers.
        asked: Path and headers of each request.
    """

    url: str = ""
    pages: dict[str, Answer | Callable[[BaseHTTPRequestHandler], None]] = attrs.field(factory=dict)
    asked: list[tuple[str, dict[str, str], bytes]] = attrs.field(factory=list)

    @property
    def host(self) -> str:
        return self.url.removeprefix("http://")

    def page(
        self,
        path: str,
        text: str | bytes,
        kind: str = "text/html; charset=utf-8",
        status: int = 200,
        **headers: str,
    ) -> str:
        body = text.encode() if isinstance(text, str) else text
        self.pages[path] = (
            status,
            {"content-type": kind, **{k.replace("_", "-"): v for k, v in headers.items()}},
            body,
        )
        return self.url + path

    def json(self, path: str, data: Any, status: int = 200) -> str:
        return self.page(path, json.dumps(data), "application/json", status)

    def redirect(self, path: str, to: str, status: int = 302) -> str:
        return self.page(path, "", status=status, location=to)

    def at(self, path: str) -> list[dict[str, str]]:
        return [headers for asked, headers, _ in self.asked if asked.partition("?")[0] == path]


def _serve(site: Site) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            site.asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            found = site.pages.get(self.path) or site.pages.get(self.path.partition("?")[0])
            if callable(found):
                return found(self)
            status, headers, answer = found or (404, {}, b"nothing here")
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if "content-length" not in headers:
                self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    return server


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    server = _serve(site)
    site.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield site
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def tool(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Call tools by name in one session; the site may be fetched."""
    for name in (
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
    ):
        monkeypatch.delenv(name, raising=False)

    async def tool(*calls: tuple[str, dict[str, Any]], **settings: Any) -> list[ToolResult]:
        settings = {"hosts": [site.host], **settings}
        async with open_bench(
            hilum_web, folder=tmp_path / "bench", settings={"approve": "auto", "web": settings}
        ) as bench:
            return [await bench.call(name, **arguments) for name, arguments in calls]

    return tool


@pytest.fixture
def fetch(tool: Any) -> Any:
    async def fetch(url: str, start: int = 0, **settings: Any) -> ToolResult:
        return (await tool(("web_fetch", {"url": url, "start": start}), **settings))[0]

    return fetch


PUBLIC, PUBLIC6, OTHER = "93.184.215.14", "2606:4700::1111", "140.82.112.3"


class Network(trio.abc.HostnameResolver):
    """What the tests' world is made of.

    Attributes:
        names: For each name its answers, one for each time it is asked for; the last one stays.
        asked: The names that were asked for.
        connects: Every address and port that a TCP socket was told to connect to.
        served: Host and path of each request that a server got, and the number of its connection.
        hosts: Addresses at which a server listens; everything else refuses.
        headers: The raw head of each request.
    """

    def __init__(self):
        self.names, self.asked, self.connects, self.served, self.headers = {}, [], [], [], []
        self.hosts = {PUBLIC, PUBLIC6, OTHER}
        self.port, self.count = 0, 0

    async def getaddrinfo(self, host, port, family=0, type=0, proto=0, flags=0):
        name = host.decode() if isinstance(host, bytes) else host
        self.asked.append(name)
        await trio.lowlevel.checkpoint()
        answers = self.names.get(name, [[PUBLIC]] if name.endswith(".example") else [[]])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if not answer:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [
            (
                socket.AF_INET6 if ":" in each else socket.AF_INET,
                socket.SOCK_STREAM,
                6,
                "",
                (each, port or 0),
            )
            for each in answer
        ]

    async def getnameinfo(self, sockaddr, flags):
        raise AssertionError("nobody asks for the name of an address")

    def connect(self, real, sock, address):
        """Take the place of ``socket.connect``: a public address is our server, all others
        refuse.
        """
        if sock.type != socket.SOCK_STREAM or sock.family not in (socket.AF_INET, socket.AF_INET6):
            return real(sock, address)
        self.connects.append((address[0], address[1]))
        if address[0] not in self.hosts:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")
        if sock.family == socket.AF_INET6:
            return real(sock, ("::ffff:127.0.0.1", self.port))
        return real(sock, ("127.0.0.1", self.port))

    async def serve(self, stream):
        """Answer HTTP/1.1: ``/to/STATUS/URL`` redirects, ``/refresh/URL`` too, by a header.

        ``/close`` hangs up.
        """
        self.count += 1
        number, data = self.count, b""
        async with stream:
            while True:
                while b"\r\n\r\n" not in data:
                    if not (chunk := await stream.receive_some(65536)):
                        return
                    data += chunk
                head, _, data = data.partition(b"\r\n\r\n")
                lines = head.decode("latin-1").split("\r\n")
                path = lines[0].split(" ")[1]
                fields = {
                    line.partition(":")[0].lower(): line.partition(":")[2].strip()
                    for line in lines[1:]
                }
                while len(data) < int(fields.get("content-length", 0)):
                    data += await stream.receive_some(65536)
                data = data[int(fields.get("content-length", 0)) :]
                self.served.append((fields["host"], path, number))
                self.headers.append(fields)
                status, more = "200 OK", ""
                if path.startswith("/to/"):
                    _, _, status, where = path.split("/", 3)
                    status, more = f"{status} Moved", f"Location: {where}\r\n"
                elif path.startswith("/refresh/"):
                    more = f"Refresh: 0;url={path[9:]}\r\n"
                if path == "/close":
                    more = "Connection: close\r\n"
                await stream.send_all(
                    f"HTTP/1.1 {status}\r\n{more}Content-Length: 5\r\n\r\nhello".encode("latin-1")
                )
                if path == "/close":
                    return

    @property
    def forbidden(self):
        """The connects to anything but the public addresses."""
        return [each for each in self.connects if each[0] not in (PUBLIC, PUBLIC6, OTHER)]


@pytest.fixture
async def network(monkeypatch, nursery):
    """A network of one's own."""
    made = Network()
    listener = await nursery.start(partial(trio.serve_tcp, made.serve, 0, host="127.0.0.1"))
    made.port = listener[0].socket.getsockname()[1]
    real = socket.socket.connect
    monkeypatch.setattr(
        socket.socket, "connect", lambda sock, address: made.connect(real, sock, address)
    )
    trio.socket.set_custom_hostname_resolver(made)
    yield made
    nursery.cancel_scope.cancel()
