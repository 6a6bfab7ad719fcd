"""Finds pages that belong to no tab."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

    from .tabs import Tab


class OrphanFinder:
    """Finds pages that belong to no tab, because their opener was closed before they were reported.

    Args:
        context: The browser's profile.
    """

    def __init__(self, context: BrowserContext) -> None:
        self._context = context
        self._without_tab: frozenset[Page] = frozenset()

    def find(self, tabs: Iterable[Tab]) -> frozenset[Page]:
        """Return the pages without a tab.

        A page is returned only if it has no tab at two calls, because its tab may be about to open
        at the first one.
        """
        without_tab = frozenset(self._context.pages) - {tab.page for tab in tabs}
        orphans = without_tab & self._without_tab
        self._without_tab = without_tab
        return orphans
