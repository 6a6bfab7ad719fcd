"""Loads pages, waits for their resources, and explains why a page does not load."""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from playwright.async_api import Error, Response, TimeoutError

from .errors import ActionError, explain_network_error, format_site
from .protocol import Answer

if TYPE_CHECKING:
    from .tabs import Tab

# Seconds to wait for all resources of a page after the server has responded.
LOAD_TIMEOUT = 10.0
Move = Callable[..., Awaitable[Response | None]]


class Navigation:
    """A loader of pages.

    Args:
        seconds: The number of seconds within which the server must respond.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def load(self, tab: Tab, move: Move, url: str = "", direction: str = "") -> Answer:
        """Load a page in a tab.

        Args:
            tab: The tab.
            move: The method of the Playwright page that starts the navigation: ``goto``,
                ``go_back`` ….
            url: The URL to load; empty for the current page and for a page in the history.
            direction: The direction in the history, for messages; empty if the page is not in the
                history.

        Raises:
            ActionError: The page does not load.
        """
        # The error page of an earlier failure would interrupt this navigation.
        await tab.wait_for_error_page()
        tab.failed = None
        before = tab.page.url
        try:
            response = await self._commit(tab, move)
        except TimeoutError:
            raise await self._explain_timeout(tab, url or before) from None
        except Error as error:
            if "Download is starting" in str(error):
                return {"text": "The URL points to a file, not a page."}
            await tab.wait_for_error_page()
            raise
        # A page in the history may also come from the cache, without a request.
        if response is None and direction and tab.page.url == before:
            return {"text": f"There is no page to go {direction} to."}
        # A page that never stops loading is not an error, because its content is available.
        note = ""
        try:
            await tab.page.wait_for_load_state("load", timeout=1000 * LOAD_TIMEOUT)
        except TimeoutError:
            note = f" It is still loading after {LOAD_TIMEOUT:g} s."
        if response is None:
            return {"text": f"Loaded without a request.{note}", "status": 0}
        return {"text": f"Loaded, HTTP {response.status}.{note}", "status": response.status}

    async def _commit(self, tab: Tab, move: Move) -> Response | None:
        """Wait for the server's response."""
        limit = 1000 * self._seconds
        try:
            return await move(wait_until="commit", timeout=limit)
        except Error as error:
            # The error page may appear after wait_for_error_page() has given up.
            if 'interrupted by another navigation to "chrome-error:' not in str(error):
                raise
            await tab.page.wait_for_url(_is_no_error_page, wait_until="commit", timeout=limit)
            return tab.answer

    async def _explain_timeout(self, tab: Tab, url: str) -> Exception:
        if tab.failed is not None:
            return explain_network_error(*tab.failed)
        if tab.open_dialog is not None:
            return builtins.TimeoutError()
        await tab.stop()
        return ActionError(
            "E_TIMEOUT",
            f"{format_site(url)} did not respond within {self._seconds:g} s.",
            "Try again, or check the server's log.",
        )


def _is_no_error_page(url: str) -> bool:
    return not url.startswith("chrome-error:")
