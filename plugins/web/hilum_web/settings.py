"""The settings of the plugin."""

from __future__ import annotations

from hilum import section, setting


@section("web")
class WebSettings:
    """Who is asked for searches, and how much of a page is read."""

    enabled: bool = setting(
        default=True, project="lower", help="Whether the tools web_search and web_fetch are there."
    )
    searxng_url: str = setting(
        default="", project=False, help="A SearXNG server that is asked first; it must give JSON."
    )
    duckduckgo: bool = setting(
        default=True, project="lower", help="Whether DuckDuckGo is asked; it needs no key."
    )
    duckduckgo_url: str = setting(
        default="https://html.duckduckgo.com/html/",
        project=False,
        help="Where DuckDuckGo's plain page of results is.",
    )
    instant_url: str = setting(
        default="https://api.duckduckgo.com/",
        project=False,
        help="Where DuckDuckGo's instant answers are.",
    )
    google_api_key: str = setting(
        default="", secret=True, help="Key for Google's custom search; asked last."
    )
    google_cx: str = setting(default="", project=False, help="The search engine id for it.")
    google_url: str = setting(
        default="https://www.googleapis.com/customsearch/v1",
        project=False,
        help="Where Google's custom search is.",
    )
    hosts: list[str] = setting(
        factory=list,
        project=False,
        help=(
            "Hosts of the user's network that may be fetched, as host or host:port. Metadata"
            " services never are."
        ),
    )
    limit: int = setting(
        default=30_000,
        minimum=500,
        project="lower",
        help="Characters of a page that the model gets at once.",
    )
    timeout: float = setting(
        default=20.0,
        minimum=1,
        project="lower",
        help="Seconds that a page may take, redirects included.",
    )
    max_bytes: int = setting(
        default=20_000_000,
        minimum=10_000,
        project="lower",
        help="Bytes of a page that are read, unpacked.",
    )
    robots: bool = setting(
        default=True,
        project="higher",
        help="Whether pages that a site's robots.txt keeps from programs are left alone.",
    )
