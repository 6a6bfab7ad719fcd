"""The tool ``web_fetch``: a page as text that a model can read, piece by piece."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from urllib.parse import unquote, urldefrag

import msgspec
import trio
from hilum import Output, Session, ToolError, errors, tool

from hilum_web.failures import site
from hilum_web.reader.unseen import line

if TYPE_CHECKING:
    from hilum_web.converting import Reader, Text
    from hilum_web.fetching import Page
    from hilum_web.settings import WebSettings

HTML = ("text/html", "application/xhtml+xml")
# Beside text/*: kinds that are text, whatever they are called.
TEXTS = (
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
PDF = "application/pdf"


@tool(risk="network", effect="idempotent", timeout=120)
async def web_fetch(
    session: Session, url: str, start: Annotated[int, msgspec.Meta(ge=0)] = 0
) -> Output:
    """Read a public web page or JSON document as text. Long pages come in parts.

    Args:
        url: http or https; #name starts at that place.
        start: Character to start at, as the part before names it.
    """
    from hilum_web.half import Web

    web = session.half(Web)
    if web is None:
        raise ToolError("The plugin hilum-web is not open in this session.", code=errors.E_PLUGIN)
    from hilum_web.converting import open_reader

    fragment = unquote(urldefrag(url)[1])
    async with open_reader(session.processes) as reader:
        page = await web.fetcher.fetch(url, on=start > 0, asking=reader.start)
        made = await _text(reader, page, fragment, start, web.settings)
    return _shown(page, made, fragment, start, web.settings.limit)


def _shown(page: Page, made: Text, fragment: str, start: int, limit: int) -> Output:
    """Return a part of a page."""
    text = made.text
    start = start or max(made.at, 0)
    if start and start >= len(text):
        raise ToolError(
            f"The page of {site(page.url)} has {len(text):,} characters; there is nothing at"
            f" {start:,}.",
            code=errors.E_BAD_ARGS,
            hint="Begin with start 0.",
        )
    end = start + limit
    part = text[start:end]
    more = end < len(text) or not made.whole
    if (
        more
        and (border := max(part.rfind("\n\n"), part.rfind("\n") if len(part) < 2_000 else -1))
        > limit // 2
    ):
        part = part[:border]
        end = start + border
    head = f"{made.title}\n{page.url}" if made.title else page.url
    size = f" of {len(text):,}" if made.whole else ""
    if not start and not more:
        span = ""
    else:
        span = f"\nCharacters {start:,} to {start + len(part):,}{size}."
    tail = f"\n\n[The page goes on: read the rest with start={end}.]" if more else ""
    if fragment and made.at < 0 and not start:
        missing = f"\nThere is no part {fragment!r} on it."
    else:
        missing = ""
    if page.changed and start:
        missing += (
            "\nThe page has changed since its beginning was read: where this does not fit, begin"
            " with start=0."
        )
    if not text.strip():
        part = (
            "[The page holds no text. It may be made by scripts: try the browser, or another"
            " source.]"
        )
    data = {
        "url": page.url,
        "title": made.title,
        "start": start,
        "end": start + len(part),
        "more": more,
        "type": line(page.content_type, 200),
    }
    return Output(f"{head}{span}{missing}\n\n{part.strip()}{tail}", data=data)


async def _text(
    reader: Reader, page: Page, fragment: str, start: int, settings: WebSettings
) -> Text:
    """Create a page readable, as far as it is needed."""
    from hilum_web.converting import Text, readable

    kind = page.content_type.partition(";")[0].strip().lower()
    if kind in HTML or (
        not kind and page.body[:512].lstrip().lower().startswith((b"<!doctype html", b"<html"))
    ):
        return await readable(
            reader, page, "html", fragment, start, settings.limit, settings.timeout
        )
    if kind == PDF or page.body.startswith(b"%PDF-"):
        from importlib.util import find_spec

        if find_spec("pypdf") is None:
            hint = "The user can install it: pip install 'hilum-web[pdf]'."
            message = f"{site(page.url)} sent a PDF, and what reads PDFs is not installed."
            raise ToolError(message, code=errors.E_NOT_INSTALLED, hint=hint)
        return await readable(reader, page, "pdf", "", start, settings.limit, settings.timeout)
    if (
        kind.startswith("text/")
        or kind in TEXTS
        or kind.endswith(("+json", "+xml"))
        or (not kind and b"\0" not in page.body[:4096])
    ):
        if "" not in page.read:
            page.read[""] = Text(await trio.to_thread.run_sync(_plain, page, kind), whole=True)
        return page.read[""]
    if kind.startswith("image/"):
        hint = "Look at it in the browser."
    else:
        hint = "Download it with a command, if it is needed."
    said = line(kind, 80) or "something"
    raise ToolError(
        f"{site(page.url)} sent {said}, which is no text.", code=errors.E_CONTENT, hint=hint
    )


def _plain(page: Page, kind: str) -> str:
    from hilum_web.reader.charsets import decode
    from hilum_web.reader.unseen import visible

    text = visible(decode(page.body, page.content_type))
    if kind.endswith("json") and "\n" not in text[:2_000] and len(text) < 5_000_000:
        try:
            return msgspec.json.format(
                text.encode(), indent=1
            ).decode()  # one long line is hard to read on in
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            pass
    return text
