"""The web page of a session contains its whole text, and no markup from it."""

from html.parser import HTMLParser

import hilum_files
from hilum.testing import open_bench, say, use
from hilum_cli.transcript_html import render_html

EVIL = '</pre><script>alert(1)</script><img src="https://example.com/x.png">'


class Page(HTMLParser):
    """The tags, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


async def test_the_page_shows_everything_and_runs_nothing() -> None:
    answers = [
        use("write_file", path="a.html", content=f"one\n{EVIL}\n"),
        use("read_file", path=f"{EVIL}.txt"),
        say(f"Done: {EVIL}"),
    ]
    async with open_bench(hilum_files, answers=answers) as bench:
        await bench.run(f"Write {EVIL}")
        info = await bench.kernel.store.info(bench.session.id)
        page = Page(render_html(info, bench.events))
    assert not {"script", "img", "a", "iframe", "link"} & page.tags
    assert not {"src", "href", "onerror"} & page.attributes
    for expected in (f"Write {EVIL}", f"Done: {EVIL}", f"+{EVIL}", "E_", "a.html"):
        assert expected in page.text, expected
