"""Looking up and checking where a URL leads, off the loop; and a client for HTTP that does so by itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import trio

from hilum_web.addresses import PUBLIC, Reach
from hilum_web.urls import Target, judge, read_url

if TYPE_CHECKING:
    import httpx


class AddressRefused(Exception):
    """An address may not be reached; says why in one sentence."""


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
        AddressRefused: It may not be fetched.
    """
    try:
        target = read_url(url)
    except ValueError as error:
        text = str(error)
        raise AddressRefused(f"{text[:1].upper()}{text[1:]}.") from None
    await addresses(target, reach)
    return target


async def addresses(target: Target, reach: Reach = PUBLIC) -> tuple[str, ...]:
    """Look up what a URL's host stands for, off the loop, and check all of it.

    Raises:
        AddressRefused: One of the addresses may not be reached, or there is none.
    """
    found: list[str] | OSError = []
    if target.address is None:
        try:
            found = await resolve(target.host)
        except (OSError, UnicodeError) as error:
            found = error if isinstance(error, OSError) else OSError(str(error))

    def answer(_: str) -> Iterable[str]:
        if isinstance(found, OSError):
            raise found
        return found

    if not (verdict := judge(target, reach, answer)):
        raise AddressRefused(verdict.reason)
    return verdict.addresses


def open_client(reach: Reach = PUBLIC, **options: Any) -> httpx.AsyncClient:
    """Open an HTTP client that reaches nothing but what ``reach`` allows: each connection, and so each redirect, is checked.

    Neither proxies nor credentials of the environment are used. Redirects are not followed by themselves.

    Args:
        reach: What beyond the public network may be reached.
        options: For ``httpx.AsyncClient``: headers, timeout.
    """
    from hilum_web.network import client

    return client(reach, **options)
