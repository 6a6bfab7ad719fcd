"""Resolves the host of a URL and checks its addresses, without blocking the event loop."""

from __future__ import annotations

from ipaddress import ip_address

import trio
from hilum import AddressRefused

from hilum_web.addresses import PUBLIC, Reach, is_own_address
from hilum_web.urls import (
    InvalidUrl,
    Target,
    check_addresses,
    find_known_addresses,
    parse_url,
    to_sentence,
    to_unknown_host,
)


async def resolve_host(host: str) -> list[str]:
    """Return the addresses that the system's resolver finds for a host.

    Raises:
        OSError: The host has no address.
    """
    # Without a socket type, the resolver would list each address once for every type.
    found = await trio.socket.getaddrinfo(host, None, type=trio.socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def resolve_url(url: str, reach: Reach = PUBLIC) -> tuple[Target, tuple[str, ...]]:
    """Resolve the host of a URL and check all its addresses.

    Returns:
        The parsed URL, and the addresses to connect to.

    Raises:
        InvalidUrl: The text is not a URL, or uses an unusual notation.
        UnknownHost: The host has no address.
        AddressRefused: hilum must not fetch the URL.
    """
    try:
        target = parse_url(url)
    except ValueError as error:
        raise InvalidUrl(to_sentence(error)) from None
    known = find_known_addresses(target)
    addresses = known
    if not known:
        try:
            addresses = tuple(await resolve_host(target.host))
        except (OSError, UnicodeError) as error:
            raise to_unknown_host(target.host, error) from None
    check_addresses(target, addresses, reach)
    is_excused = reach.lists(target.host, target.port) or (reach.loopback and bool(known))
    if not is_excused:
        _refuse_own_addresses(target.host, addresses)
    return target, addresses


def _refuse_own_addresses(host: str, addresses: tuple[str, ...]) -> None:
    # The table in `addresses` allows this machine's global addresses. However, such an address can
    # reach servers that listen on all addresses and are intended for the local network.
    for text in addresses:
        if is_own_address(ip_address(text)):
            raise AddressRefused(
                f"{host} resolves to {text}, an address of this machine.", listable=True
            )
