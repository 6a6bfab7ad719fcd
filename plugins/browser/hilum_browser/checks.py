"""The browser checks of ``hilum doctor``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import trio
from hilum import HilumError, open_kernel
from hilum.checks import Check

from hilum_browser.installation import CHROMIUM_HINT, PLAYWRIGHT_HINT, find_chromium, has_playwright
from hilum_browser.settings import BrowserSettings


def check_browser(folder: Path, online: bool) -> list[Check]:
    """Check whether Playwright and a browser are installed, unless the tool is disabled. Blocks.

    Args:
        folder: The workspace whose settings are used.
        online: Not used, because the check needs no network.
    """

    async def read_settings() -> BrowserSettings:
        async with open_kernel(["browser"], workspace=folder) as kernel:
            return kernel.settings(BrowserSettings)

    try:
        settings = trio.run(read_settings)
    except HilumError:  # the settings check reports the error
        return []
    return list(check_programs(settings.executable)) if settings.enabled else []


def check_programs(executable: str = "") -> Iterator[Check]:
    """Yield a check of whether Playwright and a browser are installed.

    Args:
        executable: The browser from the settings; empty to search for one.
    """
    if not has_playwright():
        found = "Playwright is not installed: browser_use is not available"
        yield Check("warn", "browser", found, PLAYWRIGHT_HINT)
    path = find_chromium(executable)
    if path and has_playwright():
        yield Check("ok", "browser", f"{path}, with Playwright")
    elif not path:
        reason = "Chromium was not found"
        if executable:
            reason = f"the program {executable} does not exist"
        yield Check("warn", "browser", f"{reason}: browser_use is not available", CHROMIUM_HINT)
