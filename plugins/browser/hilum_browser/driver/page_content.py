"""Reads the outline or text of a page, or takes a screenshot. Long texts are truncated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from playwright.async_api import Locator, TimeoutError

from .errors import ActionError, format_site
from .protocol import Answer

if TYPE_CHECKING:
    from .tabs import Tab

# Time limit in seconds for reading the outline or text of a large page, or taking a screenshot.
READ_TIMEOUT = 15.0
MAX_SCREENSHOT = 20_000_000
# Maximum width and height of a screenshot in pixels. Beyond this size, Chromium repeats parts of
# the image.
MAX_SIDE = 16_384
_PART_HINT = "Pass selector to read only a part of the page."
_LIMIT = 1000 * READ_TIMEOUT


class PageContent:
    """A reader of pages.

    Args:
        seconds: The number of seconds to wait for an element.
        max_text: The maximum number of characters in a text.
    """

    def __init__(self, seconds: float, max_text: int) -> None:
        self._element_limit = 1000 * seconds
        self._max_text = max_text

    async def snapshot(self, tab: Tab, element: Locator | None, wanted: str) -> Answer:
        """Return the outline of a page.

        Args:
            tab: The tab with the page.
            element: The element to outline; ``None`` for the whole page.
            wanted: A text to search for. If the text is not empty, only the lines that contain it
                and their parents are returned.
        """
        if element is not None:
            outline = await element.aria_snapshot(mode="ai", timeout=self._element_limit)
        elif await _find_body(tab).count():
            outline = await self._outline_page(tab)
        else:
            root = _find_root(tab)
            outline = ""
            if await root.count():
                outline = await root.aria_snapshot(mode="ai", timeout=_LIMIT)
        if wanted:
            matching = _filter_lines(outline, wanted)
            outline = matching or f"The outline does not contain {wanted!r}."
        hint = "Pass selector to read one part, or text to search for."
        return self.cut(outline or "The page is empty.", hint)

    async def _outline_page(self, tab: Tab) -> str:
        # A frame whose URL cannot be loaded never responds.
        has_silent_frame = not all(frame.url.startswith("http") for frame in tab.page.frames)
        limit = self._element_limit if has_silent_frame else _LIMIT
        try:
            return await tab.page.aria_snapshot(mode="ai", timeout=limit)
        except TimeoutError:
            if not has_silent_frame:
                raise
        outline = await tab.page.aria_snapshot(timeout=_LIMIT)
        return (
            f"[Without references, because frames in the page do not respond. Use CSS.]\n{outline}"
        )

    async def text(self, tab: Tab, element: Locator | None) -> Answer:
        """Return the visible text of an element, or of the page."""
        if element is not None:
            text = await element.first.inner_text(timeout=self._element_limit)
            answer = self.cut(text, _PART_HINT)
            count = await element.count()
            if count > 1:
                answer["text"] += f"\n[the first of {count} elements that match]"
            return answer
        if await _find_body(tab).count():
            text = await _find_body(tab).first.inner_text(timeout=_LIMIT)
        else:
            text = " ".join(await _find_root(tab).all_text_contents())
        if not text:
            text = "The page has no text."
            if len(tab.page.frames) > 1:
                text += " A snapshot shows the content of frames."
        return self.cut(text, _PART_HINT)

    async def screenshot(
        self, tab: Tab, element: Locator | None, kind: Literal["jpeg", "png"], *, full: bool
    ) -> Answer:
        """Take a screenshot of an element, the viewport or the full page.

        Raises:
            ActionError: The screenshot is too large.
        """
        note = ""
        if element is not None:
            blob = await element.screenshot(type=kind, timeout=self._element_limit)
        elif full:
            width, height = await tab.size()
            if max(width, height) > MAX_SIDE:
                note = (
                    f"The page has {width:,} x {height:,} pixels; the first {MAX_SIDE:,} are in the"
                    " picture."
                )
            clip: Any = {
                "x": 0,
                "y": 0,
                "width": min(width, MAX_SIDE),
                "height": min(height, MAX_SIDE),
            }
            blob = await tab.page.screenshot(type=kind, full_page=True, clip=clip, timeout=_LIMIT)
        else:
            blob = await tab.page.screenshot(type=kind, timeout=_LIMIT)
        if len(blob) > MAX_SCREENSHOT:
            site = format_site(tab.page.url)
            raise ActionError(
                "E_TOO_LARGE",
                f"The screenshot of {site} is larger than {MAX_SCREENSHOT // 1_000_000} MB.",
                "Pass selector to take a screenshot of one part, or omit full.",
            )
        return {"text": note, "blob": blob, "kind": kind}

    def cut(self, text: str, hint: str) -> Answer:
        """Return an answer with a text, which is truncated if it is too long."""
        rest = len(text) - self._max_text
        if rest > 0:
            shown = text[: self._max_text]
            text = f"{shown}\n[cut: {rest:,} characters more. {hint}]"
        return {"text": text}


def _find_body(tab: Tab) -> Locator:
    return tab.page.locator("body, frameset")


def _find_root(tab: Tab) -> Locator:
    """Return the root element of a page without a body, such as an SVG image.

    A script may remove the root with ``document.open``.
    """
    return tab.page.locator(":root")


def _filter_lines(outline: str, wanted: str) -> str:
    """Return the lines of an outline that contain a given text, with their parents."""
    kept: dict[int, str] = {}
    parents: list[tuple[int, int, str]] = []  # line number, depth and text
    for number, line in enumerate(outline.split("\n")):
        depth = len(line) - len(line.lstrip())
        parents = [parent for parent in parents if parent[1] < depth]
        parents.append((number, depth, line))
        if wanted.lower() in line.lower():
            kept |= {at: text for at, _, text in parents}
    return "\n".join(kept[number] for number in sorted(kept))
