"""Find hosts in a tool call that are not ordinary names."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address

from hilum_guard.dangers.marks import Mark, Rank
from hilum_guard.hosts.addresses import ascii_host


def mark_hosts(hosts: Iterable[str]) -> Iterator[Mark]:
    """Yield marks for hosts that are not ordinary names."""
    for host in hosts:
        if not host.isascii() or any(part.startswith("xn--") for part in host.split(".")):
            name = host if host.isascii() else f"{host}, which is {ascii_host(host) or 'not valid'}"
            text = "contacts a host whose letters may imitate others: {}"
            yield Mark(Rank.DISGUISED_HOST, text, name)
            continue
        address = _find_address(host)
        if address is not None and not address.is_loopback:
            name = host if str(address) == host.strip("[]") else f"{host}, which is {address}"
            yield Mark(Rank.HOST, "contacts an IP address: {}", name)


def _find_address(host: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address that a host represents, or None for a name."""
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        pass
    # Programs also accept addresses with fewer parts, and octal and hexadecimal numbers.
    if not host[:1].isdigit():
        return None
    try:
        return IPv4Address(socket.inet_aton(host))
    except (OSError, ValueError):
        return None
