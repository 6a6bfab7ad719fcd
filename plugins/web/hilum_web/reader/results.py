"""Pages of results of search engines that have no other format for everybody."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from selectolax.lexbor import LexborHTMLParser

# Characters of a title or an extract, results of a page: who shows them wants fewer.
LONGEST = 5_000
MOST = 50
_RESULTS = ".result, .results, .no-results, #links"
_REFUSED = ".anomaly-modal__modal, #challenge-form, .anomaly-modal"


def duckduckgo(page: str) -> tuple[list[tuple[str, str, str]], bool, bool]:
    """Read DuckDuckGo's plain page of results.

    Returns:
        Title, address and extract of each result, without advertisements; whether it asks if we are
        a robot instead; and whether it is a page of results at all.
    """
    tree = LexborHTMLParser(page)
    found = []
    for each in tree.css(".result"):
        link = each.css_first("a.result__a")
        if link is None or "result--ad" in (each.attributes.get("class") or ""):
            continue
        snippet = each.css_first(".result__snippet")
        extract = snippet.text()[:LONGEST] if snippet is not None else ""
        found.append((link.text()[:LONGEST], _target(link.attributes.get("href") or ""), extract))
        if len(found) == MOST:
            break
    return (
        found,
        not found and tree.css_first(_REFUSED) is not None,
        tree.css_first(_RESULTS) is not None,
    )


def _target(href: str) -> str:
    """The page that a link of DuckDuckGo leads to: it goes by way of its own address."""
    try:
        parts = urlsplit(href)
        if parts.path.startswith("/l/"):
            inner = parse_qs(parts.query).get("uddg", [""])[0]
        else:
            inner = ""
    except ValueError:
        return ""
    return inner or (f"https:{href}" if href.startswith("//") else href)
