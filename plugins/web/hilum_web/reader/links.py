"""The addresses of a page's links, made absolute."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urljoin

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

LONGEST = 1_000
_HEADS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))

_PATH = r"[\w%~+@=-][\w.%~+@=-]*"
_END = r"(?:\?[\w.%~+=&/-]+)?(?:#[\w.%~+=&/:()-]+)?"
# What most links are: nothing in them is written otherwise once they are joined to something.
_BELOW = re.compile(rf"{_PATH}(?:/{_PATH})*/?{_END}", re.ASCII)
_WITHIN = re.compile(r"#[\w.%~+=&/:()-]+", re.ASCII)
_WHOLE = re.compile(rf"https?://[\w.-]+(?::\d+)?(?:(?:/{_PATH})+/?{_END})?", re.ASCII)


class Base:
    """What a page's links are relative to.

    ``urljoin`` takes 5 µs and more, and pages have thousands of them.

    Args:
        url: The page's address, or what it says.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._page, self._root, self._folder = (
            joined(url, each)[:-1] for each in ("#x", "/x", "x")
        )

    def join(self, href: str) -> str:
        """Return the address that a reference stands for, as ``urljoin`` does.

        What cannot be read is left as it is.
        """
        first = href[:1]
        if first == "#":
            if _WITHIN.fullmatch(href):
                return self._page + href[1:]
            return joined(self._url, href)
        if first == "/":
            if _BELOW.fullmatch(href, 1):
                return self._root + href[1:]
            return joined(self._url, href)
        if _BELOW.fullmatch(href):
            return self._folder + href
        if _WHOLE.fullmatch(href):
            return href
        return joined(self._url, href)


def joined(url: str, href: str) -> str:
    """Join as ``urljoin``; what cannot be read is left as it is."""
    try:
        return urljoin(url, href)
    except ValueError:
        return href


def linked(link: LexborNode, base: Base, url: str) -> None:
    """Make the address of a link absolute; within its page it is a fragment.

    What leads nowhere is text.
    """
    said = link.attributes
    href = (said.get("href") or "").strip()
    target = base.join(href) if href else ""
    page, _, fragment = target.partition("#")
    if fragment and page == url:
        target = f"#{fragment}"
        if link.parent is not None and (link.parent.tag or "") in _HEADS:
            target = ""
    if (
        not target.startswith(("http://", "https://", "#", "mailto:", "ftp:"))
        or len(target) > LONGEST
    ):
        link.unwrap()  # where it is not closed, all that follows is in it
        return
    link.attrs["href"] = target
    if "title" in said:
        del link.attrs["title"]
