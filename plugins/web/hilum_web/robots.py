"""Reads the rules that sites set for programs: ``robots.txt`` (RFC 9309)."""

from __future__ import annotations

import time
from collections import OrderedDict
from http import HTTPStatus
from urllib.parse import urlsplit

import trio
from hilum import ToolError, errors
from protego import Protego

from hilum_web.addresses import Reach
from hilum_web.body import read_body
from hilum_web.bounded_cache import store
from hilum_web.http_client import REQUEST_ERRORS, Client, find_redirect
from hilum_web.resolver import resolve_url

PRODUCT = "hilum"
MAX_BYTES = 500_000  # RFC 9309, section 2.5
MAX_REDIRECTS = 5  # RFC 9309, section 2.3.1.2
MAX_SITES = 600
FRESH_SECONDS = 3_600.0
TIMEOUT = 5.0


class Robots:
    """The ``robots.txt`` rules of sites, which are fetched once and cached.

    Args:
        client: The client for requests to the sites.
        reach: The addresses outside the public network that are allowed.
        timeout: The number of seconds to wait for the rules; at most ``TIMEOUT``.
    """

    def __init__(self, client: Client, reach: Reach, timeout: float) -> None:
        self._client = client
        self._reach = reach
        self._timeout = min(TIMEOUT, timeout)
        self._rules: OrderedDict[str, tuple[float, Protego | None]] = OrderedDict()

    async def check(self, url: str) -> None:
        """Check that a site allows programs to read a page. A site without rules allows everything.

        Raises:
            ToolError: ``E_DENIED`` if the site does not allow programs to read the page.
        """
        parts = urlsplit(url)
        # ``robots.txt`` itself is always allowed (RFC 9309, section 2.2.2).
        if parts.path == "/robots.txt":
            return
        origin = f"{parts.scheme}://{parts.netloc}"
        read_at, rules = self._rules.get(origin, (-FRESH_SECONDS, None))
        if time.monotonic() - read_at >= FRESH_SECONDS:
            rules = await self._read_rules(origin)
            store(self._rules, origin, (time.monotonic(), rules), MAX_SITES)
        if rules is not None and not rules.can_fetch(url, PRODUCT):
            raise ToolError(
                f"{parts.netloc} does not allow programs to read this page (robots.txt).",
                code=errors.E_DENIED,
                hint="Use another source. The user can set web.robots to false.",
            )

    async def _read_rules(self, origin: str) -> Protego | None:
        text = ""
        try:
            with trio.move_on_after(self._timeout):
                text = await self._fetch(f"{origin}/robots.txt")
        except (*REQUEST_ERRORS, ToolError):
            pass  # the request for the page reports the error
        if not text:
            return None
        # The file is parsed in a thread, because parsing a large file takes a while.
        return await trio.to_thread.run_sync(Protego.parse, text)

    async def _fetch(self, url: str) -> str:
        for _ in range(MAX_REDIRECTS + 1):
            target, _ = await resolve_url(url, self._reach)
            async with self._client.stream("GET", target.url) as response:
                redirect = find_redirect(response, target.url)
                if response.status_code == HTTPStatus.OK:
                    body = await read_body(response, url, MAX_BYTES, cut=True)
                    return body.decode(errors="replace")
            if not redirect:
                return ""
            url = redirect
        return ""
