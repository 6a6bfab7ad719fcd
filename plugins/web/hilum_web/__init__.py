"""Web search and web pages for the agent, and the address check for other plugins."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from hilum import AddressRefused, Tool, hookimpl

from hilum_web.address_policy import open_checked_client as open_client
from hilum_web.addresses import METADATA, PUBLIC, Reach
from hilum_web.resolver import resolve_url
from hilum_web.session_plugin import Web
from hilum_web.settings import WebSettings
from hilum_web.tools import web_fetch, web_search
from hilum_web.urls import InvalidUrl, Target, UnknownHost, Verdict, check_url, parse_url

if TYPE_CHECKING:
    from hilum import Session

__all__ = [
    "METADATA",
    "PUBLIC",
    "AddressRefused",
    "InvalidUrl",
    "Reach",
    "Target",
    "UnknownHost",
    "Verdict",
    "Web",
    "WebSettings",
    "check_url",
    "open_client",
    "open_session",
    "parse_url",
    "provide_tools",
    "resolve_url",
    "web_fetch",
    "web_search",
]


@hookimpl
def provide_tools(session: Session) -> Sequence[Tool]:
    """Return both tools, unless the user has disabled them."""
    if session.settings(WebSettings).enabled:
        return (web_search, web_fetch)
    return ()


@hookimpl
async def open_session(session: Session) -> AsyncIterator[Web]:
    """Yield the plugin instance of a session. Connections are opened on first use."""
    web = Web(session.settings(WebSettings))
    # What the first page needs.
    session.import_later("hilum_web.pages")
    try:
        yield web
    finally:
        await web.aclose()
