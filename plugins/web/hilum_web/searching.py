"""The tool ``web_search``: one provider after another, until one gives results."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import trio
from hilum import Output, Session, ToolError, errors, tool

from hilum_web.body import read_body
from hilum_web.connecting import AddressRefused
from hilum_web.failures import failure, later, site
from hilum_web.reader.unseen import line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import httpx
    from hilum import Processes

    from hilum_web.settings import WebSettings

RESULTS = 5
SNIPPET = 300
TITLE = 200
EACH = 10.0
KEPT = 50
FRESH = 600.0
MOST_BYTES = 4_000_000
Query = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]


class Result(msgspec.Struct, frozen=True):
    """A result of a search."""

    title: str
    url: str
    snippet: str


@tool(risk="network", effect="pure", timeout=60)
async def web_search(session: Session, query: Query) -> Output:
    """Search the web for current documentation or the cause of an error.

    Returns titles, addresses and extracts.

    Args:
        query: Search words, with versions and the year where they matter.
    """
    from hilum_web.half import Web

    web = session.half(Web)
    if web is None:
        raise ToolError("The plugin hilum-web is not open in this session.", code=errors.E_PLUGIN)
    found, by = await web.searcher.search(session.processes, " ".join(query.split()))
    if not found:
        return Output(
            f"{by} found nothing for {query!r}. Try fewer or other words.",
            data={"results": [], "by": by},
        )
    lines = [
        f"{number}. {each.title}\n   {each.url}\n   {each.snippet}".rstrip()
        for number, each in enumerate(found, 1)
    ]
    data = {"results": [msgspec.to_builtins(each) for each in found], "by": by}
    return Output(
        f"{len(found)} {'result' if len(found) == 1 else 'results'} of {by}:\n\n"
        + "\n".join(lines),
        data=data,
    )


class Searcher:
    """Searches for one session.

    Args:
        settings: Who is asked.
    """

    def __init__(self, settings: WebSettings) -> None:
        self._settings = settings
        self._known: dict[str, tuple[float, list[Result], str]] = {}
        self._client: httpx.AsyncClient | None = None

    async def aclose(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()

    async def search(self, processes: Processes, query: str) -> tuple[list[Result], str]:
        """Ask one provider after another; gives what the first that answers found, and its name.

        Args:
            processes: The session's: a page of results is read in one of its own.
            query: What is searched for.

        Raises:
            ToolError: None answered, or none is set up; says why of each.
        """
        at, found, by = self._known.get(query, (-FRESH, [], ""))
        if time.monotonic() - at < FRESH:
            return found, by
        failed: list[str] = []
        empty = ""
        for name, ask in self._providers(processes):
            try:
                with trio.fail_after(EACH):
                    found = _cleaned(await ask(query))
            except trio.TooSlowError:
                failed.append(f"{name} did not answer within {EACH:g} s.")
                continue
            except ToolError as error:
                failed.append(f"{name}: {error.message}")
                continue
            if found:
                self._known[query] = (time.monotonic(), found, name)
                while len(self._known) > KEPT:
                    del self._known[next(iter(self._known))]
                return found, name
            empty = empty or name
        if empty:
            return [], empty
        if not failed:
            raise ToolError(
                "No provider of searches is set up.",
                code=errors.E_NOT_CONFIGURED,
                hint="The user can set web.searxng_url, or switch web.duckduckgo on.",
            )
        raise ToolError(
            f"No search was possible. {' '.join(failed)}",
            code=errors.E_UNREACHABLE,
            hint="Use web_fetch where you know an address, or go on with what you know.",
        )

    def _providers(
        self, processes: Processes
    ) -> Iterable[tuple[str, Callable[[str], Awaitable[list[Result]]]]]:
        settings = self._settings
        if settings.searxng_url:
            yield "SearXNG", self._searxng
        if settings.duckduckgo:
            yield "DuckDuckGo", partial(self._duckduckgo, processes)
            yield "DuckDuckGo's instant answers", self._instant
        if settings.google_api_key and settings.google_cx:
            yield "Google", self._google

    async def _searxng(self, query: str) -> list[Result]:
        url = f"{self._settings.searxng_url.rstrip('/')}/search"
        data = await self._json(
            url, {"q": query, "format": "json"}, "its settings must allow the format json"
        )
        return [_result(each, "title", "url", "content") for each in _list(data, "results")]

    async def _duckduckgo(self, processes: Processes, query: str) -> list[Result]:
        url = self._settings.duckduckgo_url
        from hilum_web.converting import open_reader, results

        async with open_reader(processes, "results") as reader:
            reader.start()
            body, kind = await self._get("POST", url, data={"q": query, "kl": ""})
            read = await results(reader, body, kind)
        why = read.get("error")
        if why:
            raise ToolError(
                f"the page of {site(url)} cannot be read: {why}.", code=errors.E_CONTENT
            )
        if read["robot"]:
            raise ToolError(
                f"{site(url)} takes us for a robot just now; try it again later.",
                code=errors.E_DENIED,
            )
        if not read["known"]:
            raise ToolError(
                f"{site(url)} answered with a page that is none of its results.",
                code=errors.E_CONTENT,
            )
        return [Result(*row) for row in read["results"]]

    async def _instant(self, query: str) -> list[Result]:
        params = {
            "q": query,
            "format": "json",
            "no_html": "1",
            "no_redirect": "1",
            "skip_disambig": "1",
        }
        data = await self._json(self._settings.instant_url, params)
        found = []
        if data.get("AbstractText"):
            found.append(_result(data, "Heading", "AbstractURL", "AbstractText"))
        topics = _list(data, "Results") + _list(data, "RelatedTopics")
        for topic in [*topics, *(inner for each in topics for inner in _list(each, "Topics"))]:
            text = topic.get("Text")
            if isinstance(text, str) and topic.get("FirstURL"):
                found.append(Result(text[:80], str(topic["FirstURL"]), text))
        return found

    async def _google(self, query: str) -> list[Result]:
        params = {
            "key": self._settings.google_api_key,
            "cx": self._settings.google_cx,
            "q": query,
            "num": str(RESULTS),
        }
        data = await self._json(self._settings.google_url, params)
        return [_result(each, "title", "link", "snippet") for each in _list(data, "items")]

    async def _json(self, url: str, params: dict[str, str], hint: str = "") -> dict[str, Any]:
        body, _ = await self._get("GET", url, params=params)
        try:
            data = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            raise ToolError(
                f"{site(url)} did not answer with JSON{f': {hint}' if hint else ''}.",
                code=errors.E_CONTENT,
            ) from None
        if not isinstance(data, dict):
            raise ToolError(
                f"{site(url)} answered with JSON that holds no results; check its address.",
                code=errors.E_CONTENT,
            )
        return data

    async def _get(self, method: str, url: str, **options: Any) -> tuple[bytes, str]:
        """Ask a provider: an address that the user has set, so that it may be in their own
        network.
        """
        import httpx
        from hilum_models import proxy_for

        if self._client is None:
            from hilum_web.body import ENCODINGS
            from hilum_web.fetching import AGENT

            headers = {"user-agent": AGENT, "accept-encoding": ENCODINGS}
            self._client = httpx.AsyncClient(
                headers=headers, trust_env=False, timeout=None, proxy=proxy_for(url) or None
            )
        try:
            async with self._client.stream(method, url, **options) as response:
                body = await read_body(response, url, MOST_BYTES)
        except (
            httpx.HTTPError,
            httpx.InvalidURL,
            httpx.StreamError,
            AddressRefused,
            OSError,
        ) as error:
            raise failure(error, url, EACH) from None
        if response.status_code != 200:
            raise ToolError(
                f"{site(url)} answered {response.status_code}{_reason(body)}; {_next(response)}.",
                code=errors.E_HTTP,
            )
        return body, response.headers.get("content-type", "")


def _reason(body: bytes) -> str:
    try:
        error = msgspec.json.decode(body).get("error")
    except (msgspec.DecodeError, UnicodeError, RecursionError, AttributeError):
        return ""
    text = error.get("message") if isinstance(error, dict) else error
    said = line(text, 200).rstrip(".")
    return f": {said}" if said else ""


def _next(response: httpx.Response) -> str:
    """Return what to do about a status."""
    status = response.status_code
    if response.is_redirect:
        return (
            f"it has moved to {site(response.headers.get('location', ''))}: the user must change"
            " its address in the settings"
        )
    if status in (401, 402, 403):
        return "the user must check its key and its plan, or who may ask it"
    if status == 429:
        return (
            f"it is asked too often: try it again {later(response.headers.get('retry-after', ''))}"
        )
    if status >= 500 or status == 202:
        return "try it again later"
    return "the user must check its address in the settings"


def _list(data: object, key: str) -> list[dict[str, Any]]:
    value = data.get(key) if isinstance(data, dict) else None
    if isinstance(value, list):
        return [each for each in value if isinstance(each, dict)]
    return []


def _result(data: dict[str, Any], title: str, url: str, snippet: str) -> Result:
    return Result(
        *(value if isinstance(value := data.get(key), str) else "" for key in (title, url, snippet))
    )


def _cleaned(found: list[Result]) -> list[Result]:
    """Leave out what is no page or stands twice; texts without tags, within bounds."""
    clean: dict[str, Result] = {}
    for each in found:
        url = each.url.strip()
        if (
            not url.startswith(("http://", "https://"))
            or len(url) > 2_000
            or " " in url
            or not url.isprintable()
        ):
            continue
        clean.setdefault(
            url, Result(_plain(each.title, TITLE) or url, url, _plain(each.snippet, SNIPPET))
        )
        if len(clean) == RESULTS:
            break
    return list(clean.values())


def _plain(text: str, most: int) -> str:
    return line(html.unescape(re.sub(r"</?[A-Za-z][^<>]{0,300}>", "", text[: most * 8])), most)
