"""Queries search providers until one returns results, to implement ``web_search``."""

from __future__ import annotations

import html
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from hilum import ToolError, errors

from hilum_web.body import read_body
from hilum_web.bounded_cache import store
from hilum_web.http_client import (
    REQUEST_ERRORS,
    Client,
    Response,
    open_provider_client,
    to_tool_error,
)
from hilum_web.messages import format_retry, format_site
from hilum_web.reader.visible_text import to_line
from hilum_web.reader_process import open_reader, read_search_results

if TYPE_CHECKING:
    from hilum import Processes

    from hilum_web.settings import WebSettings

MAX_RESULTS = 5
MAX_EXTRACT = 300
MAX_TITLE = 200
MAX_URL = 2_000
MAX_BYTES = 4_000_000
PROVIDER_TIMEOUT = 10.0
MAX_CACHED = 50
FRESH_SECONDS = 600.0
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,300}>")


class Result(msgspec.Struct, frozen=True):
    """A search result."""

    title: str
    url: str
    snippet: str


Search = Callable[[str], Awaitable[list[Result]]]
JsonObject = dict[str, Any]
# The time of a search, its results and the provider's name.
CachedSearch = tuple[float, list[Result], str]


class Searcher:
    """A searcher that runs and caches the searches of one session.

    Args:
        settings: The settings of the providers.
    """

    def __init__(self, settings: WebSettings) -> None:
        self._settings = settings
        self._cache: OrderedDict[str, CachedSearch] = OrderedDict()
        self._client: Client | None = None

    async def aclose(self) -> None:
        """Close all connections."""
        if self._client is not None:
            await self._client.aclose()

    async def search(self, processes: Processes, query: str) -> tuple[list[Result], str]:
        """Return the results of the first provider that has any, and the provider's name.

        Args:
            processes: The session's processes, which are used to read result pages.
            query: The search terms.

        Raises:
            ToolError: No provider responded, or none is configured. The message contains all
                reasons.
        """
        searched_at, found, by = self._cache.get(query, (-FRESH_SECONDS, [], ""))
        if time.monotonic() - searched_at < FRESH_SECONDS:
            return found, by
        failed: list[str] = []
        empty = ""
        for name, ask in self._providers(processes):
            try:
                with trio.fail_after(PROVIDER_TIMEOUT):
                    found = _clean(await ask(query))
            except trio.TooSlowError:
                failed.append(f"{name} did not respond within {PROVIDER_TIMEOUT:g} s.")
                continue
            except ToolError as error:
                failed.append(f"{name}: {error.message}")
                continue
            if found:
                store(self._cache, query, (time.monotonic(), found, name), MAX_CACHED)
                return found, name
            empty = empty or name
        # An empty result from one provider is a valid result, even if other providers failed.
        if empty:
            return [], empty
        if not failed:
            raise ToolError(
                "No search provider is configured.",
                code=errors.E_NOT_CONFIGURED,
                hint="The user can set web.searxng_url, or set web.duckduckgo to true.",
            )
        raise ToolError(
            f"No search was possible. {' '.join(failed)}",
            code=errors.E_UNREACHABLE,
            hint="Use web_fetch if you know a URL, or continue with what you know.",
        )

    def _providers(self, processes: Processes) -> Iterable[tuple[str, Search]]:
        settings = self._settings
        if settings.searxng_url:
            yield "SearXNG", self._search_searxng
        if settings.duckduckgo:
            yield "DuckDuckGo", partial(self._search_duckduckgo, processes)
            yield "DuckDuckGo's instant answers", self._search_instant_answers
        if settings.google_api_key and settings.google_cx:
            yield "Google", self._search_google

    async def _search_searxng(self, query: str) -> list[Result]:
        url = f"{self._settings.searxng_url.rstrip('/')}/search"
        hint = "its settings must allow the JSON format"
        data = await self._get_json(url, {"q": query, "format": "json"}, hint)
        return [_to_result(each, "title", "url", "content") for each in _rows(data, "results")]

    async def _search_duckduckgo(self, processes: Processes, query: str) -> list[Result]:
        url = self._settings.duckduckgo_url
        async with open_reader(processes, "results") as reader:
            reader.start()  # the process starts while hilum waits for the provider's response
            body, content_type = await self._request("POST", url, data={"q": query, "kl": ""})
            page = await read_search_results(reader, body, content_type)
        error = page.get("error")
        if error:
            raise ToolError(
                f"the page from {format_site(url)} cannot be read: {error}.", code=errors.E_CONTENT
            )
        if page["robot"]:
            raise ToolError(
                f"{format_site(url)} currently mistakes hilum for a bot; try again later.",
                code=errors.E_DENIED,
            )
        if not page["known"]:
            raise ToolError(
                f"{format_site(url)} returned a page that is not a result page.",
                code=errors.E_CONTENT,
            )
        return [Result(*row) for row in page["results"]]

    async def _search_instant_answers(self, query: str) -> list[Result]:
        params = {
            "q": query,
            "format": "json",
            "no_html": "1",
            "no_redirect": "1",
            "skip_disambig": "1",
        }
        data = await self._get_json(self._settings.instant_url, params)
        found = []
        if data.get("AbstractText"):
            found.append(_to_result(data, "Heading", "AbstractURL", "AbstractText"))
        topics = _rows(data, "Results") + _rows(data, "RelatedTopics")
        for group in list(topics):
            topics += _rows(group, "Topics")
        for topic in topics:
            text = topic.get("Text")
            url = topic.get("FirstURL")
            if isinstance(text, str) and url:
                found.append(Result(text[:80], str(url), text))
        return found

    async def _search_google(self, query: str) -> list[Result]:
        params = {
            "key": self._settings.google_api_key,
            "cx": self._settings.google_cx,
            "q": query,
            "num": str(MAX_RESULTS),
        }
        data = await self._get_json(self._settings.google_url, params)
        return [_to_result(each, "title", "link", "snippet") for each in _rows(data, "items")]

    async def _get_json(self, url: str, params: dict[str, str], hint: str = "") -> JsonObject:
        body, _ = await self._request("GET", url, params=params)
        try:
            data = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            explanation = f": {hint}" if hint else ""
            raise ToolError(
                f"{format_site(url)} did not return JSON{explanation}.",
                code=errors.E_CONTENT,
            ) from None
        if not isinstance(data, dict):
            raise ToolError(
                f"{format_site(url)} returned JSON without results; check its URL.",
                code=errors.E_CONTENT,
            )
        return data

    async def _request(self, method: str, url: str, **options: Any) -> tuple[bytes, str]:
        """Send a request to a provider. Return the response body and its content type.

        The URL is not checked, because the user configured it, and it may be on their own network.
        """
        if self._client is None:
            self._client = open_provider_client(url)
        try:
            async with self._client.stream(method, url, **options) as response:
                body = await read_body(response, url, MAX_BYTES)
        except REQUEST_ERRORS as error:
            raise to_tool_error(error, url, PROVIDER_TIMEOUT) from None
        if response.status_code != HTTPStatus.OK:
            status = f"{response.status_code}{_read_reason(body)}"
            raise ToolError(
                f"{format_site(url)} responded with {status}; {_advise(response)}.",
                code=errors.E_HTTP,
            )
        return body, response.headers.get("content-type", "")


def _read_reason(body: bytes) -> str:
    """Return the reason from the JSON of a failed request, after a colon; empty if it has none."""
    try:
        error = msgspec.json.decode(body).get("error")
    except (msgspec.DecodeError, UnicodeError, RecursionError, AttributeError):
        return ""
    text = error.get("message") if isinstance(error, dict) else error
    reason = to_line(text, 200).rstrip(".")
    return f": {reason}" if reason else ""


def _advise(response: Response) -> str:
    """Return advice for an unsuccessful response."""
    status = response.status_code
    if response.is_redirect:
        moved_to = format_site(response.headers.get("location", ""))
        return f"it has moved to {moved_to}: the user must change its URL in the settings"
    if status in (401, 402, 403):
        return "the user must check its key, its plan and its access rules"
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        retry = format_retry(response.headers.get("retry-after", ""))
        return f"it receives too many requests: try again {retry}"
    # DuckDuckGo responds with 202 instead of results when it is busy.
    if status >= 500 or status == HTTPStatus.ACCEPTED:
        return "try again later"
    return "the user must check its URL in the settings"


def _rows(data: JsonObject, key: str) -> list[JsonObject]:
    """Return the JSON objects in a list, without any other values that a provider may send."""
    value = data.get(key)
    if not isinstance(value, list):
        return []
    return [each for each in value if isinstance(each, dict)]


def _to_result(data: JsonObject, *keys: str) -> Result:
    texts = []
    for key in keys:
        value = data.get(key)
        texts.append(value if isinstance(value, str) else "")
    return Result(*texts)


def _clean(found: list[Result]) -> list[Result]:
    """Return the first results with different URLs, and shorten their texts."""
    clean: dict[str, Result] = {}
    for each in found:
        url = each.url.strip()
        if not _is_page(url) or url in clean:
            continue
        title = _to_plain(each.title, MAX_TITLE)
        clean[url] = Result(title or url, url, _to_plain(each.snippet, MAX_EXTRACT))
        if len(clean) == MAX_RESULTS:
            break
    return list(clean.values())


def _is_page(url: str) -> bool:
    # Invisible characters could make a URL look like another one.
    is_plain = url.isprintable() and " " not in url and len(url) <= MAX_URL
    return is_plain and url.startswith(("http://", "https://"))


def _to_plain(text: str, limit: int) -> str:
    # Tags and entities make a text longer. Eight times the limit is enough text to reach the limit
    # after tags and entities are removed.
    without_tags = _TAG.sub("", text[: limit * 8])
    return to_line(html.unescape(without_tags), limit)
