"""How smooth the page of ``hilum serve`` is, and how soon it appears.

``python tests/benchmarks/page.py`` opens a session with 10,000 entries in Chromium at 1,280 x 900.
It prints the longest frame in milliseconds while the view follows an answer that streams 50 pieces a
second, while the user scrolls at the same time, and while the view jumps to random places; each takes
five seconds. All entries are loaded before. The bar is no frame above 50 ms. Another page has loaded
only the newest entries and searches for a text in the first one: the longest frame until it is shown,
and the time of the server's part for a text that is in every fourth entry, without the page. It also
prints the time of the first paint (bar: 300 ms) and the compressed size of the page (bar: 250 KB).
"""

import gzip
import random
import sys
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

import hilum_serve
from hilum_serve.api.searching import compile_query, search_entries
from playwright.sync_api import Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parent.parent / "plugins" / "serve" / "page"))
from fake_server import FakeServer, convert_entry
from samples import answer, card, prompt, result

ENTRIES = 10_000
SECONDS = 5.0
INTERVAL = 0.02
START = """() => {
    window.frameTimes = [];
    let last = performance.now();
    window.measuring = true;
    const tick = (now) => {
        window.frameTimes.push(now - last);
        last = now;
        if (window.measuring) requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
}"""
STOP = "() => { window.measuring = false; return window.frameTimes.slice(2); }"


def fill(server: FakeServer) -> None:
    """Give the server's session its entries."""
    for number in range(ENTRIES // 4):
        first = 4 * number
        text = f"I look at **file {number}**.\n\n- one\n- two\n\n```python\nprint({number})\n```\n"
        server.entries += [
            prompt(first, f"Prompt {number}: please look at file number {number}."),
            answer(first + 1, text, calls=1),
            card(first + 2, "read_file", {"path": f"{number}.py"}, result=result("text\n" * 5)),
            answer(first + 3, f"Nothing is wrong in file {number}. " * 6),
        ]
    server.seq = ENTRIES


def measure(server: FakeServer, page: Page, what: str, sent: int) -> int:
    """Stream, and scroll or jump meanwhile; print the frames. Returns the length of the text."""
    chooser = random.Random(1)
    page.evaluate(START)
    end = time.monotonic() + SECONDS
    number = 0
    while time.monotonic() < end:
        piece = "words and more words " if number % 4 else "with `code` and **more**.\n\n"
        element: dict[str, Any] = {"type": "text", "seq": 1, "entry": ENTRIES, "field": "text"}
        server.push({**element, "at": sent, "add": piece})
        sent += len(piece)
        number += 1
        if what == "scrolling":
            page.mouse.wheel(0, -300 if number % 100 < 50 else 300)
        elif what == "jumping" and number % 10 == 0:
            share = chooser.random()
            page.evaluate(
                "share => { const s = document.querySelector('.scroller');"
                " s.scrollTop = s.scrollHeight * share; }",
                share,
            )
        time.sleep(INTERVAL)
    frames = page.evaluate(STOP)
    slow = sum(frame > 50 for frame in frames)
    print(f"{what}: longest frame {max(frames):.0f} ms, {slow} of {len(frames)} above 50 ms")
    return sent


def measure_search(server: FakeServer, page: Page) -> None:
    """Search for a text in an entry that is not loaded; print the time and the longest frame."""
    for query in ("number 0", "file number"):
        page.goto("about:blank")
        page.goto(server.session_url)
        page.get_by_text("Nothing is wrong in file").first.wait_for()
        page.wait_for_timeout(500)
        page.evaluate(START)
        page.keyboard.press("Control+f")
        began = time.monotonic()
        page.keyboard.insert_text(query)
        # The policy of the page forbids Playwright's own waiting for an expression.
        while not page.evaluate("CSS.highlights.get('found-current')?.size"):
            page.wait_for_timeout(10)
        shown = time.monotonic() - began
        page.wait_for_timeout(1_000)
        frames = page.evaluate(STOP)
        count = page.locator(".find-count").inner_text().strip()
        slow = sum(frame > 50 for frame in frames)
        print(
            f"search for {query!r} ({count}): shown after {shown:.2f} s, longest frame"
            f" {max(frames):.0f} ms, {slow} of {len(frames)} above 50 ms"
        )


def measure_server_search(server: FakeServer) -> None:
    """Search all entries without the page; print the time of all requests and of the longest one."""
    entries = [convert_entry(each) for each in server.entries]
    for query in ("number 0", "file number", "not there"):
        pattern = compile_query(query)
        times = []
        found = 0
        before = len(entries)
        while True:
            began = time.perf_counter()
            hits, before = search_entries(entries[:before], pattern, 500)
            times.append(time.perf_counter() - began)
            found += len(hits)
            if not before:
                break
        print(
            f"search of the server for {query!r}: {found} hits in {1000 * sum(times):.0f} ms,"
            f" {len(times)} requests, longest {1000 * max(times):.0f} ms"
        )


def main() -> None:
    """Print all figures."""
    server = FakeServer()
    fill(server)
    server.start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(server.session_url)
        page.get_by_text("Nothing is wrong in file").first.wait_for()
        paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        print(f"first paint: {paint:.0f} ms")
        while int(page.locator(".row").first.get_attribute("aria-setsize") or 0) < ENTRIES:
            page.evaluate("document.querySelector('.scroller').scrollTop = 0")
            page.wait_for_timeout(20)
        page.evaluate("document.querySelector('.scroller').scrollTop = 1e9")
        server.add(answer(ENTRIES, "", state="streaming"))
        page.wait_for_timeout(500)
        page.mouse.move(600, 400)
        sent = 0
        for what in ("following", "scrolling", "jumping"):
            sent = measure(server, page, what, sent)
        measure_search(server, browser.new_page(viewport={"width": 1280, "height": 900}))
        browser.close()
    server.stop()
    measure_server_search(server)
    weight = sum(
        len(gzip.compress(path.read_bytes(), 9))
        for path in Path(str(files(hilum_serve) / "page")).rglob("*")
        if path.suffix in (".js", ".css", ".html", ".svg")
    )
    print(f"compressed size: {weight:,} bytes")


if __name__ == "__main__":
    main()
