"""Functions that check whether a URL points to this machine, and find the proxy for a URL."""

from __future__ import annotations

import os
import sys
from urllib.parse import urlsplit

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def is_loopback(url: str) -> bool:
    """Return whether a URL points to this machine."""
    return _get_host(url) in _LOOPBACK


def find_proxy(url: str) -> str:
    """Return the proxy that the environment or the system sets for a URL; empty if there is none.

    A URL that points to this machine is never proxied.
    """
    # A proxy could not reach a server on this machine.
    if is_loopback(url) or not _get_host(url):
        return ""
    # On Linux, only the environment names proxies.
    is_set = any(name.lower().endswith("_proxy") for name in os.environ)
    if sys.platform == "linux" and not is_set:
        return ""
    # Imported late, because urllib.request imports email and http, and most processes need no
    # proxy.
    import urllib.request

    parts = urlsplit(url)
    proxies = urllib.request.getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all") or ""
    # proxy_bypass expects a host without user and password.
    host = parts.netloc.rpartition("@")[2]
    if not proxy or urllib.request.proxy_bypass(host):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _get_host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
