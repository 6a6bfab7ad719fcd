"""The settings of the plugin."""

from __future__ import annotations

from hilum import section, setting


@section("web")
class WebSettings:
    """Search providers and limits for pages."""

    enabled: bool = setting(
        default=True,
        project="lower",
        help="Whether the agent has the tools web_search and web_fetch.",
    )
    searxng_url: str = setting(
        default="",
        project=False,
        help=("URL of the SearXNG server to query first; it must allow the JSON format."),
    )
    duckduckgo: bool = setting(
        default=True, project="lower", help="Whether to query DuckDuckGo, which requires no key."
    )
    duckduckgo_url: str = setting(
        default="https://html.duckduckgo.com/html/",
        project=False,
        help="URL of DuckDuckGo's plain result page.",
    )
    instant_url: str = setting(
        default="https://api.duckduckgo.com/",
        project=False,
        help="URL of DuckDuckGo's instant answers API.",
    )
    google_api_key: str = setting(
        default="", secret=True, help="Key for Google's Custom Search API, which is queried last."
    )
    google_cx: str = setting(
        default="", project=False, help="Search engine ID for Google's Custom Search API."
    )
    google_url: str = setting(
        default="https://www.googleapis.com/customsearch/v1",
        project=False,
        help="URL of Google's Custom Search API.",
    )
    hosts: list[str] = setting(
        factory=list,
        project=False,
        help=(
            "Hosts on the user's network from which pages may be fetched, as host or host:port. "
            "Metadata services are never contacted."
        ),
    )
    limit: int = setting(
        default=30_000,
        minimum=500,
        project="lower",
        help="Maximum number of characters in the part of a page that the model receives at once.",
    )
    timeout: float = setting(
        default=20.0,
        minimum=1,
        project="lower",
        help="Time limit in seconds for a page, including redirects.",
    )
    max_bytes: int = setting(
        default=20_000_000,
        minimum=10_000,
        project="lower",
        help="Maximum size of a decompressed page in bytes.",
    )
    robots: bool = setting(
        default=True,
        project="higher",
        help=(
            "Whether to obey a site's robots.txt, so that pages that it closes to programs are "
            "not fetched."
        ),
    )
