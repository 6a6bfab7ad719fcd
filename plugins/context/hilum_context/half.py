"""The half of a session: the hooks. What does the work is loaded with the first prompt."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import trio
from hilum import Agent, Block, ContextRequest, Tool, UsageError, hookimpl
from hilum.events import ErrorRaised, PluginEvent

from hilum_context.settings import ContextSettings

if TYPE_CHECKING:
    from hilum import Session

GATHERED = "context.gathered"
SMALLEST = 100
"""Tokens below which nothing is worth looking for."""


class Context:
    """See the module.

    Args:
        session: The session.
        settings: The settings.
    """

    def __init__(self, session: Session, settings: ContextSettings) -> None:
        self.session = session
        self.settings = settings

    @hookimpl
    def provide_tools(self) -> Sequence[Tool]:
        """Return no tool.

        This is asked when all halves are open, so here the errors of linters are taken over.
        """
        from hilum_lint import Lint

        lint = self.session.half(Lint)
        if lint:
            lint.told_by = "context"
        return ()

    @hookimpl
    async def gather_context(self, agent: Agent, request: ContextRequest) -> Sequence[Block]:
        """Gather what the user is looking at, and write down what came of it."""
        if request.budget < SMALLEST:
            return ()
        if (
            "hilum_context.gathering" not in sys.modules
        ):  # with the first prompt, and not in the loop's way
            await trio.to_thread.run_sync(import_module, "hilum_context.gathering")
        from hilum_context.gathering import gather
        from hilum_context.state import WorkspaceState, to_state

        state = WorkspaceState()
        try:
            state = await trio.to_thread.run_sync(to_state, request.state)  # it may hold long texts
        except UsageError as error:  # a face's mistake must not cost the user the run
            self.session.emit(
                ErrorRaised(code=error.code, message=error.message, hint=error.hint),
                agent,
                agent.starting,
            )
        from hilum_files import Changes

        gathered = await gather(agent, request, state, self.settings)
        if gathered.whole and (changes := self.session.half(Changes)):
            changes.shown(agent, gathered.whole)
        if gathered.data["blocks"] or "say" in gathered.data or gathered.data["left_out"]:
            self.session.emit(PluginEvent(name=GATHERED, data=gathered.data), agent, agent.starting)
        return gathered.blocks
