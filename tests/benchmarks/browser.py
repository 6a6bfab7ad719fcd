"""A real browser on a local page: from a cold start, and navigate, type, click, read and screenshot once it runs.

``python tests/benchmarks/browser.py`` prints medians and the worst of some rounds, how long its end takes, and how many
processes are left then; it fails where a bar is missed.
Needs Playwright and Chromium.
"""

import os
import statistics
import sys
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
MOST_SECONDS = 2.0
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
    mark = {"BROWSER_BENCHMARK": str(os.getpid())}
    async with open_bench(hilum_files, hilum_guard, hilum_browser, environ=mark, patience=90) as bench:
        starts, ends, left = [], [], 0
        for _ in range(3):
            began = time.perf_counter()
            await bench.call("browser_use", action="navigate", url=url)
            starts.append(time.perf_counter() - began)
            began = time.perf_counter()
            await bench.call("browser_use", action="close")
            ends.append(time.perf_counter() - began)
            left += running(mark)
        await bench.call("browser_use", action="navigate", url=url)
        rounds = [await work(bench, url, number) for number in range(ROUNDS)]
    for what, seconds in (
        ("start and first page", starts),
        ("the five actions", rounds),
        ("close, to no process", ends),
    ):
        print(f"{what:22} median {statistics.median(seconds):.2f} s, worst {max(seconds):.2f} s")
    print(f"{'processes left':22} {left}")
    if left or statistics.median(rounds) > MOST_SECONDS:
        sys.exit(f"Missed: the five actions in {MOST_SECONDS:g} s, and no process left.")


def running(mark: dict[str, str]) -> int:
    """Count the browser's processes, which have the mark in their environment."""
    [wanted] = [f"{name}={value}".encode() for name, value in mark.items()]
    found = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as environ, open(f"/proc/{name}/cmdline", "rb") as command:
                found += wanted in environ.read().split(b"\0") and b"chrom" in command.read()
        except OSError:
            continue
    return found


if __name__ == "__main__":
    trio.run(main)
