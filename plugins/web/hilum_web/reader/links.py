"""Makes the link addresses of a page absolute."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urljoin

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

MAX_URL = 1_000
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_SCHEMES = ("http://", "https://", "#", "mailto:", "ftp:")

_PATH = r"[\w%~+@=-][\w.%~+@=-]*"
_END = r"(?:\?[\w.%~+=&/-]+)?(?:#[\w.%~+=&/:()-]+)?"
# Most links match one of these patterns. Such a link can be joined by plain concatenation.
_BELOW = re.compile(rf"{_PATH}(?:/{_PATH})*/?{_END}", re.ASCII)
_WITHIN = re.compile(r"#[\w.%~+=&/:()-]+", re.ASCII)
_WHOLE = re.compile(rf"https?://[\w.-]+(?::\d+)?(?:(?:/{_PATH})+/?{_END})?", re.ASCII)


class Base:
    """The base URL of a page's links.

    A call of ``urljoin`` takes 5 µs and more, and pages have thousands of links. Plain links are
    joined without it.

    Args:
        url: The page's URL, or the one in its ``base`` element.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._page = join_url(url, "#x")[:-1]
        self._root = join_url(url, "/x")[:-1]
        self._folder = join_url(url, "x")[:-1]

    def join(self, href: str) -> str:
        """Return the URL of a link, as ``urljoin`` does.

        A link that cannot be parsed is returned unchanged.
        """
        first = href[:1]
        if first == "#" and _WITHIN.fullmatch(href):
            return self._page + href[1:]
        if first == "/" and _BELOW.fullmatch(href, 1):
            return self._root + href[1:]
        if first not in ("#", "/"):
            if _BELOW.fullmatch(href):
                return self._folder + href
            if _WHOLE.fullmatch(href):
                return href
        return join_url(self._url, href)


def join_url(url: str, href: str) -> str:
    """Return the URL of a link; a link that cannot be parsed is returned unchanged."""
    try:
        return urljoin(url, href)
    except ValueError:
        return href


def make_absolute(link: LexborNode, base: Base, url: str) -> None:
    """Make a link absolute, or turn it into a fragment if it refers to its own page.

    A link without a usable address is replaced by its text.
    """
    attributes = link.attributes
    href = (attributes.get("href") or "").strip()
    target = base.join(href) if href else ""
    page, _, fragment = target.partition("#")
    if fragment and page == url:
        # Headings link to themselves.
        target = "" if _is_in_heading(link) else f"#{fragment}"
    if not target.startswith(_SCHEMES) or len(target) > MAX_URL:
        # Unwrapped rather than removed, because a link without an end tag contains the rest of the
        # page.
        link.unwrap()
        return
    link.attrs["href"] = target
    if "title" in attributes:
        del link.attrs["title"]


def _is_in_heading(link: LexborNode) -> bool:
    return link.parent is not None and link.parent.tag in _HEADINGS
