"""Pages on loopback, and a real Chromium that many tests share."""

import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import attrs
import hilum_browser
import hilum_files
import hilum_guard
import pytest
import trio
from hilum.events import CallDone
from hilum.messages import ToolResult
from hilum.testing import Bench, open_bench, say, use
from hilum_browser import installation

MARK = f"{os.getpid()}-{time.time()}"
"""In the environment of this process's browsers, to know them by."""
needs_browser = pytest.mark.skipif(
    not (installation.has_playwright() and installation.find_chromium()),
    reason="needs Playwright (a development dependency) and Chromium (Debian: apt install chromium)",
)
HTML = {"content-type": "text/html; charset=utf-8"}
Route = Callable[["Site"], tuple[int, dict[str, str], bytes]]


@attrs.define
class Site:
    """A web server.

    Attributes:
        port: Where it is, on 127.0.0.1.
        pages: Bodies by path; a function gives status, headers and body.
        asked: Method and path of what came.
        bodies: What came with it.
    """

    port: int = 0
    pages: dict[str, str | Route] = attrs.field(factory=dict)
    asked: list[str] = attrs.field(factory=list)
    bodies: list[bytes] = attrs.field(factory=list)

    def url(self, path: str = "/", host: str = "localhost") -> str:
        return f"http://{host}:{self.port}{path}"


@contextmanager
def serving(site: Site) -> Iterator[Site]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            path = self.path.partition("?")[0]
            site.asked.append(f"{self.command} {self.path}")
            site.bodies.append(body)
            page = site.pages.get(path)
            if page is None:
                status, headers, data = 404, HTML, b"<title>Nothing</title>nothing is here"
            elif isinstance(page, str):
                status, headers, data = 200, HTML, page.encode()
            else:
                status, headers, data = page(site)
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    site.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="package")
def _site() -> Iterator[Site]:
    with serving(Site()) as site:
        yield site


@pytest.fixture
def site(_site: Site) -> Site:
    """A server without pages."""
    _site.pages.clear()
    _site.asked.clear()
    _site.bodies.clear()
    return _site


@attrs.define
class Browser:
    """The tool of a session that lives in a thread of its own, so that many tests can share its
    browser.
    """

    bench: Bench
    token: trio.lowlevel.TrioToken
    threads: ThreadPoolExecutor = attrs.field(factory=ThreadPoolExecutor)

    def __call__(self, action: str, **arguments: Any) -> ToolResult:
        async def call() -> ToolResult:
            # The user names the address: a host that nobody named would be asked about.
            self.bench.model.next(use("browser_use", action=action, **arguments), say("Done."))
            seen = len(self.bench.events)
            await self.bench.run(f"Look at {arguments.get('url', 'it')} .")
            return next(
                event.result for event in self.bench.events[seen:] if isinstance(event, CallDone)
            )

        return trio.from_thread.run(call, trio_token=self.token)

    def begin(self, action: str, **arguments: Any) -> "Future[ToolResult]":
        """Begin an action in a thread of its own."""
        return self.threads.submit(self, action, **arguments)

    def run(self, what: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        """Run something in the session's thread."""
        return trio.from_thread.run(what, *arguments, trio_token=self.token)

    def do(self, what: Callable[[], Any]) -> Any:
        """Have something done in the session's thread."""
        return trio.from_thread.run_sync(what, trio_token=self.token)

    def text(self, action: str, **arguments: Any) -> str:
        """What the action says; it must succeed."""
        result = self(action, **arguments)
        assert not result.code, result.text
        return result.text

    @property
    def workspace(self) -> Path:
        return self.bench.workspace


PLUGINS = (hilum_files, hilum_guard, hilum_browser)
ENVIRONMENT = {"BROWSER_TEST_MARK": MARK}
# The tests' own sites are services of the user's, which they have agreed to.
OWN = ["localhost", "127.0.0.1", "[::1]", "app.localhost", "127.1.2.3", "[::ffff:127.0.0.1]"]
SETTINGS = {
    "browser": {
        "timeout": 2.0,
        "page_timeout": 4.0,
        "max_download": 1,
        "hosts": ["listed.test:80", *OWN],
    }
}


@pytest.fixture(scope="package")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One session for all tests, in the sandbox of this system.

    Its browser is left running, for the next test.
    """
    with browsing(
        tmp_path_factory.mktemp("bench"), *PLUGINS, settings=SETTINGS, environ=ENVIRONMENT
    ) as browser:
        yield browser


@contextmanager
def browsing(folder: Path, *plugins: object, **options: Any) -> Iterator[Browser]:
    """A session in a thread of its own."""
    opened: list[Browser] = []
    ready, stop = threading.Event(), trio.Event()

    async def hold() -> None:
        async with open_bench(*plugins, folder=folder, patience=90, **options) as bench:
            opened.append(Browser(bench, trio.lowlevel.current_trio_token()))
            ready.set()
            await stop.wait()

    def run() -> None:
        try:
            trio.run(hold)
        finally:
            ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait(60)
    try:
        yield opened[0]
    finally:
        opened[0].token.run_sync_soon(stop.set)
        thread.join()
        opened[0].threads.shutdown()
