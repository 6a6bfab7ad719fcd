"""Decides which network addresses hilum may contact for a model, a page or a server.

Addresses in the user's own network are refused by default. An address is refused unless an explicit
table shows that it is global. The table is also applied to every IPv4 address embedded in an IPv6
address.

The table follows the IANA special-purpose registries for IPv4 and IPv6 (RFC 6890, as of 2026); RFC
6052 and 8215 (NAT64), 3056 (6to4), 4380 (Teredo), 5214 (ISATAP), 4291 and 2765 (IPv4-compatible and
-translated); and the documentation of the metadata services.
"""

from __future__ import annotations

import socket
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import msgspec

Address = IPv4Address | IPv6Address

METADATA_SERVICE = "the metadata service of a cloud"
_PRIVATE = "an address of a private network"
_V4 = {
    "0.0.0.0/8": "an address that no host has",
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
# Only 2000::/3 is global unicast in IPv6. The table contains the exceptions inside that range, and
# the well-known ranges outside it, so that messages can describe them.
_V6 = {
    "2001::/23": "an address reserved for protocols",
    "2001:db8::/32": "an address for documentation",
    "3fff::/20": "an address for documentation",
    "::/128": "an address that no host has",
    "::1/128": "an address of this machine",
    "fc00::/7": _PRIVATE,
    "fe80::/10": "a link-local address",
    "fec0::/10": "a site-local address",
    "ff00::/8": "a multicast address",
}
# Global addresses inside the reserved blocks.
_GLOBAL = (
    "192.0.0.9/32 192.0.0.10/32 2001:1::1/128 2001:1::2/128 2001:1::3/128 2001:3::/32"
    " 2001:4:112::/48 2001:20::/28 2001:30::/28"
).split()
# Virtual machines get their credentials from metadata services. Azure's service has an address in a
# public range.
_METADATA_ADDRESSES = " ".join(
    (
        "169.254.169.254 169.254.170.2 169.254.170.23",  # most clouds; Amazon's containers
        "fd00:ec2::254 fd00:ec2::23",  # Amazon's IPv6
        "fd20:ce::254 168.63.129.16",  # Google, Azure
        "192.0.0.192 fd00:c1::a9fe:a9fe fe80::a9fe:a9fe",  # Oracle, OpenStack
        "100.100.100.200 100.96.0.96 169.254.0.23 169.254.10.10",  # Alibaba, Volcengine, Tencent
        "169.254.42.42 fd00:42::42 fd00:a9fe:a9fe::1",  # Scaleway, Linode
    )
)
METADATA = frozenset(map(ip_address, _METADATA_ADDRESSES.split()))

# The first 96 bits of IPv6 addresses that embed an IPv4 address in the last 32 bits.
_IPV4_MAPPED = 0xFFFF
_NAT64 = 0x64FF9B << 64
_SUFFIX_PREFIXES = (0, _IPV4_MAPPED, 0xFFFF0000, _NAT64)  # compatible, mapped, translated, NAT64
_LOW_32 = 0xFFFFFFFF


class Reach(msgspec.Struct, frozen=True):
    """The addresses outside the public network that are allowed, except metadata services.

    Args:
        loopback: Whether this machine may be contacted as ``localhost`` or at a loopback address.
            Any other name that resolves to this machine must be listed.
        hosts: The names and addresses that the user lists, as ``host`` or ``host:port``; an IPv6
            address with a port must be in brackets.
    """

    loopback: bool = False
    hosts: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "hosts", frozenset(map(_normalize, self.hosts)))

    def lists(self, host: str, port: int) -> bool:
        """Return whether a host is in the user's list."""
        shown = f"[{host}]" if ":" in host else host
        return not self.hosts.isdisjoint((host, f"{shown}:{port}"))


def _normalize(entry: str) -> str:
    """Convert an entry of the user's list to the notation of parsed URLs."""
    host, bracket, port = entry.strip().lower().partition("]")
    if not bracket and host.count(":") < 2:
        host, colon, port = host.partition(":")
        return host.removesuffix(".") + colon + port
    try:
        host = IPv6Address(host.removeprefix("[")).compressed
    except ValueError:
        return entry
    return f"[{host}]{port}" if port else host


PUBLIC = Reach()


class _Range(msgspec.Struct, frozen=True):
    """A range of addresses, and the reason why it is refused (empty for a global range)."""

    version: int
    first: int
    last: int
    reason: str = ""


@cache
def _ranges() -> list[_Range]:
    """Return the table of ranges, exceptions first. The first call builds the table."""
    entries = dict.fromkeys(_GLOBAL, "") | _V4 | _V6
    found = []
    for text, reason in entries.items():
        network = ip_network(text)
        first = int(network.network_address)
        last = int(network.broadcast_address)
        found.append(_Range(network.version, first, last, reason))
    return found


def find_embedded_ipv4(address: Address) -> list[IPv4Address]:
    """Return the IPv4 addresses that packets sent to an IPv6 address may reach.

    All standards for embedding IPv4 addresses are considered. The list is empty for an IPv4
    address.
    """
    if isinstance(address, IPv4Address):
        return []
    number = int(address)
    low = number & _LOW_32
    found = []
    if number >> 32 in _SUFFIX_PREFIXES:
        found.append(low)
    elif number >> 80 == 0x64FF9B0001:
        # Local NAT64: the IPv4 address either follows the 48-bit prefix, split by a zero octet
        # (RFC 6052, section 2.2), or is in the last 32 bits.
        around_octet = (number >> 64 & 0xFFFF) << 16 | number >> 40 & 0xFFFF
        found += [low, around_octet]
    elif number >> 112 == 0x2002:  # 6to4
        found.append(number >> 80 & _LOW_32)
    elif number >> 96 == 0x20010000:
        # Teredo: the server, and the client with inverted bits (RFC 4380, section 4).
        found += [number >> 64 & _LOW_32, low ^ _LOW_32]
    if number >> 32 & 0xFDFFFFFF == 0x5EFE:  # ISATAP, under any prefix
        found.append(low)
    return [IPv4Address(each) for each in found]


def explain_refusal(address: Address, reach: Reach = PUBLIC, *, listed: bool = False) -> str:
    """Return why hilum must not contact an address, or an empty string if it may.

    Args:
        address: The address.
        reach: The allowed addresses outside the public network.
        listed: Whether the user lists the host with this address. If the user lists the host, only
            metadata services are refused.
    """
    embedded = find_embedded_ipv4(address)
    if not METADATA.isdisjoint((address, *embedded)):
        return METADATA_SERVICE
    if listed or (reach.loopback and _is_loopback(address)):
        return ""
    # A mapped or NAT64 address is only an alias of its IPv4 address, so only the latter is checked.
    prefix = int(address) >> 32
    if not embedded or prefix not in (_IPV4_MAPPED, _NAT64):
        reason = _explain_range(address)
        if reason:
            return reason
    for each in embedded:
        reason = _explain_range(each)
        if reason:
            return f"{reason} inside an IPv6 address"
    return ""


def _is_loopback(address: Address) -> bool:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _explain_range(address: Address) -> str:
    """Return why an address is special, or an empty string if it is global."""
    number = int(address)
    for each in _ranges():
        if each.version == address.version and each.first <= number <= each.last:
            return each.reason
    if address.version == 6 and number >> 125 != 1:
        return "an address outside the global range"
    return ""


def is_own_address(address: Address) -> bool:
    """Return whether an address, even a global one, belongs to this machine.

    Servers that listen on all addresses can also be reached at such an address.
    """
    return _can_bind(str(address), address.version) and not _can_bind_any(address.version)


def _can_bind(address: str, version: int) -> bool:
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    try:
        # A socket can only be bound to an address of this machine. Nothing is sent.
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


@cache
def _can_bind_any(version: int) -> bool:
    # Some gateways can bind to addresses that are not their own (net.ipv4.ip_nonlocal_bind). On a
    # machine with this option, a successful bind proves nothing.
    return _can_bind("192.0.2.1" if version == 4 else "2001:db8::1", version)
