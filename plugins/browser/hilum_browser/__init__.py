"""A real browser for the agent."""

from __future__ import annotations

from collections.abc import AsyncIterator

import trio
from hilum import Session, hookimpl

from hilum_browser.settings import BrowserSettings
from hilum_browser.tool import Browsers

__all__ = [
    "BrowserSettings",
    "Browsers",
    "open_session",
]

# A session must not run without this gate, which asks users before opening one of their services.
gates = ("on_tool_call",)


@hookimpl
async def open_session(session: Session) -> AsyncIterator[Browsers]:
    """Yield the browser of a session, which starts when the first page is opened."""
    async with trio.open_nursery() as nursery:
        browsers = Browsers(session, nursery)
        try:
            yield browsers
        finally:
            # Shield the end of the browser from cancellation, because a cancelled session must not
            # leave a browser running.
            with trio.CancelScope(shield=True):
                await browsers.end()
            nursery.cancel_scope.cancel()
