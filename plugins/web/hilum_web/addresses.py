"""Which addresses a program may be sent to by a text that it did not write itself.

A model, a page and a redirect name addresses; none of them may name the user's own network. An
address is refused unless it is known to be global: by an explicit table, after every IPv4 address
inside an IPv6 one has been taken out and looked at as well.

Sources: the IANA special-purpose registries for IPv4 and IPv6 (RFC 6890, as of 2026); RFC 6052 and
8215 (NAT64), 3056 (6to4), 4380 (Teredo), 5214 (ISATAP), 4291 and 2765 (IPv4-compatible and
-translated); the metadata services' own documentation.
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
# Of IPv6 only 2000::/3 is global unicast at all. These parts of it are not; those outside it are
# here for their names.
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
# Inside the reserved blocks, and global all the same.
_GLOBAL = (
    "192.0.0.9/32 192.0.0.10/32 2001:1::1/128 2001:1::2/128 2001:1::3/128 2001:3::/32"
    " 2001:4:112::/48 2001:20::/28 2001:30::/28"
).split()
# Of clouds: what runs there gets its keys from these. Azure's is in a public range.
METADATA = frozenset(
    ip_address(text)
    for texts in (
        "169.254.169.254 169.254.170.2 169.254.170.23 fd00:ec2::254 fd00:ec2::23",  # most; Amazon's containers and IPv6
        "fd20:ce::254 168.63.129.16 192.0.0.192 fd00:c1::a9fe:a9fe fe80::a9fe:a9fe",  # Google, Azure, Oracle, OpenStack
        "100.100.100.200 100.96.0.96 169.254.0.23 169.254.10.10",  # Alibaba, Volcengine, Tencent
        "169.254.42.42 fd00:42::42 fd00:a9fe:a9fe::1",  # Scaleway, Linode
    )
    for text in texts.split()
)


class Reach(msgspec.Struct, frozen=True):
    """What beyond the public network may be reached. Metadata services never are.

    Args:
        loopback: Whether this machine may be, by its address or as ``localhost``; another name that
            leads to it must be listed.
        hosts: Names and addresses that the user lists, as ``host`` or ``host:port``; an IPv6
            address with a port in brackets.
    """

    loopback: bool = False
    hosts: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "hosts", frozenset(map(_plain, self.hosts)))

    def lists(self, host: str, port: int) -> bool:
        """Return whether the user lists a host."""
        return (
            host in self.hosts
            or (f"[{host}]:{port}" if ":" in host else f"{host}:{port}") in self.hosts
        )


def _plain(entry: str) -> str:
    """Write an entry of the user's list as a URL that was read has it."""
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


@cache
def _table() -> tuple[dict[int, list[tuple[int, int, str]]], dict[int, list[tuple[int, int]]]]:
    # At the first address and not at import.
    refused: dict[int, list[tuple[int, int, str]]] = {4: [], 6: []}
    exempt: dict[int, list[tuple[int, int]]] = {4: [], 6: []}
    for text, why in (_V4 | _V6).items():
        network = ip_network(text)
        refused[network.version].append((int(network[0]), int(network[-1]), why))
    for network in map(ip_network, _GLOBAL):
        exempt[network.version].append((int(network[0]), int(network[-1])))
    return refused, exempt


def embedded(address: IPv6Address) -> list[IPv4Address]:
    """Return the IPv4 addresses that packets to an IPv6 address may end up at, wherever a standard
    says that one has them.
    """
    number = int(address)
    low = number & 0xFFFFFFFF
    head = number >> 32
    found = []
    if head in (0, 0xFFFF, 0xFFFF0000, 0x64FF9B << 64):  # compatible, mapped, translated, NAT64
        found.append(low)
    elif (
        number >> 80 == 0x64FF9B0001
    ):  # NAT64 of one's own network: after its 48 bits, round an empty octet, or at the end
        found += [low, (number >> 64 & 0xFFFF) << 16 | number >> 40 & 0xFFFF]
    elif number >> 112 == 0x2002:  # 6to4
        found.append(number >> 80 & 0xFFFFFFFF)
    elif (
        number >> 96 == 0x20010000
    ):  # Teredo: the server, and the client with its bits turned round
        found += [number >> 64 & 0xFFFFFFFF, low ^ 0xFFFFFFFF]
    if head & 0xFDFFFFFF == 0x5EFE:  # ISATAP, below any prefix
        found.append(low)
    return list(map(IPv4Address, found))


def refusal(address: Address, reach: Reach = PUBLIC, *, listed: bool = False) -> str:
    """Return why an address may not be reached; empty where it may be.

    Args:
        address: The address.
        reach: What beyond the public network may be reached.
        listed: Whether the user lists the host that it belongs to: only metadata services are
            refused then.
    """
    inner = embedded(address) if isinstance(address, IPv6Address) else []
    if address in METADATA or any(each in METADATA for each in inner):
        return METADATA_SERVICE
    carries = isinstance(address, IPv6Address) and int(address) >> 32 in (0xFFFF, 0x64FF9B << 64)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    if listed or (reach.loopback and (mapped or address).is_loopback):
        return ""
    # Where an address does nothing but carry another, only the other one is reached.
    if not carries and (why := _standing(address)):
        return why
    return next((f"{why} inside an IPv6 one" for each in inner if (why := _standing(each))), "")


def _standing(address: Address) -> str:
    """Return what an address is; empty when it is a global one."""
    refused, exempt = _table()
    number = int(address)
    for first, last, why in refused[address.version]:
        if first <= number <= last:
            if any(low <= number <= high for low, high in exempt[address.version]):
                return ""
            return why
    if address.version == 6 and number >> 125 != 1:
        return "an address outside the global range"
    return ""


def is_own(address: Address) -> bool:
    """Return whether an address, global or not, is one of this machine: what listens on all of them
    answers there, too.
    """
    return _binds(str(address), address.version) and not _binds_all(address.version)


def _binds(address: str, version: int) -> bool:
    try:
        with socket.socket(
            socket.AF_INET if version == 4 else socket.AF_INET6, socket.SOCK_DGRAM
        ) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


@cache
def _binds_all(version: int) -> bool:
    # Some gateways are set up to bind what is not theirs; there the question has no answer.
    return _binds("192.0.2.1" if version == 4 else "2001:db8::1", version)
