"""The actions: what the model asks for, done with Playwright. None of them runs a script that the model gives."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from .failures import SNAPSHOT, Failed, first_line, network, of_element, site
from .tabs import Tab, Tabs

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Download, Locator

LOADED = 10.0
"""Seconds to wait for everything in a page, once it has begun to come."""
SETTLE = 3.0
PICTURE = 15.0
MOST_PICTURE = 20_000_000
_REF = re.compile(r"(?:aria-ref=|ref=|@)?((?:f\d+)?e\d+)")
# No argument of another action is looked at for these.
_ABOUT_NO_PAGE = ("navigate", "tabs", "download")


class Actions:
    """Does actions in a browser.

    Args:
        context: The browser's profile.
        seconds: How long to wait for an element.
        page_seconds: How long a page may take to begin to come.
        most_text: Characters of a page's text to give.
        most_download: Bytes of a download.
    """

    def __init__(
        self, context: BrowserContext, seconds: float, page_seconds: float, most_text: int, most_download: int
    ) -> None:
        self._context, self._seconds, self._page_seconds = context, seconds, page_seconds
        self._most_text, self._most_download = most_text, most_download
        self._agents: dict[str, Tabs] = {}

    async def do(self, agent: str, action: str, given: dict[str, Any]) -> dict[str, Any]:
        """Do an action.

        Args:
            agent: Whose tabs it is about.
            action: Its name.
            given: The tool's arguments.

        Returns:
            ``text``, and where there are such: ``notes``, ``url`` and ``title`` of the page, ``blob`` and ``name`` of a file,
            ``failed`` with the page that could not be loaded and why.

        Raises:
            Failed: It could not be done.
        """
        from playwright.async_api import Error

        tabs = self._agents.setdefault(agent, Tabs(self._context))
        tabs.accept = given["accept"]
        tab = None if action in _ABOUT_NO_PAGE else tabs.at(given["tab"])
        if tab is not None:
            tab.failed = None
            await self._refuse_old_ref(tab, given["selector"])
        try:
            method: Callable[..., Awaitable[dict[str, Any]]] = getattr(self, f"_{action}")
            answer = await (method(tabs, given) if tab is None else method(tab, given))
            if tabs.current is not None and action != "close":
                page = tabs.current.page
                answer |= {"url": page.url, "title": await _title(tabs.current), "failed": tabs.current.failed}
        except Error as error:
            now = tab or tabs.current
            raise await self._told(error, now, given) from None
        finally:
            tabs.accept = False
        if tabs.current is not None and tabs.current.crashed:
            raise Failed("crashed", f"The page {site(tabs.current.page.url)} crashed.")
        if tabs.notes:
            answer["notes"], tabs.notes = tabs.notes[-20:], []
        return answer

    async def _told(self, error: Exception, tab: Tab | None, given: dict[str, Any]) -> Failed:
        """Say what an error of Playwright's means."""
        from playwright.async_api import Error, TimeoutError

        message, where = str(error), site(tab.page.url) if tab else "the page"
        if (
            (tab is not None and tab.crashed)
            or "Target crashed" in message
            or re.search("(has been|[Cc]onnection) closed", message)
        ):
            return Failed("crashed", f"The browser, or the page {where} in it, crashed or was closed.")
        if "net::ERR_" in message:
            return network(tab.failed[0] if tab and tab.failed else given["url"], message)
        if "Unknown key" in message:
            return Failed(
                "E_BAD_ARGS", f"{first_line(message)}.", "Keys are named as Enter, Escape, ArrowDown, Control+A."
            )
        found = -1
        if isinstance(error, TimeoutError):
            found = 1
            if tab is not None and given["selector"]:
                try:
                    found = await self._element(tab, given["selector"]).count()
                except Error:
                    found = -1
        return of_element(message, given["selector"], found, where, self._seconds)

    def _element(self, tab: Tab, selector: str) -> Locator:
        ref = _REF.fullmatch(selector)
        return tab.page.locator(f"aria-ref={ref[1]}" if ref else selector)

    async def _refuse_old_ref(self, tab: Tab, selector: str) -> None:
        """Say at once that a ref is not there: unlike other elements it will not appear."""
        if _REF.fullmatch(selector) and not await self._element(tab, selector).count():
            text = f"No element {selector!r} is on {site(tab.page.url)}."
            raise Failed("E_NOT_FOUND", text, "A ref holds while its element does: take a new snapshot.")

    def _needed(self, tab: Tab, given: dict[str, Any], action: str) -> Locator:
        if not given["selector"]:
            raise Failed("E_BAD_ARGS", f"{action} needs a selector.", SNAPSHOT)
        return self._element(tab, given["selector"])

    @property
    def _patience(self) -> float:
        return 1000 * self._seconds

    # --- pages --------------------------------------------------------------------------------------------------------

    async def _navigate(self, tabs: Tabs, given: dict[str, Any]) -> dict[str, Any]:
        tab = tabs.at(given["tab"]) if given["tab"] else await tabs.open()
        return await self._go(
            tab, lambda seconds: tab.page.goto(given["url"], wait_until="commit", timeout=seconds), given
        )

    async def _back(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        return await self._go(tab, lambda seconds: tab.page.go_back(wait_until="commit", timeout=seconds), given)

    async def _forward(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        return await self._go(tab, lambda seconds: tab.page.go_forward(wait_until="commit", timeout=seconds), given)

    async def _reload(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        return await self._go(tab, lambda seconds: tab.page.reload(wait_until="commit", timeout=seconds), given)

    async def _go(self, tab: Tab, move: Callable[[float], Awaitable[Any]], given: dict[str, Any]) -> dict[str, Any]:
        from playwright.async_api import Error, TimeoutError

        await tab.error_page()  # of a page that could not be loaded before
        tab.failed = None
        before = tab.page.url
        try:
            try:
                response = await move(1000 * self._page_seconds)
            except Error as error:
                if 'interrupted by another navigation to "chrome-error:' not in str(error):
                    raise
                await tab.page.wait_for_url(_no_error_page, wait_until="commit", timeout=1000 * self._page_seconds)
                response = tab.answer
        except TimeoutError:
            if tab.failed is not None:
                raise network(*tab.failed) from None
            to = site(given["url"] or before)
            message = f"{to} did not answer within {self._page_seconds:g} s."
            raise Failed("E_TIMEOUT", message, "Is its server well? Try again, or look at its log.") from None
        except Error as error:
            if "Download is starting" in str(error):
                return {"text": "There is no page there, but a file."}
            await tab.error_page()
            raise
        if response is None and given["action"] in ("back", "forward") and tab.page.url == before:
            return {"text": f"There is no page to go {given['action']} to."}
        note = ""
        try:
            await tab.page.wait_for_load_state("load", timeout=1000 * LOADED)
        except TimeoutError:
            note = f" It is still loading after {LOADED:g} s."
        status = f"HTTP {response.status}" if response is not None else "no request was needed"
        return {"text": f"Loaded, {status}.{note}", "status": response.status if response is not None else 0}

    async def _tabs(self, tabs: Tabs, given: dict[str, Any]) -> dict[str, Any]:
        if given["tab"]:
            await tabs.at(given["tab"]).page.bring_to_front()
        lines = [
            f"{'*' if tab is tabs.current else ' '} {number}. {await _title(tab)} {tab.page.url[:500]}"
            for number, tab in enumerate(tabs.all, 1)
        ]
        return {"text": "\n".join(lines) or "No page is open."}

    async def _close(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        await tab.page.close()
        return {"text": "The tab is closed."}

    async def _viewport(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        width, height = map(int, given["size"].split("x"))
        await tab.page.set_viewport_size({"width": width, "height": height})
        return {"text": f"The page is now {width}x{height}."}

    # --- elements -----------------------------------------------------------------------------------------------------

    async def _click(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        await self._needed(tab, given, "click").click(timeout=self._patience)
        await tab.settle(SETTLE)
        return {"text": "Clicked."}

    async def _hover(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        await self._needed(tab, given, "hover").hover(timeout=self._patience)
        return {"text": "The pointer is there."}

    async def _type(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        if given["selector"]:
            await self._element(tab, given["selector"]).fill(given["text"], timeout=self._patience)
        else:
            await tab.page.keyboard.insert_text(given["text"])
        await tab.settle(SETTLE)
        return {"text": "Typed."}

    async def _press(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        if not given["text"]:
            raise Failed("E_BAD_ARGS", "press needs a key in text.", "For example Enter, Escape or Control+A.")
        if given["selector"]:
            await self._element(tab, given["selector"]).press(given["text"], timeout=self._patience)
        else:
            await tab.page.keyboard.press(given["text"])
        await tab.settle(SETTLE)
        return {"text": f"Pressed {given['text']}."}

    async def _select(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        from playwright.async_api import TimeoutError

        element = self._needed(tab, given, "select")
        try:
            await element.select_option(given["text"], timeout=self._patience)
        except TimeoutError:
            if await element.count() != 1:
                raise
            options = [option.strip() for option in await element.locator("option").all_text_contents()]
            if given["text"] in options:
                raise
            text = f"{given['selector']!r} on {site(tab.page.url)} has no option {given['text']!r}."
            raise Failed("E_NOT_FOUND", text, f"It has: {', '.join(options)[:1000]}.") from None
        await tab.settle(SETTLE)
        return {"text": f"Selected {given['text']!r}."}

    # --- reading ------------------------------------------------------------------------------------------------------

    async def _snapshot(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        if given["selector"]:
            text = await self._element(tab, given["selector"]).aria_snapshot(mode="ai", timeout=self._patience)
        else:
            text = await tab.page.aria_snapshot(mode="ai", timeout=self._patience)
        return self._cut(text or "The page is empty.", "Name a part of it with selector to see that alone.")

    async def _get_text(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        element = self._element(tab, given["selector"] or "body")
        text = await element.first.inner_text(timeout=self._patience)
        answer = self._cut(text, "Name a part of it with selector to read that alone.")
        if given["selector"] and (count := await element.count()) > 1:
            answer["text"] += f"\n[the first of {count} elements that match]"
        return answer

    def _cut(self, text: str, hint: str) -> dict[str, Any]:
        if len(text) > self._most_text:
            text = f"{text[: self._most_text]}\n[cut: {len(text) - self._most_text:,} characters more. {hint}]"
        return {"text": text}

    async def _screenshot(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        kind: Any = "jpeg" if given["path"].lower().endswith((".jpg", ".jpeg")) else "png"
        if given["selector"]:
            blob = await self._element(tab, given["selector"]).screenshot(type=kind, timeout=self._patience)
        else:
            blob = await tab.page.screenshot(type=kind, full_page=given["full"], timeout=1000 * PICTURE)
        if len(blob) > MOST_PICTURE:
            text = f"The screenshot of {site(tab.page.url)} is larger than {MOST_PICTURE // 1_000_000} MB."
            raise Failed("E_TOO_LARGE", text, "Take it of a part, by selector, or without full.")
        return {"text": "", "blob": blob, "kind": kind}

    async def _console(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0.05)  # what was just written is on its way
        lines = [*tab.log]
        tab.log.clear()
        return self._cut("\n".join(lines) or "Nothing new.", "These were the oldest.")

    async def _wait(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        from playwright.async_api import TimeoutError

        limit, began = given["waitMs"], time.monotonic()
        wanted = given["selector"] or given["text"]
        if not wanted:
            await asyncio.sleep(limit / 1000)
            return {"text": f"Waited {limit} ms."}
        if given["selector"]:
            element = self._element(tab, given["selector"])
            element = element.filter(has_text=given["text"]) if given["text"] else element
        else:
            element = tab.page.get_by_text(given["text"])
        try:
            await element.first.wait_for(state="visible", timeout=limit)
        except TimeoutError:
            text = f"{wanted!r} did not appear on {site(tab.page.url)} within {limit} ms."
            raise Failed("E_TIMEOUT", text, f"{SNAPSHOT} Or wait longer, 10000 at most.") from None
        return {"text": f"{wanted!r} is there, after {1000 * (time.monotonic() - began):.0f} ms."}

    async def _wait_idle(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        from playwright.async_api import TimeoutError

        try:
            await tab.page.wait_for_load_state("networkidle", timeout=given["waitMs"])
        except TimeoutError:
            text = f"{site(tab.page.url)} still loads something after {given['waitMs']} ms."
            raise Failed("E_TIMEOUT", text, "Wait for a text or an element instead.") from None
        return {"text": "Nothing is being loaded any more."}

    # --- files --------------------------------------------------------------------------------------------------------

    async def _download(self, tabs: Tabs, given: dict[str, Any]) -> dict[str, Any]:
        if given["selector"]:
            tab = tabs.at(given["tab"])
            await self._element(tab, given["selector"]).click(timeout=self._patience)
            await tab.settle(SETTLE)
        until = time.monotonic() + self._seconds
        while not tabs.downloads and given["selector"] and time.monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        if not tabs.downloads:
            text = "No page has given a file to download."
            raise Failed("E_NOT_FOUND", text, "Name the element to click for it in selector.")
        tabs.notes = [note for note in tabs.notes if "file to download" not in note]
        return await self._file(tabs.downloads.pop())

    async def _file(self, download: Download) -> dict[str, Any]:
        name = download.suggested_filename[:200]
        try:
            path = await asyncio.wait_for(download.path(), self._page_seconds)
        except TimeoutError:
            await download.cancel()
            text = f"{name!r} from {site(download.url)} did not come within {self._page_seconds:g} s."
            raise Failed("E_TIMEOUT", text, "Get it in another way, for example by a command.") from None
        try:
            if (size := path.stat().st_size) > self._most_download:
                text = f"{name!r} from {site(download.url)} has {size / 1e6:.1f} MB: more than browser.max_download."
                raise Failed("E_TOO_LARGE", text, "Get it in another way, for example by a command.")
            return {"text": "", "blob": await asyncio.to_thread(path.read_bytes), "name": name}
        finally:
            await download.delete()


def _no_error_page(url: str) -> bool:
    return not url.startswith("chrome-error:")


async def _title(tab: Tab) -> str:
    try:
        return (await asyncio.wait_for(tab.page.title(), 2))[:200]
    except TimeoutError:
        return ""
