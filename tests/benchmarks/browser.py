"""A real browser on a local page: from a cold start, and navigate, type, click, read and screenshot once it runs.

``python tests/benchmarks/browser.py`` prints medians and the worst of some rounds, and how long its end takes.
Needs Playwright and Chromium.
"""

import statistics
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import hilum_browser
import hilum_files
import hilum_guard
import trio
from hilum.testing import Bench, open_bench

ROUNDS = 10
PAGE = b"<input id=i><button onclick=\"o.textContent = 'got ' + i.value\">Go</button><p id=o></p>"


class Handler(BaseHTTPRequestHandler):
    """Serves the page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_: Any) -> None:
        pass


async def work(bench: Bench, url: str, number: int) -> float:
    """One round; gives its seconds."""
    began = time.perf_counter()
    for step in (
        {"action": "navigate", "url": url},
        {"action": "type", "selector": "#i", "text": str(number)},
        {"action": "click", "selector": "button"},
        {"action": "get_text", "selector": "#o"},
        {"action": "screenshot", "path": f"{number}.png"},
    ):
        result = await bench.call("browser_use", **step)
        assert not result.code, result.text
        assert step["action"] != "get_text" or result.text == f"got {number}", result.text
    return time.perf_counter() - began


async def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://localhost:{server.server_port}/"
    async with open_bench(hilum_files, hilum_guard, hilum_browser, patience=90) as bench:
        starts, ends = [], []
        for _ in range(3):
            began = time.perf_counter()
            await bench.call("browser_use", action="navigate", url=url)
            starts.append(time.perf_counter() - began)
            began = time.perf_counter()
            await bench.call("browser_use", action="close")
            ends.append(time.perf_counter() - began)
        await bench.call("browser_use", action="navigate", url=url)
        rounds = [await work(bench, url, number) for number in range(ROUNDS)]
    for what, seconds in (
        ("start and first page", starts),
        ("the five actions", rounds),
        ("close, to no process", ends),
    ):
        print(f"{what:22} median {statistics.median(seconds):.2f} s, worst {max(seconds):.2f} s")


if __name__ == "__main__":
    trio.run(main)
