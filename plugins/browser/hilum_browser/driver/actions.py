"""Runs the actions of the tool ``browser_use`` with Playwright.

No action runs a script written by the model.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Literal

from playwright.async_api import BrowserContext, Error, FilePayload, Locator, Page
from playwright.async_api import TimeoutError as PlaywrightTimeout

from .errors import (
    SNAPSHOT_HINT,
    ActionError,
    explain_element_error,
    explain_network_error,
    explain_slow_page,
    format_site,
)
from .navigation import LOAD_TIMEOUT, Navigation
from .page_content import READ_TIMEOUT, PageContent
from .protocol import WAITING_ACTIONS, Answer, Arguments, Config
from .suggestions import suggest_selectors
from .tabs import ALIVE_TIMEOUT, Tab, Tabs

# Seconds to wait for resources that an action has started to load.
SETTLE_TIMEOUT = 3.0
# Seconds added to the other time limits of an action before its page is considered busy.
GRACE = 5.0
TITLE_TIMEOUT = 2.0
_REF = re.compile(r"(?:aria-ref=|ref=|@)?((?:f\d+)?e\d+)")
_READING = ("snapshot", "get_text", "screenshot")
_LOADING = ("navigate", "back", "forward", "reload")
# Actions that apply to an agent rather than a page.
_WITHOUT_TAB = ("navigate", "tabs", "download")
_CLOSED = re.compile("(has been|[Cc]onnection) closed")


class Actions:
    """A runner for the actions in one browser.

    Args:
        context: The browser's profile.
        config: The configuration of the browser, including the limits.
        folder: The folder for downloads.
    """

    def __init__(self, context: BrowserContext, config: Config, folder: str) -> None:
        self._context = context
        self._config = config
        self._seconds = config.timeout
        self._limit_ms = 1000 * config.timeout
        self._navigation = Navigation(config.page_timeout)
        self._content = PageContent(config.timeout, config.max_text)
        self._folder = folder
        self._agents: dict[str, Tabs] = {}
        self._is_acting = False
        self._without_tab: set[Page] = set()

    async def run(self, agent: str, action: str, arguments: Arguments) -> Answer:
        """Run an action. Only actions that wait may run concurrently with another one.

        Args:
            agent: The agent, which has its own tabs.
            action: The name of the action.
            arguments: The arguments of the tool.

        Returns:
            The answer: ``text`` and, if there are any, ``notes``; ``url`` and ``title`` of the
            page; ``blob`` and ``name`` of a file; ``failed``, the URL of a page that could not be
            loaded, and the reason.

        Raises:
            ActionError: The action failed.
        """
        tabs = self._prepare_tabs(agent, arguments)
        tab = None if action in _WITHOUT_TAB else tabs.select(arguments["tab"])
        is_waiting = action in WAITING_ACTIONS
        self._is_acting = self._is_acting or not is_waiting
        try:
            async with asyncio.timeout(self._time_limit(action, arguments)):
                answer = await self._execute(tabs, tab, action, arguments)
        except TimeoutError:
            # Playwright's own limits are shorter, but they do not take effect on a busy page.
            raise await self._explain_slow(tabs, tab or tabs.current, action) from None
        except Error as error:
            tab = tab or tabs.current
            raise await self._explain(error, tabs, tab, action, arguments) from None
        finally:
            # An earlier action must not determine how a later dialog is answered.
            tabs.accept = False
            self._is_acting = self._is_acting and is_waiting
        # After a crash, the answer would still describe the page as it was before the crash.
        if tabs.current is not None and tabs.current.has_crashed:
            raise self._drop_crashed(tabs, tabs.current)
        return answer | {"notes": tabs.take_notes()}

    def _prepare_tabs(self, agent: str, arguments: Arguments) -> Tabs:
        """Return the tabs of an agent, prepared for the next action."""
        if agent not in self._agents:
            self._agents[agent] = Tabs(self._context, self._folder, self._config.max_download)
        tabs = self._agents[agent]
        if not self._is_acting:  # another action may be about to assign a page to a tab
            self._drop_orphans(tabs)
        # Event handlers answer dialogs during the action, so they need its arguments.
        tabs.accept = arguments["accept"]
        tabs.dialog_text = arguments["text"]
        tabs.dialog_count = 0
        return tabs

    def _drop_orphans(self, tabs: Tabs) -> None:
        """Close pages without a tab, whose opener was closed before they appeared.

        A page is closed only if it has no tab in two consecutive calls, because its tab may be
        about to open during the first one.
        """
        without_tab = set(self._context.pages)
        for each in self._agents.values():
            without_tab.difference_update(tab.page for tab in each.all)
        for page in without_tab & self._without_tab:
            tabs.drop(page)
        self._without_tab = without_tab

    async def _execute(
        self, tabs: Tabs, tab: Tab | None, action: str, arguments: Arguments
    ) -> Answer:
        run: Callable[[Tab | Tabs, Arguments], Awaitable[Answer]] = getattr(self, f"_{action}")
        if tab is not None:
            await self._prepare(tab, action, arguments["selector"])
        answer = await run(tab or tabs, arguments)
        current = tabs.current
        if current is not None and action != "close":
            answer["url"] = current.page.url
            answer["title"] = await _get_title(current)
            answer["failed"] = current.failed
            current.failed = None
        return answer

    async def _prepare(self, tab: Tab, action: str, selector: str) -> None:
        if tab.open_dialog is not None:
            raise TimeoutError
        if not tab.has_crashed:
            # Browsers render background pages once a second, so every click in them takes seconds.
            # An action that only waits leaves the foreground to other actions.
            if action not in WAITING_ACTIONS or not self._is_acting:
                await tab.page.bring_to_front()
            await tab.attach()
        # Unlike other elements, an element identified by a ref cannot appear later.
        if _REF.fullmatch(selector) and not await self._locate(tab, selector).count():
            raise ActionError(
                "E_NOT_FOUND",
                f"{format_site(tab.page.url)} has no element {selector!r}.",
                "A ref is valid only while its element exists: take a new snapshot.",
            )

    def _time_limit(self, action: str, arguments: Arguments) -> float:
        """Return the number of seconds after which a page is considered busy."""
        page_seconds = self._config.page_timeout
        if action in _LOADING:
            return GRACE + page_seconds + LOAD_TIMEOUT
        if action == "download":
            return GRACE + 2 * self._seconds + SETTLE_TIMEOUT + page_seconds
        return float(GRACE + self._seconds + READ_TIMEOUT + arguments["waitMs"] / 1000)

    # --- errors -----------------------------------------------------------------------------------

    async def _explain_slow(self, tabs: Tabs, tab: Tab | None, action: str) -> ActionError:
        """Return why a page did not finish an action in time."""
        if tab is None:
            return explain_slow_page("The page", action)
        if action not in _READING and await tab.is_alive():
            return explain_slow_page(format_site(tab.page.url), action)
        return await self._stop_script(tabs, tab, action)

    async def _stop_script(self, tabs: Tabs, tab: Tab, action: str) -> ActionError:
        """Stop the script of a busy page. If that fails, close the page.

        On a very large page, the busy script may be the driver's own, which reads the page.
        """
        for _ in range(2):  # a script that looks for an element may run after the busy script
            await tab.interrupt()
            if await tab.is_alive():
                break
        else:
            return self._close_busy(tabs, tab)
        site = format_site(tab.page.url)
        if action in _READING:
            return explain_slow_page(site, action)
        return ActionError(
            "E_TIMEOUT",
            f"{site} was busy with a script for too long, so the script was stopped.",
            "Fix a script that does not end; on a large page, select elements by ref or ID.",
        )

    def _close_busy(self, tabs: Tabs, tab: Tab) -> ActionError:
        """Close a page that no longer responds."""
        tabs.discard(tab)
        if tab.open_dialog is None:
            problem = "is busy with a script that does not end"
        else:
            problem = "opens one dialog after another"
        return ActionError(
            "E_TIMEOUT",
            f"{format_site(tab.page.url)} {problem}, so its tab was closed.",
            "Fix the page, or navigate elsewhere.",
        )

    def _drop_crashed(self, tabs: Tabs, tab: Tab) -> ActionError:
        tabs.discard(tab)
        return ActionError(
            "E_FAILED",
            f"The page {format_site(tab.page.url)} crashed, and its tab was closed.",
            "Navigate again.",
        )

    async def _explain(
        self, error: Error, tabs: Tabs, tab: Tab | None, action: str, arguments: Arguments
    ) -> ActionError:
        """Return the error that explains one of Playwright's errors."""
        message = str(error)
        site = format_site(tab.page.url) if tab else "the page"
        # The order matters: a crash also closes the page and aborts its requests.
        if tab is not None and (tab.has_crashed or "Target crashed" in message):
            return self._drop_crashed(tabs, tab)
        if _CLOSED.search(message):
            return self._explain_closed(message, tabs, tab, site)
        if "net::ERR_" in message:
            failed = tab.failed if tab else None
            return explain_network_error(failed[0] if failed else arguments["url"], message)
        if isinstance(error, PlaywrightTimeout) and tab is not None:
            return await self._explain_timeout(message, tabs, tab, action, arguments)
        return explain_element_error(message, arguments["selector"], site, self._seconds)

    def _explain_closed(self, message: str, tabs: Tabs, tab: Tab | None, site: str) -> ActionError:
        """Return the error for a closed page or browser."""
        browser = self._context.browser
        is_connected = browser is not None and browser.is_connected()
        if is_connected and "has been closed" in message and tab not in tabs.all:
            return ActionError(
                "E_FAILED",
                f"The page {site} was closed in the meantime.",
                "List the tabs, or navigate again.",
            )
        # "crashed" is not one of hilum's codes: it makes the other end of the link end the browser.
        return ActionError("crashed", "The browser crashed or was closed.")

    async def _explain_timeout(
        self, message: str, tabs: Tabs, tab: Tab, action: str, arguments: Arguments
    ) -> ActionError:
        """Return the error for an element that was not found or not usable in time."""
        selector = arguments["selector"]
        if not selector or tab.open_dialog is not None:
            return await self._explain_slow(tabs, tab, action)
        if not await tab.is_alive():
            return await self._stop_script(tabs, tab, action)
        found = -1
        suggestions: list[str] = []
        try:
            counting = self._locate(tab, selector).count()
            found = await asyncio.wait_for(counting, ALIVE_TIMEOUT)
            if not found:
                suggestions = await suggest_selectors(tab.page, selector)
        except TimeoutError:
            return await self._stop_script(tabs, tab, action)
        except Error:
            pass
        if found > 0 and action == "snapshot":
            return await self._explain_slow(tabs, tab, action)
        site = format_site(tab.page.url)
        return explain_element_error(message, selector, site, self._seconds, found, suggestions)

    # --- elements ---------------------------------------------------------------------------------

    def _locate(self, tab: Tab, selector: str) -> Locator:
        ref = _REF.fullmatch(selector)
        return tab.page.locator(f"aria-ref={ref[1]}" if ref else selector)

    def _locate_optional(self, tab: Tab, arguments: Arguments) -> Locator | None:
        selector = arguments["selector"]
        return self._locate(tab, selector) if selector else None

    def _locate_required(self, tab: Tab, arguments: Arguments) -> Locator:
        selector = arguments["selector"]
        if not selector:
            raise ActionError(
                "E_BAD_ARGS", f"{arguments['action']} requires a selector.", SNAPSHOT_HINT
            )
        return self._locate(tab, selector)

    async def _click(self, tab: Tab, arguments: Arguments) -> Answer:
        await self._locate_required(tab, arguments).click(timeout=self._limit_ms)
        await tab.settle(SETTLE_TIMEOUT)
        return {"text": "Clicked."}

    async def _hover(self, tab: Tab, arguments: Arguments) -> Answer:
        await self._locate_required(tab, arguments).hover(timeout=self._limit_ms)
        return {"text": "The pointer is over the element."}

    async def _drag(self, tab: Tab, arguments: Arguments) -> Answer:
        destination = arguments["text"]
        if not destination:
            raise ActionError("E_BAD_ARGS", "drag requires a target in text.", SNAPSHOT_HINT)
        # The target is checked first, because Playwright would press the mouse button and then wait
        # for the target.
        target = self._locate(tab, destination)
        if not await target.count():
            text = f"{format_site(tab.page.url)} has no element {destination!r}."
            raise ActionError("E_NOT_FOUND", text, SNAPSHOT_HINT)
        await self._locate_required(tab, arguments).drag_to(target, timeout=self._limit_ms)
        await tab.settle(SETTLE_TIMEOUT)
        return {"text": "Dragged."}

    async def _type(self, tab: Tab, arguments: Arguments) -> Answer:
        element = self._locate_optional(tab, arguments)
        if element is not None:
            await element.fill(arguments["text"], timeout=self._limit_ms)
        else:
            await tab.page.keyboard.insert_text(arguments["text"])
        await tab.settle(SETTLE_TIMEOUT)
        return {"text": "Typed."}

    async def _press(self, tab: Tab, arguments: Arguments) -> Answer:
        key = arguments["text"]
        if not key:
            hint = "For example Enter, Escape or Control+A."
            raise ActionError("E_BAD_ARGS", "press requires a key in text.", hint)
        element = self._locate_optional(tab, arguments)
        if element is not None:
            await element.press(key, timeout=self._limit_ms)
        else:
            await tab.page.keyboard.press(key)
        await tab.settle(SETTLE_TIMEOUT)
        return {"text": f"Pressed {key}."}

    async def _select(self, tab: Tab, arguments: Arguments) -> Answer:
        wanted = arguments["text"]
        element = self._locate_required(tab, arguments)
        try:
            await element.select_option(wanted, timeout=self._limit_ms)
        except PlaywrightTimeout:
            if await element.count() != 1:
                raise
            texts = await element.locator("option").all_text_contents()
            options = [text.strip() for text in texts]
            if wanted in options:  # the option exists, but the list is disabled or hidden
                raise
            site = format_site(tab.page.url)
            raise ActionError(
                "E_NOT_FOUND",
                f"{arguments['selector']!r} on {site} has no option {wanted!r}.",
                f"It has: {', '.join(options)[:1000]}.",
            ) from None
        await tab.settle(SETTLE_TIMEOUT)
        return {"text": f"Selected {wanted!r}."}

    # --- pages ------------------------------------------------------------------------------------

    async def _navigate(self, tabs: Tabs, arguments: Arguments) -> Answer:
        if arguments["tab"]:
            tab = tabs.select(arguments["tab"])
        else:
            tab = await tabs.open()
        # A page with a script that never ends would also block any navigation away from it.
        if not await tab.is_alive():
            tabs.discard(tab)
            tab = await tabs.new()
        url = arguments["url"]
        return await self._navigation.load(tab, partial(tab.page.goto, url), url)

    async def _back(self, tab: Tab, _: Arguments) -> Answer:
        return await self._navigation.load(tab, tab.page.go_back, direction="back")

    async def _forward(self, tab: Tab, _: Arguments) -> Answer:
        return await self._navigation.load(tab, tab.page.go_forward, direction="forward")

    async def _reload(self, tab: Tab, _: Arguments) -> Answer:
        return await self._navigation.load(tab, tab.page.reload)

    async def _tabs(self, tabs: Tabs, arguments: Arguments) -> Answer:
        if arguments["tab"]:
            await tabs.select(arguments["tab"]).page.bring_to_front()
        listed = list(tabs.all)  # pages may open and close in the meantime
        titles = await asyncio.gather(*map(_get_title, listed))
        lines = []
        for number, (tab, title) in enumerate(zip(listed, titles, strict=True), 1):
            mark = "*" if tab is tabs.current else " "
            # A `data:` URL may be megabytes long.
            url = tab.page.url[:500]
            quoted = json.dumps(title, ensure_ascii=False)
            lines.append(f"{mark} {number}. {url} {quoted}")
        return {"text": "\n".join(lines) or "No page is open."}

    async def _close(self, tab: Tab, _: Arguments) -> Answer:
        await tab.page.close()
        return {"text": "The tab is closed."}

    async def _viewport(self, tab: Tab, arguments: Arguments) -> Answer:
        width, height = map(int, arguments["size"].split("x"))
        await tab.page.set_viewport_size({"width": width, "height": height})
        return {"text": f"The viewport is now {width}x{height}."}

    # --- reading ----------------------------------------------------------------------------------

    async def _snapshot(self, tab: Tab, arguments: Arguments) -> Answer:
        element = self._locate_optional(tab, arguments)
        return await self._content.snapshot(tab, element, arguments["text"])

    async def _get_text(self, tab: Tab, arguments: Arguments) -> Answer:
        return await self._content.text(tab, self._locate_optional(tab, arguments))

    async def _screenshot(self, tab: Tab, arguments: Arguments) -> Answer:
        is_jpeg = arguments["path"].lower().endswith((".jpg", ".jpeg"))
        kind: Literal["jpeg", "png"] = "jpeg" if is_jpeg else "png"
        element = self._locate_optional(tab, arguments)
        return await self._content.screenshot(tab, element, kind, full=arguments["full"])

    async def _console(self, tab: Tab, _: Arguments) -> Answer:
        await asyncio.sleep(0.05)  # the last messages may still be in transit
        return self._content.cut(tab.read(tab.log) or "Nothing new.", "These were the oldest.")

    async def _network(self, tab: Tab, _: Arguments) -> Answer:
        lines = tab.read(tab.requests)
        return self._content.cut(lines or "Nothing new.", "These were the oldest.")

    # --- waiting ----------------------------------------------------------------------------------

    async def _wait(self, tab: Tab, arguments: Arguments) -> Answer:
        limit = arguments["waitMs"]
        text = arguments["text"]
        wanted = arguments["selector"] or text
        if not wanted:
            await asyncio.sleep(limit / 1000)
            return {"text": f"Waited {limit} ms."}
        element = self._locate_optional(tab, arguments)
        if element is None:
            element = tab.page.get_by_text(text)
        elif text:
            element = element.filter(has_text=text)
        began = time.monotonic()
        try:
            await element.first.wait_for(state="visible", timeout=limit)
        except PlaywrightTimeout:
            site = format_site(tab.page.url)
            raise ActionError(
                "E_TIMEOUT",
                f"{wanted!r} did not appear on {site} within {limit} ms.",
                f"{SNAPSHOT_HINT} Or wait longer, 10000 at most.",
            ) from None
        waited = 1000 * (time.monotonic() - began)
        return {"text": f"{wanted!r} appeared after {waited:.0f} ms."}

    async def _wait_idle(self, tab: Tab, arguments: Arguments) -> Answer:
        limit = arguments["waitMs"]
        try:
            await tab.page.wait_for_load_state("networkidle", timeout=limit)
        except PlaywrightTimeout:
            text = f"{format_site(tab.page.url)} is still loading after {limit} ms."
            hint = "Wait for text or an element instead."
            raise ActionError("E_TIMEOUT", text, hint) from None
        return {"text": "Nothing is loading any more."}

    # --- files ------------------------------------------------------------------------------------

    async def _download(self, tabs: Tabs, arguments: Arguments) -> Answer:
        downloads = tabs.downloads
        if arguments["selector"]:
            downloads.is_expected = True
            try:
                await self._click_download(tabs, arguments)
            finally:
                downloads.is_expected = False
        if not downloads:
            text = "No page has started a download."
            hint = "Pass the element that starts the download as selector."
            raise ActionError("E_NOT_FOUND", text, hint)
        name, data = await downloads.take(self._config.page_timeout)
        return {"text": "", "blob": data, "name": name}

    async def _click_download(self, tabs: Tabs, arguments: Arguments) -> None:
        """Click an element, and wait for the download that it starts."""
        tab = tabs.select(arguments["tab"])
        await tab.page.bring_to_front()
        await self._click(tab, arguments)
        end = time.monotonic() + self._seconds
        while not tabs.downloads and time.monotonic() < end:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    async def _upload(self, tab: Tab, arguments: Arguments) -> Answer:
        name = arguments["name"]
        data = arguments["blob"]
        file = FilePayload(name=name, mimeType=arguments["kind"], buffer=data)
        element = self._locate_required(tab, arguments)
        try:
            await element.set_input_files(file, timeout=self._limit_ms)
        except Error as error:
            if "not an HTMLInputElement" not in str(error):
                raise
            # The element may be a button that opens a file dialog.
            async with tab.page.expect_file_chooser(timeout=self._limit_ms) as chooser:
                await element.click(timeout=self._limit_ms)
            await (await chooser.value).set_files(file)
        await tab.settle(SETTLE_TIMEOUT)
        return {"text": f"Uploaded {name}, {len(data):,} bytes."}


async def _get_title(tab: Tab) -> str:
    """Return the title of a page as one line, or an empty string if the page does not respond."""
    try:
        title = await asyncio.wait_for(tab.page.title(), TITLE_TIMEOUT)
    except (Error, TimeoutError):
        return ""
    return " ".join(title[:200].split())
