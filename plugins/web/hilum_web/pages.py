"""Reads pages as text for a model, part by part, to implement ``web_fetch``."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import unquote, urldefrag

import msgspec
import trio
from hilum import Output, ToolError, errors

from hilum_web.fetching import Fetcher, Page
from hilum_web.messages import format_site
from hilum_web.reader.charsets import decode
from hilum_web.reader.visible_text import remove_invisible, to_line
from hilum_web.reader_process import PageText, ReaderProcess, convert_page, open_reader

if TYPE_CHECKING:
    from hilum import Processes

    from hilum_web.settings import WebSettings

HTML_TYPES = ("text/html", "application/xhtml+xml")
# Content types other than text/* that are text.
TEXT_TYPES = (
    "application/json",
    "application/ld+json",
    "application/xml",
    "application/rss+xml",
    "application/atom+xml",
    "application/javascript",
    "application/x-javascript",
    "application/ecmascript",
    "application/x-yaml",
    "application/yaml",
    "application/toml",
    "application/x-sh",
    "application/x-ndjson",
    "application/sql",
    "application/graphql",
    "image/svg+xml",
)
PDF_TYPE = "application/pdf"
# Only a part that is shorter than this may end at any line; a longer one ends at a paragraph.
MIN_LINE_CUT = 2_000
MAX_FORMATTED_JSON = 5_000_000
_CHANGED_NOTE = (
    "The page has changed since its beginning was read: if the parts do not match, begin with "
    "start=0."
)
_EMPTY_NOTE = "[The page has no text. It may need scripts: try the browser, or another source.]"


class Pages:
    """A reader of pages for one session.

    Args:
        settings: The limits, and the allowed hosts outside the public network.
    """

    def __init__(self, settings: WebSettings) -> None:
        self._settings = settings
        self._fetcher = Fetcher(settings)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._fetcher.aclose()

    async def read(self, processes: Processes, url: str, start: int) -> Output:
        """Fetch a page and return a part of its text.

        Args:
            processes: The session's processes.
            url: The URL; a fragment is the ID of the element to begin at.
            start: The offset to begin at; 0 means the fragment or, without one, the beginning.

        Raises:
            ToolError: The page cannot be fetched or read.
        """
        # Fragments of URLs are percent-encoded, but element IDs are not.
        fragment = unquote(urldefrag(url)[1])
        async with open_reader(processes) as reader:
            page = await self._fetcher.fetch(url, continued=start > 0, before_request=reader.start)
            text = await self._convert(reader, page, fragment, start)
        return _show_part(page, text, fragment, start, self._settings.limit)

    async def _convert(
        self, reader: ReaderProcess, page: Page, fragment: str, start: int
    ) -> PageText:
        """Return the text of a page, according to its content type."""
        settings = self._settings
        kind = page.content_type.partition(";")[0].strip().lower()
        if _is_html(page, kind):
            return await convert_page(
                reader, page, "html", fragment, start, settings.limit, settings.timeout
            )
        if kind == PDF_TYPE or page.body.startswith(b"%PDF-"):
            # pypdf is not imported here, because only the reader's process needs it.
            if find_spec("pypdf") is None:
                raise ToolError(
                    f"{format_site(page.url)} sent a PDF, and pypdf is not installed.",
                    code=errors.E_NOT_INSTALLED,
                    hint="The user can install it: pip install 'hilum[web]'.",
                )
            return await convert_page(
                reader, page, "pdf", "", start, settings.limit, settings.timeout
            )
        if _is_text(page, kind):
            if "" not in page.texts:
                # The text is decoded in a thread, because decoding a large text takes a while.
                text = await trio.to_thread.run_sync(_decode_text, page, kind)
                page.texts[""] = PageText(text, complete=True)
            return page.texts[""]
        if kind.startswith("image/"):
            hint = "Open the image in the browser."
        else:
            hint = "Download the file with a command if you need it."
        shown = to_line(kind, 80) or "something"
        raise ToolError(
            f"{format_site(page.url)} sent {shown}, which is not text.",
            code=errors.E_CONTENT,
            hint=hint,
        )


def _is_html(page: Page, kind: str) -> bool:
    # Servers that do not know the type of a file send no content type. Any declared type is
    # trusted.
    if kind:
        return kind in HTML_TYPES
    head = page.body[:512].lstrip().lower()
    return head.startswith((b"<!doctype html", b"<html"))


def _is_text(page: Page, kind: str) -> bool:
    if kind:
        return kind.startswith("text/") or kind in TEXT_TYPES or kind.endswith(("+json", "+xml"))
    return b"\0" not in page.body[:4096]


def _decode_text(page: Page, kind: str) -> str:
    text = remove_invisible(decode(page.body, page.content_type))
    is_one_line = "\n" not in text[:2_000]  # a part of one long line is hard to read
    if kind.endswith("json") and is_one_line and len(text) < MAX_FORMATTED_JSON:
        try:
            return msgspec.json.format(text.encode(), indent=1).decode()
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            pass
    return text


def _show_part(page: Page, text: PageText, fragment: str, start: int, limit: int) -> Output:
    size = len(text.text)
    start = text.begin(start)
    if start and start >= size:
        raise ToolError(
            f"The page from {format_site(page.url)} has {size:,} characters; there is nothing at "
            f"{start:,}.",
            code=errors.E_BAD_ARGS,
            hint="Begin with start 0.",
        )
    more = start + limit < size or not text.complete
    part = text.text[start : start + limit]
    if more:
        part = _cut_at_border(part, limit)
    end = start + len(part)
    head = list(filter(None, (text.title, page.url)))
    if start or more:
        total = f" of {size:,}" if text.complete else ""
        head.append(f"Characters {start:,} to {end:,}{total}.")
    head += _find_notes(page, text, fragment, start)
    shown = part.strip() or _EMPTY_NOTE
    paragraphs = ["\n".join(head), shown]
    if more:
        paragraphs.append(f"[The page continues: read the rest with start={end}.]")
    data = {
        "url": page.url,
        "title": text.title,
        "start": start,
        "end": end,
        "more": more,
        "type": to_line(page.content_type, 200),
    }
    return Output("\n\n".join(paragraphs), data=data)


def _find_notes(page: Page, text: PageText, fragment: str, start: int) -> list[str]:
    """Return notes about the page, which precede the text of a part."""
    if start and page.changed:
        return [_CHANGED_NOTE]
    if not start and fragment and text.at < 0:
        return [f"It has no element named {fragment!r}."]
    return []


def _cut_at_border(part: str, limit: int) -> str:
    """Cut a part at its last paragraph break, unless that would remove half of it.

    A short part may also be cut at its last newline.
    """
    border = part.rfind("\n\n")
    if len(part) < MIN_LINE_CUT:
        border = max(border, part.rfind("\n"))
    return part[:border] if border > limit // 2 else part
