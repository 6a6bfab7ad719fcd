"""Checks a server's URL against the rules for web pages before a connection is opened.

The user may configure servers on this machine and on the local network. A project may configure
only public servers and those listed in `web.hosts`. Cloud metadata services and link-local
addresses are never contacted.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec
from hilum import UsageError, config_folder, errors
from hilum_web import AddressRefused, Reach, UnknownHost, resolve_url

if TYPE_CHECKING:
    from hilum_mcp.server_config import ServerConfig


async def check_address(server: ServerConfig, hosts: frozenset[str]) -> None:
    """Check the URL of a server.

    Args:
        server: The server's configuration, with variables expanded.
        hosts: Hosts on the user's network from which pages may be fetched.

    Raises:
        UsageError: The server's address is not allowed.
    """
    try:
        parts = urlsplit(server.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("its URL is not an http or https URL")
        # A proxy resolves names itself, so only literal IP addresses can be checked here.
        if _is_address(parts.hostname) or not uses_proxy(server.url):
            await _check_host(server, parts, hosts)
    except UnknownHost:
        return  # the connection attempt reports the error
    except (AddressRefused, ValueError) as error:
        reason = str(error).rstrip(".")
        raise UsageError(
            f"The MCP server {server.name} is not contacted: {reason}.",
            code=errors.E_ADDRESS,
            hint=(
                "Configure servers on this machine or on your network in your own mcp.json;"
                " metadata services are never contacted."
            ),
        ) from None


async def _check_host(server: ServerConfig, parts: SplitResult, hosts: frozenset[str]) -> None:
    host = parts.hostname or ""
    written = f"[{host}]" if ":" in host else host
    reach = Reach(hosts=hosts)
    # Only the user's own configuration file may refer to this machine or the local network. A
    # repository could otherwise reach services behind the user's firewall (SSRF).
    if server.file.is_relative_to(config_folder()):
        reach = msgspec.structs.replace(reach, loopback=True, hosts=hosts | {written})
    port = f":{parts.port}" if parts.port else ""
    # Any user name and password are omitted, because ``resolve_url`` rejects URLs with credentials.
    url = f"{parts.scheme}://{written}{port}/"
    _, addresses = await resolve_url(url, reach)
    # The metadata services of most clouds are link-local (169.254.169.254) and return credentials,
    # so not even a host that the user allows may resolve to such an address.
    for address in addresses:
        if ip_address(address).is_link_local:
            raise ValueError(f"{host} resolves to {address}, a link-local address")


def uses_proxy(url: str) -> bool:
    """Return whether the environment configures a proxy for a URL.

    A proxy resolves the host name itself and chooses the address to connect to.
    """
    parts = urlsplit(url)
    return parts.scheme in getproxies() and not proxy_bypass(parts.hostname or "")


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
