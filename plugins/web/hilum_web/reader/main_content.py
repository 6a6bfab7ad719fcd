"""Chooses the main content of a page.

The main content is the part that the page marks as such. If the page marks no part, the main
content is the page without its navigation, header and footer.
"""

from __future__ import annotations

from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser, LexborNode

MAX_DEPTH = 60
# Maximum number of links in a node whose text is counted in full. If there are more links, only a
# sample is counted.
MAX_LINKS = 1_000
MAX_CANDIDATES = 200
_NOISE = "script, style, noscript, template, iframe, object, embed, svg, canvas, link, meta, dialog"
# The elements around a page's content, by role and by the names that documentation generators use.
_FRAME = (
    "nav, footer, aside, form[role=search], [role=navigation], [role=banner], [role=contentinfo],"
    " [role=search], [role=complementary], [role=dialog], .sidebar, #sidebar, .navbar, .breadcrumb,"
    " .breadcrumbs, .navheader, .navfooter, .footer, #footer, .sphinxsidebar, .related, #titlearea,"
    " #nav-path, #main-nav, table.navigation"
)
_MAIN = (
    "main, [role=main], article, #main-content, #content, #main, #apicontent, .markdown-body,"
    " .main-content, .post-content, .document .body, .contents, .theme-doc-markdown, .refentry"
)


class Choice(NamedTuple):
    """The chosen main content of a page.

    Args:
        number: The index of the element among the matches of ``_MAIN``; -1 for the body.
        size: The length of the element's text in characters.
        is_last: Whether the element extends to the end of the parsed HTML.
        is_clear: Whether no candidate inside the element extends to the end of the parsed HTML. The
            rest of the page could make such a candidate the better choice.
    """

    number: int
    size: int
    is_last: bool
    is_clear: bool = True


def remove_noise(tree: LexborHTMLParser) -> None:
    """Remove the elements without text for readers."""
    for each in tree.css(_NOISE):
        if each.parent is not None and each.tag != "body":
            each.decompose()


def choose_main_content(tree: LexborHTMLParser) -> Choice:
    """Choose the main content of a page. Elements without text for readers must already be removed.

    A marked part is chosen if it has a fair share of the text. If parts are nested, the innermost
    one with nearly all of the prose is chosen.
    """
    body = tree.body
    if body is None:
        return Choice(-1, 0, True)
    nodes = body.css(_MAIN)[:MAX_CANDIDATES]
    whole = _count_text(body)
    # The largest candidate comes first. Candidates of equal size stay in page order.
    sizes = {number: _count_text(node) for number, node in enumerate(nodes)}
    ranked = sorted(sizes, key=lambda number: -sizes[number])
    if not ranked:
        return Choice(-1, whole, True)
    best = ranked[0]
    if not _has_fair_share(body, whole, nodes[best], sizes[best]):
        return Choice(-1, whole, False)
    best = _narrow(nodes, sizes, ranked)
    lasting = [number for number, node in enumerate(nodes) if _is_last(node, body)]
    is_last = best in lasting
    is_clear = is_last and best == lasting[-1]
    return Choice(best, sizes[best], is_last, is_clear)


def _has_fair_share(body: LexborNode, whole: int, main: LexborNode, size: int) -> bool:
    if size >= max(whole * 0.2, 20):
        return True
    # A short page may have a long menu, so the text of its frame does not count against the main
    # part.
    beside = _count_prose(body, whole) - _count_frame_prose(body, main)
    return _count_prose(main, size) >= 0.4 * max(beside, 50)


def _narrow(nodes: list[LexborNode], sizes: dict[int, int], ranked: list[int]) -> int:
    """Return the innermost candidate with nearly all of the prose of the largest one."""
    best = ranked[0]
    if len(ranked) == 1:
        return best
    enough = _count_prose(nodes[best], sizes[best]) * 0.85
    for number in ranked[1:]:
        if sizes[number] < enough:
            break
        has_enough = _count_prose(nodes[number], sizes[number]) >= enough
        if has_enough and _is_inside(nodes[number], nodes[best]):
            best = number
    return best


def _count_frame_prose(body: LexborNode, main: LexborNode) -> int:
    """Count the non-link characters in the frame around a main part."""
    count = 0
    last: LexborNode | None = None
    for node in body.css(_FRAME)[:MAX_CANDIDATES]:
        is_counted = last is not None and _is_inside(node, last)
        if is_counted or _is_inside(main, node):
            continue
        count += _count_prose(node, _count_text(node))
        last = node
    return count


def _is_last(node: LexborNode, body: LexborNode) -> bool:
    """Return whether nothing follows a node."""
    each: LexborNode | None = node
    for _ in range(MAX_DEPTH):
        if each is None or each.mem_id == body.mem_id or each.next is not None:
            break
        each = each.parent
    return each is not None and each.mem_id == body.mem_id


def extract_main_content(body: LexborNode, choice: Choice) -> LexborNode:
    """Return the chosen main content without its frame."""
    best = body if choice.number < 0 else body.css(_MAIN)[choice.number]
    # Notes, footnotes and boxes that belong to the text have the same markup as the frame. The
    # frame consists mostly of links. Around a main part that is not marked, nearly everything may
    # belong to the frame.
    min_prose = 0.5 if choice.number >= 0 else 0.8
    for node in best.css(_FRAME):
        if node.parent is None or node.mem_id == best.mem_id:
            continue
        size = _count_text(node)
        prose = _count_prose(node, size)
        if prose > size * min_prose and _may_be_box(node):
            continue
        if size < choice.size * 0.5 or not prose:
            node.decompose()
    return best


def _may_be_box(node: LexborNode) -> bool:
    """Return whether an element of the frame may be a box that belongs to the text."""
    if node.tag == "footer":
        return node.parent is not None and node.parent.tag == "blockquote"
    if node.tag == "aside" or node.attributes.get("role") == "complementary":
        return True
    return "sidebar" in (node.attributes.get("class") or "").split()


def _count_text(node: LexborNode) -> int:
    # Whitespace is excluded, because whitespace between the links of a menu would count as prose.
    return len("".join(node.text(deep=True).split()))


def _count_prose(node: LexborNode, size: int) -> int:
    """Count the characters outside links, or estimate them if there are very many links."""
    links = node.css("a")
    step = len(links) // MAX_LINKS + 1
    sampled = links[::step]
    in_links = sum(map(_count_text, sampled))
    return size - step * in_links


def _is_inside(node: LexborNode, root: LexborNode) -> bool:
    each = node.parent
    for _ in range(MAX_DEPTH):
        if each is None or each.mem_id == root.mem_id:
            break
        each = each.parent
    return each is not None and each.mem_id == root.mem_id
