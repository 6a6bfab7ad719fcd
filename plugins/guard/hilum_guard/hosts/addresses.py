"""Check URLs: their hosts, and the data that they may leak."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit

MAX_TOKEN = 32
"""Minimum length, in characters, of a random-looking word that may contain encoded data."""
# Every character of a URL can carry data to the server.
MAX_ADDRESS = 600
MAX_QUERY = 300
# Bits of entropy per character: English words have 2.5 to 3.2; random bytes in base64 or
# hexadecimal have 3.5 or more. To count as encoded, a token that mixes words and numbers needs more
# entropy than a plain token.
_MIXED_BITS = 3.9
_HAS_HOST = r"(?i)https?://[^/?#]"
# URL parsers disagree about whitespace, control characters and backslashes.
_AMBIGUOUS = r"[\s\\\x00-\x20\x7f]"
_TOKEN = rf"[A-Za-z0-9+_=~-]{{{MAX_TOKEN},}}"
_KINDS_OF_CHARACTERS = (re.compile(r"\d"), re.compile(r"[A-Z]"), re.compile(r"[a-z]"))
_COMMIT = r"[0-9a-f]{40}|[0-9a-f]{64}"
_BARE_HOST = (
    r"(?i)(?<![\w@./-])((?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,24})(?![\w-]|\.\w)"
)
_PIPED = r"(?s)<stdin>\n.*\Z"
# Brackets are part of a URL only around an IPv6 host.
_LINK = r"(?i)\bhttps?://(?:\[[0-9a-f:.]+\])?[^\s<>\"'`)\]]*"
# File names that look like hosts.
_FILE_ENDINGS = frozenset(
    "py md rs sh js ts go txt json toml yml yaml cfg ini html css lock log c h cpp java rb php"
    " pl".split()
)


def host_of(url: object) -> str:
    """Return the host that a URL connects to, in lower case and Punycode.

    The result is empty if the URL has no host, or if URL parsers may disagree about the host.
    """
    if not isinstance(url, str) or not re.match(_HAS_HOST, url) or re.search(_AMBIGUOUS, url):
        return ""
    try:
        host = urlsplit(url.strip()).hostname or ""
    except ValueError:
        return ""
    return ascii_host(host)


def is_web_address(url: object) -> bool:
    """Return whether a value is intended as a web address, even if ``host_of`` finds no host."""
    return isinstance(url, str) and re.match(r"\s*https?:", url, re.I) is not None


def ascii_host(host: str) -> str:
    """Return a host in ASCII; empty if it is not a valid host name."""
    if host.isascii():
        return host.lower().rstrip(".")
    import idna  # idna loads large tables, which few sessions need

    try:
        # UTS #46 maps letters as browsers do, so that different spellings of a host give the same
        # name.
        return idna.encode(host, uts46=True, std3_rules=True).decode().rstrip(".")
    except (idna.IDNAError, UnicodeError):
        return ""


def remove_piped_text(text: str) -> str:
    """Return a prompt without its ``<stdin>`` block, whose text may come from another program."""
    return re.sub(_PIPED, " ", text)


def find_named_hosts(text: str) -> Iterator[str]:
    """Yield the hosts that text mentions, in URLs or alone (``docs.python.org``)."""
    for link in re.findall(_LINK, text):
        yield host_of(link)
    for host in re.findall(_BARE_HOST, text):
        if host.rpartition(".")[2].lower() not in _FILE_ENDINGS:
            yield host.lower()


def is_known(host: str, known: Iterable[str]) -> bool:
    """Return whether a host is known, with or without ``www.``."""
    # Subdomains of a known host do not count as known: anybody can get a subdomain of `github.io`.
    bare = host.removeprefix("www.")
    return bool(bare) and any(bare == each.removeprefix("www.") for each in known)


def is_loopback(host: str) -> bool:
    """Return whether a host's name or address refers to this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def hosts_within(url: str) -> list[str]:
    """Return the hosts of URLs that are embedded in another URL's query or path.

    The page may redirect to these hosts.
    """
    # The text is decoded twice, because a URL in a parameter of an embedded URL is encoded twice.
    text = unquote(unquote(url))
    inner = text[len("https://") :]
    return [host for host in map(host_of, re.findall(_LINK, inner)) if host]


def carried_data(url: str) -> str:
    """Return why a URL may leak data; empty if nothing suggests a leak.

    Long, random-looking words in the path, query, fragment or host may be encoded data. Commit
    hashes do not count.
    """
    if len(url) > MAX_ADDRESS:
        return f"the address has {len(url):,} characters"
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return "the address cannot be parsed"
    if parts.username or parts.password:
        return "the address contains a user name or a password"
    if len(parts.query) > MAX_QUERY:
        return f"its query has {len(parts.query):,} characters"
    # Resolving a host leaks its labels to a name server, even if the request is never sent.
    label = max(host.split("."), key=len)
    if len(label) > MAX_TOKEN and not host.startswith("["):
        return f"its host has a label of {len(label)} characters"
    text = unquote(f"{parts.path} {parts.query} {parts.fragment}")
    if not text.isprintable():
        return "it contains encoded bytes"
    for token in re.findall(_TOKEN, text):
        if _looks_encoded(token):
            return f"it contains {len(token)} characters that look like encoded data"
    return ""


def _looks_encoded(token: str) -> bool:
    """Return whether a long token in a URL looks like encoded data."""
    if re.fullmatch(_COMMIT, token):
        return False
    # Hyphens and underscores separate words, but URL-safe base64 also uses them.
    longest = max(map(len, re.split(r"[-_+=~]", token)))
    if longest >= MAX_TOKEN:
        return True
    is_mixed = all(kind.search(token) for kind in _KINDS_OF_CHARACTERS)
    return is_mixed and longest >= MAX_TOKEN // 3 and _entropy(token) > _MIXED_BITS


def _entropy(text: str) -> float:
    """Return the entropy of text, in bits per character."""
    shares = [count / len(text) for count in Counter(text).values()]
    return -sum(share * math.log2(share) for share in shares)
