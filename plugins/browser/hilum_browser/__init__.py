"""A real browser for the agent."""

from __future__ import annotations

from collections.abc import AsyncIterator

import trio
from hilum import Session, hookimpl

from hilum_browser.finding import find_chromium, has_playwright, report
from hilum_browser.settings import BrowserSettings
from hilum_browser.tool import Browsers

__all__ = [
    "BrowserSettings",
    "Browsers",
    "find_chromium",
    "has_playwright",
    "open_session",
    "report",
]

# Asks before a page of the user's own services is opened.
gates = ("on_tool_call",)


@hookimpl
async def open_session(session: Session) -> AsyncIterator[Browsers]:
    """Yield the session its browser, which starts with the first page and ends with the session."""
    async with trio.open_nursery() as nursery:
        browsers = Browsers(session, nursery)
        try:
            yield browsers
        finally:
            with trio.CancelScope(shield=True):
                await browsers.end()
            nursery.cancel_scope.cancel()
