"""Reading a page: its outline, its text, a picture of it.

Large pages take as long as they may, and are cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from .failures import Failed, site

if TYPE_CHECKING:
    from playwright.async_api import Locator

    from .tabs import Tab

READ = 15.0
"""Seconds for an outline, a text or a screenshot of a large page."""
MOST_PICTURE = 20_000_000
HIGHEST = 16_384
"""Pixels of a picture, each way; Chromium draws no more of a page at once, and repeats what it has
drawn.
"""


class Reading:
    """Reads pages.

    Args:
        seconds: How long to wait for an element.
        most: Characters of a text to give.
    """

    def __init__(self, seconds: float, most: int) -> None:
        self._patience = 1000 * seconds
        self._most = most

    async def snapshot(self, tab: Tab, element: Locator | None, wanted: str) -> dict[str, Any]:
        """Return the outline of a page.

        Args:
            tab: The page.
            element: What to leave out all others for.
            wanted: A text; only the lines that hold it are given, with those that they are in.
        """
        if element is not None:
            text = await element.aria_snapshot(mode="ai", timeout=self._patience)
        elif not await _body(tab).count():
            root = _root(tab)
            if await root.count():
                text = await root.aria_snapshot(mode="ai", timeout=1000 * READ)
            else:
                text = ""
        else:
            text = await self._outline(tab)
        if wanted and not (text := _holding(text, wanted)):
            text = f"Nothing in the outline holds {wanted!r}."
        hint = "Name a part of it with selector, or what to look for with text."
        return self.cut(text or "The page is empty.", hint)

    async def _outline(self, tab: Tab) -> str:
        from playwright.async_api import TimeoutError

        # One with an address that no page may have never answers.
        silent = not all(frame.url.startswith("http") for frame in tab.page.frames)
        try:
            return await tab.page.aria_snapshot(
                mode="ai", timeout=self._patience if silent else 1000 * READ
            )
        except TimeoutError:
            if not silent:
                raise
        outline = await tab.page.aria_snapshot(timeout=1000 * READ)
        return f"[Without references, as frames in the page do not answer. Use CSS.]\n{outline}"

    async def text(self, tab: Tab, element: Locator | None) -> dict[str, Any]:
        """Return the visible text of an element, or of the page."""
        if element is not None:
            answer = self.cut(await element.first.inner_text(timeout=self._patience), _PART)
            count = await element.count()
            if count > 1:
                answer["text"] += f"\n[the first of {count} elements that match]"
            return answer
        if await _body(tab).count():
            text = await _body(tab).first.inner_text(timeout=1000 * READ)
        else:
            text = " ".join(await _root(tab).all_text_contents())
        if not text:
            text = "No text is there." + (
                " A snapshot shows what frames hold." if len(tab.page.frames) > 1 else ""
            )
        return self.cut(text, _PART)

    async def picture(
        self, tab: Tab, element: Locator | None, kind: Literal["jpeg", "png"], *, whole: bool
    ) -> dict[str, Any]:
        """Return a picture of an element, of the window, or of the whole page.

        Raises:
            Failed: It is too large.
        """
        note = ""
        if element is not None:
            blob = await element.screenshot(type=kind, timeout=self._patience)
        elif whole:
            width, height = await tab.size()
            if max(width, height) > HIGHEST:
                note = (
                    f"The page has {width:,} x {height:,} pixels; the first {HIGHEST:,} are in the"
                    " picture."
                )
            clip: Any = {
                "x": 0,
                "y": 0,
                "width": min(width, HIGHEST),
                "height": min(height, HIGHEST),
            }
            blob = await tab.page.screenshot(
                type=kind, full_page=True, clip=clip, timeout=1000 * READ
            )
        else:
            blob = await tab.page.screenshot(type=kind, timeout=1000 * READ)
        if len(blob) > MOST_PICTURE:
            text = (
                f"The screenshot of {site(tab.page.url)} is larger than"
                f" {MOST_PICTURE // 1_000_000} MB."
            )
            raise Failed("E_TOO_LARGE", text, "Take it of a part, by selector, or without full.")
        return {"text": note, "blob": blob, "kind": kind}

    def cut(self, text: str, hint: str) -> dict[str, Any]:
        """Return as much of a text as is given at most, and say so."""
        if len(text) > self._most:
            text = (
                f"{text[: self._most]}\n[cut: {len(text) - self._most:,} characters more. {hint}]"
            )
        return {"text": text}


_PART = "Name a part of it with selector to read that alone."


def _body(tab: Tab) -> Locator:
    return tab.page.locator("body, frameset")


def _root(tab: Tab) -> Locator:
    """What is there without a body: an SVG or another XML document.

    Or nothing, after ``document.open()``.
    """
    return tab.page.locator(":root")


def _holding(outline: str, wanted: str) -> str:
    """Return the lines of an outline that hold a text, with those that they are in."""
    kept: dict[int, str] = {}
    above: list[tuple[int, int, str]] = []
    for number, line in enumerate(outline.split("\n")):
        depth = len(line) - len(line.lstrip())
        above = [each for each in above if each[1] < depth]
        above.append((number, depth, line))
        if wanted.lower() in line.lower():
            kept |= {at: text for at, _, text in above}
    return "\n".join(kept[at] for at in sorted(kept))
