"""Finding Chromium and Playwright, and what ``hilum doctor`` says of them."""

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
_MAC = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    "/Applications/Brave Browser.app/Contents/MacOS/Brave Browser",
)
# What Playwright's own installer puts there.
_INSTALLED = ("chromium-*/chrome-linux*/chrome", "chromium-*/chrome-mac*/*.app/Contents/MacOS/*")
PLAYWRIGHT = "Install Playwright where hilum is installed: pip install 'hilum-browser[playwright]'."
CHROMIUM = (
    "Install Chromium (Debian: apt install chromium; or: playwright install chromium), or name one"
    " by the setting browser.executable."
)


def find_chromium(executable: str = "") -> str:
    """Return the path of a browser that is Chromium or made from it; empty if there is none.

    Args:
        executable: What the user set; nothing else is looked for then.
    """
    if executable:
        path = os.path.expanduser(executable)
        if os.path.isabs(path) and os.access(path, os.X_OK) and os.path.isfile(path):
            return path
        return ""
    return next(_candidates(), "")


def _candidates() -> Iterator[str]:
    for name in _NAMES:
        path = shutil.which(name)
        if path and os.path.isabs(path):
            yield path
    if sys.platform == "darwin":
        yield from (path for path in _MAC if os.access(path, os.X_OK))
    cache = (
        Path("~/Library/Caches" if sys.platform == "darwin" else "~/.cache").expanduser()
        / "ms-playwright"
    )
    for pattern in _INSTALLED:
        yield from (
            str(path)
            for path in sorted(cache.glob(pattern), reverse=True)
            if os.access(path, os.X_OK)
        )


def has_playwright() -> bool:
    """Return whether Playwright is installed; it is not imported."""
    return find_spec("playwright") is not None


def report(executable: str = "") -> list[tuple[bool, str, str]]:
    """Return rows for ``hilum doctor``: whether it is well, what was found, and what to do.

    Args:
        executable: What the user set.
    """
    rows = []
    if not has_playwright():
        rows.append((False, "Playwright is not installed: no browser_use", PLAYWRIGHT))
    path = find_chromium(executable)
    if not path:
        if executable:
            found = f"there is no program {executable}"
        else:
            found = "no Chromium is found"
        rows.append((False, f"{found}: no browser_use", CHROMIUM))
    return rows or [(True, f"{path}, with Playwright", "")]
