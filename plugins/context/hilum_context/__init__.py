"""Gathers context about the user's current work, once per prompt.

The sources are open files, the cursor, linters, the terminal, recent edits and search results.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import trio
from hilum import hookimpl

from hilum_context.session_context import SessionContext
from hilum_context.settings import ContextSettings

if TYPE_CHECKING:
    from hilum import Session

    from hilum_context.state import (
        Cursor,
        EditorDiagnostic,
        OpenFile,
        RecentEdit,
        Selection,
        WorkspaceState,
        load_state,
        read_state,
        to_state,
    )

__all__ = [
    "ContextSettings",
    "Cursor",
    "EditorDiagnostic",
    "OpenFile",
    "RecentEdit",
    "Selection",
    "SessionContext",
    "WorkspaceState",
    "load_state",
    "open_session",
    "read_state",
    "to_state",
]


def __getattr__(name: str) -> Any:
    """Return a name from ``hilum_context.state``, which is imported with the first prompt."""
    if name in __all__:
        from hilum_context import state

        return getattr(state, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@hookimpl
async def open_session(session: Session) -> AsyncIterator[SessionContext]:
    """Open the session plugin; if a prompt follows at once, begin to gather its context."""
    async with trio.open_nursery() as nursery:
        context = SessionContext(session, session.settings(ContextSettings), nursery)
        if session.kernel.expects_prompt:
            await context.read_status_early()
        yield context
        nursery.cancel_scope.cancel()
