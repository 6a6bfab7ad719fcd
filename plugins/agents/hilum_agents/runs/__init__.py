"""Agents that run side by side: started, queued, watched, stopped, and every result kept."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from hilum import hookimpl

from hilum_agents.runs.half import Runs, live
from hilum_agents.runs.results import tell
from hilum_agents.runs.settings import SchedulerSettings

if TYPE_CHECKING:
    from hilum import Session

__all__ = ["Runs", "SchedulerSettings", "open_session", "tell"]

# What the instance of a session implements: without it no call runs.
gates = ("on_tool_call",)


@hookimpl
async def open_session(session: Session) -> AsyncIterator[Runs]:
    """Yield the half that runs agents."""
    async with live(session) as agents:
        yield agents
