"""File URIs and paths."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes, urlsplit


def make_uri(path: Path) -> str:
    """Return the URI of an absolute path."""
    return "file://" + quote(os.fsencode(path))


def read_uri(uri: str) -> Path | None:
    """Return the path of a file URI; ``None`` if it is no absolute path on this machine."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    path = os.fsdecode(unquote_to_bytes(parts.path))
    if not path.startswith("/") or "\0" in path or parts.query or parts.fragment:
        return None
    # `..` is resolved by name, because a server makes its URIs by name as well.
    return Path(os.path.normpath(path))
