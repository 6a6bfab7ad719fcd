"""Fetching a page: robots, redirects that are checked one by one, limits, and what was fetched
before.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections import OrderedDict
from typing import TYPE_CHECKING
from urllib.parse import urldefrag, urljoin, urlsplit

import msgspec
import trio
from hilum import ToolError, errors

from hilum_web.addresses import Reach
from hilum_web.body import ENCODINGS, read_body
from hilum_web.connecting import AddressRefused, checked
from hilum_web.failures import failure, later, site
from hilum_web.settings import WebSettings
from hilum_web.urls import Target

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx
    from protego import Protego

    from hilum_web.converting import Text

AGENT = "hilum/0.1 (coding agent; fetches single pages on a user's behalf)"
NAME = "hilum"
ACCEPT = (
    "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8,"
    " application/json;q=0.8, */*;q=0.5"
)
MOST_HOPS = 10
# Seconds for which a page is taken as it was: long enough to read on in it, short enough for
# documentation that changes.
FRESH = 300.0
KEPT = 30
KEPT_BYTES = 60_000_000
ROBOTS_BYTES = 500_000
ROBOTS_HOPS = 6
ROBOTS_FRESH = 3_600.0


class Page(msgspec.Struct):
    """What was fetched.

    Args:
        url: Where it was found in the end.
        body: What was sent, unpacked.
        content_type: As the server says.
        etag: What it is asked for again with; empty for nothing.
        modified: When it was changed, as the server says.
        at: ``time.monotonic`` when it was fetched or known to be the same.
        read: What was made readable of it, by the part that was wanted; kept with it, so that
            reading on costs little.
        changed: Whether it was something else when it was fetched before.
        kept: Whether the server lets it be taken as it was for a while.
    """

    url: str
    body: bytes
    content_type: str = ""
    etag: str = ""
    modified: str = ""
    at: float = 0.0
    read: dict[str, Text] = msgspec.field(default_factory=dict)
    changed: bool = False
    kept: bool = True


class Fetcher:
    """Fetches pages for one session.

    Args:
        settings: How much, how long, and which hosts beyond the public network.
    """

    def __init__(self, settings: WebSettings) -> None:
        self._settings = settings
        self._reach = Reach(hosts=frozenset(settings.hosts))
        self._client: httpx.AsyncClient | None = None
        self._pages: OrderedDict[str, Page] = OrderedDict()
        self._robots: OrderedDict[str, tuple[float, Protego | None]] = OrderedDict()
        # What a page was when it was last fetched, also when it is kept no more: for whoever reads
        # on in it.
        self._before: OrderedDict[str, bytes] = OrderedDict()

    async def aclose(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()

    def _open(self) -> httpx.AsyncClient:
        if self._client is None:
            from hilum_web.network import client

            self._client = client(
                self._reach,
                headers={"user-agent": AGENT, "accept-encoding": ENCODINGS},
                timeout=None,
            )
        return self._client

    async def fetch(
        self, url: str, *, on: bool = False, asking: Callable[[], None] | None = None
    ) -> Page:
        """Fetch a page, or give it as it was fetched a short while ago.

        Args:
            url: Its address.
            on: Whether somebody reads on in it: what they have begun is given as long as it is
                known.
            asking: Called when a site is about to be asked for it.

        Raises:
            ToolError: It cannot be fetched; the site is named.
        """
        import httpx

        url = urldefrag(url)[0]
        known = self._pages.get(url)
        if known is not None and time.monotonic() - known.at < FRESH and (on or known.kept):
            self._pages.move_to_end(url)
            return known
        seen: list[str] = []
        try:
            with trio.fail_after(self._settings.timeout):
                page = await self._follow(url, known, seen, asking)
        except trio.TooSlowError:
            seconds = self._settings.timeout
            raise ToolError(
                f"{site(seen[-1])} did not answer in full within {seconds:g} s.",
                code=errors.E_TIMEOUT,
                hint="Try a smaller page, another one, or later.",
            ) from None
        except (
            httpx.HTTPError,
            httpx.InvalidURL,
            httpx.StreamError,
            AddressRefused,
            OSError,
        ) as error:
            raise failure(
                error, seen[-1], self._settings.timeout, site(seen[0]) if len(seen) > 1 else ""
            ) from None
        if page is not known:
            self._keep(url, page)
        return page

    async def _follow(
        self, url: str, known: Page | None, seen: list[str], asking: Callable[[], None] | None
    ) -> Page:
        """Follow redirects; ``seen`` gets each address that is asked."""
        while True:
            if url in seen or len(seen) >= MOST_HOPS:
                what = "in a circle" if url in seen else f"more than {MOST_HOPS} times"
                raise ToolError(
                    f"{site(seen[0])} redirects {what}.",
                    code=errors.E_HTTP,
                    hint="Try another address of the page.",
                )
            seen.append(url)
            target = await checked(url, self._reach)
            await self._allowed(target.url)
            if asking is not None:
                asking()
            client = self._open()
            headers = {"accept": ACCEPT}
            # What is known is a page of this very address; what another site called its version
            # says nothing here.
            if known is not None and known.url == target.url and (known.etag or known.modified):
                same = known
            else:
                same = None
            if same is not None:
                headers |= {"if-none-match": same.etag} if same.etag else {}
                headers |= {"if-modified-since": same.modified} if same.modified else {}
            async with client.stream("GET", target.url, headers=headers) as response:
                if response.status_code == 304 and same is not None:
                    same.at = time.monotonic()
                    same.changed = False
                    return same
                to = response.headers.get("location", "")
                if to and response.is_redirect:
                    url = urljoin(target.url, to.strip())
                    continue
                return await self._received(response, target)

    async def _received(self, response: httpx.Response, target: Target) -> Page:
        head = response.headers
        url = target.url
        if response.status_code != 200:
            raise _refused(response.status_code, url, head.get("retry-after", ""))
        body = await read_body(response, url, self._settings.max_bytes)
        return Page(
            url,
            body,
            head.get("content-type", ""),
            head.get("etag", ""),
            head.get("last-modified", ""),
            time.monotonic(),
            # A page of the user's own network is one that they may just be changing.
            kept=not (
                re.search(r"no-store|no-cache|max-age=0\b", head.get("cache-control", ""), re.I)
                or self._reach.lists(target.host, target.port)
            ),
        )

    def _keep(self, url: str, page: Page) -> None:
        what = hashlib.blake2b(page.body, digest_size=16).digest()
        page.changed = self._before.get(url, what) != what
        self._before[url] = what
        self._before.move_to_end(url)
        while len(self._before) > 20 * KEPT:
            self._before.popitem(last=False)
        self._pages[url] = page
        self._pages.move_to_end(url)
        while len(self._pages) > KEPT or (
            len(self._pages) > 1
            and sum(len(each.body) for each in self._pages.values()) > KEPT_BYTES
        ):
            self._pages.popitem(last=False)

    # --- robots -----------------------------------------------------------------------------------

    async def _allowed(self, url: str) -> None:
        """Ask the site whether programs may read the page (RFC 9309).

        A site that does not say lets them.
        """
        if not self._settings.robots or urlsplit(url).path == "/robots.txt":
            return
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        at, rules = self._robots.get(origin, (-ROBOTS_FRESH, None))
        if time.monotonic() - at >= ROBOTS_FRESH:
            rules = await self._rules(origin)
            self._robots[origin] = (time.monotonic(), rules)
            while len(self._robots) > 20 * KEPT:
                self._robots.popitem(last=False)
        if rules is not None and not rules.can_fetch(url, NAME):
            raise ToolError(
                f"{parts.netloc} keeps this page from programs (robots.txt).",
                code=errors.E_DENIED,
                hint="Use another source. The user may set web.robots to false.",
            )

    async def _rules(self, origin: str) -> Protego | None:
        import httpx

        text = ""
        url = f"{origin}/robots.txt"
        try:
            with trio.move_on_after(min(5.0, self._settings.timeout / 2)):
                for _ in range(ROBOTS_HOPS):
                    target = await checked(url, self._reach)
                    async with self._open().stream("GET", target.url) as response:
                        to = response.headers.get("location", "")
                        if to and response.is_redirect:
                            url = urljoin(target.url, to.strip())
                            continue
                        if response.status_code == 200:
                            body = await read_body(response, url, ROBOTS_BYTES, cut=True)
                            text = body.decode(errors="replace")
                        break
        except (
            httpx.HTTPError,
            httpx.InvalidURL,
            httpx.StreamError,
            ToolError,
            AddressRefused,
            OSError,
        ):
            pass
        if not text:
            return None
        from protego import Protego

        return await trio.to_thread.run_sync(Protego.parse, text)


def _refused(status: int, url: str, retry: str) -> ToolError:
    """Return what a status means for whoever wanted to read the page."""
    from http import HTTPStatus

    try:
        words = f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        words = str(status)
    hints = {
        401: "It needs a login, which is not possible here; use another source.",
        402: "It needs a payment; use another source.",
        403: "It is not open to programs; use another source, or the browser.",
        404: "Check the address, or search for the page.",
        410: "It is gone; search for the page.",
        429: f"It is asked too often; try it again {later(retry)}, or another source.",
        503: f"Try it again {later(retry)}, or another source.",
    }
    hint = hints.get(
        status, "Try again later, or another source." if status >= 500 else "Try another source."
    )
    return ToolError(
        f"{site(url)} answered {words} for {url[:300]}.", code=errors.E_HTTP, hint=hint
    )
