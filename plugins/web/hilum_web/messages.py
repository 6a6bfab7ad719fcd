"""Formats parts of messages about websites."""

from __future__ import annotations

from urllib.parse import urlsplit

from hilum_web.reader.visible_text import to_line


def format_site(url: str) -> str:
    """Return the host and port of a URL, for messages."""
    try:
        return to_line(urlsplit(url).netloc.rpartition("@")[2] or url, 100)
    except ValueError:
        return to_line(url, 100)


def format_retry(header: str) -> str:
    """Return when to try again, from the value of a ``Retry-After`` header."""
    # Some sites send a date instead of seconds, or a time longer than any session.
    if header.isdecimal() and len(header) < 7:
        return f"in {int(header)} s"
    return "later"
