"""Notifies agents when background agents that they started have ended.

A running agent reads the notice at the end of its next round of tool calls. An idle agent is
prompted with the notice.
"""

from __future__ import annotations

from collections.abc import Callable

import trio
from hilum import Session
from hilum.hooks import PLUGIN_EXCEPTIONS, PluginFailure

from hilum_agents.runs.jobs import PROMPTED, Job, JobTable
from hilum_agents.runs.pool import AgentPool


class EndNotices:
    """A sender of notices about ended background agents to the agents that started them.

    Args:
        session: The session.
        jobs: Its jobs.
        pool: The session's agents that execute jobs.
        nursery: The nursery for the prompts of idle agents.
        continue_job: A function that continues an agent after its last job, with a prompt.

    Attributes:
        awake: Whether anything has run since the session was opened. A session that was opened only
            to be read must not prompt any agent.
        silent: Whether to stop sending notices because the program is about to end.
    """

    def __init__(
        self,
        session: Session,
        jobs: JobTable,
        pool: AgentPool,
        nursery: trio.Nursery,
        continue_job: Callable[[Job, str], None],
    ) -> None:
        self._session = session
        self._jobs = jobs
        self._pool = pool
        self._nursery = nursery
        self._continue_job = continue_job
        self.awake = False
        self.silent = False

    def take(self, name: str) -> str:
        """Return the notices for an agent and mark them as sent; empty if there are none."""
        lines = []
        for job in self._jobs.unannounced(name):
            # The fold sets this flag once the notice is logged; setting it here prevents a second
            # notice.
            job.told = True
            lines.append(
                f"{job.mark} The background agent {job.agent} has ended: {job.status}."
                " get_agent_result returns its result."
            )
        return "\n".join(lines)

    def wake(self, name: str) -> None:
        """Prompt an idle agent with its notices, if there are any."""
        if not name or not self.awake or self.silent or self._session.closing:
            return
        owner = self._session.agents.get(name)
        if owner is None or owner.conversation.pending or not self._jobs.unannounced(name):
            return
        last = self._jobs.latest.get(name)
        # An agent that was started as a job continues as a job, with a queue position, a status and
        # a budget.
        if last is None:
            self._nursery.start_soon(self._prompt, name)
        else:
            self._continue_job(last, self.take(name))

    def wake_all(self) -> None:
        """Prompt all idle agents that have notices; no event causes these prompts after a crash."""
        self.awake = True
        for name in list(self._session.agents):
            self.wake(name)

    async def _prompt(self, name: str) -> None:
        """Prompt an agent that was not started as a job, such as the main agent."""
        if self.silent or self._session.agents[name].conversation.pending:
            return  # a run that started in the meantime reads the notices itself
        text = self.take(name)
        if not text:
            return
        # A replay must not repeat this prompt as one of the user's.
        self._session.note(PROMPTED, to=name, text=text)
        try:
            with self._pool.literal(text):
                await self._session.prompt(text, agent=name)
        except PLUGIN_EXCEPTIONS as error:
            if not self._session.closing:
                self._session.report(PluginFailure("scheduler", "wake", error))
