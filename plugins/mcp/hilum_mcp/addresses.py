"""Whether the address of a server may be reached: the same check as for pages, made before a
connection is opened.

The user may name servers on this machine and in their network; a project may name public ones, and
those in `web.hosts`. Metadata services of clouds and link-local addresses are reached for nobody.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec
from hilum import UsageError, config_folder, errors
from hilum_web import AddressRefused, HostUnknown, Reach, located

if TYPE_CHECKING:
    from hilum_mcp.server import Server


async def check_address(server: Server, hosts: frozenset[str], *, proxied: bool = False) -> None:
    """Check where a server is, before it is reached.

    Args:
        server: The server, with variables filled in.
        hosts: Hosts of the user's network that pages may be fetched from.
        proxied: Whether a proxy looks names up; then only addresses are checked here.

    Raises:
        UsageError: It may not be reached.
    """
    try:
        parts = urlsplit(server.url)
        host = parts.hostname or ""
        if parts.scheme not in ("http", "https") or not host:
            raise ValueError("it is no http or https address")
        if proxied and not _is_address(host):
            return
        reach = Reach(hosts=hosts)
        if server.file.is_relative_to(config_folder()):
            reach = msgspec.structs.replace(
                reach, loopback=True, hosts=hosts | {f"[{host}]" if ":" in host else host}
            )
        shown = f"[{host}]" if ":" in host else host
        if parts.port:
            port = f":{parts.port}"
        else:
            port = ""  # without user and password, which a page's address may not have
        _, addresses = await located(f"{parts.scheme}://{shown}{port}/", reach)
        for address in addresses:
            if ip_address(address).is_link_local:
                raise ValueError(f"{host} leads to {address}, a link-local address")
    except HostUnknown:
        return  # connecting says so
    except (AddressRefused, ValueError) as error:
        message = f"The MCP server {server.name} is not reached: {str(error).rstrip('.')}."
        hint = (
            "Servers on this machine or in your network belong in your own mcp.json; metadata"
            " services are never reached."
        )
        raise UsageError(message, code=errors.E_ADDRESS, hint=hint) from None


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
