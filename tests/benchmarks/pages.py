"""What it costs to make large pages readable, and how long the loop is held meanwhile.

Run: ``python tests/benchmarks/pages.py [PAGE.html ...]``. Each kind is 4 MB of HTML; a page that is named is repeated up to
4 MB. Measured: the first part, as ``web_fetch`` gives it, and the page to its end, read at once; by the clock, the start of the
process that reads it included; and the longest time for which a task on the loop, which wants to run each millisecond, could
not. Bars: the first part < 200 ms, and the loop free. Some kinds are made to keep a parser busy without end: they are given up
after a time, and the loop is free meanwhile.
"""

import gc
import html
import math
import os
import random
import statistics
import sys
import time
from functools import partial
from pathlib import Path

import trio
from hilum import ToolError
from hilum_warden import Processes, Warden
from hilum_web.converting import readable
from hilum_web.fetching import Page

SIZE = 4_000_000
LIMIT = 30_000
ROUNDS = 3
GIVEN_UP = 3.0
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


async def measure(text: str) -> tuple[list[float], list[float]]:
    """Read the first part, then to the end: by the clock, and the loop's longest gap; in ms."""
    page = Page("https://docs.example/page.html", text.encode(), "text/html; charset=utf-8")

    async def plain(command):
        return command

    rows = []
    async with Warden() as warden:
        processes = Processes(warden, plain, os.getcwd())
        await processes.run([sys.executable, "-I", "-S", "-c", ""])
        for start in (0, 1 << 40):
            gc.collect()
            async with trio.open_nursery() as nursery:
                gaps: list[float] = []
                nursery.start_soon(tick, gaps)
                await trio.sleep(0.005)
                gaps.clear()
                wall = time.perf_counter()
                try:
                    await readable(processes, page, "html", "", start, LIMIT, GIVEN_UP)
                except ToolError:
                    wall = math.nan
                wall = time.perf_counter() - wall
                await trio.sleep(0.003)
                nursery.cancel_scope.cancel()
            rows.append([wall * 1e3, max(gaps, default=0.0) * 1e3])
    return rows[0], rows[1]


async def tick(gaps: list[float]) -> None:
    """Note how long after its time a task runs."""
    while True:
        begun = time.perf_counter()
        await trio.sleep(0.001)
        gaps.append(time.perf_counter() - begun - 0.001)


def main() -> None:
    """Print a row for each kind."""
    pages = kinds()
    for name in sys.argv[1:]:
        text = Path(name).read_text(errors="replace")
        pages[Path(name).name] = text * max(1, SIZE // max(1, len(text)))
    trio.run(measure, pages["small paragraphs"])  # what is imported at first use
    print(f"{'4 MB of':28}{'first part: ms':>15}{'gap':>7}{'to its end: ms':>18}{'gap':>7}")
    for name, text in pages.items():
        runs = [trio.run(partial(measure, text)) for _ in range(ROUNDS)]
        first, rest = ([statistics.median(run[part][n] for run in runs) for n in range(2)] for part in (0, 1))
        shown = ["given up" if math.isnan(each[0]) else f"{each[0]:.0f}" for each in (first, rest)]
        print(f"{name[:27]:28}{shown[0]:>15}{first[1]:7.1f}{shown[1]:>18}{rest[1]:7.1f}", flush=True)


if __name__ == "__main__":
    main()
