"""Recognizes hosts that always refer to this machine."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address


def loopback_addresses(host: str) -> tuple[str, ...]:
    """Return the addresses of a loopback host without a lookup, or none for any other host."""
    if host == "localhost" or host.endswith(".localhost"):  # RFC 6761
        return ("127.0.0.1", "::1")
    try:
        address = ip_address(host)
    except ValueError:
        return ()
    # The system connects an IPv4-mapped address to the IPv4 address that it contains.
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    if (mapped or address).is_loopback:
        return (str(mapped or address),)
    return ()
