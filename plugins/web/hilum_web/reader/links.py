"""Makes the links in a page absolute."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urljoin

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

MAX_URL = 1_000
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_SCHEMES = ("http://", "https://", "#", "mailto:", "ftp:")


def join_url(url: str, href: str) -> str:
    """Return the URL of a link; a link that cannot be parsed is returned unchanged."""
    try:
        return urljoin(url, href)
    except ValueError:
        return href


def make_absolute(link: LexborNode, base: str, url: str) -> None:
    """Make a link absolute, or turn it into a fragment if it refers to its own page.

    A link without a usable URL is replaced with its text.

    Args:
        link: The link.
        base: The base URL of the page's links.
        url: The URL of the page.
    """
    attributes = link.attributes
    href = (attributes.get("href") or "").strip()
    target = join_url(base, href) if href else ""
    page, _, fragment = target.partition("#")
    if fragment and page == url:
        # Headings link to themselves.
        target = "" if _is_in_heading(link) else f"#{fragment}"
    if not target.startswith(_SCHEMES) or len(target) > MAX_URL:
        # The link is unwrapped rather than removed, because a link without an end tag contains the
        # rest of the page.
        link.unwrap()
        return
    link.attrs["href"] = target
    if "title" in attributes:
        del link.attrs["title"]


def _is_in_heading(link: LexborNode) -> bool:
    return link.parent is not None and link.parent.tag in _HEADINGS
