"""Searches the content and the names of files with ripgrep."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import trio
from hilum import Tool, hookimpl

from hilum_search.content_search import search_files
from hilum_search.name_search import glob_search
from hilum_search.path_index import PathIndex, find_paths
from hilum_search.ripgrep import list_files, workspace_scope
from hilum_search.settings import SearchSettings
from hilum_search.targets import show
from hilum_search.withholding import withheld_files

if TYPE_CHECKING:
    from hilum import Session

    from hilum_search.mentions import Mention, find_mentions

__all__ = [
    "Mention",
    "SearchSettings",
    "find_mentions",
    "find_paths",
    "glob_search",
    "list_files",
    "open_session",
    "provide_tools",
    "search_files",
    "show",
    "withheld_files",
    "workspace_scope",
]

REPLY_SECONDS = 10.0
"""Seconds that the kernel waits beyond the tools' time limit, so that they can return the results
so far."""


def __getattr__(name: str) -> Any:
    """Return a public name from ``hilum_search.mentions``, which is imported at first use."""
    if name in ("Mention", "find_mentions"):
        from hilum_search import mentions

        return getattr(mentions, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@hookimpl
def provide_tools(session: Session) -> Sequence[Tool]:
    """Return both tools, with the time limit from this session's settings."""
    limit = session.settings(SearchSettings).timeout + REPLY_SECONDS
    return (attrs.evolve(search_files, timeout=limit), attrs.evolve(glob_search, timeout=limit))


@hookimpl
async def open_session(session: Session) -> AsyncIterator[PathIndex]:
    """Open the index for ``find_paths``; no paths are listed before its first query."""
    # What the first search needs.
    session.import_later("sysconfig")
    async with trio.open_nursery() as nursery:
        yield PathIndex(session, nursery)
        nursery.cancel_scope.cancel()
