"""The settings of the plugin. Only the user can set options that give pages more access."""

from __future__ import annotations

from typing import Literal

from hilum import section, setting


@section("browser")
class BrowserSettings:
    """The configuration of the agent's browser."""

    enabled: bool = setting(
        default=True, project="lower", help="Whether the agent has the tool browser_use."
    )
    executable: str = setting(
        default="",
        project=False,
        help="Path of Chromium or a browser based on it; detected on the system when empty.",
    )
    network: Literal["public", "loopback"] = setting(
        default="public",
        project=False,
        help=(
            "The hosts that pages may contact besides browser.hosts: the public network and this "
            "machine's loopback, or only the loopback."
        ),
    )
    hosts: list[str] = setting(
        factory=list,
        project=False,
        help=(
            "Additional hosts that pages may contact, as host or host:port, such as an intranet "
            "host or a name that resolves to this machine."
        ),
    )
    sandbox: Literal["auto", "on", "off"] = setting(
        default="auto",
        project=False,
        help=(
            "Whether to use Chromium's own sandbox inside hilum's: if it works (auto), always (on; "
            "if it does not work, no browser starts), or never (off)."
        ),
    )
    any_certificate: bool = setting(
        default=False,
        project=False,
        help="Whether to open pages with invalid TLS certificates.",
    )
    width: int = setting(
        default=1280, minimum=100, project="lower", help="Width of the viewport in pixels."
    )
    height: int = setting(
        default=800, minimum=100, project="lower", help="Height of the viewport in pixels."
    )
    timeout: float = setting(
        default=5.0, minimum=0.1, project="lower", help="Seconds to wait for an element on a page."
    )
    page_timeout: float = setting(
        default=30.0,
        minimum=0.1,
        project="lower",
        help="Maximum number of seconds until a page responds or a download finishes.",
    )
    max_download: int = setting(
        default=50,
        minimum=1,
        project=False,
        help="Maximum size of a download in megabytes; at most 200.",
    )
