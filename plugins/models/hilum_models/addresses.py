"""Parses server URLs, and returns the part of a URL that messages may show."""

from __future__ import annotations

from urllib.parse import urlsplit


def get_host(url: str) -> str:
    """Return the host in a URL, or an empty string if it has none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def format_origin(url: str) -> str:
    """Return the scheme, host and port of a URL.

    Messages omit the rest of the URL, because its user information or query may contain a password.
    """
    scheme, _, rest = url.partition("://")
    if not rest:
        return "an invalid address"
    authority = rest.partition("/")[0]
    return f"{scheme}://{authority.rpartition('@')[2]}"
