"""Going to a page: its answer, what is loaded after it, and why it does not come."""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from .failures import Failed, network, site

if TYPE_CHECKING:
    from .tabs import Tab

LOADED = 10.0
"""Seconds to wait for everything in a page, once it has begun to come."""


class Going:
    """Goes to pages.

    Args:
        seconds: How long one may take to begin to come.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def to(self, tab: Tab, url: str) -> dict[str, Any]:
        """Load a page.

        Raises:
            Failed: It does not come.
        """
        return await self._go(
            tab, lambda most: tab.page.goto(url, wait_until="commit", timeout=most), url
        )

    async def back(self, tab: Tab) -> dict[str, Any]:
        """Go to the page before this one; fails as ``to`` does."""
        return await self._go(
            tab, lambda most: tab.page.go_back(wait_until="commit", timeout=most), none="back"
        )

    async def forward(self, tab: Tab) -> dict[str, Any]:
        """Go to the page after this one; fails as ``to`` does."""
        return await self._go(
            tab, lambda most: tab.page.go_forward(wait_until="commit", timeout=most), none="forward"
        )

    async def reload(self, tab: Tab) -> dict[str, Any]:
        """Load the page again; fails as ``to`` does."""
        return await self._go(tab, lambda most: tab.page.reload(wait_until="commit", timeout=most))

    async def _go(
        self, tab: Tab, move: Callable[[float], Awaitable[Any]], url: str = "", none: str = ""
    ) -> dict[str, Any]:
        from playwright.async_api import Error, TimeoutError

        await tab.error_page()  # of a page that could not be loaded before
        tab.failed = None
        before = tab.page.url
        most = 1000 * self._seconds
        try:
            try:
                response = await move(most)
            except Error as error:
                if 'interrupted by another navigation to "chrome-error:' not in str(error):
                    raise
                await tab.page.wait_for_url(_no_error_page, wait_until="commit", timeout=most)
                response = tab.answer
        except TimeoutError:
            if tab.failed is not None:
                raise network(*tab.failed) from None
            if tab.asking is not None:
                raise builtins.TimeoutError from None
            await tab.stop()
            message = f"{site(url or before)} did not answer within {self._seconds:g} s."
            raise Failed(
                "E_TIMEOUT", message, "Is its server well? Try again, or look at its log."
            ) from None
        except Error as error:
            if "Download is starting" in str(error):
                return {"text": "There is no page there, but a file."}
            await tab.error_page()
            raise
        if response is None and none and tab.page.url == before:
            return {"text": f"There is no page to go {none} to."}
        note = ""
        try:
            await tab.page.wait_for_load_state("load", timeout=1000 * LOADED)
        except TimeoutError:
            note = f" It is still loading after {LOADED:g} s."
        if response is not None:
            status = f"HTTP {response.status}"
        else:
            status = "no request was needed"
        return {
            "text": f"Loaded, {status}.{note}",
            "status": response.status if response is not None else 0,
        }


def _no_error_page(url: str) -> bool:
    return not url.startswith("chrome-error:")
