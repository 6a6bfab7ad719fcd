"""Which addresses a program may be sent to by a text that it did not write itself.

A model, a page and a redirect name addresses; none of them may name the user's own network. An address is refused unless it is
known to be global: by an explicit table, after every IPv4 address inside an IPv6 one has been taken out and looked at as well.

Sources: the IANA special-purpose registries for IPv4 and IPv6 (RFC 6890, as of 2026); RFC 6052 (NAT64), 3056 (6to4), 5214
(ISATAP); the metadata services' own documentation.
"""

from __future__ import annotations

from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from itertools import chain

import msgspec

Address = IPv4Address | IPv6Address

_PRIVATE = "an address of a private network"
_V4 = {
    "0.0.0.0/8": "an address of this machine",
    "10.0.0.0/8": _PRIVATE,
    "100.64.0.0/10": "an address behind a carrier's NAT",
    "127.0.0.0/8": "an address of this machine",
    "169.254.0.0/16": "a link-local address",
    "172.16.0.0/12": _PRIVATE,
    "192.0.0.0/24": "an address reserved for protocols",
    "192.0.2.0/24": "an address for documentation",
    "192.88.99.0/24": "an address of 6to4 relays",
    "192.168.0.0/16": _PRIVATE,
    "198.18.0.0/15": "an address for benchmarks",
    "198.51.100.0/24": "an address for documentation",
    "203.0.113.0/24": "an address for documentation",
    "224.0.0.0/4": "a multicast address",
    "240.0.0.0/4": "a reserved address",
}
# Of IPv6 only 2000::/3 is global unicast at all; these parts of it are not.
_V6 = {
    "2001::/23": "an address reserved for protocols",
    "2001:db8::/32": "an address for documentation",
    "3fff::/20": "an address for documentation",
}
_V6_NAMED = {
    "::/128": "an address of this machine",
    "::1/128": "an address of this machine",
    "fc00::/7": _PRIVATE,
    "fe80::/10": "a link-local address",
    "fec0::/10": "a site-local address",
    "ff00::/8": "a multicast address",
}
# Inside the reserved blocks, and global all the same.
_GLOBAL = (
    "192.0.0.9/32 192.0.0.10/32 2001:1::1/128 2001:1::2/128 2001:1::3/128 2001:3::/32 2001:4:112::/48 2001:20::/28"
    " 2001:30::/28"
).split()
# Of clouds: what runs there gets its keys from these. Azure's is in a public range.
METADATA = frozenset(
    map(ip_address, "169.254.169.254 169.254.170.2 169.254.170.23 168.63.129.16 100.100.100.200 192.0.0.192".split())
) | frozenset(map(ip_address, "fd00:ec2::254 fd00:ec2::23 fd20:ce::254 fe80::a9fe:a9fe".split()))


class Reach(msgspec.Struct, frozen=True):
    """What beyond the public network may be reached. Metadata services never are.

    Args:
        loopback: Whether this machine may be.
        hosts: Names and addresses that the user lists, as ``host`` or ``host:port``; IPv6 without brackets when without a port.
    """

    loopback: bool = False
    hosts: frozenset[str] = frozenset()

    def lists(self, host: str, port: int) -> bool:
        """Whether the user lists a host."""
        shown = f"[{host}]" if ":" in host else host
        return bool({host, f"{shown}:{port}"} & self.hosts)


PUBLIC = Reach()


@cache
def _table() -> tuple[dict[int, list[tuple[IPv4Network | IPv6Network, str]]], list[IPv4Network | IPv6Network]]:
    # 0.3 ms, at the first address and not at import.
    from ipaddress import ip_network

    refused: dict[int, list[tuple[IPv4Network | IPv6Network, str]]] = {4: [], 6: []}
    for text, why in chain(_V4.items(), _V6.items(), _V6_NAMED.items()):
        network = ip_network(text)
        refused[network.version].append((network, why))
    return refused, [ip_network(text) for text in _GLOBAL]


def embedded(address: IPv6Address) -> IPv4Address | None:
    """Give the IPv4 address that packets to an IPv6 address end up at; ``None`` where there is none.

    Mapped (``::ffff:0:0/96``), translated by NAT64 (``64:ff9b::/96``), 6to4 (``2002::/16``) and ISATAP. Teredo, IPv4-compatible
    and locally translated addresses are not among them: those are refused as they stand.
    """
    number = int(address)
    if number >> 32 in (0xFFFF, 0x64FF9B << 64):
        return IPv4Address(number & 0xFFFFFFFF)
    if number >> 112 == 0x2002:
        return IPv4Address(number >> 80 & 0xFFFFFFFF)
    if number >> 32 & 0xFDFFFFFF == 0x5EFE:
        return IPv4Address(number & 0xFFFFFFFF)
    return None


def refusal(address: Address, reach: Reach = PUBLIC, *, listed: bool = False) -> str:
    """Say why an address may not be reached; empty where it may be.

    Args:
        address: The address.
        reach: What beyond the public network may be reached.
        listed: Whether the user lists the host that it belongs to: only metadata services are refused then.
    """
    inner = embedded(address) if isinstance(address, IPv6Address) else None
    if address in METADATA or inner in METADATA:
        return "the metadata service of a cloud"
    if listed or (reach.loopback and (address.is_loopback or (inner is not None and inner.is_loopback))):
        return ""
    if inner is not None and (why := _standing(inner)):
        return f"{why} inside an IPv6 one"
    if isinstance(address, IPv6Address) and inner is not None and int(address) >> 125 != 1:
        return ""  # mapped or translated: nothing but the inner address is reached
    return _standing(address)


def _standing(address: Address) -> str:
    """Say what an address is; empty when it is a global one."""
    refused, exempt = _table()
    if any(address in network for network in exempt):
        return ""
    for network, why in refused[address.version]:
        if address in network:
            return why
    if isinstance(address, IPv6Address) and int(address) >> 125 != 1:
        return "an address outside the global range"
    return ""
