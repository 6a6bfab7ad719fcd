"""The page that is in front: browsers draw the others once a second, which makes every click in
them take seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

    from .tabs import Tab

WAITS = ("wait", "wait_idle")
"""Actions that are done beside others, of other agents.

They leave in front what is there while others act.
"""


class Front:
    """Keeps the page that is worked with in front of all others of a browser.

    Args:
        context: The browser's profile.
    """

    def __init__(self, context: BrowserContext) -> None:
        self._context = context
        self._strangers: frozenset[Page] = frozenset()

    async def bring(self, tab: Tab) -> None:
        """Put a tab in front.

        It is done each time: it takes 3 ms, and nothing tells of all that may have come before it.

        Raises:
            playwright.async_api.Error: It is closed.
        """
        await tab.page.bring_to_front()

    def strangers(self, tabs: Iterable[Tab]) -> frozenset[Page]:
        """Return the pages that are in no tab: their opener was closed before it was told of them.

        One that was not among them at the last call is left out, as its tab may be about to be
        made.
        """
        found = frozenset(self._context.pages) - {tab.page for tab in tabs}
        lost = found & self._strangers
        self._strangers = found
        return lost
