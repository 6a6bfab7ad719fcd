"""Converts HTML to Markdown, the main content first, and only as much as is read.

selectolax parses a page as a whole. The main content is cut into pieces at block boundaries, and
html-to-markdown converts each piece after it has been normalized. Both libraries are native code,
and a malicious page can keep them busy for hours while they hold the interpreter's lock. Therefore,
this module runs in a separate process (``worker``).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from itertools import islice
from urllib.parse import urldefrag

from html_to_markdown import ConversionOptions, PreprocessingOptions, convert
from selectolax.lexbor import LexborHTMLParser, LexborNode

from .charsets import decode
from .links import join_url, make_absolute
from .main_content import MAX_DEPTH, choose_main_content, extract_main_content, remove_noise
from .visible_text import remove_invisible, to_line

# Size, in characters, of the pieces in which HTML is converted.
PIECE = 60_000
# Sizes, in characters, of the beginnings of a long page that are parsed first and second.
BEGINNINGS = (250_000, 600_000)
# Number of rows that decide whether a cut table is a data table or a layout table.
SAMPLED_ROWS = 50
# Common markup of main content, and the number of characters in which it is searched for.
_MAIN_MARKS = (
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
MARK_DISTANCE = 1_000_000
# Parts of a piece that are not content: hidden elements, headings' links to themselves, buttons.
_CONTROLS = (
    "[hidden]:not([role=tabpanel]), [aria-hidden=true], a.headerlink, a.anchor, a.hash-link,"
    " a.heading-anchor, a.test-arrow, button, .sr-only, .visually-hidden"
)
_HEADINGS = "h1, h2, h3, h4, h5, h6"
_TABLE_PARTS = ["thead", "tbody", "tfoot", "tr", "td", "th", "caption", "colgroup", "col"]
# Elements that may be cut if they are too long, and elements after which a piece may end.
_DIVISIBLE = frozenset(
    "div section article main body center font span details table tbody tr td ul ol dl blockquote"
    " pre code li dd p form fieldset a b i em strong".split()
)
_BLOCKS = frozenset(
    "div section article main body center details table tbody ul ol dl blockquote pre li dd p h1 h2"
    " h3 h4 h5 h6 tr dt hr figure form fieldset address".split()
)
# Elements that are opened again in each of their pieces.
_REPEATED = frozenset("ul ol dl blockquote pre li dd".split())
# Superscripts and subscripts in formulas, as opposed to those in "1st" or trademark signs.
_EXPONENT = re.compile(
    r"(?!(?:st|nd|rd|th|er|re|o|tm|sm)$)(?:[^\W\d_]{1,2}|[\w+−*/().,-]*[\d+−-][\w+−*/().,-]*)", re.I
)
# Marks the requested element in the text. Unicode assigns no character to this code point, so no
# page contains it.
_MARK = "\ufdd0hilum\ufdd1"
_OPTIONS = ConversionOptions(
    extract_metadata=False,
    skip_images=False,
    inline_data_media="drop_element",
    max_depth=400,
    compact_tables=True,
    preprocessing=PreprocessingOptions(enabled=False),
)


def read_frames(body: bytes, request: dict[str, str]) -> Iterator[dict[str, object]]:
    """Yield a page as Markdown.

    Yields:
        A frame with ``title``, then frames with ``text`` and ``at``, the offset of the requested
        element in the text or -1.
    """
    html = decode(body, request["type"])
    page = Markdown(html, request["url"], request["fragment"])
    yield {"title": page.title}
    for text, at in page.parts():
        yield {"text": text, "at": at}
    yield {"end": True}


class Markdown:
    """A page that is converted to Markdown as it is read.

    Args:
        html: The HTML of the page.
        url: The URL of the page, which is the base of relative links.
        fragment: The ID of the requested element; empty for the beginning.

    Attributes:
        title: The title of the page.
    """

    def __init__(self, html: str, url: str, fragment: str = "") -> None:
        self.url = urldefrag(url)[0]
        self._html = html
        self._fragment = fragment
        # The beginning of a long page often shows where its main content is. The rest is parsed
        # only when it is read.
        lengths = [size for size in BEGINNINGS if len(html) > 1.5 * size]
        self._ends = [_find_end(html, size) for size in lengths] + [len(html)]
        self._tree = self._parse()
        self._choice = choose_main_content(self._tree)
        while len(self._ends) > 1 and not self._is_decided():
            del self._ends[0]
            self._tree = self._parse()
            self._choice = choose_main_content(self._tree)
        title = self._tree.css_first("title")
        self.title = to_line(title.text(), 300) if title is not None else ""
        base = self._tree.css_first("base[href]")
        href = (base.attributes.get("href") or "") if base is not None else ""
        self._base = join_url(self.url, href)

    def parts(self) -> Iterator[tuple[str, int]]:
        """Yield texts, each with the offset of the requested element in it, or -1 for none."""
        done = 0
        while len(self._ends) > 1:
            for piece in _hold_back_end(islice(self._cut(), done, None)):
                done += 1
                yield from self._convert(piece)
            del self._ends[0]
            self._tree = self._parse()
        for piece in islice(self._cut(), done, None):
            yield from self._convert(piece)

    def _parse(self) -> LexborHTMLParser:
        """Parse as much of the beginning of the page as is necessary."""
        tree = LexborHTMLParser(self._html[: self._ends[0]])
        remove_noise(tree)
        return tree

    def _is_decided(self) -> bool:
        """Return whether the parsed beginning shows where the main content of the page is."""
        choice = self._choice
        end, following = self._ends[:2]
        if not choice.is_last:
            return False
        if choice.number < 0 and _may_mark_main(self._html, end, end + MARK_DISTANCE):
            return False
        if end > BEGINNINGS[0]:
            return True
        is_large = choice.is_clear and choice.size > end // 50
        return is_large and not _may_mark_main(self._html, end, following)

    def _cut(self) -> Iterator[str]:
        tree = self._tree  # nodes are valid only as long as their tree exists
        if tree.body is None:
            return
        main = extract_main_content(tree.body, self._choice)
        # Other characters could end the selector.
        if re.fullmatch(r"[\w.:%-]{1,200}", self._fragment):
            found = tree.css_first(f'[id="{self._fragment}"], a[name="{self._fragment}"]')
            if found is not None:
                found.insert_before(_MARK)
        yield from _cut(main)

    def _convert(self, piece: str) -> Iterator[tuple[str, int]]:
        markdown = convert(_normalize(piece, self._base, self.url), _OPTIONS).content or ""
        text = remove_invisible(re.sub(r"\n{3,}", "\n\n", markdown)).strip("\n")
        offset = text.find(_MARK)
        text = text.replace(_MARK, "")
        if text:
            yield f"{text}\n\n", offset


def _hold_back_end(pieces: Iterator[str]) -> Iterator[str]:
    """Yield the pieces of a page's beginning, except those that the rest could change."""
    held: deque[str] = deque()
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        while size - len(held[0]) > PIECE:
            size -= len(held[0])
            yield held.popleft()


def _find_end(html: str, size: int) -> int:
    """Return an offset near ``size`` that is not inside a tag, at which the beginning may end."""
    cut = html.rfind("<", size // 2, size)
    return cut if cut > 0 else size


def _may_mark_main(html: str, start: int, end: int) -> bool:
    """Return whether the HTML between two offsets may contain the markup of main content."""
    return any(html.find(mark, start, end) >= 0 for mark in _MAIN_MARKS)


class _Pieces:
    """A buffer that gathers HTML until it is long enough for a piece.

    Args:
        before: The opening tags of each piece, so that each piece of a list is a list, and each
            piece of a table has the table head.
        after: The closing tags of each piece.
    """

    def __init__(self, before: str, after: str) -> None:
        self._before = before
        self._after = after
        self._parts: list[str] = []
        self._size = 0

    def add(self, html: str, *, is_block: bool) -> Iterator[str]:
        """Add HTML and yield a piece if it is long enough, at the end of a block if possible."""
        self._parts.append(html)
        self._size += len(html)
        if self._size > PIECE and (is_block or self._size > 1.25 * PIECE):
            yield from self.flush()

    def add_text(self, html: str) -> Iterator[str]:
        """Yield pieces of a long text."""
        for start in range(0, len(html), PIECE):
            yield f"{self._before}{html[start : start + PIECE]}{self._after}"

    def flush(self) -> Iterator[str]:
        """Yield the gathered HTML if it is not empty."""
        html = "".join(self._parts)
        self._parts = []
        self._size = 0
        if html.strip():
            yield f"{self._before}{html}{self._after}"


def _cut(node: LexborNode, before: str = "", after: str = "", depth: int = 0) -> Iterator[str]:
    """Cut a node into pieces of about ``PIECE`` characters, at block boundaries if possible.

    Args:
        node: The node.
        before: The opening tags of each piece.
        after: The closing tags of each piece.
        depth: The depth of the node in the main content.
    """
    pieces = _Pieces(before, after)
    for child in node.iter(include_text=True):
        is_divisible = child.tag in _DIVISIBLE and depth < MAX_DEPTH
        is_long = _is_long(child)
        # Serializing a long element only to cut it afterwards would take quadratic time.
        html = "" if is_long and is_divisible else child.html or ""
        if not is_long and len(html) <= PIECE:
            yield from pieces.add(html, is_block=child.tag in _BLOCKS)
            continue
        yield from pieces.flush()
        if child.tag == "-text":
            yield from pieces.add_text(html)
        elif is_divisible:
            yield from _cut(child, *_surround(child, before, after), depth + 1)
        else:
            yield from pieces.add(html, is_block=child.tag in _BLOCKS)
    yield from pieces.flush()


def _is_long(node: LexborNode) -> bool:
    """Return whether the HTML of a node is longer than a piece, without serializing all of it."""
    size = 0
    for each in node.traverse(include_text=True):
        tag = each.tag or ""
        if tag == "-text":
            size += len(each.text_content or "")
        else:
            size += 2 * len(tag) + 5  # the start and end tags, as in <b></b>
        if size > PIECE:
            return True
    return False


def _surround(node: LexborNode, before: str, after: str) -> tuple[str, str]:
    """Return the tags around the pieces of a node."""
    if node.tag == "table":
        return _surround_rows(node, before, after)
    if node.tag == "tr" and after.startswith("</table>"):
        # The row is too long for a table, so its cells become text.
        return before[: before.rindex("<table>")], after.removeprefix("</table>")
    if node.tag in _REPEATED:
        return f"{before}<{node.tag}>", f"</{node.tag}>{after}"
    return before, after


def _surround_rows(table: LexborNode, before: str, after: str) -> tuple[str, str]:
    rows = (each for each in table.traverse() if each.tag == "tr")
    if any(_is_long(row) for row in islice(rows, SAMPLED_ROWS)):
        return before, after  # a layout table
    before += "<table>"
    for each in table.iter():
        if each.tag == "thead":
            before += each.html or ""
            each.decompose()  # otherwise, the first piece would contain the head twice
            break
    return before, f"</table>{after}"


def _normalize(html: str, base: str, url: str) -> str:
    """Change a piece of HTML so that the converter can express all of it in Markdown."""
    body = LexborHTMLParser(html).body
    if body is None:
        return ""
    for each in body.css(_CONTROLS):
        if each.parent is not None:
            each.decompose()
    for each in body.css("[hidden]"):
        del each.attrs["hidden"]
    _unwrap_blocks(body)
    _unwrap_headings(body)
    for each in body.css("img"):
        _normalize_image(each, base)
    for each in body.css("sup, sub"):
        _mark_exponent(each)
    for each in body.css("a"):
        make_absolute(each, base, url)
    return body.inner_html or ""


def _unwrap_blocks(body: LexborNode) -> None:
    """Unwrap elements that would make code or tables inline, and tables around code."""
    for each in body.css("code:has(pre), a:has(pre), a:has(table)"):
        each.unwrap()
    for each in body.css("pre"):
        each.unwrap_tags(["a"])
        if len(each.css("pre")) > 1:  # css() also finds the element itself
            each.unwrap()
    for table in body.css("table:has(pre)"):
        _unwrap_code_table(table)


def _unwrap_headings(body: LexborNode) -> None:
    # A list item or summary around a heading is only a visual frame. In such a frame, the heading
    # would be converted to plain text.
    for each in body.css(f"li:has({_HEADINGS}), summary:has({_HEADINGS})"):
        outer = each.parent
        each.unwrap()
        if outer is None or outer.tag not in ("ul", "ol"):
            continue
        if outer.css_first("li") is None:
            outer.unwrap()


def _normalize_image(image: LexborNode, base: str) -> None:
    """Make the URL of an image absolute, or remove an image without a description."""
    attributes = image.attributes
    src = attributes.get("src")
    if not (attributes.get("alt") or "").strip():
        image.decompose()
    elif src:
        image.attrs["src"] = join_url(base, src)


def _unwrap_code_table(table: LexborNode) -> None:
    """Unwrap a table around code blocks, and remove line numbers.

    A cell of a Markdown table is a single line.
    """
    blocks = [each for each in table.css("pre") if "\n" in each.text().strip()]
    if not blocks:
        return
    for each in blocks:
        if re.fullmatch(r"[\d\s]+", each.text()):
            each.decompose()
    for each in table.css("td, th"):
        each.insert_before("\n")
    table.unwrap_tags(_TABLE_PARTS)
    table.unwrap()


def _mark_exponent(node: LexborNode) -> None:
    """Mark an exponent or index with ``^`` or ``_``: 10 to the 6th must not become 106."""
    text = node.text().strip()
    if len(text) > 30 or not _EXPONENT.fullmatch(text):
        return
    before = node.prev
    if before is None or node.css_first("a") is not None:
        return  # a footnote
    text_before = before.text_content if before.tag == "-text" else ""
    if text_before and text_before[-1].isspace():
        return
    sign = "^" if node.tag == "sup" else "_"
    if text.isalnum():
        node.insert_before(sign)
        return
    node.insert_before(f"{sign}(")
    node.insert_after(")")
