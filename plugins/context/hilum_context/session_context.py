"""The hooks of a session; the modules that gather context are imported with the first prompt."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import trio
from hilum import (
    Agent,
    Block,
    ContentPolicy,
    ContextRequest,
    FileChanges,
    HilumError,
    PluginError,
    Tool,
    ToolResult,
    UsageError,
    errors,
    find_content_policy,
    hookimpl,
)
from hilum.events import ErrorRaised, PluginEvent
from hilum_lint import Lint

from hilum_context.settings import ContextSettings

if TYPE_CHECKING:
    from hilum import Session

    from hilum_context.git import GitStatusReader

GATHERED_EVENT = "context.gathered"
# Minimum number of available tokens for which gathering context is worthwhile.
MIN_BUDGET = 100
# Seconds for which an opening session waits until Git has been started.
BEGIN_SECONDS = 0.2


class SessionContext:
    """The session plugin, which provides the context.

    Args:
        session: The session.
        settings: The settings.
        nursery: Where context is gathered for which a prompt does not wait.
    """

    def __init__(self, session: Session, settings: ContextSettings, nursery: trio.Nursery) -> None:
        self.session = session
        self.settings = settings
        self._nursery = nursery
        self._reported_policy = False
        # The status that was read before the first prompt.
        self._early: GitStatusReader | None = None
        # The status for which an agent's prompt did not wait, by the agent's name.
        self._late: dict[str, GitStatusReader] = {}

    async def read_status_early(self) -> None:
        """Begin to read the Git status for a prompt that follows at once.

        The other plugins open, and the first request is prepared, while Git runs. If they did not
        wait until it has been started, the threads that start it would take turns with them, and
        Git would be started last (tests/benchmarks/real_project.py: 40 ms later).
        """
        policy = find_content_policy(self.session)
        if policy is None or not self.settings.environment:
            return
        self._early = self._make_reader(policy)
        self._early.start()
        with trio.move_on_after(BEGIN_SECONDS):
            await self._early.wait_begun()
        self._nursery.start_soon(_load_gathering, name="context: sources")

    def _make_reader(self, policy: ContentPolicy) -> GitStatusReader:
        from hilum_context.git import GitStatusReader  # with the first prompt

        return GitStatusReader(self.session, policy, self._nursery, self.settings.git_timeout)

    @hookimpl
    def provide_tools(self) -> Sequence[Tool]:
        """Return no tools, but take over the reporting of linter errors.

        When this hook runs, all session plugins are open, so the linter's plugin is accessible.
        """
        lint = self.session.plugin(Lint)
        if lint:
            # Otherwise, the model would receive the same errors from both plugins.
            lint.reported_by = "context"
        return ()

    @hookimpl
    async def gather_context(self, agent: Agent, request: ContextRequest) -> Sequence[Block]:
        """Return the context of the user's work, and record it as an event."""
        if request.budget < MIN_BUDGET:
            return ()
        policy = self._find_policy(agent)
        if policy is None:
            return ()
        await _load_gathering()
        from hilum_context.gathering import gather
        from hilum_context.state import WorkspaceState, to_state

        # An invalid state counts as an empty one: hilum's own sources still work.
        state = WorkspaceState()
        try:
            state = await trio.to_thread.run_sync(to_state, request.state)  # texts may be long
        except UsageError as error:  # a mistake in the face must not make the run fail
            self._report_error(agent, error)
        git, self._early = self._early, None
        if git is None or not git.is_fresh:
            git = self._make_reader(policy)
        earlier = self._late.pop(agent.name, None)
        if earlier is not None:
            earlier.stop()
        try:
            gathered = await gather(agent, request, state, self.settings, policy, git)
        except trio.Cancelled:
            # A stopped run leaves no process behind.
            git.stop()
            raise
        if git.is_late:
            self._late[agent.name] = git
        changes = self.session.plugin(FileChanges)
        if gathered.whole and changes is not None:
            # The model will have seen these files, so it may edit them without reading them first.
            changes.mark_as_read(agent, gathered.whole)
        data = gathered.data
        if data["blocks"] or "say" in data or data["left_out"]:
            event = PluginEvent(name=GATHERED_EVENT, data=data)
            self.session.emit(event, agent, agent.starting)
        return gathered.blocks

    @hookimpl
    def remind(self, agent: Agent, results: Sequence[ToolResult]) -> str | None:
        """Return the Git status if the agent's prompt did not wait for it and it is there now."""
        git = self._late.get(agent.name)
        if git is None or git.is_late:
            return None
        del self._late[agent.name]
        if git.found is None or not self.settings.environment:
            return None
        from hilum_context.sources.environment import describe_status

        return f"Git, read after the prompt: {describe_status(git.found)}"

    def _find_policy(self, agent: Agent) -> ContentPolicy | None:
        """Return the content policy, or ``None`` if no installed plugin provides one.

        Text that has not been searched for secrets must not leave this machine. Without a policy,
        nothing is sent, and hilum reports the reason once per session.
        """
        policy = find_content_policy(self.session)
        if policy is None and not self._reported_policy:
            self._reported_policy = True
            error = PluginError(
                "No context is sent: no installed plugin can remove secrets from it.",
                code=errors.E_NOT_INSTALLED,
                hint="pip install hilum-guard",
            )
            self._report_error(agent, error)
        return policy

    def _report_error(self, agent: Agent, error: HilumError) -> None:
        event = ErrorRaised(code=error.code, message=error.message, hint=error.hint)
        self.session.emit(event, agent, agent.starting)


async def _load_gathering() -> None:
    """Import all sources, in a thread, because that would block the event loop."""
    if "hilum_context.gathering" not in sys.modules:
        await trio.to_thread.run_sync(import_module, "hilum_context.gathering")
