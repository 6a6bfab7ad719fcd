"""Suggests selectors of elements with similar names when a selector matches nothing."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from playwright.async_api import Error, Page

MIN_SIMILARITY = 0.6
MAX_SUGGESTIONS = 3
MAX_SELECTOR = 120
TIMEOUT = 2.0
# Returns, for each element, its possible names and a selector that matches it.
_ELEMENTS = """() => {
  const elements = document.querySelectorAll('a, button, input, select, textarea, summary,'
    + ' [role], [id], [name], [data-testid], [aria-label]');
  return [...elements].slice(0, 500).map(element => {
    const tag = element.tagName.toLowerCase();
    const text = (element.innerText || element.value || '')
      .trim().slice(0, 40).replace(/\\s+/g, ' ');
    const attributes = ['id', 'name', 'data-testid', 'aria-label', 'class']
      .map(name => [name, (element.getAttribute(name) || '').slice(0, 60)]);
    const [name, value] = attributes.find(([, value]) => value) || ['', ''];
    const names = [...attributes.flatMap(([, value]) => value.split(' ')), text];
    if (name == 'id' && /^[\\w-]+$/.test(value)) return [names, '#' + value];
    if (name) return [names, tag + '[' + name + '=' + JSON.stringify(value) + ']'];
    return [names, text ? tag + ':has-text(' + JSON.stringify(text) + ')' : ''];
  });
}"""


async def suggest_selectors(page: Page, selector: str) -> list[str]:
    """Return selectors of elements whose names resemble those in a selector, best match first.

    Args:
        page: The page.
        selector: The selector that matches nothing.
    """
    try:
        elements = await asyncio.wait_for(page.evaluate(_ELEMENTS), TIMEOUT)
    except (Error, TimeoutError):
        return []
    # The result is only shown as text, so a malicious page gains nothing by faking it.
    if not isinstance(elements, list):  # the page may have replaced built-in functions
        return []
    words = [word.lower() for word in re.findall(r"[^\W\d][\w-]+", selector)]
    scores: dict[str, float] = {}
    for names, found in elements:
        score = _compare(words, [str(name).lower() for name in names if name])
        suggestion = str(found or "")[:MAX_SELECTOR]
        if suggestion and score >= MIN_SIMILARITY:
            scores[suggestion] = max(score, scores.get(suggestion, 0.0))
    return sorted(scores, key=lambda suggestion: -scores[suggestion])[:MAX_SUGGESTIONS]


def _compare(words: Sequence[str], names: Sequence[str]) -> float:
    """Return the highest similarity between a word and a name, from 0 to 1."""
    best = 0.0
    for word in words:
        for name in names:
            best = max(best, SequenceMatcher(None, word, name).ratio())
    return best
