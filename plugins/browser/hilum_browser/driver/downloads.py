"""Collects downloads, which pages can start unprompted, so their number and size are limited."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from playwright.async_api import Download, Error

from .errors import ActionError, first_line, format_site

MAX_WAITING = 20
SIZE_CHECK_INTERVAL = 0.2  # seconds
MAX_NAME = 200
_OTHER_WAY_HINT = "Download it in another way, for example with a command."


class Downloads:
    """The downloads that are waiting to be saved.

    Args:
        folder: The folder for the browser's downloads, which contains nothing else.
        max_size: The maximum size of one download in bytes.
        notify: Function that is called with each note for the next answer.

    Attributes:
        is_expected: Whether an action is waiting for the next download. No note is added for a
            download that an action is waiting for.
    """

    def __init__(self, folder: str, max_size: int, notify: Callable[[str], None]) -> None:
        self._folder = folder
        self._max_size = max_size
        self._notify = notify
        self.is_expected = False
        self._waiting: list[tuple[Download, asyncio.Task[Path | None]]] = []
        self._cancelling: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, download: Download) -> None:
        """Add a download, or cancel it if too many are waiting."""
        # A page can start downloads without a click, and each one takes up disk space.
        if len(self._waiting) == MAX_WAITING:
            self._cancelling = asyncio.ensure_future(_cancel(download))
            self._notify(
                f"The page's download was refused, because {MAX_WAITING} are waiting to be saved."
            )
            return
        self._waiting.append((download, asyncio.ensure_future(self._receive(download))))
        if not self.is_expected:
            name = download.suggested_filename[:MAX_NAME]
            self._notify(
                f"The page started a download: {name!r}. Save it with download and a path."
            )

    async def take(self, seconds: float) -> tuple[str, bytes]:
        """Remove the last download, and return its name and content.

        Args:
            seconds: The number of seconds to wait for the download to end.

        Raises:
            ActionError: The download does not finish, or is too large.
        """
        download, receiving = self._waiting.pop()
        name = download.suggested_filename[:MAX_NAME]
        shown = f"{name!r} from {format_site(download.url)}"
        try:
            path = await asyncio.wait_for(receiving, seconds)
            if path is None:
                size = f"{self._max_size / 1e6:g} MB"
                text = f"{shown} is larger than {size} (browser.max_download)."
                raise ActionError("E_TOO_LARGE", text, _OTHER_WAY_HINT)
            data = await asyncio.to_thread(path.read_bytes)
            await download.delete()
        except TimeoutError:
            text = f"{shown} did not finish within {seconds:g} s."
            raise ActionError("E_TIMEOUT", text, _OTHER_WAY_HINT) from None
        except Error as error:
            reason = first_line(str(error))
            if reason == "canceled":
                reason = "it was interrupted"
            text = f"{shown} was not downloaded completely: {reason}."
            hint = "Try again, or check the server's log."
            raise ActionError("E_UNREACHABLE", text, hint) from None
        return name, data

    async def _receive(self, download: Download) -> Path | None:
        """Wait until a download ends; return ``None`` if it was too large."""
        path: asyncio.Future[Path] = asyncio.ensure_future(download.path())
        try:
            while not path.done():
                await asyncio.wait((path,), timeout=SIZE_CHECK_INTERVAL)
                # The file's name is unknown until the download ends, so the largest file is
                # checked.
                if not path.done() and self._find_largest() > self._max_size:
                    break
            if path.done() and (await path).stat().st_size <= self._max_size:
                return await path
        except asyncio.CancelledError:
            await _cancel(download)
            raise
        await _cancel(download)
        return None

    def _find_largest(self) -> int:
        """Return the size of the largest file in the folder."""
        with os.scandir(self._folder) as entries:
            sizes = [entry.stat().st_size for entry in entries if entry.is_file()]
        return max(sizes, default=0)


async def _cancel(download: Download) -> None:
    try:
        await download.cancel()
        await download.delete()
    except Error:  # closing the page removed the file
        pass
