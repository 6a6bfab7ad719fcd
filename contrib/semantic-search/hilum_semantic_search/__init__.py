"""Finds code and text in the workspace by a description of what they do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

import attrs
import trio
from hilum import Tool, hookimpl

from hilum_semantic_search.session_index import SessionIndex
from hilum_semantic_search.settings import SemanticSearchSettings
from hilum_semantic_search.tool import semantic_search

if TYPE_CHECKING:
    from hilum import Session

__all__ = [
    "SemanticSearchSettings",
    "SessionIndex",
    "open_session",
    "provide_tools",
    "semantic_search",
]

REPLY_SECONDS = 30.0
"""Seconds that a call may take beyond its wait for the index."""


@hookimpl
def provide_tools(session: Session) -> Sequence[Tool]:
    """Return the tool, with the time limit from this session's settings."""
    settings = session.settings(SemanticSearchSettings)
    return (
        attrs.evolve(
            semantic_search,
            timeout=settings.wait + REPLY_SECONDS,
            deferred=settings.deferred,
        ),
    )


@hookimpl
async def open_session(session: Session) -> AsyncIterator[SessionIndex]:
    """Open the index, which is read only when it is needed."""
    index: SessionIndex | None = None
    try:
        async with trio.open_nursery() as nursery:
            index = SessionIndex(session, nursery)
            nursery.start_soon(index.run_background)
            yield index
            nursery.cancel_scope.cancel()
    finally:
        if index is not None:
            # Closing connections takes no time, and happens even if the session is cancelled.
            with trio.CancelScope(shield=True):
                await index.aclose()
