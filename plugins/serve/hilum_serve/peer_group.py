"""Servers that share sessions: what they prove to each other with a common key.

The servers of a group find each other's addresses in the store. Everyone who can write to the store
could name an address of their own there and receive the tokens that are sent to it. Therefore, an
address counts only with a signature, and a server proves on each connection that it knows the key
before it gets anything.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
import time
from typing import Literal
from urllib.parse import urlsplit

import attrs
from hilum import UsageError
from hilum.errors import E_BAD_ARGS
from hilum.listening import format_host

MIN_KEY = 32
"""Minimum number of characters of the key."""
PROOF_PATH = "/peer"
NONCE_HEADER = b"hilum-nonce"
FORWARDED = b"hilum-forwarded"
"""Header of a request that another server has passed on."""
_NONCE = re.compile(rb"[0-9a-f]{64}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_PRIVATE = tuple(
    ipaddress.ip_network(network)
    for network in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
)
"""Networks in which HTTP without encryption is accepted: RFC 1918 and RFC 4193."""
_HINT = "Write it as http://ADDRESS:PORT or https://NAME:PORT, without a path."
_PORTS = {"http": 80, "https": 443}


@attrs.frozen
class PeerAddress:
    """The address of a server of the group.

    Attributes:
        scheme: ``http`` or ``https``.
        host: The name or IP address, without brackets.
        port: The port.
    """

    scheme: Literal["http", "https"]
    host: str
    port: int

    @property
    def netloc(self) -> str:
        """The value of the Host header; the standard port is left out, as browsers do."""
        host = format_host(self.host)
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The address as it is signed."""
        return f"{self.scheme}://{self.netloc}"


def parse_address(url: str, *, plain_http: bool = False) -> PeerAddress:
    """Return the address in a URL.

    Args:
        url: The URL, which has only a scheme, a host and a port.
        plain_http: Whether unencrypted HTTP is accepted for every host, and not only for this
            machine and IP addresses of private networks.

    Raises:
        UsageError: It is no such URL, or tokens would be sent to it without encryption.
    """
    wrong = UsageError(f"{url!r} is not an address of a server.", code=E_BAD_ARGS, hint=_HINT)
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = parts.port
    except ValueError:
        raise wrong from None
    has_more = parts.path not in ("", "/") or parts.query or parts.fragment or "@" in parts.netloc
    if parts.scheme not in ("http", "https") or has_more or port == 0:
        raise wrong
    is_private = host == "localhost"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        if not _HOST.fullmatch(host):
            raise wrong from None
    else:
        if address.is_unspecified or address.is_multicast:
            raise wrong
        is_private = address.is_loopback or any(address in network for network in _PRIVATE)
    scheme: Literal["http", "https"] = "http" if parts.scheme == "http" else "https"
    if scheme == "http" and not is_private and not plain_http:
        raise UsageError(
            f"{url} is not encrypted, and its host is not an IP address of a private network:"
            " everyone on the way could read the tokens.",
            code=E_BAD_ARGS,
            hint="Use https, or set serve.peer_plain_http if the network between the servers is"
            " trusted.",
        )
    return PeerAddress(scheme, host.lower(), port or _PORTS[scheme])


def make_nonce() -> bytes:
    """Return a random text for which a server can prove itself."""
    return secrets.token_hex(32).encode()


class PeerGroup:
    """A server's membership of a group of servers that share sessions.

    Args:
        url: The address at which the others reach this server.
        key: The key that all servers of the group have.
        plain_http: Whether unencrypted HTTP is accepted for every host.

    Raises:
        UsageError: The address or the key cannot be used.

    Attributes:
        own: The address of this server.
        instance: A text that is the same for all servers of the group.
        cookie: Name of the cookie of a login, which all servers of the group accept.
        cookie_key: The key with which they sign cookies.
        own_nonce: A random text that nobody else knows.
        is_reached: Whether this server was asked to prove itself with ``own_nonce``. Then whoever
            asked has reached it, and not another server.
    """

    def __init__(self, url: str, key: str, *, plain_http: bool = False) -> None:
        if len(key) < MIN_KEY:
            raise UsageError(
                f"serve.peer_url needs serve.peer_key, a key of at least {MIN_KEY} characters.",
                code=E_BAD_ARGS,
                hint="Create one for all servers of the group: python -c"
                " 'import secrets; print(secrets.token_urlsafe(32))'",
            )
        self._key = key.encode("utf-8", "surrogateescape")
        self._plain_http = plain_http
        self.own = parse_address(url, plain_http=plain_http)
        self.cookie_key = self._sign("cookie key", "").digest()
        self.cookie = f"hilum-{self._sign('cookie name', '').hexdigest()[:12]}"
        self.instance = self._sign("instance", "").hexdigest()[:16]
        self.own_nonce = make_nonce()
        self.is_reached = False

    @property
    def hosts(self) -> list[str]:
        """Values of the Host header in requests of the others."""
        return [self.own.netloc]

    @property
    def announcement(self) -> str:
        """The signed address of this server, for the store."""
        return f"{self.own.url} {self._sign('address', self.own.url).hexdigest()}"

    def read_announcement(self, text: str) -> PeerAddress | None:
        """Return the address that a server of the group announced.

        Args:
            text: The text in the store.

        Returns:
            The address; ``None`` if there is none, if it is not signed with the key, or if this
            server may not send tokens there.
        """
        url, _, signature = text.partition(" ")
        proof = self._sign("address", url).hexdigest()
        if not hmac.compare_digest(proof.encode(), signature.encode("utf-8", "replace")):
            return None
        try:
            return parse_address(url, plain_http=self._plain_http)
        except UsageError:
            return None

    def make_presence_notice(self) -> str:
        """Return the notice that this server runs now, with its signed address."""
        # A text that was published before would keep the time at which that was.
        return f"server {self.announcement} {time.time():.0f}"

    def read_foreign_notice(self, notice: str) -> str:
        """Return the address in another server's notice if requests cannot be passed on there.

        It is not signed with the key, or this server may not send tokens there. Otherwise, the text
        is empty.
        """
        kind, _, rest = notice.partition(" ")
        announcement, _, _ = rest.rpartition(" ")
        if kind != "server" or self.read_announcement(announcement) is not None:
            return ""
        return announcement.partition(" ")[0] or "an unknown address"

    def make_logout_notice(self, cookie: int) -> str:
        """Return the signed notice that the login with a cookie has ended."""
        return f"logout {cookie} {self._sign('logout', str(cookie)).hexdigest()}"

    def read_logout_notice(self, notice: str) -> int | None:
        """Return the number of the cookie in a notice; ``None`` if the notice is not the group's."""
        kind, _, rest = notice.partition(" ")
        number, _, signature = rest.partition(" ")
        expected = self._sign("logout", number).hexdigest()
        is_signed = hmac.compare_digest(expected.encode(), signature.encode("utf-8", "replace"))
        return int(number) if kind == "logout" and is_signed else None

    def answer_nonce(self, nonce: bytes) -> str:
        """Return the proof that this server belongs to the group, and has this address.

        Args:
            nonce: A random text of the server that wants the proof; empty if it has no proper form.
        """
        if hmac.compare_digest(nonce, self.own_nonce):
            self.is_reached = True
        return self._prove(nonce, self.own) if _NONCE.fullmatch(nonce) else ""

    def is_proof(self, proof: str, nonce: bytes, peer: PeerAddress) -> bool:
        """Return whether a server has proved that it belongs to the group and has an address."""
        # Without the address in it, whoever is connected to could have another server prove it.
        expected = self._prove(nonce, peer)
        return hmac.compare_digest(expected.encode(), proof.encode("utf-8", "replace"))

    def make_mark(self, peer: PeerAddress) -> bytes:
        """Return the signed mark of a request that is passed on to a server."""
        nonce = make_nonce().decode()
        return f"{nonce} {self._sign('forwarded', f'{nonce} {peer.url}').hexdigest()}".encode()

    def is_mark(self, mark: str) -> bool:
        """Return whether another server of the group has passed a request on to this one."""
        nonce, _, signature = mark.partition(" ")
        expected = self._sign("forwarded", f"{nonce} {self.own.url}").hexdigest()
        return hmac.compare_digest(expected.encode(), signature.encode("utf-8", "replace"))

    def _prove(self, nonce: bytes, peer: PeerAddress) -> str:
        return self._sign("proof", f"{nonce.decode('latin-1')} {peer.url}").hexdigest()

    def _sign(self, purpose: str, text: str) -> hmac.HMAC:
        """Sign a text. Signatures for one purpose are of no use for another."""
        data = f"hilum-serve {purpose}\0{text}".encode("utf-8", "surrogateescape")
        return hmac.new(self._key, data, hashlib.sha256)
