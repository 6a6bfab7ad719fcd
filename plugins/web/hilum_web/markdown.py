"""HTML to Markdown, the main content first and only as far as somebody reads.

A page is parsed whole (selectolax), its main content cut into pieces at the borders of blocks, and piece by piece converted
(html-to-markdown) until there is enough. All of it blocks, mostly without the interpreter's lock: call it in a thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

PIECE = 60_000
DEEPEST = 60
_NOISE = (
    "script, style, noscript, template, iframe, object, embed, svg, canvas, link, meta, dialog, [hidden],"
    " [aria-hidden=true]"
)
_AROUND = (
    "nav, header, footer, aside, form[role=search], [role=navigation], [role=banner], [role=contentinfo], [role=search]"
)
_MAIN = (
    "main, [role=main], article, #main-content, #content, #main, #apicontent, .markdown-body, .main-content, .post-content,"
    " .document .body"
)
# Links of headings to themselves, and buttons to copy.
_MARKS = (
    "a.headerlink, a.anchor, a.hash-link, a.heading-anchor, a[aria-hidden=true], button, .sr-only, .visually-hidden"
)
# What may be cut where it is too long, and what a piece may end with.
_OPEN = frozenset(
    "div section article main body center font span details table tbody ul ol dl blockquote pre li dd".split()
)
_BLOCKS = _OPEN | frozenset("p h1 h2 h3 h4 h5 h6 tr dt hr figure form fieldset address".split()) - {"font", "span"}
_MARK = "\u2060hilum\u2060"


class Markdown:
    """A page as Markdown, converted as far as it was asked for. Not for two threads at once.

    Args:
        html: The page.
        url: Where it comes from: links are made absolute.
        fragment: The id of the element that the reader wants to see; empty for the beginning.

    Attributes:
        title: The title of the page.
        at: Where in the text the wanted element begins, once it was converted; -1 when it is not there (yet).
    """

    def __init__(self, html: str, url: str, fragment: str = "") -> None:
        from selectolax.lexbor import LexborHTMLParser

        self.url, self.at = url, -1
        tree = LexborHTMLParser(html)
        node = tree.css_first("title")
        self.title = " ".join(node.text().split())[:300] if node is not None else ""
        base = tree.css_first("base[href]")
        self._base = _joined(url, (base.attributes.get("href") or "") if base is not None else "")
        body = tree.body
        self._tree = tree  # its nodes live as long as it does
        self._pieces: Iterator[str] = iter(())
        self._text = ""
        self.ended = body is None
        if body is not None:
            main = _main(body)
            self._mark(tree, fragment)
            for each in main.css(f"{_NOISE}, {_MARKS}"):
                if each.parent is not None:
                    each.decompose()
            self._pieces = _pieces(main)

    def _mark(self, tree: Any, fragment: str) -> None:
        if not re.fullmatch(r"[\w.:%-]{1,200}", fragment):
            return
        found = tree.css_first(f'[id="{fragment}"], a[name="{fragment}"]')
        if found is not None:
            found.insert_before(_MARK)

    def upto(self, end: int) -> str:
        """Give the text from its beginning, at least ``end`` characters of it where there are as many."""
        while not self.ended and len(self._text) < end:
            piece = next(self._pieces, None)
            if piece is None:
                self.ended = True
                self._text = self._text.rstrip() + "\n" if self._text.strip() else ""
                break
            self._add(_converted(piece, self._base))
        return self._text

    def find(self, most: int) -> None:
        """Convert on until the wanted element is found, or the page ends, or ``most`` characters are there."""
        while self.at < 0 and not self.ended and len(self._text) < most:
            self.upto(len(self._text) + 1)

    def _add(self, text: str) -> None:
        if not text.strip():
            return
        if (place := text.find(_MARK)) >= 0 and self.at < 0:
            self.at = len(self._text) + len(text[:place])
        self._text += text.replace(_MARK, "").strip("\n") + "\n\n"


def _main(body: LexborNode) -> LexborNode:
    """Find the main content: a part that says it is, where it holds a fair share of the words; else the body less its frame."""
    whole = _words(body)
    best, most = None, 0
    for node in body.css(_MAIN):
        words = _words(node)
        if words > most:
            best, most = node, words
    if best is not None and most >= max(whole * 0.2, 20):
        return best
    for node in body.css(_AROUND):
        if node.parent is not None and _words(node) < whole * 0.5:
            node.decompose()
    return body


def _words(node: LexborNode) -> int:
    return len(node.text(deep=True))


def _pieces(node: LexborNode, before: str = "", after: str = "", depth: int = 0) -> Iterator[str]:
    """Cut a node into pieces of HTML of about ``PIECE`` characters, at the borders of its blocks.

    Args:
        node: What is cut.
        before: Tags that each piece is opened with: a list that is cut is a list in each piece, and a table has its head.
        after: Tags that close them.
        depth: How deep it is.
    """
    gathered: list[str] = []
    size = 0
    for child in node.iter(include_text=True):
        html = child.html or ""
        if len(html) > PIECE and child.tag in _OPEN and depth < DEEPEST:
            yield from _whole(gathered, before, after)
            gathered, size = [], 0
            opened, closed = _around(child, before, after)
            yield from _pieces(child, opened, closed, depth + 1)
            continue
        gathered.append(html)
        size += len(html)
        if size > PIECE and child.tag in _BLOCKS:
            yield from _whole(gathered, before, after)
            gathered, size = [], 0
    yield from _whole(gathered, before, after)


def _around(node: LexborNode, before: str, after: str) -> tuple[str, str]:
    """Give the tags round the pieces of a node."""
    if node.tag == "table":
        head = node.css_first("thead")
        columns = (head.html or "") if head is not None else ""
        if head is not None:
            head.decompose()
        return f"{before}<table>{columns}", f"</table>{after}"
    if node.tag in ("ul", "ol", "dl", "blockquote", "pre", "li", "dd"):
        return f"{before}<{node.tag}>", f"</{node.tag}>{after}"
    return before, after


def _whole(parts: list[str], before: str, after: str) -> Iterator[str]:
    html = "".join(parts)
    if html.strip():
        yield f"{before}{html}{after}"


def _converted(html: str, base: str) -> str:
    from html_to_markdown import ConversionOptions, PreprocessingOptions, convert

    options = ConversionOptions(
        extract_metadata=False, skip_images=False, base_url=base or None, inline_data_media="drop_element", max_depth=400,
        preprocessing=PreprocessingOptions(enabled=False),
    )  # fmt: skip
    text: str = convert(html, options).content or ""
    return re.sub(r"\n{3,}", "\n\n", text)


def _joined(url: str, href: str) -> str:
    from urllib.parse import urljoin

    try:
        return urljoin(url, href)
    except ValueError:
        return url
