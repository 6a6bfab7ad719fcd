"""Gathers what the user is looking at, once per prompt: open files, cursor, lints, terminal, recent
edits, search results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hilum import hookimpl

from hilum_context.half import Context
from hilum_context.settings import ContextSettings

if TYPE_CHECKING:
    from hilum import Session

    from hilum_context.state import (
        Cursor,
        Diagnostic,
        OpenFile,
        RecentEdit,
        Selection,
        WorkspaceState,
        load_state,
        read_state,
        to_state,
    )

__all__ = [
    "Context",
    "ContextSettings",
    "Cursor",
    "Diagnostic",
    "OpenFile",
    "RecentEdit",
    "Selection",
    "WorkspaceState",
    "load_state",
    "open_session",
    "read_state",
    "to_state",
]


def __getattr__(name: str) -> Any:
    """Return what is public in ``hilum_context.state``, which is loaded with the first prompt."""
    if name in __all__:
        from hilum_context import state

        return getattr(state, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@hookimpl
def open_session(session: Session) -> Context:
    """Return the half; nothing of it needs closing."""
    return Context(session, session.settings(ContextSettings))
