"""Web search and web pages for the agent, and the check of addresses that every plugin with a
network shares.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from hilum import Tool, hookimpl

from hilum_web.addresses import METADATA, PUBLIC, Reach
from hilum_web.body import ENCODINGS, read_body
from hilum_web.connecting import (
    AddressRefused,
    HostUnknown,
    UrlUnread,
    checked,
    located,
    open_client,
)
from hilum_web.failures import later
from hilum_web.half import Web
from hilum_web.reader.unseen import line
from hilum_web.reading import web_fetch
from hilum_web.searching import web_search
from hilum_web.settings import WebSettings
from hilum_web.urls import Target, Verdict, check_url, read_url

if TYPE_CHECKING:
    from hilum import Session

__all__ = [
    "ENCODINGS",
    "METADATA",
    "PUBLIC",
    "AddressRefused",
    "HostUnknown",
    "Reach",
    "Target",
    "UrlUnread",
    "Verdict",
    "Web",
    "WebSettings",
    "check_url",
    "checked",
    "later",
    "line",
    "located",
    "open_client",
    "open_session",
    "provide_tools",
    "read_body",
    "read_url",
    "web_fetch",
    "web_search",
]


@hookimpl
def provide_tools(session: Session) -> Sequence[Tool]:
    """Return both tools, unless the user has switched them off."""
    if session.settings(WebSettings).enabled:
        return (web_search, web_fetch)
    return ()


@hookimpl
async def open_session(session: Session) -> AsyncIterator[Web]:
    """Keep connections and pages as long as the session.

    Nothing is opened before it is asked for.
    """
    web = Web(session.settings(WebSettings))
    try:
        yield web
    finally:
        await web.aclose()
