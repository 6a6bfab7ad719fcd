"""How smooth the page of ``hilum serve`` is, and how soon it appears.

``python tests/benchmarks/page.py`` opens a session with 10,000 entries in Chromium at 1,280 x 900.
It prints the longest frame in milliseconds while the view follows an answer that streams 50 pieces a
second, while the user scrolls at the same time, and while the view jumps to random places; each takes
five seconds. All entries are loaded before. The bar is no frame above 50 ms. It also prints the time
of the first paint (bar: 300 ms) and the compressed size of the page (bar: 250 KB).
"""

import gzip
import random
import sys
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

import hilum_serve
from playwright.sync_api import Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parent.parent / "plugins" / "serve" / "page"))
from fake_server import FakeServer
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
        browser.close()
    server.stop()
    weight = sum(
        len(gzip.compress(path.read_bytes(), 9))
        for path in Path(str(files(hilum_serve) / "page")).rglob("*")
        if path.suffix in (".js", ".css", ".html", ".svg")
    )
    print(f"compressed size: {weight:,} bytes")


if __name__ == "__main__":
    main()
