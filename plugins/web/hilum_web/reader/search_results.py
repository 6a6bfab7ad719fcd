"""Reads result pages of search engines that offer no other public format."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

from selectolax.lexbor import LexborHTMLParser, LexborNode

from .charsets import decode

# The limit exceeds the length of the texts that the tool shows, because the tool itself shortens
# and cleans them.
MAX_TEXT = 5_000
MAX_RESULTS = 50
_RESULTS = ".result, .results, .no-results, #links"
_CHALLENGES = ".anomaly-modal__modal, #challenge-form, .anomaly-modal"

Frame = dict[str, object]


def read_frames(body: bytes, request: dict[str, str]) -> Iterator[Frame]:
    """Yield the content of DuckDuckGo's plain result page.

    Yields:
        One frame: ``results``, rows of title, URL and extract, without advertisements; ``robot``,
        whether the page is a challenge for bots; ``known``, whether it is a result page.
    """
    tree = LexborHTMLParser(decode(body, request["type"]))
    rows = []
    for each in tree.css(".result"):
        row = _read_row(each)
        if row is not None:
            rows.append(row)
        if len(rows) == MAX_RESULTS:
            break
    yield {
        "results": rows,
        "robot": not rows and tree.css_first(_CHALLENGES) is not None,
        "known": tree.css_first(_RESULTS) is not None,
        "end": True,
    }


def _read_row(node: LexborNode) -> tuple[str, str, str] | None:
    link = node.css_first("a.result__a")
    if link is None or "result--ad" in (node.attributes.get("class") or ""):
        return None
    url = _resolve_redirect(link.attributes.get("href") or "")
    snippet = node.css_first(".result__snippet")
    extract = snippet.text() if snippet is not None else ""
    return link.text()[:MAX_TEXT], url, extract[:MAX_TEXT]


def _resolve_redirect(href: str) -> str:
    """Return the target page of a DuckDuckGo link, which points to DuckDuckGo's own redirector."""
    try:
        parts = urlsplit(href)
        if parts.path.startswith("/l/"):
            targets = parse_qs(parts.query).get("uddg")
            if targets:
                return targets[0]
    except ValueError:
        return ""
    return f"https:{href}" if href.startswith("//") else href
