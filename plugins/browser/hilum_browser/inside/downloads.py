"""The files that pages give: taken in without being asked for, so few and small ones only, and none
without an end.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from .failures import Failed, first_line, site

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.async_api import Download

MOST = 20
EVERY = 0.2
_OTHERWISE = "Get it in another way, for example by a command."


class Downloads:
    """The files that pages gave and nobody has taken.

    Args:
        folder: Where the browser puts them, and nothing else.
        most: Bytes that one may have.
        tell: Takes what is to be told with the next answer.

    Attributes:
        awaited: Whether the next one is wanted, and need not be told.
    """

    def __init__(self, folder: str, most: int, tell: Callable[[str], None]) -> None:
        self._folder = folder
        self._most = most
        self._tell = tell
        self.awaited = False
        self._held: list[tuple[Download, asyncio.Task[Path | None]]] = []

    def __len__(self) -> int:
        return len(self._held)

    def add(self, download: Download) -> None:
        """Take in a file that a page gives; what is too much or too large is broken off."""
        name = download.suggested_filename[:200]
        if len(self._held) == MOST:
            self._refused = asyncio.ensure_future(_drop(download))
            self._tell(f"A file that the page gave was refused, as {MOST} are waiting to be saved.")
            return
        self._held.append((download, asyncio.ensure_future(self._come(download))))
        if not self.awaited:
            self._tell(
                f"The page gave a file to download: {name!r}. Save it with download and a path."
            )

    async def take(self, seconds: float) -> tuple[str, bytes]:
        """Return name and content of the file that came last.

        Args:
            seconds: How long to wait for its end.

        Raises:
            Failed: It does not come, or it is too large.
        """
        from playwright.async_api import Error

        download, coming = self._held.pop()
        name = download.suggested_filename[:200]
        what = f"{name!r} from {site(download.url)}"
        try:
            path = await asyncio.wait_for(coming, seconds)
            if path is None:
                raise Failed(
                    "E_TOO_LARGE",
                    f"{what} has more than {self._most / 1e6:g} MB (browser.max_download).",
                    _OTHERWISE,
                )
            data = await asyncio.to_thread(path.read_bytes)
            await download.delete()
        except TimeoutError:
            raise Failed(
                "E_TIMEOUT", f"{what} did not come within {seconds:g} s.", _OTHERWISE
            ) from None
        except Error as error:
            why = first_line(str(error))
            text = (
                f"{what} did not come whole: {'it was broken off' if why == 'canceled' else why}."
            )
            raise Failed("E_UNREACHABLE", text, "Try again; is its server well?") from None
        return name, data

    async def _come(self, download: Download) -> Path | None:
        """Wait for the end of a file; ``None`` if it was too large."""
        whole: asyncio.Future[Path] = asyncio.ensure_future(download.path())
        try:
            while not (await asyncio.wait((whole,), timeout=EVERY))[0]:
                # Which of them is this one is not known before its end.
                if self._largest() > self._most:
                    break
            if whole.done() and (await whole).stat().st_size <= self._most:
                return await whole
        except asyncio.CancelledError:
            await _drop(download)
            raise
        await _drop(download)
        return None

    def _largest(self) -> int:
        with os.scandir(self._folder) as entries:
            return max((entry.stat().st_size for entry in entries if entry.is_file()), default=0)


async def _drop(download: Download) -> None:
    from playwright.async_api import Error

    try:
        await download.cancel()
        await download.delete()
    except Error:  # its page is gone, and it as well
        pass
