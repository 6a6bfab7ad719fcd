"""Compaction of long conversations, and memory across sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hilum import hookimpl, hookspec

from hilum_memory.compactor import Compactor
from hilum_memory.settings import MemorySettings

if TYPE_CHECKING:
    from hilum import Agent, Session

__all__ = ["Compactor", "MemorySettings", "keep_on_compaction", "open_session"]


@hookspec(shape="gather", deadline=5.0, on_failure="left out", returns=str)
async def keep_on_compaction(agent: Agent) -> str | None:
    """Return text that must survive a compaction unchanged, such as active skills or todo items.

    It follows the summary.
    """


@hookimpl
def open_session(session: Session) -> Compactor:
    """Return the session plugin."""
    return Compactor(session, session.settings(MemorySettings))
