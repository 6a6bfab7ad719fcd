"""Searches what stands in files and what files are called, with ripgrep where there is one and
without it elsewhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import trio
from hilum import Tool, hookimpl

from hilum_search.content import SLACK, SearchSettings, search_files
from hilum_search.names import Paths, find_paths, glob_search
from hilum_search.running import ripgrep

if TYPE_CHECKING:
    from hilum import Session

    from hilum_search.mentions import Mention, find_mentions

__all__ = [
    "Mention",
    "SearchSettings",
    "find_mentions",
    "find_paths",
    "glob_search",
    "open_session",
    "provide_tools",
    "ripgrep",
    "search_files",
]


def __getattr__(name: str) -> Any:
    """Return what is public in ``hilum_search.mentions``, which is loaded when it is asked for."""
    if name in ("Mention", "find_mentions"):
        from hilum_search import mentions

        return getattr(mentions, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@hookimpl
def provide_tools(session: Session) -> Sequence[Tool]:
    """Return both tools, with the time limit of this session's settings."""
    limit = session.settings(SearchSettings).timeout + SLACK
    return (attrs.evolve(search_files, timeout=limit), attrs.evolve(glob_search, timeout=limit))


@hookimpl
async def open_session(session: Session) -> AsyncIterator[Paths]:
    """Keep the paths of the workspace for ``find_paths``.

    Nothing is listed before it is asked for.
    """
    async with trio.open_nursery() as nursery:
        yield Paths(session, nursery)
        nursery.cancel_scope.cancel()
