"""Which hosts a session knows, and what an address carries: for calls that fetch pages without a
question.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit

MAX_TOKEN = 32
"""Characters of a random looking word in an address, above which it may carry data."""
MAX_ADDRESS = 600
MAX_QUERY = 300
# Bits a character: English words have 2.5 to 3.2, base64 and hex of random bytes 3.5 and more
_RANDOM_BITS = 3.4
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_BARE_HOST = re.compile(
    r"(?<![\w@./-])((?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,24})(?![\w-]|\.\w)", re.I
)
_PIPED = re.compile(r"<stdin>\n.*\Z", re.S)
# A bracket belongs to an address only around the host, where IPv6 is written so.
_LINK = re.compile(r"\bhttps?://(?:\[[0-9a-f:.]+\])?[^\s<>\"'`)\]]*", re.I)
# File names that look like hosts.
_FILE_ENDINGS = frozenset(
    "py md rs sh js ts go txt json toml yml yaml cfg ini html css lock log c h cpp java rb php pl".split()
)


def host_of(url: object) -> str:
    """Return the host of an address as it is connected to: lower case, names in Punycode.

    Empty where it has none, or is written so that readers of addresses differ about it.
    """
    if (
        not isinstance(url, str)
        or not re.match(r"https?://[^/?#]", url, re.I)
        or re.search(r"[\s\\\x00-\x20\x7f]", url)
    ):
        return ""
    try:
        host = urlsplit(url.strip()).hostname or ""
    except ValueError:
        return ""
    return ascii_host(host)


def is_web_address(url: object) -> bool:
    """Return whether a value is meant as an address of the web.

    ``host_of`` may find no host in it.
    """
    return isinstance(url, str) and re.match(r"\s*https?:", url, re.I) is not None


def ascii_host(host: str) -> str:
    """Return a host in ASCII; empty where it is no name of a host."""
    if host.isascii():
        return host.lower().rstrip(".")
    import idna

    try:
        return idna.encode(host, uts46=True, std3_rules=True).decode().rstrip(".")
    except (idna.IDNAError, UnicodeError):
        return ""


def typed(text: str) -> str:
    """Return a prompt without what was piped in beside it: that is data, which somebody else may
    have written.

    ``hilum run`` puts it between ``<stdin>`` and ``</stdin>``, and escapes the end mark within it.
    """
    return _PIPED.sub(" ", text)


def named_hosts(text: str) -> Iterator[str]:
    """Yield the hosts that a text of the user names: in addresses, and alone
    (``docs.python.org``).
    """
    for link in _LINK.findall(text):
        yield host_of(link)
    for host in _BARE_HOST.findall(text):
        if host.rpartition(".")[2].lower() not in _FILE_ENDINGS:
            yield host.lower()


def is_known(host: str, known: Iterable[str]) -> bool:
    """Return whether a host is known: it, or the same with or without ``www.``.

    A host below a known one is not: below ``github.io`` anybody can have one.
    """
    bare = host.removeprefix("www.")
    return bool(bare) and any(bare == each.removeprefix("www.") for each in known)


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine by its name or address."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def hosts_within(url: str) -> list[str]:
    """Return the hosts of addresses that an address carries in its query or path: a page may
    redirect to them.
    """
    text = unquote(unquote(url))
    return [host for link in _LINK.findall(text[8:]) if (host := host_of(link))]


def carried_data(url: str) -> str:
    """Return why an address may carry data out; empty if it does not look like that.

    Long words that look random in its path, query, fragment or host are encoded data, as far as
    anybody can tell. Commit hashes are none.
    """
    if len(url) > MAX_ADDRESS:
        return f"the address has {len(url):,} characters"
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return "the address cannot be read"
    if parts.username or parts.password:
        return "the address carries a user name or a password"
    if len(parts.query) > MAX_QUERY:
        return f"its query has {len(parts.query):,} characters"
    label = max(host.split("."), key=len)
    if len(label) > MAX_TOKEN and not host.startswith("["):
        return f"its host has a label of {len(label)} characters"
    text = unquote(f"{parts.path} {parts.query} {parts.fragment}")
    if any(ord(char) < 32 or not char.isprintable() for char in text):
        return "it carries encoded bytes"
    # Numbers and hyphens part words; base64 for addresses uses hyphens, too, so what they join is
    # looked at as well.
    for token in re.findall(r"[A-Za-z0-9+_=~-]{%d,}" % MAX_TOKEN, text):  # noqa: UP031 - braces are the pattern's
        if _COMMIT.fullmatch(token):
            continue
        words = max((len(word) for word in re.split(r"[-_+=~]", token)), default=0)
        mixed = (
            bool(re.search(r"\d", token))
            + bool(re.search(r"[A-Z]", token))
            + bool(re.search(r"[a-z]", token))
        )
        if words >= MAX_TOKEN or (
            mixed == 3 and words >= MAX_TOKEN // 3 and _bits(token) > _RANDOM_BITS + 0.5
        ):
            return f"it carries {len(token)} characters that look like encoded data"
    return ""


def _bits(text: str) -> float:
    """Return the entropy of a text in bits a character."""
    counts = Counter(text)
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts.values())
