"""A real browser on a local page, from a cold start and once it runs.

It navigates, types, clicks, reads and takes screenshots.

``python tests/benchmarks/browser.py`` prints medians and the worst of some rounds, how long its end
takes, and how many processes are left then; it fails where a bar is missed.
``--long 100`` does a hundred rounds of ten actions, with a new tab and a dialog in each, and prints
at every fifth of it the seconds of a round and the megabytes of each process: neither may grow.
Needs Playwright and Chromium.
"""

import argparse
import os
import statistics
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import hilum_browser
import hilum_files
import hilum_guard
import trio
from hilum.testing import Bench, open_bench

ROUNDS = 10
MOST_SECONDS = 2.0
PAGE = (
    b"<input id=i><button onclick=\"o.textContent = 'got ' + i.value\">Go</button><p id=o></p>"
    b"<a href=/ target=_blank>New</a> <p onclick='console.log(confirm(1))'>Ask</p>"
)


class Handler(BaseHTTPRequestHandler):
    """Serves the page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(PAGE)))
        self.end_headers()
        with suppress(OSError):  # its tab is closed already
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


async def work_long(bench: Bench, url: str, rounds: int, mark: dict[str, str]) -> None:
    """Work for long, and print how time and memory go on."""
    taken: list[float] = []
    for number in range(rounds):
        began = time.perf_counter()
        await work(bench, url, number % 10)
        for step in (
            {"action": "click", "selector": "text=New"},
            {"action": "close", "tab": 2},
            {"action": "click", "selector": "text=Ask"},
            {"action": "snapshot"},
            {"action": "console"},
        ):
            result = await bench.call("browser_use", **step)
            assert not result.code, result.text
        taken.append(time.perf_counter() - began)
        if (number + 1) % max(rounds // 5, 1) == 0:
            kinds = ", ".join(
                f"{kind} {megabytes}" for kind, megabytes in sorted(memory(mark).items())
            )
            print(
                f"{number + 1:4} rounds: median {statistics.median(taken):.2f} s; MB: {kinds}",
                flush=True,
            )
            taken.clear()


async def main(long: int) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://localhost:{server.server_port}/"
    mark = {"BROWSER_BENCHMARK": str(os.getpid())}
    async with open_bench(
        hilum_files, hilum_guard, hilum_browser, environ=mark, patience=90
    ) as bench:
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
        if long:
            await work_long(bench, url, long, mark)
            return
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
    """Count the browser's processes."""
    return sum(b"chrom" in command for _, command in processes(mark))


def memory(mark: dict[str, str]) -> dict[str, int]:
    """Give the megabytes of memory of the browser's processes, by kind."""
    found: dict[str, int] = {}
    for pid, command in processes(mark):
        kinds = ("type=renderer", "type=", "run-driver", "driver.main", "remote-debugging-pipe")
        kind = next((kind for kind in kinds if kind.encode() in command), "")
        try:
            with open(f"/proc/{pid}/smaps_rollup") as lines:
                size = (
                    sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) // 1024
                )
        except OSError:
            continue
        if kind:
            found[kind] = found.get(kind, 0) + size
    return found


def processes(mark: dict[str, str]) -> list[tuple[str, bytes]]:
    """Give number and command line of the processes that have the mark in their environment, and of
    what they started.
    """
    [wanted] = [f"{name}={value}".encode() for name, value in mark.items()]
    found, parents = {}, {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with (
                open(f"/proc/{pid}/environ", "rb") as environ,
                open(f"/proc/{pid}/cmdline", "rb") as command,
            ):
                found[pid] = (wanted in environ.read().split(b"\0"), command.read())
            with open(f"/proc/{pid}/stat") as stat:
                parents[pid] = stat.read().rpartition(")")[2].split()[1]
        except OSError:
            continue

    def belongs(pid: str) -> bool:
        return pid in found and (found[pid][0] or belongs(parents.get(pid, "")))

    return [(pid, command) for pid, (_, command) in found.items() if belongs(pid)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", type=int, default=0, help="rounds")
    trio.run(main, parser.parse_args().long)
