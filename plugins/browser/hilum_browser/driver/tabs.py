"""The open pages of each agent and the events in them."""

from __future__ import annotations

import asyncio
from collections import deque

from playwright.async_api import (
    BrowserContext,
    CDPSession,
    ConsoleMessage,
    Dialog,
    Error,
    Frame,
    Page,
    Request,
    Response,
)

from .downloads import Downloads
from .errors import ActionError

# Pages decide how much they log and how many tabs they open, so both are limited.
MAX_LINE = 500
MAX_LINES = 200
# Maximum number of console messages between two reads. Playwright would otherwise spend all its
# time on a page that logs constantly.
MAX_MESSAGES = 1000
MAX_TABS = 20
MAX_DIALOGS = 20
MAX_NOTES = 10
ALIVE_TIMEOUT = 4.0


class Tab:
    """A page and the events in it.

    Attributes:
        page: The page.
        log: Console messages, errors and failed requests since the last read.
        requests: All requests since the last read.
        loading: The pending navigation of the page itself, not of a frame in it.
        failed: The URL of a page that could not be loaded, and the reason, until an answer reports
            them.
        answer: The server's last response to a request for the page itself.
        has_crashed: Whether the page's process has crashed.
        open_dialog: A dialog that was left open because the page keeps opening dialogs.
    """

    def __init__(self, page: Page, tabs: Tabs) -> None:
        self.page = page
        self._tabs = tabs
        self.log: deque[str] = deque(maxlen=MAX_LINES)
        self.requests: deque[str] = deque(maxlen=MAX_LINES)
        self._message_count = 0
        self.loading: Request | None = None
        self.failed: tuple[str, str] | None = None
        self.answer: Response | None = None
        self.has_crashed = False
        self.open_dialog: Dialog | None = None
        self._session: CDPSession | None = None
        self._has_error_page = asyncio.Event()
        self._has_error_page.set()
        # Handlers are plain functions so that they run in the order of the events. A coroutine,
        # such as the one for dialogs, runs later as a task.
        page.on("framenavigated", self._on_navigated)
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self._log(f"uncaught: {error}"))
        page.on("request", self._on_request)
        page.on("response", self._on_response)
        page.on("requestfailed", self._on_request_failed)
        page.on("requestfinished", self._on_request_end)
        page.on("dialog", self._on_dialog)
        page.on("download", tabs.downloads.add)
        page.on("popup", self._on_popup)
        page.on("crash", self._on_crash)
        page.on("close", lambda _: tabs.forget(self))

    async def settle(self, seconds: float) -> None:
        """Wait until everything that an action started to load is loaded, up to a time limit."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        # A click starts its navigation a moment later.
        await asyncio.sleep(0.05)
        while loop.time() < end:
            if self.loading is None and not self._tabs.is_opening:
                break
            await asyncio.sleep(0.02)
        # A window for a URL that no program can open never appears.
        self._tabs.is_opening = False
        rest = max(end - loop.time(), 0.1)
        try:
            await self.page.wait_for_load_state("domcontentloaded", timeout=1000 * rest)
        except Error:  # the page is still loading or was closed; the answer shows which
            pass

    async def wait_for_error_page(self) -> None:
        """Wait for the error page of a failed navigation, which could replace the next page."""
        try:
            await asyncio.wait_for(self._has_error_page.wait(), 1)
        except TimeoutError:
            pass

    async def stop(self) -> None:
        """Stop loading, because a late response would replace the next page."""
        await self._send_command("Page.stopLoading")

    async def attach(self) -> None:
        """Open the DevTools session that stops scripts, because a busy page would not accept it."""
        if self._session is None:
            await self._send_command("")

    async def interrupt(self) -> None:
        """Stop the running script.

        On a very large page, this may be the driver's own script, which reads the page.
        """
        await self._send_command("Runtime.terminateExecution")

    async def size(self) -> tuple[int, int]:
        """Return the width and height of the whole page in pixels."""
        self._session = self._session or await self.page.context.new_cdp_session(self.page)
        metrics = await self._session.send("Page.getLayoutMetrics")
        size = metrics["cssContentSize"]
        width = int(size["width"])
        height = int(size["height"])
        return max(width, 1), max(height, 1)

    async def _send_command(self, command: str) -> None:
        try:
            async with asyncio.timeout(ALIVE_TIMEOUT):
                if self._session is None:
                    self._session = await self.page.context.new_cdp_session(self.page)
                if command and self.open_dialog is None:
                    await self._session.send(command)
        except (Error, TimeoutError):  # the next action reports the failure
            pass

    async def is_alive(self) -> bool:
        """Return whether the page can respond despite its scripts and dialogs."""
        if self.open_dialog is not None:
            return False
        try:
            await asyncio.wait_for(self.page.evaluate("1"), ALIVE_TIMEOUT)
        except TimeoutError:
            return False
        except Error:  # another page is currently replacing this page
            return True
        return True

    def read(self, lines: deque[str]) -> str:
        """Remove and return the lines of ``log`` or ``requests``."""
        text = "\n".join(lines)
        lines.clear()
        if lines is self.log:
            # The listener was removed when there were too many messages.
            if self._message_count >= MAX_MESSAGES:
                self.page.on("console", self._on_console)
            self._message_count = 0
        return text

    def _log(self, line: str) -> None:
        # Lines are indented, so that no line from a page looks like a line from the tool.
        self.log.append("\n    ".join(line[:MAX_LINE].splitlines()))

    def _on_console(self, message: ConsoleMessage) -> None:
        self._message_count += 1
        if self._message_count >= MAX_MESSAGES:
            self.page.remove_listener("console", self._on_console)
            self._log(
                f"[after {MAX_MESSAGES:,} messages, further ones are dropped until these are read]"
            )
            return
        text = f"{message.type}: {message.text}"
        location = message.location
        url = location.get("url", "")
        if url:
            line = location["lineNumber"] + 1
            text += f" ({url[:200]}:{line})"
        self._log(text)

    def _is_main(self, request: Request) -> bool:
        """Return whether a request is for the page itself, not for a part of it."""
        return request.is_navigation_request() and request.frame == self.page.main_frame

    def _on_request(self, request: Request) -> None:
        if self._is_main(request):
            self.loading = request

    def _on_response(self, response: Response) -> None:
        request = response.request
        line = f"{response.status} {request.method} {response.url}"
        self.requests.append(f"{line[:MAX_LINE]} ({request.resource_type})")
        if response.status >= 400:
            self._log(line)
        if self._is_main(request):
            self.loading = None
            self.answer = response

    def _on_navigated(self, frame: Frame) -> None:
        if frame == self.page.main_frame and frame.url.startswith("chrome-error:"):
            self._has_error_page.set()

    def _on_request_end(self, request: Request) -> None:
        if request == self.loading:
            self.loading = None

    def _on_request_failed(self, request: Request) -> None:
        self._on_request_end(request)
        reason = request.failure or ""
        if "ERR_ABORTED" in reason:  # the page or the user stopped the request
            return
        line = f"failed: {request.method} {request.url[:MAX_LINE]}: {reason}"
        self._log(line)
        self.requests.append(line)
        if self._is_main(request):
            self.failed = (request.url, reason)
            self._has_error_page.clear()

    async def _on_dialog(self, dialog: Dialog) -> None:
        tabs = self._tabs
        tabs.dialog_count += 1
        # A page that keeps opening dialogs would keep the action busy. An open dialog stops the
        # page, and the action that finds the dialog closes the tab.
        if tabs.dialog_count > MAX_DIALOGS or self not in tabs.all:
            self.open_dialog = dialog
            return
        # Alerts have only one button. Dismissing a "leave page?" dialog would make the navigation
        # fail.
        accepts = tabs.accept or dialog.type in ("alert", "beforeunload")
        outcome = "accepted" if accepts else "dismissed (set accept to say yes)"
        message = dialog.message[:MAX_LINE]
        tabs.notify(f"The page opened a dialog ({dialog.type}): {message!r}: {outcome}.")
        text = tabs.dialog_text if dialog.type == "prompt" else None
        try:
            await (dialog.accept(text) if accepts else dialog.dismiss())
        except Error:  # the page is closed
            pass

    def _on_popup(self, page: Page) -> None:
        if len(self._tabs.all) >= MAX_TABS:
            self._tabs.notify(f"{MAX_TABS} tabs are open, so a new one was closed immediately.")
            self._tabs.drop(page)
            return
        self._tabs.add(page)
        count = len(self._tabs.all)
        self._tabs.notify(f"A new tab was opened, which is now the current one ({count}).")

    def _on_crash(self, _: Page) -> None:
        self.has_crashed = True
        self.loading = None


class Tabs:
    """The tabs of one agent.

    Args:
        context: The browser's profile.
        folder: The folder for downloads.
        max_download: The maximum size of one download in bytes.

    Attributes:
        all: The tabs, in the order in which they were opened.
        current: The tab that actions use.
        downloads: The downloads that have not been saved yet.
        accept: Whether dialogs are accepted.
        dialog_text: The text to enter in a prompt dialog.
        dialog_count: The number of dialogs since the last action began.
        is_opening: Whether a new page has begun to load.
    """

    def __init__(self, context: BrowserContext, folder: str, max_download: int) -> None:
        self._context = context
        self.all: list[Tab] = []
        self.current: Tab | None = None
        self.downloads = Downloads(folder, max_download, self.notify)
        self.accept = False
        self.dialog_text = ""
        self.dialog_count = 0
        self.is_opening = False
        self._notes: list[str] = []
        self._dropped_notes = 0
        self._dropping: dict[Page, asyncio.Future[None]] = {}
        context.on("request", self._on_request)
        context.on("page", self._on_page)

    def notify(self, note: str) -> None:
        """Add a note to the next answer."""
        if len(self._notes) < MAX_NOTES:
            self._notes.append(note)
        else:
            self._dropped_notes += 1

    def take_notes(self) -> list[str]:
        """Remove and return the notes for an answer."""
        notes = self._notes
        if self._dropped_notes:
            notes.append(f"And {self._dropped_notes} more notes.")
        self._notes = []
        self._dropped_notes = 0
        return notes

    def _on_request(self, request: Request) -> None:
        """Detect a new page by its first request, before Playwright reports the page."""
        if request.is_navigation_request():
            try:
                _ = request.frame
            except Error:  # Playwright does not know the page yet
                self.is_opening = True

    def _on_page(self, _: Page) -> None:
        # The page may belong to another agent, because such a request does not reveal which agent
        # caused it.
        self.is_opening = False

    async def open(self) -> Tab:
        """Return the current tab, or a new one if there is none."""
        if self.current is not None:
            return self.current
        return await self.new()

    async def new(self) -> Tab:
        """Open a tab."""
        return self.add(await self._context.new_page())

    def add(self, page: Page) -> Tab:
        """Add a page as the current tab."""
        tab = self.current = Tab(page, self)
        self.all.append(tab)
        return tab

    def drop(self, page: Page) -> None:
        """Close a page without waiting for it, because it may be busy."""
        # The tasks are stored, because asyncio keeps only weak references to them.
        if page not in self._dropping:
            self._dropping[page] = closing = asyncio.ensure_future(_close(page))
            closing.add_done_callback(lambda _: self._dropping.pop(page))

    def select(self, number: int) -> Tab:
        """Return a tab by its number, and make it the current tab.

        Numbers begin with 1; 0 means the current tab.

        Raises:
            ActionError: There is no such tab.
        """
        if not number:
            if self.current is None:
                raise ActionError("E_BAD_ARGS", "No page is open.", "Navigate first.")
            return self.current
        if not 0 < number <= len(self.all):
            raise ActionError(
                "E_BAD_ARGS",
                f"There is no tab {number}: {len(self.all)} are open.",
                "Use the action tabs to list them.",
            )
        self.current = self.all[number - 1]
        return self.current

    def discard(self, tab: Tab) -> None:
        """Remove a tab, and close its page without waiting for it."""
        self.forget(tab)
        self.drop(tab.page)

    def forget(self, tab: Tab) -> None:
        """Remove a tab that is closed or about to be closed."""
        if tab in self.all:
            self.all.remove(tab)
        if self.current is tab:
            self.current = self.all[-1] if self.all else None


async def _close(page: Page) -> None:
    try:
        await page.close()
    except Error:  # it is already closed
        pass
