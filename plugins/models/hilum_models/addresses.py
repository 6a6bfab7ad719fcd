"""Parses server addresses, and returns the part of an address that messages may show."""

from __future__ import annotations

from urllib.parse import urlsplit


def get_host(url: str) -> str:
    """Return the host of an address, or an empty text if it has none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def format_origin(url: str) -> str:
    """Return scheme, host and port of an address.

    The rest is not shown in messages, because it may contain a password in the user name or the
    query.
    """
    scheme, _, rest = url.partition("://")
    if not rest:
        return "an invalid address"
    authority = rest.partition("/")[0]
    return f"{scheme}://{authority.rpartition('@')[2]}"
