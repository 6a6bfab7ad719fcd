"""Which part of a page is its main content: what says so, or the page less what stands round it."""

from __future__ import annotations

from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser, LexborNode

DEEPEST = 60
SAMPLED = 1_000
CANDIDATES = 200
_NOISE = "script, style, noscript, template, iframe, object, embed, svg, canvas, link, meta, dialog"
# What stands round the content of pages, by its meaning and by the names that generators of
# documentation give it.
_AROUND = (
    "nav, footer, aside, form[role=search], [role=navigation], [role=banner], [role=contentinfo],"
    " [role=search], [role=complementary], [role=dialog], .sidebar, #sidebar, .navbar, .breadcrumb,"
    " .breadcrumbs, .navheader, .navfooter, .footer, #footer, .sphinxsidebar, .related, #titlearea,"
    " #nav-path, #main-nav, table.navigation"
)
_MAIN = (
    "main, [role=main], article, #main-content, #content, #main, #apicontent, .markdown-body,"
    " .main-content, .post-content, .document .body, .contents, .theme-doc-markdown, .refentry"
)


def quiet(tree: LexborHTMLParser) -> None:
    """Take out what is no text."""
    for each in tree.css(_NOISE):
        if each.parent is not None and each.tag != "body":
            each.decompose()


def choose(tree: LexborHTMLParser) -> Choice:
    """Choose the main content of a page that is quiet."""
    if tree.body is not None:
        return _chosen(tree.body)
    return Choice(-1, 0, True)


class Choice(NamedTuple):
    """Where the main content is.

    Args:
        number: Which of what ``_MAIN`` selects, in the order of the page; -1 for its body.
        words: How many characters of text it has.
        last: Whether it lasts until the end of what was parsed.
        clear: Whether nothing in it lasts as long that may turn out to be what is meant.
    """

    number: int
    words: int
    last: bool
    clear: bool = True


def _chosen(body: LexborNode) -> Choice:
    """Find the main content: a part that says it is, where it holds a fair share of the words.

    Else the body less its frame.

    Of parts inside each other the inner one is taken that still has nearly all that is said outside
    of links.
    """
    whole = _words(body)
    nodes = body.css(_MAIN)[:CANDIDATES]
    counted = sorted(
        ((_words(node), number) for number, node in enumerate(nodes)), key=lambda each: -each[0]
    )
    if not counted:
        return Choice(-1, whole, True)
    words, best = counted[0]
    if words < max(whole * 0.2, 20):
        beside = _prose(body, whole) - _framed(body, nodes[best])
        if _prose(nodes[best], words) < 0.4 * max(beside, 50):
            return Choice(-1, whole, False)
    said = _prose(nodes[best], words) if len(counted) > 1 else 0
    for inner, number in counted[1:]:
        if inner < said * 0.85:
            break
        if _prose(nodes[number], inner) >= said * 0.85 and _below(nodes[number], nodes[best]):
            best = number
            words = inner
    lasting = [number for number, node in enumerate(nodes) if _lasts(node, body)]
    return Choice(best, words, best in lasting, lasting[-1:] == [best])


def _framed(body: LexborNode, main: LexborNode) -> int:
    """Count the characters outside of links in what stands round a main part by its own word: a
    short page has a long menu.
    """
    said = 0
    last: LexborNode | None = None
    for node in body.css(_AROUND)[:CANDIDATES]:
        if _below(main, node) or (last is not None and _below(node, last)):
            continue
        said = said + _prose(node, _words(node))
        last = node
    return said


def _lasts(node: LexborNode, body: LexborNode) -> bool:
    """Return whether nothing stands after a node."""
    each: LexborNode | None = node
    for _ in range(DEEPEST):
        if each is None or each.mem_id == body.mem_id or each.next is not None:
            break
        each = each.parent
    return each is not None and each.mem_id == body.mem_id


def main_part(body: LexborNode, choice: Choice) -> LexborNode:
    """Return the main content as it was chosen, less what is round it."""
    best = body if choice.number < 0 else body.css(_MAIN)[choice.number]
    for node in best.css(_AROUND):
        if node.parent is None or node.mem_id == best.mem_id:
            continue
        words = _words(node)
        said = _prose(node, words)
        # Notes, footnotes and boxes of the text are marked like what stands beside it; that is
        # mostly links.
        if said > words * (0.5 if choice.number >= 0 else 0.8) and _box(node):
            continue
        if words < choice.words * 0.5 or not said:
            node.decompose()
    return best


def _box(node: LexborNode) -> bool:
    """Return whether what has a name of the frame may be a box of the text."""
    if node.tag == "footer":
        return node.parent is not None and node.parent.tag == "blockquote"
    classes = (node.attributes.get("class") or "").split()
    return (
        node.tag == "aside"
        or "sidebar" in classes
        or node.attributes.get("role") == "complementary"
    )


def _words(node: LexborNode) -> int:
    # White space stands outside of links, also where nothing else does: of a menu it would make
    # prose.
    return len("".join(node.text(deep=True).split()))


def _prose(node: LexborNode, words: int) -> int:
    """Count the characters outside of links; of very many links, from every so many."""
    links = node.css("a")
    step = len(links) // SAMPLED + 1
    return words - step * sum(_words(each) for each in links[::step])


def _below(node: LexborNode, root: LexborNode) -> bool:
    each = node.parent
    for _ in range(DEEPEST):
        if each is None or each.mem_id == root.mem_id:
            break
        each = each.parent
    return each is not None and each.mem_id == root.mem_id
