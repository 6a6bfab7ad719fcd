"""The open pages of each agent, and what happened in them."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from .failures import Failed

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, ConsoleMessage, Dialog, Download, Frame, Page, Request, Response

LONGEST_LINE = 500
MOST_LINES = 200
MOST_TABS = 20


class Tab:
    """A page, and what happened in it.

    Attributes:
        page: The page.
        log: Console, errors and failed requests, since they were read last.
        loading: The navigation of the whole page that is under way.
        failed: The page that could not be loaded, and why, since the last action began.
        answer: What the server said for the whole page, last.
        crashed: Whether its process has died.
    """

    def __init__(self, page: Page, tabs: Tabs) -> None:
        self.page, self._tabs = page, tabs
        self.log: deque[str] = deque(maxlen=MOST_LINES)
        self.loading: Request | None = None
        self.failed: tuple[str, str] | None = None
        self.answer: Response | None = None
        self.crashed = False
        self._error_page = asyncio.Event()
        self._error_page.set()
        page.on("framenavigated", self._navigated)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self._say(f"uncaught: {error}"))
        page.on("request", self._request)
        page.on("response", self._response)
        page.on("requestfailed", self._request_failed)
        page.on("requestfinished", self._loaded)
        page.on("dialog", self._dialog)
        page.on("download", self._download)
        page.on("popup", self._popup)
        page.on("crash", self._crash)
        page.on("close", lambda _: tabs.forget(self))

    async def settle(self, seconds: float) -> None:
        """Wait until what an action set off has been loaded, for so long at most."""
        from playwright.async_api import Error

        end = asyncio.get_running_loop().time() + seconds
        await asyncio.sleep(0.05)
        while (self.loading is not None or self._tabs.opening) and asyncio.get_running_loop().time() < end:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        rest = max(end - asyncio.get_running_loop().time(), 0.1)
        try:
            await self.page.wait_for_load_state("domcontentloaded", timeout=1000 * rest)
        except Error:  # still loading, or closed: the answer shows how it is
            pass

    async def error_page(self) -> None:
        """Wait for the error page that follows a page which could not be loaded: it would come into what is opened next."""
        try:
            await asyncio.wait_for(self._error_page.wait(), 1)
        except TimeoutError:
            pass

    def _say(self, line: str) -> None:
        self.log.append(line[:LONGEST_LINE])

    def _console(self, message: ConsoleMessage) -> None:
        where = message.location
        place = f" ({where['url'][:200]}:{where['lineNumber'] + 1})" if where.get("url") else ""
        self._say(f"{message.type}: {message.text}{place}")

    def _whole(self, request: Request) -> bool:
        return request.is_navigation_request() and request.frame == self.page.main_frame

    def _request(self, request: Request) -> None:
        if self._whole(request):
            self.loading = request

    def _response(self, response: Response) -> None:
        if response.status >= 400:
            self._say(f"{response.status} {response.request.method} {response.url}")
        if self._whole(response.request):
            self.loading, self.answer = None, response

    def _navigated(self, frame: Frame) -> None:
        if frame == self.page.main_frame and frame.url.startswith("chrome-error:"):
            self._error_page.set()

    def _loaded(self, request: Request) -> None:
        if request == self.loading:
            self.loading = None

    def _request_failed(self, request: Request) -> None:
        self._loaded(request)
        why = request.failure or ""
        if "ERR_ABORTED" not in why:
            self._say(f"failed: {request.method} {request.url}: {why}")
            if self._whole(request):
                self.failed = (request.url, why)
                self._error_page.clear()

    async def _dialog(self, dialog: Dialog) -> None:
        from playwright.async_api import Error

        yes = self._tabs.accept or dialog.type in ("alert", "beforeunload")
        said = "accepted" if yes else "dismissed (set accept to say yes)"
        self._tabs.notes.append(
            f"The page asked in a dialog ({dialog.type}): {dialog.message[:LONGEST_LINE]!r}: {said}."
        )
        try:
            await (dialog.accept() if yes else dialog.dismiss())
        except Error:  # the page is gone
            pass

    def _download(self, download: Download) -> None:
        self._tabs.downloads.append(download)
        name = download.suggested_filename[:200]
        self._tabs.notes.append(f"The page gave a file to download: {name!r}. Save it with download and a path.")

    def _popup(self, page: Page) -> None:
        self._tabs.add(page)
        self._tabs.notes.append(f"A new tab was opened, which is now the current one ({len(self._tabs.all)}).")

    def _crash(self, _: Page) -> None:
        self.crashed = True
        self.loading = None


class Tabs:
    """The tabs of one agent.

    Attributes:
        all: The tabs, in the order they were opened.
        current: The one that actions are about.
        notes: What is to be told with the next answer.
        downloads: Files that pages gave and nobody has taken.
        accept: Whether dialogs are answered with yes.
        opening: Whether a page is on its way.
    """

    def __init__(self, context: BrowserContext) -> None:
        self._context = context
        self.all: list[Tab] = []
        self.current: Tab | None = None
        self.notes: list[str] = []
        self.downloads: deque[Download] = deque(maxlen=20)
        self.accept = False
        self.opening = False
        context.on("request", self._request)

    def _request(self, request: Request) -> None:
        """Note a page that is on its way: its first request comes before it is known."""
        from playwright.async_api import Error

        if request.is_navigation_request():
            try:
                _ = request.frame
            except Error:
                self.opening = True

    async def open(self) -> Tab:
        """Give the current tab, a new one where there is none."""
        if self.current is None:
            return self.add(await self._context.new_page())
        return self.current

    def add(self, page: Page) -> Tab:
        """Take a page as the current tab."""
        self.opening = False
        tab = self.current = Tab(page, self)
        self.all.append(tab)
        if len(self.all) > MOST_TABS:
            self.notes.append(f"More than {MOST_TABS} tabs are open: close some.")
        return tab

    def at(self, number: int) -> Tab:
        """Give the tab that an action is about: the current one, or by its number from 1 on, which makes it the current one."""
        if not number:
            if self.current is None:
                raise Failed("E_BAD_ARGS", "No page is open.", "Navigate first.")
            return self.current
        if not 0 < number <= len(self.all):
            raise Failed("E_BAD_ARGS", f"There is no tab {number}: {len(self.all)} are open.", "List them with tabs.")
        self.current = self.all[number - 1]
        return self.current

    def forget(self, tab: Tab) -> None:
        """Take a tab out that was closed."""
        if tab in self.all:
            self.all.remove(tab)
        if self.current is tab:
            self.current = self.all[-1] if self.all else None
