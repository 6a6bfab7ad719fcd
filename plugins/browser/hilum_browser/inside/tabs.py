"""The open pages of each agent, and what happened in them."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from .downloads import Downloads
from .failures import Failed

if TYPE_CHECKING:
    from playwright.async_api import (
        BrowserContext,
        CDPSession,
        ConsoleMessage,
        Dialog,
        Frame,
        Page,
        Request,
        Response,
    )

LONGEST_LINE = 500
MOST_LINES = 200
MOST_HEARD = 1000
MOST_TABS = 20
MOST_DIALOGS = 20
MOST_NOTES = 10
ALIVE = 4.0


class Tab:
    """A page, and what happened in it.

    Attributes:
        page: The page.
        log: Console, errors and failed requests, since they were read last.
        requests: What was asked for, since it was read last.
        loading: The navigation of the whole page that is under way.
        failed: The page that could not be loaded, and why, if that has not been told.
        answer: What the server said for the whole page, last.
        crashed: Whether its process has died.
        asking: A dialog that was left open, as the page asks in one after the other.
    """

    def __init__(self, page: Page, tabs: Tabs) -> None:
        self.page = page
        self._tabs = tabs
        self.log: deque[str] = deque(maxlen=MOST_LINES)
        self.requests: deque[str] = deque(maxlen=MOST_LINES)
        self._heard = 0
        self.loading: Request | None = None
        self.failed: tuple[str, str] | None = None
        self.answer: Response | None = None
        self.crashed = False
        self.asking: Dialog | None = None
        self._session: CDPSession | None = None
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
        page.on("download", tabs.downloads.add)
        page.on("popup", self._popup)
        page.on("crash", self._crash)
        page.on("close", lambda _: tabs.forget(self))

    async def settle(self, seconds: float) -> None:
        """Wait until what an action set off has been loaded, for so long at most."""
        from playwright.async_api import Error

        end = asyncio.get_running_loop().time() + seconds
        await asyncio.sleep(0.05)
        while self.loading is not None or self._tabs.opening:
            if asyncio.get_running_loop().time() >= end:
                break
            await asyncio.sleep(0.02)
        self._tabs.opening = False  # a window for an address that nothing opens never comes
        rest = max(end - asyncio.get_running_loop().time(), 0.1)
        try:
            await self.page.wait_for_load_state("domcontentloaded", timeout=1000 * rest)
        except Error:  # still loading, or closed: the answer shows how it is
            pass

    async def error_page(self) -> None:
        """Wait for the error page that follows a page which could not be loaded: it would come into
        what is opened next.
        """
        try:
            await asyncio.wait_for(self._error_page.wait(), 1)
        except TimeoutError:
            pass

    async def stop(self) -> None:
        """Give up a page that does not come: its answer would come into what is done next."""
        await self._order("Page.stopLoading")

    async def held(self) -> None:
        """See to it that scripts can be broken off: a page that is busy takes no new session for
        that.
        """
        if self._session is None:
            await self._order("")

    async def interrupt(self) -> None:
        """Break off the script that runs: it is the one that reads, if the page is very large."""
        await self._order("Runtime.terminateExecution")

    async def size(self) -> tuple[int, int]:
        """Width and height of the whole page in pixels."""
        self._session = self._session or await self.page.context.new_cdp_session(self.page)
        found = (await self._session.send("Page.getLayoutMetrics"))["cssContentSize"]
        return max(int(found["width"]), 1), max(int(found["height"]), 1)

    async def _order(self, order: str) -> None:
        from playwright.async_api import Error

        try:
            async with asyncio.timeout(ALIVE):
                if self._session is None:
                    self._session = await self.page.context.new_cdp_session(self.page)
                if order and self.asking is None:
                    await self._session.send(order)
        except (Error, TimeoutError):  # what is done next finds out
            pass

    async def alive(self) -> bool:
        """Return whether its scripts and dialogs let it answer at all."""
        from playwright.async_api import Error

        if self.asking is not None:
            return False
        try:
            await asyncio.wait_for(self.page.evaluate("1"), ALIVE)
        except TimeoutError:
            return False
        except Error:  # it is just being replaced by another
            return True
        return True

    def read(self, lines: deque[str]) -> str:
        """Return the lines of a list, and empty it."""
        text = "\n".join(lines)
        lines.clear()
        if lines is self.log:
            if self._heard >= MOST_HEARD:
                self.page.on("console", self._console)
            self._heard = 0
        return text

    def _say(self, line: str) -> None:
        self.log.append("\n    ".join(line[:LONGEST_LINE].splitlines()))  # no line begins but ours

    def _console(self, message: ConsoleMessage) -> None:
        self._heard += 1
        if self._heard >= MOST_HEARD:
            self.page.remove_listener("console", self._console)
            self._say(f"[after {MOST_HEARD:,} messages none is listened to, until these are read]")
            return
        where = message.location
        if where.get("url"):
            place = f" ({where['url'][:200]}:{where['lineNumber'] + 1})"
        else:
            place = ""
        self._say(f"{message.type}: {message.text}{place}")

    def _whole(self, request: Request) -> bool:
        return request.is_navigation_request() and request.frame == self.page.main_frame

    def _request(self, request: Request) -> None:
        if self._whole(request):
            self.loading = request

    def _response(self, response: Response) -> None:
        line = f"{response.status} {response.request.method} {response.url}"
        self.requests.append(f"{line[:LONGEST_LINE]} ({response.request.resource_type})")
        if response.status >= 400:
            self._say(line)
        if self._whole(response.request):
            self.loading = None
            self.answer = response

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
            line = f"failed: {request.method} {request.url[:LONGEST_LINE]}: {why}"
            self._say(line)
            self.requests.append(line)
            if self._whole(request):
                self.failed = (request.url, why)
                self._error_page.clear()

    async def _dialog(self, dialog: Dialog) -> None:
        from playwright.async_api import Error

        tabs = self._tabs
        tabs.dialogs += 1
        if tabs.dialogs > MOST_DIALOGS or self not in tabs.all:
            self.asking = dialog
            return
        yes = tabs.accept or dialog.type in ("alert", "beforeunload")
        said = "accepted" if yes else "dismissed (set accept to say yes)"
        tabs.tell(
            f"The page asked in a dialog ({dialog.type}): {dialog.message[:LONGEST_LINE]!r}:"
            f" {said}."
        )
        try:
            await (
                dialog.accept(tabs.answer if dialog.type == "prompt" else None)
                if yes
                else dialog.dismiss()
            )
        except Error:  # the page is gone
            pass

    def _popup(self, page: Page) -> None:
        if len(self._tabs.all) >= MOST_TABS:
            self._tabs.tell(f"{MOST_TABS} tabs are open, so a new one was closed at once.")
            self._tabs.drop(page)
            return
        self._tabs.add(page)
        self._tabs.tell(
            f"A new tab was opened, which is now the current one ({len(self._tabs.all)})."
        )

    def _crash(self, _: Page) -> None:
        self.crashed = True
        self.loading = None


class Tabs:
    """The tabs of one agent.

    Args:
        context: The browser's profile.
        folder: Where downloads are put.
        most_download: Bytes that one may have.

    Attributes:
        all: The tabs, in the order they were opened.
        current: The one that actions are about.
        downloads: Files that pages gave and nobody has taken.
        accept: Whether dialogs are answered with yes.
        answer: What is written into a dialog that wants a text.
        dialogs: How many there were since the last action began.
        opening: Whether a page is on its way.
    """

    def __init__(self, context: BrowserContext, folder: str, most_download: int) -> None:
        self._context = context
        self.all: list[Tab] = []
        self.current: Tab | None = None
        self.downloads = Downloads(folder, most_download, self.tell)
        self.accept = False
        self.answer = ""
        self.dialogs = 0
        self.opening = False
        self._notes: list[str] = []
        self._untold = 0
        self._dropping: dict[Page, asyncio.Future[None]] = {}
        context.on("request", self._request)
        context.on("page", self._opened)

    def tell(self, note: str) -> None:
        """Have something told with the next answer."""
        if len(self._notes) < MOST_NOTES:
            self._notes.append(note)
        else:
            self._untold += 1

    def told(self) -> list[str]:
        """Return what is to be told; it is not told again."""
        notes = [
            *self._notes,
            *([f"And {self._untold} more of such news."] if self._untold else []),
        ]
        self._notes = []
        self._untold = 0
        return notes

    def _request(self, request: Request) -> None:
        """Note a page that is on its way: its first request comes before it is known."""
        from playwright.async_api import Error

        if request.is_navigation_request():
            try:
                _ = request.frame
            except Error:
                self.opening = True

    def _opened(self, _: Page) -> None:
        self.opening = False  # also of another agent: requests do not tell whose they are

    async def open(self) -> Tab:
        """Return the current tab, a new one where there is none."""
        if self.current is not None:
            return self.current
        return await self.new()

    async def new(self) -> Tab:
        """Open a tab."""
        return self.add(await self._context.new_page())

    def add(self, page: Page) -> Tab:
        """Take a page as the current tab."""
        tab = self.current = Tab(page, self)
        self.all.append(tab)
        return tab

    def drop(self, page: Page) -> None:
        """Close a page without waiting for that: it may be busy."""
        if page not in self._dropping:
            self._dropping[page] = closing = asyncio.ensure_future(_closed(page))
            closing.add_done_callback(lambda _: self._dropping.pop(page))

    def at(self, number: int) -> Tab:
        """Return the tab that an action is about: the current one, or by its number from 1 on,
        which makes it the current one.
        """
        if not number:
            if self.current is None:
                raise Failed("E_BAD_ARGS", "No page is open.", "Navigate first.")
            return self.current
        if not 0 < number <= len(self.all):
            raise Failed(
                "E_BAD_ARGS",
                f"There is no tab {number}: {len(self.all)} are open.",
                "List them with tabs.",
            )
        self.current = self.all[number - 1]
        return self.current

    def forget(self, tab: Tab) -> None:
        """Take a tab out that was closed, or is to be."""
        if tab in self.all:
            self.all.remove(tab)
        if self.current is tab:
            self.current = self.all[-1] if self.all else None


async def _closed(page: Page) -> None:
    from playwright.async_api import Error

    try:
        await page.close()
    except Error:  # it is gone already
        pass
