"""Reading a URL once, strictly, and judging it.

What is written oddly is refused and not repaired: two readers would differ.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterable
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from hilum_web.addresses import METADATA_SERVICE, PUBLIC, Address, Reach, refusal

PORTS = {"http": 80, "https": 443}
LONGEST = 8_000
# Ports of other protocols, which browsers do not contact either (WHATWG Fetch, section 2.9, "bad
# port").
BAD_PORTS = frozenset(
    int(port)
    for port in """0 1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111 113 115 117
    119 123 135 137 139 143 161 179 389 427 465 512 513 514 515 526 530 531 532 540 548 554 556 563 587 601 636 989 990 993
    995 1719 1720 1723 2049 3659 4045 4190 5060 5061 6000 6566 6665 6666 6667 6668 6669 6679 6697 10080""".split()
)

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//)?")
# White space, control characters and backslashes: readers of URLs differ in what they make of them.
_ODD = re.compile(r"[\s\x00-\x20\x7f-\x9f\\]")
# A host, in brackets if it holds colons, and a port.
_PLACE = re.compile(r"(\[[^\[\]]*\]|[^\[\]:]*)(?::([0-9]{0,5}))?")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.I)
# Names whose last label looks like a number are addresses to some readers (0x7f.1, 0177.0.0.1,
# 2130706433).
_NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)\.?", re.I)

Resolve = Callable[[str], Iterable[str]]
Kind = Literal["allowed", "unread", "unknown", "metadata", "refused"]


class Target(msgspec.Struct, frozen=True):
    """A URL that was read: ``url`` as it is to be sent, without its fragment.

    Args:
        url: In ASCII, without user, password and fragment.
        scheme: ``http`` or ``https``.
        host: A name in lower case and ASCII, or an address without brackets.
        port: The port, its scheme's own where none is written.
        address: What the host is when it is no name.
    """

    url: str
    scheme: str
    host: str
    port: int
    address: Address | None = None


class Verdict(msgspec.Struct, frozen=True):
    """Whether a URL may be fetched. True in a condition when it may.

    Args:
        allowed: Whether it may.
        reason: Why not; one sentence that names the host.
        kind: The same for programs: ``allowed``; ``unread``, it is no URL or not written plainly;
            ``unknown``, the name stands for no address; ``metadata``, a cloud's service, which
            nobody can list; ``refused``, an address that the user can list.
        url: As it is to be sent; the given text where it could not be read.
        host: Its host; empty where it could not be read.
        port: Its port; 0 where it could not be read.
        addresses: What the host stands for, all of it checked: connect to one of them, and look
            nothing up again.
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


def read_url(text: str) -> Target:
    """Read the URL of a page.

    Raises:
        ValueError: It is none, or not written plainly; says why.
    """
    if len(text) > LONGEST:
        raise ValueError(f"the URL has {len(text):,} characters, and at most {LONGEST:,} are read")
    odd = _ODD.search(text)
    if odd:
        raise ValueError(f"the URL has {odd[0]!a} in it; write it with %-escapes")
    scheme = _SCHEME.match(text)
    if not scheme or scheme[1].lower() not in PORTS:
        raise ValueError("only http:// and https:// are fetched")
    if not scheme[2]:
        raise ValueError(f"after {scheme[1]}: there must be //")
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise ValueError(f"the URL cannot be read: {error}") from None
    if "@" in parts.netloc:
        raise ValueError("the URL holds a user or a password before its host; leave them out")
    place = _PLACE.fullmatch(parts.netloc)
    if not place:
        raise ValueError(f"{parts.netloc!r} is no host with a port")
    name = scheme[1].lower()
    host, address = _host(place[1])
    port = int(place[2] or PORTS[name])
    if not 0 < port < 1 << 16:
        raise ValueError(f"there is no port {port}")
    shown = f"[{host}]" if isinstance(address, IPv6Address) else host
    where = shown if port == PORTS[name] else f"{shown}:{port}"
    url = f"{name}://{where}{_escaped(parts.path) or '/'}" + (
        f"?{_escaped(parts.query)}" if parts.query else ""
    )
    return Target(url, name, host, port, address)


def _host(raw: str) -> tuple[str, Address | None]:
    """Read a host as it stands in a URL: a name in ASCII, or an address in its usual notation."""
    if raw.startswith("["):
        try:
            v6 = IPv6Address(raw[1:-1])
        except AddressValueError:
            raise ValueError(f"{raw} is no IPv6 address") from None
        if v6.scope_id:
            raise ValueError(f"{raw} names a network card of this machine")
        return v6.compressed, v6
    if "%" in raw:
        raise ValueError(f"the host {raw} has escapes; write it as it is")
    name = raw if raw.isascii() else _ascii(raw)
    name = name.lower().removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            v4 = IPv4Address(name)
        except AddressValueError:
            raise ValueError(
                f"the host {raw} is an address in an odd notation; write it as four numbers,"
                " 192.0.2.1"
            ) from None
        if not raw.isascii() or raw.endswith("."):
            raise ValueError(f"the host {raw} is an address in an odd notation; write it as {v4}")
        return str(v4), v4
    if not name or len(name) > 253 or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError(f"{raw!r} is no name of a host" if raw else "the URL names no host")
    return name, None


def _ascii(raw: str) -> str:
    import idna  # 15 ms, for the few names that need it

    try:
        return idna.encode(raw, uts46=True, std3_rules=True).decode()
    except idna.IDNAError as error:
        raise ValueError(f"{raw!r} is no name of a host: {error}") from None


def _escaped(text: str) -> str:
    """Escape what is not ASCII, as browsers do, and leave all else as it is."""
    if text.isascii():
        return text
    return "".join(
        c if c.isascii() else "".join(f"%{b:02X}" for b in c.encode(errors="replace")) for c in text
    )


def look_up(host: str) -> list[str]:
    """Ask the system for the addresses of a host. Blocks: call it in a thread.

    Raises:
        OSError: There are none.
    """
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def check_url(url: str, resolve: Resolve | None = None, reach: Reach = PUBLIC) -> Verdict:
    """Judge whether a URL may be fetched on behalf of a model, a page or a redirect.

    Only ``http`` and ``https``, written plainly, to a host all of whose addresses are global ones.
    Connect to one of the verdict's addresses, with the host for TLS and the header ``Host``:
    looking the name up again may give another answer.

    Args:
        url: The URL.
        resolve: Gives the addresses of a name, as text; raises ``OSError`` where there are none. By
            default the system is asked, and this blocks.
        reach: What beyond the public network may be reached.
    """
    try:
        target = read_url(url)
    except ValueError as error:
        return Verdict(False, sentence(error), url, kind="unread")
    return judge(target, reach, (resolve or look_up) if target.address is None else None)


def is_local(host: str) -> bool:
    """Return whether a name means this machine by itself.

    No server for names is asked then (RFC 6761).
    """
    return host == "localhost" or host.endswith(".localhost")


def judge(target: Target, reach: Reach = PUBLIC, resolve: Resolve | None = None) -> Verdict:
    """Judge a URL that was read; see ``check_url``.

    Without ``resolve`` the system is asked for what a name stands for.
    """
    listed = reach.lists(target.host, target.port)

    def refused(reason: str, kind: Kind) -> Verdict:
        return Verdict(False, reason, target.url, target.host, target.port, kind=kind)

    def kind_of(why: str) -> Kind:
        return "metadata" if why == METADATA_SERVICE else "refused"

    if target.port in BAD_PORTS:
        return refused(
            f"{target.host}:{target.port} is a port of another protocol, which browsers do not"
            " contact.",
            "refused",
        )
    if target.address is not None:
        why = refusal(target.address, reach, listed=listed)
        if why:
            return refused(f"{target.host} is {why}.", kind_of(why))
        return Verdict(True, "", target.url, target.host, target.port, (target.host,), "allowed")
    if is_local(target.host):
        given = ["127.0.0.1", "::1"]
    else:
        reach = PUBLIC  # a page that calls itself the user's own machine is none of the user's
        try:
            given = list((resolve or look_up)(target.host))
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or str(error)
            return refused(f"{target.host} was not found: {why}.", "unknown")
    if not given:
        return refused(f"{target.host} was not found: it has no address.", "unknown")
    for text in given:
        try:
            address = ip_address(text.partition("%")[0])
        except ValueError:
            return refused(f"{target.host} stands for {text!r}, which is no address.", "refused")
        why = refusal(address, reach, listed=listed)
        if why:
            return refused(f"{target.host} stands for {text}, {why}.", kind_of(why))
    return Verdict(True, "", target.url, target.host, target.port, tuple(given), "allowed")


def sentence(error: Exception) -> str:
    """Write what an error says as a sentence."""
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."
