"""The actions: what the model asks for, done with Playwright.

None of them runs a script that the model gives.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

from .failures import SNAPSHOT, Failed, first_line, network, of_element, site, too_much
from .front import WAITS, Front
from .going import LOADED, Going
from .near import near
from .reading import READ, Reading
from .tabs import ALIVE, Tab, Tabs

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Locator

SETTLE = 3.0
MORE = 5.0
"""Seconds beyond all others that an action may take, before its page is thought to be busy for
ever.
"""
_REF = re.compile(r"(?:aria-ref=|ref=|@)?((?:f\d+)?e\d+)")
_READS = ("snapshot", "get_text", "screenshot")
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
        folder: Where downloads are put.
    """

    def __init__(
        self,
        context: BrowserContext,
        seconds: float,
        page_seconds: float,
        most_text: int,
        most_download: int,
        folder: str,
    ) -> None:
        self._context = context
        self._seconds = seconds
        self._page_seconds = page_seconds
        self._going = Going(page_seconds)
        self._front = Front(context)
        self._reading = Reading(seconds, most_text)
        self._most_download = most_download
        self._folder = folder
        self._agents: dict[str, Tabs] = {}
        self._acting = False

    async def do(self, agent: str, action: str, given: dict[str, Any]) -> dict[str, Any]:
        """Do an action; one at a time, beside those that only wait.

        Args:
            agent: Whose tabs it is about.
            action: Its name.
            given: The tool's arguments.

        Returns:
            ``text``, and where there are such: ``notes``, ``url`` and ``title`` of the page,
            ``blob`` and ``name`` of a file, ``failed`` with the page that could not be loaded and
            why.

        Raises:
            Failed: It could not be done.
        """
        from playwright.async_api import Error

        if agent not in self._agents:
            self._agents[agent] = Tabs(self._context, self._folder, self._most_download)
        tabs = self._agents[agent]
        if not self._acting:  # or a page that is about to be a tab would be none
            for stranger in self._front.strangers(
                tab for each in self._agents.values() for tab in each.all
            ):
                tabs.drop(stranger)
        tabs.accept = given["accept"]
        tabs.answer = given["text"]
        tabs.dialogs = 0
        tab = None if action in _ABOUT_NO_PAGE else tabs.at(given["tab"])
        self._acting = self._acting or action not in WAITS
        try:
            async with asyncio.timeout(self._limit(action, given)):
                answer = await self._done(tabs, tab, action, given)
        except TimeoutError:
            raise await self._stuck(tabs, tab or tabs.current, action) from None
        except Error as error:
            raise await self._told(error, tabs, tab or tabs.current, action, given) from None
        finally:
            tabs.accept = False
            self._acting = self._acting and action in WAITS
        if tabs.current is not None and tabs.current.crashed:
            raise self._crashed(tabs, tabs.current)
        return answer | {"notes": tabs.told()}

    async def _done(
        self, tabs: Tabs, tab: Tab | None, action: str, given: dict[str, Any]
    ) -> dict[str, Any]:
        if tab is not None:
            if tab.asking is not None:
                raise TimeoutError
            if not tab.crashed:
                if action not in WAITS or not self._acting:
                    await self._front.bring(tab)
                await tab.held()
            await self._refuse_old_ref(tab, given["selector"])
        method: Callable[..., Awaitable[dict[str, Any]]] = getattr(self, f"_{action}")
        answer = await (method(tabs, given) if tab is None else method(tab, given))
        if tabs.current is not None and action != "close":
            page = tabs.current.page
            answer |= {
                "url": page.url,
                "title": await _title(tabs.current),
                "failed": tabs.current.failed,
            }
            tabs.current.failed = None
        return answer

    def _limit(self, action: str, given: dict[str, Any]) -> float:
        if action in ("navigate", "back", "forward", "reload"):
            return MORE + self._page_seconds + LOADED
        if action == "download":
            return MORE + 2 * self._seconds + SETTLE + self._page_seconds
        return float(MORE + self._seconds + READ + given["waitMs"] / 1000)

    async def _stuck(self, tabs: Tabs, tab: Tab | None, action: str) -> Failed:
        """Return why a page did not do something in time."""
        if tab is None or (action not in _READS and await tab.alive()):
            return too_much(site(tab.page.url) if tab else "The page", action)
        return await self._busy(tabs, tab, action)

    async def _busy(self, tabs: Tabs, tab: Tab, action: str) -> Failed:
        """Stop a script that takes too long, or else close its page.

        In a very large one it is the script that reads.
        """
        for _ in range(2):  # what looked for an element may come after it
            await tab.interrupt()
            if await tab.alive():
                break
        else:
            return self._closed(tabs, tab)
        where = site(tab.page.url)
        if action in _READS:
            return too_much(where, action)
        text = f"{where} was busy with a script for too long, so the script was stopped."
        return Failed(
            "E_TIMEOUT",
            text,
            "Mend a script that does not end; in a large page, name elements by refs or ids.",
        )

    def _closed(self, tabs: Tabs, tab: Tab) -> Failed:
        """Close a page that will never do anything any more."""
        where = site(tab.page.url)
        tabs.forget(tab)
        tabs.drop(tab.page)
        if tab.asking is None:
            why = "is busy with a script that does not end"
        else:
            why = "asks in one dialog after the other"
        return Failed(
            "E_TIMEOUT",
            f"{where} {why}, so its tab was closed.",
            "Mend the page, or navigate elsewhere.",
        )

    def _crashed(self, tabs: Tabs, tab: Tab) -> Failed:
        tabs.forget(tab)
        tabs.drop(tab.page)
        return Failed(
            "E_FAILED",
            f"The page {site(tab.page.url)} crashed, and its tab was closed.",
            "Navigate again.",
        )

    async def _told(
        self, error: Exception, tabs: Tabs, tab: Tab | None, action: str, given: dict[str, Any]
    ) -> Failed:
        """Return what an error of Playwright's means."""
        from playwright.async_api import Error
        from playwright.async_api import TimeoutError as TooSlow

        message = str(error)
        where = site(tab.page.url) if tab else "the page"
        if tab is not None and (tab.crashed or "Target crashed" in message):
            return self._crashed(tabs, tab)
        browser = self._context.browser
        if (
            "has been closed" in message
            and tab not in tabs.all
            and browser is not None
            and browser.is_connected()
        ):
            return Failed(
                "E_FAILED",
                f"The page {where} was closed meanwhile.",
                "List the tabs, or navigate again.",
            )
        if re.search("(has been|[Cc]onnection) closed", message):
            return Failed("crashed", "The browser crashed or was closed.")
        if "net::ERR_" in message:
            return network(tab.failed[0] if tab and tab.failed else given["url"], message)
        if "Unknown key" in message:
            return Failed(
                "E_BAD_ARGS",
                f"{first_line(message)}.",
                "Keys are named as Enter, Escape, ArrowDown, Control+A.",
            )
        found = -1
        names = []
        if isinstance(error, TooSlow) and tab is not None:
            if not given["selector"] or tab.asking is not None:
                return await self._stuck(tabs, tab, action)
            if not await tab.alive():
                return await self._busy(tabs, tab, action)
            try:
                found = await asyncio.wait_for(self._element(tab, given["selector"]).count(), ALIVE)
                names = [] if found else await near(tab.page, given["selector"])
            except TimeoutError:
                return await self._busy(tabs, tab, action)
            except Error:
                found = -1
            if found > 0 and action == "snapshot":
                return await self._stuck(tabs, tab, action)
        return of_element(message, given["selector"], found, where, self._seconds, names)

    def _element(self, tab: Tab, selector: str) -> Locator:
        ref = _REF.fullmatch(selector)
        return tab.page.locator(f"aria-ref={ref[1]}" if ref else selector)

    async def _refuse_old_ref(self, tab: Tab, selector: str) -> None:
        """Say at once that a ref is not there: unlike other elements it will not appear."""
        if _REF.fullmatch(selector) and not await self._element(tab, selector).count():
            raise Failed(
                "E_NOT_FOUND",
                f"No element {selector!r} is on {site(tab.page.url)}.",
                "A ref holds while its element does: take a new snapshot.",
            )

    def _named(self, tab: Tab, given: dict[str, Any]) -> Locator | None:
        if given["selector"]:
            return self._element(tab, given["selector"])
        return None

    def _needed(self, tab: Tab, given: dict[str, Any], action: str) -> Locator:
        if not given["selector"]:
            raise Failed("E_BAD_ARGS", f"{action} needs a selector.", SNAPSHOT)
        return self._element(tab, given["selector"])

    @property
    def _patience(self) -> float:
        return 1000 * self._seconds

    # --- pages ------------------------------------------------------------------------------------

    async def _navigate(self, tabs: Tabs, given: dict[str, Any]) -> dict[str, Any]:
        tab = tabs.at(given["tab"]) if given["tab"] else await tabs.open()
        if not await tab.alive():
            tabs.forget(tab)
            tabs.drop(tab.page)
            tab = await tabs.new()
        return await self._going.to(tab, given["url"])

    async def _back(self, tab: Tab, _: object) -> dict[str, Any]:
        return await self._going.back(tab)

    async def _forward(self, tab: Tab, _: object) -> dict[str, Any]:
        return await self._going.forward(tab)

    async def _reload(self, tab: Tab, _: object) -> dict[str, Any]:
        return await self._going.reload(tab)

    async def _tabs(self, tabs: Tabs, given: dict[str, Any]) -> dict[str, Any]:
        if given["tab"]:
            await self._front.bring(tabs.at(given["tab"]))
        listed = [*tabs.all]  # pages open and close meanwhile
        titles = await asyncio.gather(*map(_title, listed))
        lines = [
            f"{'*' if tab is tabs.current else ' '} {number}. {tab.page.url[:500]}"
            f" {json.dumps(title, ensure_ascii=False)}"
            for number, (tab, title) in enumerate(zip(listed, titles, strict=True), 1)
        ]
        return {"text": "\n".join(lines) or "No page is open."}

    async def _close(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        await tab.page.close()
        return {"text": "The tab is closed."}

    async def _viewport(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        width, height = map(int, given["size"].split("x"))
        await tab.page.set_viewport_size({"width": width, "height": height})
        return {"text": f"The page is now {width}x{height}."}

    # --- elements ---------------------------------------------------------------------------------

    async def _click(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        await self._needed(tab, given, "click").click(timeout=self._patience)
        await tab.settle(SETTLE)
        return {"text": "Clicked."}

    async def _hover(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        await self._needed(tab, given, "hover").hover(timeout=self._patience)
        return {"text": "The pointer is there."}

    async def _drag(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        if not given["text"]:
            raise Failed("E_BAD_ARGS", "drag needs a target in text.", SNAPSHOT)
        target = self._element(tab, given["text"])
        if not await target.count():
            raise Failed(
                "E_NOT_FOUND", f"No element {given['text']!r} is on {site(tab.page.url)}.", SNAPSHOT
            )
        await self._needed(tab, given, "drag").drag_to(target, timeout=self._patience)
        await tab.settle(SETTLE)
        return {"text": "Dragged."}

    async def _type(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        if given["selector"]:
            await self._element(tab, given["selector"]).fill(given["text"], timeout=self._patience)
        else:
            await tab.page.keyboard.insert_text(given["text"])
        await tab.settle(SETTLE)
        return {"text": "Typed."}

    async def _press(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        if not given["text"]:
            raise Failed(
                "E_BAD_ARGS",
                "press needs a key in text.",
                "For example Enter, Escape or Control+A.",
            )
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
            options = [
                option.strip() for option in await element.locator("option").all_text_contents()
            ]
            if given["text"] in options:
                raise
            text = f"{given['selector']!r} on {site(tab.page.url)} has no option {given['text']!r}."
            raise Failed("E_NOT_FOUND", text, f"It has: {', '.join(options)[:1000]}.") from None
        await tab.settle(SETTLE)
        return {"text": f"Selected {given['text']!r}."}

    # --- reading ----------------------------------------------------------------------------------

    async def _snapshot(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        return await self._reading.snapshot(tab, self._named(tab, given), given["text"])

    async def _get_text(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        return await self._reading.text(tab, self._named(tab, given))

    async def _screenshot(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        kind: Literal["jpeg", "png"] = (
            "jpeg" if given["path"].lower().endswith((".jpg", ".jpeg")) else "png"
        )
        return await self._reading.picture(tab, self._named(tab, given), kind, whole=given["full"])

    async def _console(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0.05)  # what was just written is on its way
        return self._reading.cut(tab.read(tab.log) or "Nothing new.", "These were the oldest.")

    async def _network(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        return self._reading.cut(tab.read(tab.requests) or "Nothing new.", "These were the oldest.")

    async def _wait(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        from playwright.async_api import TimeoutError

        limit = given["waitMs"]
        began = time.monotonic()
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

    # --- files ------------------------------------------------------------------------------------

    async def _download(self, tabs: Tabs, given: dict[str, Any]) -> dict[str, Any]:
        tabs.downloads.awaited = True
        try:
            if given["selector"]:
                tab = tabs.at(given["tab"])
                await self._front.bring(tab)
                await self._element(tab, given["selector"]).click(timeout=self._patience)
                await tab.settle(SETTLE)
            until = time.monotonic() + self._seconds
            while not tabs.downloads and given["selector"] and time.monotonic() < until:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        finally:
            tabs.downloads.awaited = False
        if not tabs.downloads:
            text = "No page has given a file to download."
            raise Failed("E_NOT_FOUND", text, "Name the element to click for it in selector.")
        name, data = await tabs.downloads.take(self._page_seconds)
        return {"text": "", "blob": data, "name": name}

    async def _upload(self, tab: Tab, given: dict[str, Any]) -> dict[str, Any]:
        from playwright.async_api import Error, FilePayload

        file = FilePayload(name=given["name"], mimeType=given["kind"], buffer=given["blob"])
        element = self._needed(tab, given, "upload")
        try:
            await element.set_input_files(file, timeout=self._patience)
        except Error as error:
            if "not an HTMLInputElement" not in str(error):
                raise
            async with tab.page.expect_file_chooser(timeout=self._patience) as chooser:
                await element.click(timeout=self._patience)
            await (await chooser.value).set_files(file)
        await tab.settle(SETTLE)
        return {"text": f"Given to the page: {given['name']}, {len(given['blob']):,} bytes."}


async def _title(tab: Tab) -> str:
    from playwright.async_api import Error

    try:
        return " ".join((await asyncio.wait_for(tab.page.title(), 2))[:200].split())
    except (Error, TimeoutError):
        return ""
