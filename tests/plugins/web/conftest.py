"""Sites on loopback that the tests start, and the tools called through the real loop."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import attrs
import hilum_web
import pytest
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
        self, path: str, text: str | bytes, kind: str = "text/html; charset=utf-8", status: int = 200, **headers: str
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
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
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
