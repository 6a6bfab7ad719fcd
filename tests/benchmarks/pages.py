"""What a user waits for when a large page is fetched and made readable, and how long the loop is
held meanwhile.

Run: ``python tests/benchmarks/pages.py [PAGE.html ...]``. Each kind is 4 MB of HTML; a page that is
named is repeated up to 4 MB. Times are by the clock, the least of some rounds, gaps the median.

- *fetched*: ``web_fetch`` up to its first part, the network included: from a server on loopback, in
  a process of its own, that answers at once, and from one that answers after 50 ms, as a near site
  does. The process that reads the page starts meanwhile. *Network* is the same fetch alone; *beyond
  it* is the difference.
- *at hand*: the first part of a page that is there already, the start of the process included, as
  for who reads on.
- *to its end*: the whole page, read at once.
- *gap*: the longest time for which a task on the loop, which wants to run each millisecond, could
  not.

Bars: the first part < 200 ms beyond the network, and the loop free. Some kinds are made to keep a
parser busy without end: they are given up after a time, and the loop is free meanwhile.
"""

import gc
import html
import math
import os
import random
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote, unquote

import trio
from hilum import ToolError
from hilum.processes import Processes, Warden
from hilum_web.fetching import Fetcher, Page
from hilum_web.reader_process import convert_page, open_reader
from hilum_web.settings import WebSettings

SIZE = 4_000_000
LIMIT = 30_000
ROUNDS = 5
GIVEN_UP = 3.0
LATE = 50
WORDS = Path(__file__).read_text().split()


def words(pick: random.Random, count: int) -> str:
    """Give some words as HTML has them."""
    return html.escape(" ".join(pick.choices(WORDS, k=count)))


def filled(unit, head: str = "", tail: str = "") -> str:
    """Repeat a unit, made anew each time, up to the size."""
    pick, parts, size, number = random.Random(7), [head], len(head) + len(tail), 0
    while size < SIZE:
        parts.append(unit(pick, number))
        size += len(parts[-1])
        number += 1
    return "".join([*parts, tail])


def row(pick: random.Random, number: int) -> str:
    """A row of a table."""
    link = f"<a href='/x/{number}'>{words(pick, 3)}</a>"
    return f"<tr><td>{number}</td><td>{link}</td><td><code>{words(pick, 2)}</code></td></tr>"


def paragraph(pick: random.Random, number: int) -> str:
    """A small paragraph."""
    return f"<p>{words(pick, 8)} <a href='p{number}.html'>{words(pick, 2)}</a> <em>{words(pick, 1)}</em>.</p>\n"


def entry(pick: random.Random, number: int) -> str:
    """An entry of an API's reference, as documentation has it."""
    return (
        f"<section id='f{number}'><h3>name_{number}<a class='headerlink' href='#f{number}'>¶</a></h3>"
        f"<dl class='py function'><dt class='sig'><code>name_{number}(a, b=None)</code></dt><dd><p>{words(pick, 40)}</p>"
        f"<div class='highlight'><pre><span class='k'>def</span> <span class='nf'>f</span>():\n    {words(pick, 10)}\n</pre>"
        "</div>"
        f"<ul><li><p>{words(pick, 9)}</p></li><li><p>{words(pick, 7)}</p></li></ul></dd></dl></section>\n"
    )


def script(pick: random.Random, number: int) -> str:
    """Much that nobody reads, round a paragraph."""
    return (
        f"<script>var x{number} = '{words(pick, 150)}';</script><style>.c{number} {{ margin: 0 }}\n{'a{b:c}' * 100}</style>"
        f"<svg><path d='{'M0 0 L1 1 ' * 60}'/></svg><p>{words(pick, 20)}</p>\n"
    )


def marked(pick: random.Random, number: int) -> str:
    """A line of code in which every word is marked."""
    return "".join(f"<span class='n'>{words(pick, 1)}</span> " for _ in range(8)) + "\n"


def kinds() -> dict[str, str]:
    """Give a page of each kind."""
    start, end = "<!doctype html><html><head><title>T</title></head><body>", "</body></html>"
    deep = SIZE // 11
    return {
        "one table": filled(row, f"{start}<main><table><thead><tr><th>a<th>b<th>c</tr></thead>", f"</table></main>{end}"),
        "small paragraphs": filled(paragraph, f"{start}<main>", f"</main>{end}"),
        "an API's reference": filled(entry, f"{start}<nav>n</nav><main>", f"</main>{end}"),
        "no main content named": filled(entry, f"{start}<div><div>", f"</div></div>{end}"),
        "scripts, styles, drawings": filled(script, f"{start}<main>", f"</main>{end}"),
        "one block of code": filled(marked, f"{start}<main><pre><code>", f"</code></pre></main>{end}"),
        "one line without end": filled(lambda pick, _: words(pick, 50) + " ", f"{start}<p>", f"</p>{end}"),
        "one list": filled(lambda pick, _: f"<li>{words(pick, 6)}\n", f"{start}<main><ul>", f"</ul></main>{end}"),
        "links alone": filled(lambda pick, n: f"<a href='/{n}'>{words(pick, 2)}</a> ", f"{start}<main>", f"</main>{end}"),
        "nested deeply": f"{start}{'<div>' * deep}x{'</div>' * deep}{end}",
        "lists in lists": filled(lambda pick, n: "<ul><li>" * 40 + words(pick, 60) + "</ul>" * 40, start, end),
        "never closed": filled(lambda pick, n: f"<b><i><font><p>{words(pick, 3)}", start, ""),
        "tables in tables": f"{start}{'<table><tr><td>' * (SIZE // 30)}x{end}",
    }  # fmt: skip


def serve(folder: str) -> None:
    """Serve the pages of a folder: ``/MS/NAME`` is answered after so many milliseconds.

    Writes its port first.
    """
    bodies = {path.name: path.read_bytes() for path in Path(folder).iterdir()}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            _, late, name = unquote(self.path).split("/")
            body = bodies[name]
            time.sleep(int(late) / 1e3)
            self.send_response(200)
            self.send_header("content-type", "text/html; charset=utf-8")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        print(server.server_port, flush=True)
        server.serve_forever()


async def timed(work: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """Do something: how long it took, no number where it was given up, and the loop's longest gap.

    In ms.
    """
    gc.collect()
    async with trio.open_nursery() as nursery:
        gaps: list[float] = []
        nursery.start_soon(tick, gaps)
        await trio.sleep(0.005)
        gaps.clear()
        wall = time.perf_counter()
        try:
            await work()
            wall = time.perf_counter() - wall
        except ToolError:
            wall = math.nan
        await trio.sleep(0.003)
        nursery.cancel_scope.cancel()
    return wall * 1e3, max(gaps, default=0.0) * 1e3


async def read(processes: Processes, page: Page, start: int) -> None:
    """Make a page that is at hand readable."""
    async with open_reader(processes) as reader:
        await convert_page(reader, page, "html", "", start, LIMIT, GIVEN_UP)


async def fetch(processes: Processes, url: str, host: str, reading: bool) -> None:
    """Fetch a page; make its first part readable, as ``web_fetch`` does."""
    fetcher = Fetcher(WebSettings(hosts=[host], robots=False))
    async with open_reader(processes) as reader:
        page = await fetcher.fetch(url, before_request=reader.start if reading else None)
        if reading:
            await convert_page(reader, page, "html", "", 0, LIMIT, GIVEN_UP)
    await fetcher.aclose()


async def measure(
    processes: Processes, host: str, name: str, text: str
) -> list[tuple[float, float]]:
    """Time a page once in each way, but to its end."""
    rows = []
    for late in (0, LATE):
        url = f"http://{host}/{late}/{quote(name)}"
        rows += [
            await timed(partial(fetch, processes, url, host, reading)) for reading in (True, False)
        ]
    return [*rows, await timed(partial(read, processes, at_hand(text), 0))]


def at_hand(text: str) -> Page:
    """Give a page that was fetched."""
    return Page("https://docs.example/page.html", text.encode(), "text/html; charset=utf-8")


async def tick(gaps: list[float]) -> None:
    """Note how long after its time a task runs."""
    while True:
        begun = time.perf_counter()
        await trio.sleep(0.001)
        gaps.append(time.perf_counter() - begun - 0.001)


async def run(pages: dict[str, str]) -> None:
    """Print a row for each kind."""

    async def plain(command):
        return command

    with TemporaryDirectory() as folder:
        for name, text in pages.items():
            (Path(folder) / name).write_text(text)
        async with Warden() as warden:
            processes = Processes(warden, plain, os.getcwd())
            async with processes.open([sys.executable, __file__, "--serve", folder]) as server:
                host = f"127.0.0.1:{int(await server.stdout.receive_some())}"
                name = "small paragraphs"
                await measure(processes, host, name, pages[name])  # what is imported at first use
                print(f"{'':28}{'fetched,':>10}{'':9}{f'after {LATE} ms:':>12}{'':9}{'beyond':>9}{'':6}{'at':>9}{'':6}"
                      f"{'to its':>10}")  # fmt: skip
                print(f"{'4 MB of; ms':28}{'at once':>10}{'network':>9}{'fetched':>12}{'network':>9}{'it':>9}{'gap':>6}"
                      f"{'hand':>9}{'gap':>6}{'end':>10}{'gap':>6}")  # fmt: skip
                for name, text in pages.items():
                    runs = [await measure(processes, host, name, text) for _ in range(ROUNDS)]
                    end = await timed(partial(read, processes, at_hand(text), 1 << 40))
                    show(name, [*zip(*runs, strict=True), [end]])


def show(name: str, ways: list[Sequence[tuple[float, float]]]) -> None:
    """Print the row of a kind."""
    soon, net, late, far, hand, end = (min(wall for wall, _ in way) for way in ways)
    _, _, gap, _, gap2, gap3 = (statistics.median(gap for _, gap in way) for way in ways)

    def shown(ms: float) -> str:
        return "given up" if math.isnan(ms) else f"{ms:.0f}"

    print(f"{name[:27]:28}{shown(soon):>10}{shown(net):>9}{shown(late):>12}{shown(far):>9}{shown(late - far):>9}{gap:6.1f}"
          f"{shown(hand):>9}{gap2:6.1f}{shown(end):>10}{gap3:6.1f}", flush=True)  # fmt: skip


def main() -> None:
    """Serve, or measure."""
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2])
        return
    pages = kinds()
    for name in sys.argv[1:]:
        text = Path(name).read_text(errors="replace")
        pages[Path(name).name] = text * max(1, SIZE // max(1, len(text)))
    trio.run(run, pages)


if __name__ == "__main__":
    main()
