"""Long conversations that fit the model's window, and memory across sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hilum import hookimpl, hookspec

from hilum_memory.settings import MemorySettings
from hilum_memory.trimming import Trimming

if TYPE_CHECKING:
    from hilum import Agent, Session

__all__ = ["MemorySettings", "Trimming", "keep_on_trim", "open_session"]


@hookspec(shape="gather", deadline=5.0, fault="left out", gives=str)
async def keep_on_trim(agent: Agent) -> str | None:
    """Return text that must stand after a trim as it is: bodies of active skills, open todo items.

    It follows the summary.
    """


@hookimpl
def open_session(session: Session) -> Trimming:
    """Return the session's half."""
    return Trimming(session, session.settings(MemorySettings))
