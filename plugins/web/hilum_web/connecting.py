"""Looking up and checking where a URL leads, off the loop.

And a client for HTTP that does so by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import trio

from hilum_web.addresses import PUBLIC, Reach, is_own
from hilum_web.urls import Target, is_local, judge, read_url, sentence

if TYPE_CHECKING:
    import httpx


class AddressRefused(Exception):
    """An address may not be reached; says why in one sentence.

    Args:
        reason: The sentence.
        listable: Whether the user could list the host.
    """

    def __init__(self, reason: str, *, listable: bool = False) -> None:
        super().__init__(reason)
        self.listable = listable


class UrlUnread(AddressRefused):
    """A text is no URL of a page, or is written in a way that others may read otherwise."""


class HostUnknown(AddressRefused):
    """A name stands for no address: it is wrong, or the server for names does not answer."""


async def resolve(host: str) -> list[str]:
    """Ask the system for the addresses of a host, off the loop.

    Raises:
        OSError: There are none.
    """
    found = await trio.socket.getaddrinfo(host, None, type=trio.socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def checked(url: str, reach: Reach = PUBLIC) -> Target:
    """Read a URL and check where it leads, off the loop.

    Raises:
        UrlUnread: It is no URL, or not written plainly.
        HostUnknown: Its host stands for no address.
        AddressRefused: It may not be fetched.
    """
    target, _ = await located(url, reach)
    return target


async def located(url: str, reach: Reach = PUBLIC) -> tuple[Target, tuple[str, ...]]:
    """Read a URL, look up what its host stands for, off the loop, and check all of it.

    Returns:
        The URL, and the addresses to connect to.

    Raises:
        UrlUnread: It is no URL, or not written plainly.
        HostUnknown: Its host stands for no address.
        AddressRefused: It may not be fetched.
    """
    try:
        target = read_url(url)
    except ValueError as error:
        raise UrlUnread(sentence(error)) from None
    found: list[str] | OSError = []
    named = target.address is None and not is_local(target.host)
    if named:
        try:
            found = await resolve(target.host)
        except (OSError, UnicodeError) as error:
            found = error if isinstance(error, OSError) else OSError(str(error))

    def answer(_: str) -> Iterable[str]:
        if isinstance(found, OSError):
            raise found
        return found

    verdict = judge(target, reach, answer)
    if not verdict:
        if verdict.kind == "unknown":
            raise HostUnknown(verdict.reason)
        raise AddressRefused(verdict.reason, listable=verdict.kind == "refused")
    excused = reach.lists(target.host, target.port) or (reach.loopback and not named)
    if not excused and (
        own := next((each for each in verdict.addresses if is_own(ip_address(each))), None)
    ):
        raise AddressRefused(
            f"{target.host} leads to {own}, an address of this machine.", listable=True
        )
    return target, verdict.addresses


def open_client(reach: Reach = PUBLIC, **options: Any) -> httpx.AsyncClient:
    """Open an HTTP client that reaches nothing but what ``reach`` allows: each connection, and so
    each redirect, is checked.

    Neither proxies nor credentials of the environment are used. Redirects are not followed by
    themselves.

    Args:
        reach: What beyond the public network may be reached.
        options: For ``httpx.AsyncClient``: headers, timeout, and others that say nothing about how
            it connects.

    Raises:
        TypeError: An option would go round the check, or have no effect: a proxy, a transport, TLS
            settings.
    """
    from hilum_web.network import client

    return client(reach, **options)
