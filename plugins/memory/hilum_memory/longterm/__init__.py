"""Long-term memory, which recalls information from earlier sessions.

Memories belong to a workspace or to the user. This plugin is separate from compaction, so that
either can fail or be disabled independently.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import trio
from hilum import hookimpl

from hilum_memory.longterm import lazy
from hilum_memory.longterm.memory import Memory, WriteResult
from hilum_memory.longterm.session_memory import LongTermMemory
from hilum_memory.longterm.settings import LongTermSettings

if TYPE_CHECKING:
    from hilum import Session

    from hilum_memory.longterm.memories import Memories

__all__ = [
    "LongTermMemory",
    "LongTermSettings",
    "Memories",
    "Memory",
    "WriteResult",
    "open_session",
]

# Seconds that a closing session waits for learning to finish.
CLOSE_TIMEOUT = 3.0


def __getattr__(name: str) -> Any:
    """Return ``Memories``, whose module imports SQLite, on first use."""
    if name == "Memories":
        return lazy.memories.Memories
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@hookimpl
async def open_session(session: Session) -> AsyncIterator[LongTermMemory]:
    """Yield the session plugin for long-term memory while the session is open.

    Learning that does not end soon after the session closes is cancelled.
    """
    # There are two nurseries: learning may continue for a moment after the session closes, but the
    # endless task that follows the session's events must be cancelled.
    async with trio.open_nursery() as watcher:
        async with trio.open_nursery() as jobs:
            memory = LongTermMemory(session, jobs, session.settings(LongTermSettings))
            watcher.start_soon(memory.watch)
            yield memory
            # The last run may have ended since the watcher last ran.
            memory.catch_up()
            jobs.cancel_scope.deadline = trio.current_time() + CLOSE_TIMEOUT
        if jobs.cancel_scope.cancelled_caught:
            memory.report_interruption()
        watcher.cancel_scope.cancel()
