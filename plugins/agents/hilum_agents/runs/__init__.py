"""Runs agents concurrently: starts, queues, monitors and stops them, and stores their results."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from hilum import Session, Tool, hookimpl

from hilum_agents.runs.results import tell
from hilum_agents.runs.runs import Runs, open_runs
from hilum_agents.runs.settings import SchedulerSettings
from hilum_agents.runs.tools import get_agent_result, handover, task

__all__ = ["Runs", "SchedulerSettings", "open_session", "provide_tools", "tell"]

# Hooks that gate tool calls: if a session's plugin instance has failed, no tool call runs.
gates = ("on_tool_call",)


@hookimpl
async def open_session(session: Session) -> AsyncIterator[Runs]:
    """Yield the plugin instance that runs agents."""
    async with open_runs(session) as runs:
        yield runs


@hookimpl
def provide_tools() -> Sequence[Tool]:
    """Return the tools with which agents start other agents."""
    return (task, handover, get_agent_result)
