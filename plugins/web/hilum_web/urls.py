"""Parses URLs strictly and only once, and checks the addresses of their hosts.

A URL in an unusual notation is refused rather than repaired, because two parsers may disagree about
the repair: the parser that checks a URL must agree with the one that is used to connect.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterable
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address
from typing import Literal
from urllib.parse import SplitResult, quote, urlsplit

import msgspec
from hilum import AddressRefused, errors

from hilum_web.addresses import METADATA_SERVICE, PUBLIC, Address, Reach, explain_refusal

PORTS = {"http": 80, "https": 443}
MAX_LENGTH = 8_000
# Ports of other protocols, which browsers do not contact either (WHATWG Fetch, section 2.9, "bad
# port"). A URL could make servers on these ports execute commands.
_BAD_PORTS = """
    0 1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111 113
    115 117 119 123 135 137 139 143 161 179 389 427 465 512 513 514 515 526 530 531 532 540 548 554
    556 563 587 601 636 989 990 993 995 1719 1720 1723 2049 3659 4045 4190 5060 5061 6000 6566 6665
    6666 6667 6668 6669 6679 6697 10080
"""
BAD_PORTS = frozenset(map(int, _BAD_PORTS.split()))

_SCHEME = r"([A-Za-z][A-Za-z0-9+.-]*):(//)?"
# Whitespace, control characters and backslashes. URL parsers disagree about their meaning.
_ODD = r"[\s\x00-\x20\x7f-\x9f\\]"
# A host, in brackets if it contains colons, and a port.
_NETLOC = r"(\[[^\[\]]*\]|[^\[\]:]*)(?::([0-9]{0,5}))?"
_LABEL = r"(?i)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
# If the last label of a name looks like a number, some parsers interpret the name as an address:
# 0x7f.1, 0177.0.0.1, 2130706433.
_NUMBER = r"(?i)(0x[0-9a-f]*|[0-9]+)\.?"
_NOT_ASCII = r"[^\x00-\x7f]+"

Resolve = Callable[[str], Iterable[str]]
Kind = Literal["allowed", "invalid", "unknown", "metadata", "refused"]


class InvalidUrl(AddressRefused):
    """The text is not the URL of a page, or other parsers may interpret it differently."""


class UnknownHost(AddressRefused):
    """The name has no address, because it is wrong or the name server does not respond."""

    code = errors.E_UNREACHABLE


class Target(msgspec.Struct, frozen=True):
    """A parsed URL.

    Args:
        url: The URL to request, in ASCII, without user name, password and fragment.
        scheme: ``http`` or ``https``.
        host: A lower-case ASCII name, or an address without brackets.
        port: The port; by default, that of the scheme.
        address: The host as an IP address; ``None`` for a name.
    """

    url: str
    scheme: str
    host: str
    port: int
    address: Address | None = None


class Verdict(msgspec.Struct, frozen=True):
    """A verdict on whether hilum may fetch a URL; it is truthy if the URL is allowed.

    Args:
        allowed: Whether the URL may be fetched.
        reason: Why hilum must not fetch the URL: one sentence that names the host.
        kind: The reason as a code for programs: ``allowed``; ``invalid`` if the text is not a URL
            or uses an unusual notation; ``unknown`` if the name has no address; ``metadata`` if the
            URL is that of a metadata service, which the user cannot list; ``refused`` if the user
            can list the address.
        url: The URL to request; the given text if it is not a valid URL.
        host: The host of the URL; empty if the URL is invalid.
        port: The port of the URL; 0 if the URL is invalid.
        addresses: The addresses of the host, all of which have been checked. Connect to one of
            them, because another lookup could return different addresses.
    """

    allowed: bool
    reason: str = ""
    url: str = ""
    host: str = ""
    port: int = 0
    addresses: tuple[str, ...] = ()
    kind: Kind = "refused"

    def __bool__(self) -> bool:
        return self.allowed


def parse_url(text: str) -> Target:
    """Parse the URL of a page.

    Raises:
        ValueError: The text is not such a URL, or uses an unusual notation. The message contains
            the reason.
    """
    scheme, parts = _split(text)
    netloc = re.fullmatch(_NETLOC, parts.netloc)
    if not netloc:
        raise ValueError(f"{parts.netloc!r} is not a host with a port")
    host, address = _parse_host(netloc[1])
    port = int(netloc[2] or PORTS[scheme])
    if not 0 < port < 1 << 16:
        raise ValueError(f"there is no port {port}")
    place = f"[{host}]" if isinstance(address, IPv6Address) else host
    if port != PORTS[scheme]:
        place += f":{port}"
    path = _escape(parts.path) or "/"
    query = f"?{_escape(parts.query)}" if parts.query else ""
    return Target(f"{scheme}://{place}{path}{query}", scheme, host, port, address)


def _split(text: str) -> tuple[str, SplitResult]:
    """Return the scheme of a URL and its parts."""
    if len(text) > MAX_LENGTH:
        raise ValueError(
            f"the URL has {len(text):,} characters, more than the maximum of {MAX_LENGTH:,}"
        )
    odd = re.search(_ODD, text)
    if odd:
        raise ValueError(f"the URL contains {odd[0]!a}; write it with %-escapes")
    scheme = re.match(_SCHEME, text)
    if not scheme or scheme[1].lower() not in PORTS:
        raise ValueError("only http:// and https:// are fetched")
    if not scheme[2]:
        raise ValueError(f"{scheme[1]}: must be followed by //")
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise ValueError(f"the URL cannot be read: {error}") from None
    # To a reader, user@host looks like another host: http://example.org@10.0.0.7/
    if "@" in parts.netloc:
        raise ValueError("the URL has a user name or password before its host; leave them out")
    return scheme[1].lower(), parts


def _parse_host(raw: str) -> tuple[str, Address | None]:
    """Parse the host of a URL: a name in ASCII, or an address in its usual notation."""
    if raw.startswith("["):
        return _parse_ipv6(raw)
    if "%" in raw:
        raise ValueError(f"the host {raw} has escapes; write it without them")
    name = raw if raw.isascii() else _encode_idna(raw)
    name = name.lower().removesuffix(".")
    labels = name.split(".")
    if re.fullmatch(_NUMBER, labels[-1]):
        return _parse_ipv4(raw, name)
    if not name:
        raise ValueError("the URL has no host")
    are_valid = all(re.fullmatch(_LABEL, label) for label in labels)
    if not are_valid or len(name) > 253:
        raise ValueError(f"{raw!r} is not a host name")
    return name, None


def _parse_ipv6(raw: str) -> tuple[str, Address]:
    try:
        address = IPv6Address(raw[1:-1])
    except AddressValueError:
        raise ValueError(f"{raw} is not an IPv6 address") from None
    # fe80::1%eth0 is only meaningful on this machine.
    if address.scope_id:
        raise ValueError(f"{raw} contains a network interface of this machine")
    return address.compressed, address


def _parse_ipv4(raw: str, name: str) -> tuple[str, Address]:
    try:
        address = IPv4Address(name)
    except AddressValueError:
        raise ValueError(
            f"the host {raw} is an address in an unusual notation; write it as four numbers, "
            "192.0.2.1"
        ) from None
    if not raw.isascii() or raw.endswith("."):
        raise ValueError(
            f"the host {raw} is an address in an unusual notation; write it as {address}"
        )
    return str(address), address


def _encode_idna(raw: str) -> str:
    import idna  # the import takes 15 ms, and few names need it

    try:
        # UTS 46, as in browsers: the checked name must be the one that is contacted.
        return idna.encode(raw, uts46=True, std3_rules=True).decode()
    except idna.IDNAError as error:
        raise ValueError(f"{raw!r} is not a host name: {error}") from None


def _escape(text: str) -> str:
    """Escape only non-ASCII characters, as browsers do."""
    return re.sub(_NOT_ASCII, lambda match: quote(match[0], safe="", errors="replace"), text)


def resolve_host(host: str) -> list[str]:
    """Return the addresses that the system's resolver finds for a host. Blocks, so use a thread.

    Raises:
        OSError: The host has no address.
    """
    # Without a socket type, the resolver would list each address once for every type.
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def check_url(url: str, resolve: Resolve = resolve_host, reach: Reach = PUBLIC) -> Verdict:
    """Check whether hilum may fetch a URL on behalf of a model, a page or a redirect.

    Only ``http`` and ``https`` URLs in the usual notation are allowed, and only if all addresses of
    the host are global. Connect to one of the verdict's addresses, and use the host for TLS and the
    ``Host`` header, because another lookup could return different addresses.

    Args:
        url: The URL.
        resolve: Function that returns the addresses of a name as strings, and raises ``OSError`` if
            there are none. The default is the system's resolver, which blocks.
        reach: The allowed addresses outside the public network.
    """
    try:
        target = parse_url(url)
    except ValueError as error:
        return Verdict(False, to_sentence(error), url, kind="invalid")
    addresses: tuple[str, ...] = ()
    kind: Kind = "allowed"
    reason = ""
    try:
        addresses = find_known_addresses(target) or _look_up(target.host, resolve)
        check_addresses(target, addresses, reach)
    except UnknownHost as error:
        kind = "unknown"
        reason = error.message
    except AddressRefused as error:
        kind = "refused" if error.listable else "metadata"
        reason = error.message
    is_allowed = kind == "allowed"
    return Verdict(
        is_allowed,
        reason,
        target.url,
        target.host,
        target.port,
        addresses if is_allowed else (),
        kind,
    )


def _look_up(host: str, resolve: Resolve) -> tuple[str, ...]:
    try:
        return tuple(resolve(host))
    except (OSError, UnicodeError) as error:
        raise to_unknown_host(host, error) from None


def to_unknown_host(host: str, error: OSError | UnicodeError) -> UnknownHost:
    """Return the error for a failed lookup."""
    reason = getattr(error, "strerror", None) or str(error)
    return UnknownHost(f"{host} was not found: {reason}.")


def is_localhost(host: str) -> bool:
    """Return whether a name always refers to this machine, without a lookup (RFC 6761)."""
    return host == "localhost" or host.endswith(".localhost")


def find_known_addresses(target: Target) -> tuple[str, ...]:
    """Return the addresses of a host that needs no lookup, or none for any other host.

    Raises:
        AddressRefused: The port belongs to another protocol, so a lookup would be useless.
    """
    if target.port in BAD_PORTS:
        raise AddressRefused(
            f"{target.host}:{target.port} uses the port of another protocol, which browsers do not "
            "contact.",
            listable=True,
        )
    if target.address is not None:
        return (target.host,)
    return ("127.0.0.1", "::1") if is_localhost(target.host) else ()


def check_addresses(target: Target, addresses: tuple[str, ...], reach: Reach) -> None:
    """Check all addresses of a host, because a client could connect to any of them.

    Args:
        target: The URL.
        addresses: The addresses of its host.
        reach: The allowed addresses outside the public network.

    Raises:
        UnknownHost: There are no addresses.
        AddressRefused: hilum must not contact one of the addresses.
    """
    host = target.host
    if not addresses:
        raise UnknownHost(f"{host} was not found: it has no address.")
    is_listed = reach.lists(host, target.port)
    if target.address is None and not is_localhost(host):
        reach = PUBLIC  # a foreign name that resolves to this machine suggests DNS rebinding
    for text in addresses:
        stands_for = "is" if target.address is not None else f"resolves to {text},"
        try:
            # The system may append the network interface, as in fe80::1%eth0.
            address = ip_address(text.partition("%")[0])
        except ValueError:
            raise AddressRefused(
                f"{host} resolves to {text!r}, which is not an address.", listable=True
            ) from None
        reason = explain_refusal(address, reach, listed=is_listed)
        if reason:
            raise AddressRefused(
                f"{host} {stands_for} {reason}.", listable=reason != METADATA_SERVICE
            )


def to_sentence(error: Exception) -> str:
    """Return an error message as a sentence."""
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."
