"""The settings of the plugin. What widens what a page may do is the user's alone."""

from __future__ import annotations

from typing import Literal

from hilum import section, setting


@section("browser")
class BrowserSettings:
    """The browser of the agent."""

    enabled: bool = setting(
        default=True, project="lower", help="Whether the agent has the tool browser_use."
    )
    executable: str = setting(
        default="",
        project=False,
        help="Path of Chromium or a browser made from it; what is found on the system when empty.",
    )
    network: Literal["public", "loopback"] = setting(
        default="public",
        project=False,
        help=(
            "What pages may reach beside browser.hosts: the public network and this machine's"
            " loopback, or the loopback only."
        ),
    )
    hosts: list[str] = setting(
        factory=list,
        project=False,
        help=(
            "Further hosts that pages may reach, as host or host:port: an intranet, a name that"
            " leads to this machine."
        ),
    )
    sandbox: Literal["auto", "on", "off"] = setting(
        default="auto",
        project=False,
        help=(
            "Chromium's own sandbox, beside hilum's: where it works, always (or no browser), or"
            " never."
        ),
    )
    any_certificate: bool = setting(
        default=False,
        project=False,
        help="Whether pages with TLS certificates that are not valid are opened.",
    )
    width: int = setting(
        default=1280, minimum=100, project="lower", help="Width of a page in pixels."
    )
    height: int = setting(
        default=800, minimum=100, project="lower", help="Height of a page in pixels."
    )
    timeout: float = setting(
        default=5.0, minimum=0.1, project="lower", help="Seconds to wait for an element of a page."
    )
    page_timeout: float = setting(
        default=30.0,
        minimum=0.1,
        project="lower",
        help="Seconds that a page may take to answer, or a download to come.",
    )
    max_download: int = setting(
        default=50,
        minimum=1,
        project=False,
        help="Megabytes that a file which a page gives may have; at most 200.",
    )
