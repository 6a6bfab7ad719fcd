"""What a selector may have meant that fits nothing: the elements of the page with the nearest
names.
"""

from __future__ import annotations

import asyncio
import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.async_api import Page

NEAR = 0.6
# Each element as the words it may be known by, and the selector that fits it.
_ELEMENTS = """() => [...document.querySelectorAll(
    'a, button, input, select, textarea, summary, [role], [id], [name], [data-testid], [aria-label]')].slice(0, 500).map(e => {
  const tag = e.tagName.toLowerCase(), text = (e.innerText || e.value || '').trim().slice(0, 40).replace(/\\s+/g, ' ');
  const by = ['id', 'name', 'data-testid', 'aria-label', 'class'].map(n => [n, (e.getAttribute(n) || '').slice(0, 60)]);
  const [name, value] = by.find(([, v]) => v) || ['', ''];
  const quoted = JSON.stringify(value);
  return [[...by.flatMap(([, v]) => v.split(' ')), text],
    name == 'id' && /^[\\w-]+$/.test(value) ? '#' + value : name ? tag + '[' + name + '=' + quoted + ']' :
    text ? tag + ':has-text(' + JSON.stringify(text) + ')' : '']
})"""


async def near(page: Page, selector: str) -> list[str]:
    """Give up to three selectors of elements with names like those in a selector.

    Args:
        page: The page.
        selector: What fits nothing.
    """
    from playwright.async_api import Error

    try:
        found = await asyncio.wait_for(page.evaluate(_ELEMENTS), 2)
    except (Error, TimeoutError):
        return []
    wanted = [word.lower() for word in re.findall(r"[^\W\d][\w-]*", selector) if len(word) > 1]
    best: dict[str, float] = {}
    for known, fitting in found if isinstance(found, list) else ():
        names = [str(word).lower() for word in known if word]
        alike = max(
            (SequenceMatcher(None, one, name).ratio() for one in wanted for name in names),
            default=0.0,
        )
        if fitting and alike >= NEAR:
            best[str(fitting)[:120]] = max(alike, best.get(str(fitting)[:120], 0.0))
    return sorted(best, key=lambda fitting: -best[fitting])[:3]
