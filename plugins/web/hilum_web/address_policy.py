"""The service ``hilum.AddressPolicy``, which checks addresses for other plugins.

The service is stateless, so this module is registered as an entry point and needs no session.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hilum_web import resolver, urls
from hilum_web.addresses import PUBLIC, Reach
from hilum_web.urls import Target

if TYPE_CHECKING:
    from hilum_web.http_client import Client

parse_url = urls.parse_url


def is_listed(host: str, port: int, hosts: Iterable[str]) -> bool:
    """Return whether a host is in the user's list of ``host`` and ``host:port`` entries."""
    return Reach(hosts=frozenset(hosts)).lists(host, port)


async def resolve_url(
    url: str, *, hosts: Iterable[str] = (), loopback: bool = False
) -> tuple[Target, tuple[str, ...]]:
    """Resolve the host of a URL and check its addresses; see ``hilum.AddressPolicy``."""
    return await resolver.resolve_url(url, Reach(loopback, frozenset(hosts)))


def open_client(*, hosts: Iterable[str] = (), loopback: bool = False, **options: Any) -> Client:
    """Open a client that checks each connection; see ``hilum.AddressPolicy``."""
    return open_checked_client(Reach(loopback, frozenset(hosts)), **options)


def open_checked_client(reach: Reach = PUBLIC, **options: Any) -> Client:
    """Open an ``httpx.AsyncClient`` that checks the address of each connection.

    Every redirect is therefore checked as well. The client ignores proxies and credentials in the
    environment, and follows redirects only if an option enables that.

    Args:
        reach: The addresses outside the public network that are allowed.
        options: Arguments of ``httpx.AsyncClient``, such as ``headers`` and ``timeout``.

    Raises:
        TypeError: An option, such as a proxy, a transport or TLS settings, would bypass the check
            or have no effect.
    """
    from hilum_web.http_client import open_client  # httpx takes 100 ms to import

    return open_client(reach, **options)
