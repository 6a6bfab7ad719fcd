"""The tools ``web_search`` and ``web_fetch``."""

from __future__ import annotations

from typing import Annotated

import msgspec
from hilum import Output, Session, tool

from hilum_web.session_plugin import Web

Query = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
Offset = Annotated[int, msgspec.Meta(ge=0)]


@tool(risk="network", effect="pure", timeout=60)
async def web_search(session: Session, query: Query) -> Output:
    """Search the web for current documentation or the cause of an error.

    Returns titles, URLs and extracts.

    Args:
        query: Search terms, with versions and the year if they matter.
    """
    searcher = Web.of(session).searcher
    words = " ".join(query.split())  # so that the cache recognizes a repeated search
    found, by = await searcher.search(session.processes, words)
    data = {"results": [msgspec.to_builtins(each) for each in found], "by": by}
    if not found:
        return Output(f"{by} found nothing for {query!r}. Try fewer or different words.", data=data)
    noun = "result" if len(found) == 1 else "results"
    lines = [f"{len(found)} {noun} of {by}:", ""]
    for number, each in enumerate(found, 1):
        lines.append(f"{number}. {each.title}")
        lines.append(f"   {each.url}")
        if each.snippet:
            lines.append(f"   {each.snippet}")
    return Output("\n".join(lines), data=data)


@tool(risk="network", effect="idempotent", timeout=120)
async def web_fetch(session: Session, url: str, start: Offset = 0) -> Output:
    """Read a public web page or JSON document as text. Long pages come in parts.

    Args:
        url: An http or https URL; with #name, the text starts at that element.
        start: Character to start at, as stated at the end of the previous part.
    """
    return await Web.of(session).pages.read(session.processes, url, start)
