"""HTML to Markdown, the main content first and only as far as somebody reads.

A page is parsed whole (selectolax), its main content cut into pieces at the borders of blocks, and
piece by piece put in order and converted (html-to-markdown). Both are native code, and pages can be
made that keep it busy for hours without giving up the interpreter's lock: this runs in a process of
its own (``worker``), and imports nothing of hilum for it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from urllib.parse import urldefrag

from selectolax.lexbor import LexborHTMLParser, LexborNode

from .links import Base, joined, linked
from .main_content import DEEPEST, choose, main_part, quiet
from .unseen import line, visible

PIECE = 60_000
# Characters of a long page that are parsed first, and next.
BEGINNINGS = (250_000, 600_000)
# Of a table that is cut, how many rows tell whether it is one of data or of layout.
ROWS = 50
# How most of what is a main content is written, and how many characters further on it is looked
# for.
_NAMES = (
    "<main",
    "<article",
    'role="main"',
    'id="main-content"',
    'id="content"',
    'id="main"',
    'id="apicontent"',
    "markdown-body",
    "main-content",
    "post-content",
    'class="contents"',
    "refentry",
)
FAR = 1_000_000
# Of a piece: what is not shown, links of headings to themselves, buttons to copy and to run.
_MARKS = (
    "[hidden]:not([role=tabpanel]), [aria-hidden=true], a.headerlink, a.anchor, a.hash-link,"
    " a.heading-anchor, a.test-arrow, button, .sr-only, .visually-hidden"
)
_HEADS = "h1, h2, h3, h4, h5, h6"
_CELLS = ["table", "thead", "tbody", "tfoot", "tr", "td", "th", "caption", "colgroup", "col"]
# What may be cut where it is too long, and what a piece may end with.
_OPEN = frozenset(
    "div section article main body center font span details table tbody tr td ul ol dl blockquote"
    " pre code li dd p form fieldset a b i em strong".split()
)
_BLOCKS = frozenset(
    "div section article main body center details table tbody ul ol dl blockquote pre li dd p h1 h2"
    " h3 h4 h5 h6 tr dt hr figure form fieldset address".split()
)
_WRAPPED = frozenset("ul ol dl blockquote pre li dd".split())
# What is raised or lowered in formulas; not 1st, nor marks of trade.
_EXPONENT = re.compile(
    r"(?!(?:st|nd|rd|th|er|re|o|tm|sm)$)(?:[^\W\d_]{1,2}|[\w+−*/().,-]*[\d+−-][\w+−*/().,-]*)", re.I
)
_MARK = "\ufdd0hilum\ufdd1"


class Markdown:
    """A page as Markdown, converted as far as it is asked for.

    Args:
        html: The page.
        url: Where it comes from: links are made absolute.
        fragment: The id of the element that the reader wants to see; empty for the beginning.

    Attributes:
        title: The title of the page.
    """

    def __init__(self, html: str, url: str, fragment: str = "") -> None:
        self.url = urldefrag(url)[0]
        self._html = html
        self._fragment = fragment
        # Where a page is long, its beginning says what its main content is; only who reads far
        # needs the rest.
        self._ends = [
            *(_end(html, size) for size in BEGINNINGS if len(html) > 1.5 * size),
            len(html),
        ]
        while True:
            self._tree = tree = self._parsed()
            self._choice = choose(tree)
            if len(self._ends) == 1 or self._settled():
                break
            del self._ends[0]
        node = tree.css_first("title")
        self.title = line(node.text(), 300) if node is not None else ""
        base = tree.css_first("base[href]")
        self._base = Base(
            joined(self.url, (base.attributes.get("href") or "") if base is not None else "")
        )

    def parts(self) -> Iterator[tuple[str, int]]:
        """Convert piece by piece; with each text, where in it the wanted element begins, or -1."""
        done = 0
        while len(self._ends) > 1:
            for piece in _certain(islice(self._pieces(), done, None)):
                done += 1
                yield from self._text(piece)
            del self._ends[0]
            self._tree = self._parsed()
        for piece in islice(self._pieces(), done, None):
            yield from self._text(piece)

    def _parsed(self) -> LexborHTMLParser:
        """Parse the page up to the first of its ends."""
        tree = LexborHTMLParser(self._html[: self._ends[0]])
        quiet(tree)
        return tree

    def _settled(self) -> bool:
        """Return whether the beginning says what the main content of the whole page is.

        A short one must say it clearly.
        """
        choice, end, following = self._choice, *self._ends[:2]
        if not choice.last or (choice.number < 0 and _named(self._html, end, end + FAR)):
            return False
        return end > BEGINNINGS[0] or (
            choice.clear and choice.words > end // 50 and not _named(self._html, end, following)
        )

    def _pieces(self) -> Iterator[str]:
        tree = self._tree  # its nodes live as long as it does
        if tree.body is None:
            return
        main = main_part(tree.body, self._choice)
        if re.fullmatch(r"[\w.:%-]{1,200}", self._fragment):
            found = tree.css_first(f'[id="{self._fragment}"], a[name="{self._fragment}"]')
            if found is not None:
                found.insert_before(_MARK)
        yield from _pieces(main)

    def _text(self, piece: str) -> Iterator[tuple[str, int]]:
        text = _converted(_ordered(piece, self._base, self.url)).strip("\n")
        place = text.find(_MARK)
        text = text.replace(_MARK, "")
        if text:
            yield text + "\n\n", place


def _certain(pieces: Iterator[str]) -> Iterator[str]:
    """Of the pieces of a page's beginning, give those that are the same when the rest is there."""
    held: deque[str] = deque()
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        while size - len(held[0]) > PIECE:
            size -= len(held[0])
            yield held.popleft()


def _end(html: str, size: int) -> int:
    """Where a beginning of about a size ends."""
    cut = html.rfind("<", size // 2, size)
    return cut if cut > 0 else size


def _named(html: str, start: int, end: int) -> bool:
    """Return whether a main content may be named between two places."""
    return any(html.find(each, start, end) >= 0 for each in _NAMES)


def _pieces(node: LexborNode, before: str = "", after: str = "", depth: int = 0) -> Iterator[str]:
    """Cut a node into pieces of HTML of about ``PIECE`` characters, at the borders of its blocks
    where there are any.

    Args:
        node: What is cut.
        before: Tags that each piece is opened with: a list that is cut is a list in each piece, and
            a table has its head.
        after: Tags that close them.
        depth: How deep it is.
    """
    gathered: list[str] = []
    size = 0
    for child in node.iter(include_text=True):
        long = _long(child)
        html = "" if long and child.tag in _OPEN and depth < DEEPEST else child.html or ""
        if long or len(html) > PIECE:
            yield from _whole(gathered, before, after)
            gathered = []
            size = 0
            if child.tag == "-text":
                for start in range(0, len(html), PIECE):
                    yield f"{before}{html[start : start + PIECE]}{after}"
                continue
            if child.tag in _OPEN and depth < DEEPEST:
                yield from _pieces(child, *_around(child, before, after), depth + 1)
                continue
        gathered.append(html)
        size += len(html)
        if size > PIECE and (child.tag in _BLOCKS or size > 1.25 * PIECE):
            yield from _whole(gathered, before, after)
            gathered = []
            size = 0
    yield from _whole(gathered, before, after)


def _long(node: LexborNode) -> bool:
    """Return whether the HTML of a node is surely longer than a piece.

    To write all of it only to know would cost more.
    """
    size = 0
    for each in node.traverse(include_text=True):
        tag = each.tag or ""
        size += len(each.text_content or "") if tag == "-text" else 2 * len(tag) + 5
        if size > PIECE:
            return True
    return False


def _around(node: LexborNode, before: str, after: str) -> tuple[str, str]:
    """Return the tags round the pieces of a node."""
    if node.tag == "table":
        rows = (each for each in node.traverse() if each.tag == "tr")
        if any(_long(each) for each in islice(rows, ROWS)):
            return before, after
        head = next((each for each in node.iter() if each.tag == "thead"), None)
        columns = (head.html or "") if head is not None else ""
        if head is not None:
            head.decompose()
        return f"{before}<table>{columns}", f"</table>{after}"
    if node.tag == "tr" and after.startswith("</table>"):  # too long for a row of a table
        return before[: before.rindex("<table>")], after.removeprefix("</table>")
    if node.tag in _WRAPPED:
        return f"{before}<{node.tag}>", f"</{node.tag}>{after}"
    return before, after


def _whole(parts: list[str], before: str, after: str) -> Iterator[str]:
    html = "".join(parts)
    if html.strip():
        yield f"{before}{html}{after}"


def _ordered(html: str, base: Base, url: str) -> str:
    """Put a piece in order for the converter: what Markdown has no form for is made something that
    it has one for.
    """
    tree = LexborHTMLParser(html)
    body = tree.body
    if body is None:
        return ""
    for each in body.css(_MARKS):
        if each.parent is not None:
            each.decompose()
    for each in body.css("[hidden]"):
        del each.attrs["hidden"]
    for each in body.css("code:has(pre), a:has(pre), a:has(table)"):
        each.unwrap()
    for each in body.css("pre"):
        each.unwrap_tags(["a"])
        if len(each.css("pre")) > 1:  # itself among them
            each.unwrap()
    for table in body.css("table:has(pre)"):
        _unframed(table)
    # Headings in lists and summaries: a frame for the eye, which would make no headings of them.
    for each in body.css(f"li:has({_HEADS}), summary:has({_HEADS})"):
        outer = each.parent
        each.unwrap()
        if outer is not None and outer.tag in ("ul", "ol") and outer.css_first("li") is None:
            outer.unwrap()
    for each in body.css("img"):
        if not (each.attributes.get("alt") or "").strip():
            each.decompose()
        elif src := each.attributes.get("src"):
            each.attrs["src"] = base.join(src)
    for each in body.css("sup, sub"):
        _raised(each)
    for each in body.css("a"):
        linked(each, base, url)
    return body.inner_html or ""


def _unframed(table: LexborNode) -> None:
    """Take apart a table round blocks of code, less the numbers of their lines: a cell holds one
    line.
    """
    blocks = [each for each in table.css("pre") if "\n" in each.text().strip()]
    if not blocks:
        return
    for each in blocks:
        if re.fullmatch(r"[\d\s]+", each.text()):
            each.decompose()
    for each in table.css("td, th"):
        each.insert_before("\n")
    table.unwrap_tags(_CELLS[1:])
    table.unwrap()


def _raised(node: LexborNode) -> None:
    """Keep an exponent or an index apart from what it stands at: 10 to the 6th is not 106."""
    text = node.text().strip()
    before = node.prev
    if before is not None and before.tag == "-text":
        at = (before.text_content or "")[-1:]
    else:
        at = ""
    if len(text) > 30 or not _EXPONENT.fullmatch(text):
        return
    if before is None or at.isspace() or node.css_first("a") is not None:
        return
    plain = text.isalnum()
    node.insert_before(("^" if node.tag == "sup" else "_") + ("" if plain else "("))
    if not plain:
        node.insert_after(")")


@cache
def prepare() -> Callable[[str], str]:
    """Import the converter, and give it."""
    from html_to_markdown import ConversionOptions, PreprocessingOptions, convert

    options = ConversionOptions(
        extract_metadata=False,
        skip_images=False,
        inline_data_media="drop_element",
        max_depth=400,
        compact_tables=True,
        preprocessing=PreprocessingOptions(enabled=False),
    )
    return lambda html: convert(html, options).content or ""


def _converted(html: str) -> str:
    return visible(re.sub(r"\n{3,}", "\n\n", prepare()(html)))
