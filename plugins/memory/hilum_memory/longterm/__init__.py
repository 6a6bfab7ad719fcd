"""Long-term memory: what was learned in a session is recalled in later ones of the same workspace,
or of the same user.

A plugin of its own beside trimming, so that each can fail, and be left out, alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import trio
from hilum import hookimpl

from hilum_memory.longterm.half import LongTerm
from hilum_memory.longterm.memory import Memory, Written
from hilum_memory.longterm.settings import LongTermSettings

if TYPE_CHECKING:
    from hilum import Session

    from hilum_memory.longterm.memories import Memories

__all__ = ["LongTerm", "LongTermSettings", "Memories", "Memory", "Written", "open_session"]

PATIENCE = 3.0
"""Seconds for which a session that closes waits for what is still being looked for."""


def __getattr__(name: str) -> Any:
    """Return what loads SQLite, with its first use."""
    if name == "Memories":
        return import_module("hilum_memory.longterm.memories").Memories
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@hookimpl
async def open_session(session: Session) -> AsyncIterator[LongTerm]:
    """Recall and remember as long as the session is open.

    What is not found soon after it closes is given up.
    """
    async with trio.open_nursery() as watcher:
        async with trio.open_nursery() as jobs:
            half = LongTerm(session, jobs, session.settings(LongTermSettings))
            watcher.start_soon(half.watch)
            yield half
            half.catch_up()
            jobs.cancel_scope.deadline = trio.current_time() + PATIENCE
        if jobs.cancel_scope.cancelled_caught:
            half.abandoned()
        watcher.cancel_scope.cancel()
