"""Fetches pages: checked redirects, limits and a cache."""

from __future__ import annotations

import hashlib
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urldefrag

import msgspec
import trio
from hilum import ToolError, errors

from hilum_web.addresses import Reach
from hilum_web.body import read_body
from hilum_web.bounded_cache import store
from hilum_web.http_client import (
    REQUEST_ERRORS,
    Response,
    find_redirect,
    open_page_client,
    to_tool_error,
)
from hilum_web.messages import format_retry, format_site
from hilum_web.resolver import resolve_url
from hilum_web.robots import Robots
from hilum_web.settings import WebSettings
from hilum_web.urls import Target

if TYPE_CHECKING:
    from hilum_web.reader_process import PageText

# Some documentation sites send Markdown to clients that prefer it. Markdown needs no conversion.
ACCEPT = (
    "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8,"
    " application/json;q=0.8, */*;q=0.5"
)
MAX_REQUESTS = 10
# Seconds for which a cached page is used: long enough to read all parts of a page, and short enough
# for documentation that changes.
FRESH_SECONDS = 300.0
MAX_PAGES = 30
MAX_CACHED_BYTES = 60_000_000
# Digests are small enough to keep for a long time, so a change is detected even after the page has
# been removed from the cache.
MAX_DIGESTS = 600
_NO_CACHE = re.compile(r"no-store|no-cache|max-age=0\b", re.I)
_STATUS_HINTS = {
    401: "The page requires a login, which is not possible here; use another source.",
    402: "The page requires payment; use another source.",
    403: "The site refuses requests from programs; use another source, or the browser.",
    404: "Check the address, or search for the page.",
    410: "The page was removed; search for another copy.",
}


class Page(msgspec.Struct):
    """A fetched page.

    Args:
        url: The URL of the page, after redirects.
        body: The decompressed body.
        content_type: The header ``Content-Type``.
        etag: The header ``ETag``; empty if there is none.
        modified: The header ``Last-Modified``; empty if there is none.
        at: The ``time.monotonic`` value when the page was fetched or last revalidated.
        texts: The readable texts of the page, by fragment. Later parts of the page are read from
            these texts.
        changed: Whether an earlier fetch of the same URL returned a different body.
        cacheable: Whether the page may be reused for a while without contacting the site.
    """

    url: str
    body: bytes
    content_type: str = ""
    etag: str = ""
    modified: str = ""
    at: float = 0.0
    texts: dict[str, PageText] = msgspec.field(default_factory=dict)
    changed: bool = False
    cacheable: bool = True

    def is_fresh(self, *, continued: bool) -> bool:
        """Return whether the page may be used without contacting the site."""
        if time.monotonic() - self.at >= FRESH_SECONDS:
            return False
        return continued or self.cacheable

    def validators(self) -> dict[str, str]:
        """Return the headers of a conditional request for the page."""
        headers = {"if-none-match": self.etag, "if-modified-since": self.modified}
        return {name: value for name, value in headers.items() if value}


class Fetcher:
    """A fetcher of pages for one session.

    Args:
        settings: The limits, and the allowed hosts outside the public network.
    """

    def __init__(self, settings: WebSettings) -> None:
        self._settings = settings
        self._reach = Reach(hosts=frozenset(settings.hosts))
        self._client = open_page_client(self._reach)
        # At least half of the time limit must remain for the page itself.
        self._robots = Robots(self._client, self._reach, settings.timeout / 2)
        self._pages: OrderedDict[str, Page] = OrderedDict()
        self._digests: OrderedDict[str, bytes] = OrderedDict()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def fetch(
        self,
        url: str,
        *,
        continued: bool = False,
        before_request: Callable[[], None] | None = None,
    ) -> Page:
        """Fetch a page, or return it from the cache.

        Args:
            url: The URL of the page.
            continued: Whether a later part of the page is requested. For a later part, a cached
                page is used even if the site forbids caching, so that the parts fit together.
            before_request: Function that is called before each request for the page.

        Raises:
            ToolError: The page cannot be fetched; the message names the site.
        """
        # Servers never see the fragment, so all fragments share one cached page.
        url = urldefrag(url)[0]
        known = self._pages.get(url)
        if known is not None and known.is_fresh(continued=continued):
            self._pages.move_to_end(url)
            return known
        seen: list[str] = []
        seconds = self._settings.timeout
        try:
            with trio.fail_after(seconds):
                page = await self._follow(url, known, seen, before_request)
        except trio.TooSlowError:
            raise ToolError(
                f"{format_site(seen[-1])} did not respond completely within {seconds:g} s.",
                code=errors.E_TIMEOUT,
                hint="Try a smaller or different page, or try again later.",
            ) from None
        except REQUEST_ERRORS as error:
            # The model knows only the first URL, but the error is about the last one.
            redirected_by = format_site(seen[0]) if len(seen) > 1 else ""
            raise to_tool_error(error, seen[-1], seconds, redirected_by) from None
        if page is not known:
            self._store(url, page)
        return page

    async def _follow(
        self,
        url: str,
        known: Page | None,
        seen: list[str],
        before_request: Callable[[], None] | None,
    ) -> Page:
        """Follow redirects, and append each requested URL to ``seen``."""
        while True:
            _check_redirects(url, seen)
            seen.append(url)
            # The connection checks the addresses again. This check comes first, so that not even
            # the robots.txt of a refused site is requested.
            target, _ = await resolve_url(url, self._reach)
            if self._settings.robots:
                await self._robots.check(target.url)
            if before_request is not None:
                before_request()
            # A page's validators are sent only to the URL from which the page came. After a
            # redirect, validators would reveal the response of one site to another site.
            cached = known
            if known is not None and known.url != target.url:
                cached = None
            validators = cached.validators() if cached is not None else {}
            headers = {"accept": ACCEPT, **validators}
            async with self._client.stream("GET", target.url, headers=headers) as response:
                if response.status_code == HTTPStatus.NOT_MODIFIED and cached and validators:
                    cached.at = time.monotonic()
                    cached.changed = False
                    return cached
                url = find_redirect(response, target.url)
                if not url:
                    return await self._receive(response, target)

    async def _receive(self, response: Response, target: Target) -> Page:
        headers = response.headers
        if response.status_code != HTTPStatus.OK:
            raise _explain_status(response.status_code, target.url, headers.get("retry-after", ""))
        body = await read_body(response, target.url, self._settings.max_bytes)
        # A page on the user's own network is not cacheable, because the user may be editing it.
        is_own = self._reach.lists(target.host, target.port)
        return Page(
            url=target.url,
            body=body,
            content_type=headers.get("content-type", ""),
            etag=headers.get("etag", ""),
            modified=headers.get("last-modified", ""),
            at=time.monotonic(),
            cacheable=not is_own and not _NO_CACHE.search(headers.get("cache-control", "")),
        )

    def _store(self, url: str, page: Page) -> None:
        digest = hashlib.blake2b(page.body, digest_size=16).digest()
        # The model must learn that later parts belong to another version of the page.
        page.changed = self._digests.get(url, digest) != digest
        store(self._digests, url, digest, MAX_DIGESTS)
        store(self._pages, url, page, MAX_PAGES)
        size = sum(len(each.body) for each in self._pages.values())
        # The newest page stays even if it alone exceeds the limit.
        while size > MAX_CACHED_BYTES and len(self._pages) > 1:
            _, dropped = self._pages.popitem(last=False)
            size -= len(dropped.body)


def _check_redirects(url: str, seen: list[str]) -> None:
    if url in seen:
        problem = "in a loop"
    elif len(seen) >= MAX_REQUESTS:
        problem = f"more than {MAX_REQUESTS} times"
    else:
        return
    raise ToolError(
        f"{format_site(seen[0])} redirects {problem}.",
        code=errors.E_HTTP,
        hint="Try another URL for the page.",
    )


def _explain_status(status: int, url: str, retry_after: str) -> ToolError:
    """Return the error for an HTTP status of a page."""
    try:
        shown = f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        shown = str(status)
    retry = format_retry(retry_after)
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        hint = f"It receives too many requests; try again {retry}, or use another source."
    elif status == HTTPStatus.SERVICE_UNAVAILABLE:
        hint = f"Try again {retry}, or use another source."
    elif status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        hint = "Try again later, or use another source."
    else:
        hint = _STATUS_HINTS.get(status, "Use another source.")
    return ToolError(
        f"{format_site(url)} responded with {shown} for {url[:300]}.", code=errors.E_HTTP, hint=hint
    )
