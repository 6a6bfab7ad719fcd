"""The tool ``web_fetch``: a page as text that a model can read, piece by piece."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from urllib.parse import unquote, urldefrag

import msgspec
import trio
from hilum import Output, Session, ToolError, errors, tool

from hilum_web.body import decode
from hilum_web.failures import site

if TYPE_CHECKING:
    from hilum_web.fetching import Page
    from hilum_web.markdown import Markdown

HTML = ("text/html", "application/xhtml+xml")
# Beside text/*: kinds that are text, whatever they are called.
TEXTS = (
    "application/json", "application/ld+json", "application/xml", "application/rss+xml", "application/atom+xml",
    "application/javascript", "application/x-javascript", "application/ecmascript", "application/x-yaml", "application/yaml",
    "application/toml", "application/x-sh", "application/x-ndjson", "application/sql", "application/graphql", "image/svg+xml",
)  # fmt: skip
FIND = 2_000_000
PDF = "application/pdf"


@tool(risk="network", effect="idempotent", timeout=120)
async def web_fetch(session: Session, url: str, start: Annotated[int, msgspec.Meta(ge=0)] = 0) -> Output:
    """Read a page of the public web as text: documentation, API references, articles, JSON. No logins, no private networks.

    Long pages come in parts: ask again with the start that the result names. With #name in the url you read from that place on.

    Args:
        url: Address that begins with http:// or https://.
        start: Character at which to read on.
    """
    from hilum_web.half import Web

    web = session.half(Web)
    if web is None:
        raise ToolError("The plugin hilum-web is not open in this session.", code=errors.E_PLUGIN)
    page = await web.fetcher.fetch(url)
    fragment = unquote(urldefrag(url)[1])
    return await trio.to_thread.run_sync(_shown, page, fragment, start, web.settings.limit)


def _shown(page: Page, fragment: str, start: int, limit: int) -> Output:
    """Make a part of a page readable. Blocks: for a thread."""
    text, title, at, whole = _text(page, fragment, start, limit)
    start = start or max(at, 0)
    if start and start >= len(text):
        size = f"{len(text):,} characters" if whole else "fewer characters"
        raise ToolError(
            f"The page has {size}; there is nothing at {start:,}.", code=errors.E_BAD_ARGS, hint="Begin with start 0."
        )
    end = start + limit
    part, more = text[start:end], end < len(text) or not whole
    if more and (border := max(part.rfind("\n\n"), part.rfind("\n") if len(part) < 2_000 else -1)) > limit // 2:
        part, end = part[:border], start + border
    head = f"{title}\n{page.url}" if title else page.url
    size = f" of {len(text):,}" if whole else ""
    span = "" if not start and not more else f"\nCharacters {start:,} to {start + len(part):,}{size}."
    tail = f"\n\n[The page goes on: read the rest with start={end}.]" if more else ""
    missing = f"\nThere is no part {fragment!r} on it." if fragment and at < 0 and not start else ""
    if not text.strip():
        part = "[The page holds no text. It may be made by scripts: try the browser, or another source.]"
    data = {
        "url": page.url,
        "title": title,
        "start": start,
        "end": start + len(part),
        "more": more,
        "type": page.content_type,
    }
    return Output(f"{head}{span}{missing}\n\n{part.strip()}{tail}", data=data)


def _text(page: Page, fragment: str, start: int, limit: int) -> tuple[str, str, int, bool]:
    """Give the text as far as it is needed, the title, where the fragment is (-1: nowhere), whether that is all."""
    kind = page.content_type.partition(";")[0].strip().lower()
    if kind in HTML or (not kind and page.body[:512].lstrip().lower().startswith((b"<!doctype html", b"<html"))):
        from hilum_web.markdown import Markdown

        known = page.read if isinstance(page.read, dict) else {}
        page.read = known
        reader: Markdown = known.get(fragment) or Markdown(decode(page.body, page.content_type), page.url, fragment)
        known[fragment] = reader
        if fragment:
            reader.find(FIND)
        text = reader.upto((start or max(reader.at, 0)) + limit + 1)
        return text, reader.title, reader.at, reader.ended
    if kind == PDF or page.body.startswith(b"%PDF-"):
        if not isinstance(page.read, str):
            page.read = _pdf(page)
        return page.read, "", -1, True
    if (
        kind.startswith("text/")
        or kind in TEXTS
        or kind.endswith(("+json", "+xml"))
        or (not kind and b"\0" not in page.body[:4096])
    ):
        if not isinstance(page.read, str):
            page.read = _plain(page, kind)
        return page.read, "", -1, True
    hint = "Look at it in the browser." if kind.startswith("image/") else "Download it with a command, if it is needed."
    raise ToolError(f"{site(page.url)} sent {kind or 'something'}, which is no text.", code=errors.E_CONTENT, hint=hint)


def _plain(page: Page, kind: str) -> str:
    text = decode(page.body, page.content_type).replace("\r\n", "\n")
    if kind.endswith("json") and "\n" not in text[:2_000]:
        try:
            return msgspec.json.format(text.encode(), indent=1).decode()  # one long line is hard to read on in
        except (msgspec.DecodeError, UnicodeError):
            pass
    return text


def _pdf(page: Page) -> str:
    try:
        import pypdf
    except ImportError:
        hint = "The user can install it: pip install 'hilum-web[pdf]'."
        message = f"{site(page.url)} sent a PDF, and what reads PDFs is not installed."
        raise ToolError(message, code=errors.E_NOT_INSTALLED, hint=hint) from None
    import io

    try:
        reader = pypdf.PdfReader(io.BytesIO(page.body))
        if reader.is_encrypted and not reader.decrypt(""):
            raise ToolError(f"The PDF of {site(page.url)} needs a password.", code=errors.E_CONTENT)
        parts = [f"[Page {number}]\n{each.extract_text()}" for number, each in enumerate(reader.pages, 1)]
    except ToolError:
        raise
    except Exception as error:  # a damaged file raises nearly anything
        message = f"The PDF of {site(page.url)} cannot be read: {error or type(error).__name__}."
        raise ToolError(message, code=errors.E_CONTENT, hint="Use another source.") from None
    return "\n\n".join(parts)
