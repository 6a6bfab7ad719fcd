"""Finds Chromium and Playwright."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

_NAMES = (
    "chromium chromium-browser google-chrome google-chrome-stable microsoft-edge"
    " microsoft-edge-stable brave-browser chromium-headless-shell chrome"
).split()
_MAC_PATHS = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    "/Applications/Brave Browser.app/Contents/MacOS/Brave Browser",
)
# The browsers that `playwright install` downloads to its cache.
_PLAYWRIGHT_PATTERNS = (
    "chromium-*/chrome-linux*/chrome",
    "chromium-*/chrome-mac*/*.app/Contents/MacOS/*",
)
PLAYWRIGHT_HINT = "Install Playwright where hilum is installed: pip install 'hilum[browser]'."
CHROMIUM_HINT = (
    "Install Chromium (Debian: apt install chromium; or: playwright install chromium), or set "
    "browser.executable to its path."
)


def find_chromium(executable: str = "") -> str:
    """Return the path of Chromium or a browser based on it, or an empty string if there is none.

    Args:
        executable: The user's setting. If the setting is not empty, hilum does not search for
            another browser.
    """
    if not executable:
        return next(_candidates(), "")
    path = Path(os.path.expanduser(executable))
    is_program = path.is_absolute() and path.is_file() and _is_executable(str(path))
    return str(path) if is_program else ""


def _candidates() -> Iterator[str]:
    for name in _NAMES:
        path = shutil.which(name)
        if path and os.path.isabs(path):  # never a program in the current folder
            yield path
    is_mac = sys.platform == "darwin"
    if is_mac:
        yield from filter(_is_executable, _MAC_PATHS)
    cache = Path(os.path.expanduser("~/Library/Caches" if is_mac else "~/.cache")) / "ms-playwright"
    for pattern in _PLAYWRIGHT_PATTERNS:
        newest_first = sorted(cache.glob(pattern), reverse=True)
        yield from filter(_is_executable, map(str, newest_first))


def _is_executable(path: str) -> bool:
    return os.access(path, os.X_OK)


def has_playwright() -> bool:
    """Return whether Playwright is installed, without importing it."""
    return find_spec("playwright") is not None
