"""The session plugin that starts, monitors and stops agents, and returns their results."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from hilum import (
    Agent,
    Interpretation,
    Profile,
    Session,
    Tool,
    ToolCall,
    UsageError,
    Verdict,
    hookimpl,
)
from hilum.events import PluginEvent

from hilum_agents.agents import Agents
from hilum_agents.consent import RESUME_PROMPT
from hilum_agents.runs import conversations
from hilum_agents.runs.jobs import Job
from hilum_agents.runs.scheduler import Scheduler, new_id
from hilum_agents.runs.settings import SchedulerSettings

if TYPE_CHECKING:
    from hilum_agents.definitions.definition import Definition


class Runs:
    """The concurrently running agents of a session; get the instance from ``session.plugin(Runs)``.

    Args:
        session: The session.
        settings: The settings.
        scheduler: The scheduler of the session.
    """

    def __init__(self, session: Session, settings: SchedulerSettings, scheduler: Scheduler) -> None:
        self.session = session
        self.settings = settings
        self.scheduler = scheduler

    # --- starting ---------------------------------------------------------------------------------

    async def start(self, name: str, prompt: str, **options: Any) -> str:
        """Start an agent that is defined in a file.

        The agent keeps its conversation and works on one job at a time.

        Args:
            name: Name of the agent.
            prompt: The task.
            options: Options of ``begin``.

        Returns:
            The id of the job, which other methods accept.

        Raises:
            UsageError: The agent does not exist or cannot run here, or the prompt is empty.
        """
        definition, profile = await self.prepare(name)
        return self.begin(profile, prompt, keep=True, definition=definition, **options)

    def begin(
        self,
        profile: Profile,
        prompt: str,
        *,
        urgent: bool = True,
        timeout: float | None = None,
        keep: bool = False,
        definition: Definition | None = None,
        **more: Any,
    ) -> str:
        """Start an agent now, or as soon as a slot is free.

        Args:
            profile: Name, model, tools and limits of the agent.
            prompt: The task.
            urgent: Whether the user is waiting for the agent; urgent jobs begin first.
            timeout: Time limit of the run in seconds; by default that of the profile.
            keep: Whether the agent has a single conversation, stored under its name, that outlives
                the session. Otherwise, each job has its own conversation.
            definition: The definition that restricts the agent.
            more: Additional fields of the job, for agents that other agents start: ``title``,
                ``owner``, ``owner_run``, ``lane``, ``notify_owner``, ``key``, ``call``, ``depth``.

        Returns:
            The id of the job, which other methods accept.

        Raises:
            UsageError: The prompt is empty, or the name is that of the main agent.
        """
        if not prompt.strip():
            raise UsageError("The prompt is empty.", hint="Describe the task of the agent.")
        if profile.name == "main":
            raise UsageError(
                "The main agent is already running and cannot be started again.",
                hint="Send it a prompt, or give the agent another name.",
            )
        identity = new_id()
        actor = profile.name if keep else f"{profile.name}-{identity}"
        if definition is not None and keep:
            # The agent may still be running an earlier job, under an earlier definition.
            self.scheduler.pool.definitions[identity] = definition
        elif definition is not None:
            self.scheduler.pool.bind(actor, definition)
        job = Job(
            id=identity,
            agent=profile.name,
            actor=actor,
            prompt=prompt,
            urgent=urgent,
            persistent=keep,
            profile=self._limited(profile, actor, timeout),
            **more,
        )
        self.scheduler.add(job)
        return identity

    def _limited(self, profile: Profile, actor: str, timeout: float | None) -> Profile:
        """Return a profile with the actor's name, and with defaults for missing limits."""
        limits: dict[str, Any] = {}
        if timeout is not None:
            limits["timeout"] = timeout
        if profile.turns is None:
            limits["turns"] = self.settings.turns
        if profile.cost_limit is None:
            limits["cost_limit"] = self.settings.cost_limit
        return msgspec.structs.replace(profile, name=actor, **limits)

    def join(self, profile: Profile) -> Agent:
        """Add a named agent to the session, so that the user can prompt it directly.

        The agent uses its persistent conversation, and each prompt to it becomes a job with a
        status and a result.
        """
        if profile.turns is None:
            profile = msgspec.structs.replace(profile, turns=self.settings.turns)
        self.scheduler.pool.joined.add(profile.name)
        return self.scheduler.pool.enter(profile, "", persistent=True)

    def can_begin(self, name: str) -> bool:
        """Return whether a named agent could begin immediately.

        An agent that could begin is reserved for this session until it has ended.
        """
        return self.scheduler.can_begin(name)

    async def prepare(self, name: str) -> tuple[Definition, Profile]:
        """Return the definition and the profile of an agent that can run in this session.

        Raises:
            UsageError: The agent does not exist, or cannot run here.
        """
        agents = self.session.plugin(Agents)
        if agents is None:
            raise UsageError(
                "The `agents` plugin is not loaded, so no agents are defined.",
                hint="Load the `agents` plugin.",
            )
        return await agents.prepare(name)

    async def retry(self, agent_id: str) -> str:
        """Continue a job that failed, was stopped or was interrupted, in its conversation.

        Returns:
            The id of the new job.

        Raises:
            UsageError: The job does not exist, has not ended, was completed, or has already been
                retried.
        """
        old = self.scheduler.jobs.find(agent_id)
        if not old.over or old.status == "completed":
            raise UsageError(
                f"The agent {old.id} is {old.status}.",
                hint="Only a job that ended without completing can be retried.",
            )
        # The fold discards the prompt and the profile of a finished job.
        data = (await self._event(old.queued_seq)).data
        later = self.scheduler.jobs.continuation(old)
        if later is not None:
            raise UsageError(
                f"The agent {old.id} was retried as {later.id}, which is {later.status}.",
                hint=f"Retry {later.id}.",
            )
        agent = self.session.agents.get(old.actor)
        # If the run had begun, the conversation already contains the task and the work so far.
        has_begun = agent is not None and bool(agent.conversation.messages) and bool(old.run)
        prompt = f"{RESUME_PROMPT}\n\n{data['prompt']}" if has_begun else data["prompt"]
        kept_fields = ("title", "owner", "lane", "depth")
        job = Job(
            id=new_id(),
            agent=old.agent,
            actor=old.actor,
            prompt=prompt,
            persistent=old.persistent,
            profile=msgspec.convert(data["profile"], Profile),
            of=old.id,
            **{name: data[name] for name in kept_fields if name in data},
        )
        self.scheduler.add(job)
        return job.id

    def resume(self) -> None:
        """Continue all interrupted runs, as ``Session.resume`` does, and start the queued jobs."""
        self.session.resume()
        self.scheduler.recover()
        self.scheduler.notices.wake_all()

    def abandon(self) -> None:
        """Mark jobs that a crash cut short as interrupted, instead of continuing them."""
        self.scheduler.settle(resumed=False)

    # --- stopping ---------------------------------------------------------------------------------

    def stop(self, agent_id: str = "") -> None:
        """Stop one job or all jobs, in any state; a finished job is not changed.

        Args:
            agent_id: Id of the job; empty for all.

        Raises:
            UsageError: The job does not exist.
        """
        jobs = self.scheduler.jobs
        # The newest job is stopped first, so that no queued job begins while others are being
        # stopped.
        stopped = [jobs.find(agent_id)] if agent_id else list(jobs.open())
        for job in reversed(stopped):
            self.scheduler.stop(job)

    async def fall_silent(self) -> None:
        """Stop sending notices, because the program is ending; a resumed session sends them.

        When this method returns, all prompts that were being sent are queued.
        """
        self.scheduler.notices.silent = True
        await self.scheduler.pool.wait_until_queued()

    # --- looking up -------------------------------------------------------------------------------

    def status(self, agent_id: str) -> dict[str, Any]:
        """Return the status of a job.

        Returns:
            ``agent_id``, ``agent``, ``status``, ``progress``, ``current_step`` and ``place``
            (position in the queue, 0 if it is not waiting), among others.

        Raises:
            UsageError: The job does not exist.
        """
        job = self.scheduler.jobs.find(agent_id)
        return job.status_data() | {"place": self.scheduler.queue.places().get(job.id, 0)}

    def list(self) -> list[dict[str, Any]]:
        """Return the status of every job, oldest first."""
        places = self.scheduler.queue.places()
        jobs = self.scheduler.jobs.by_id.values()
        return [job.status_data() | {"place": places.get(job.id, 0)} for job in jobs]

    def actor(self, agent_id: str) -> str:
        """Return the name of a job's agent in the session.

        Raises:
            UsageError: The job does not exist.
        """
        return self.scheduler.jobs.find(agent_id).actor

    def busy(self, beside: str = "") -> bool:
        """Return whether any job is open, or has ended without a notice to its owner.

        Args:
            beside: Name, in the session, of the agent whose own jobs are ignored.
        """
        jobs = [job for job in self.scheduler.jobs.by_id.values() if job.actor != beside]
        if any(job.notify_owner and not job.told for job in jobs):
            return True
        return any(not job.over for job in jobs) or self.scheduler.pool.is_prompting

    async def wait(self, agent_id: str) -> dict[str, Any]:
        """Wait for a job to end and return its result.

        Raises:
            UsageError: The job does not exist, or the session closed before it ended.
        """
        job = self.scheduler.jobs.find(agent_id)
        await job.ended.wait()
        return await self.result(job.id)

    async def after(self, agent_id: str) -> str:
        """Wait for a finished job's background agents, and return the job that continues it.

        Returns:
            The id of that job; empty if the finished job has no background agents.
        """
        jobs = self.scheduler.jobs
        job = jobs.find(agent_id)
        for task in [owned for owned in jobs.owned(job.actor) if owned.notify_owner]:
            await task.ended.wait()
        later = jobs.continuation(job)
        return later.id if later is not None else ""

    async def result(self, agent_id: str) -> dict[str, Any]:
        """Return the result of a job: text, files, tool calls, usage, error and todo items.

        Raises:
            UsageError: The job does not exist or has not ended.
        """
        job = self.scheduler.jobs.find(agent_id)
        if not job.over:
            text = f"The agent {job.id} has no result yet: it is {job.status}. {job.step}"
            raise UsageError(text.strip(), code="E_NOT_FOUND", hint="Try again when it has ended.")
        return (await self._event(job.seq)).data

    async def _event(self, seq: int) -> PluginEvent:
        """Read one of this plugin's events from the store; the fold drops prompts and results."""
        # `read` returns the events after the given number.
        (event,) = await self.session.kernel.store.read(self.session.id, seq - 1, 1)
        assert isinstance(event, PluginEvent)
        return event

    # --- conversations ----------------------------------------------------------------------------

    def clear(self, name: str) -> bool:
        """Delete the conversation of a named agent.

        Returns:
            Whether a conversation existed.

        Raises:
            UsageError: The agent is running.
        """
        return self.scheduler.pool.clear(name)

    def fork(self, name: str, new: str) -> None:
        """Copy an agent's conversation to another named agent.

        Raises:
            UsageError: There is nothing to copy, or the other agent already has a conversation.
        """
        conversations.fork(self.session.workspace.root, name, new)

    # --- hooks ------------------------------------------------------------------------------------

    # This hook runs first, so that no other plugin interprets the prompt as a command or an agent
    # call.
    @hookimpl(tryfirst=True)
    def interpret_prompt(self, text: str) -> Interpretation | None:
        """Treat the scheduler's prompts as plain text, never as commands or agent calls."""
        if self.scheduler.pool.is_literal(text):
            return Interpretation(text)
        return None

    @hookimpl
    def on_tool_call(
        self, agent: Agent, call: ToolCall, tool: Tool
    ) -> Awaitable[Verdict | None] | None:
        """Apply the permissions of all of an agent's ancestors to the agent's calls.

        An agent could otherwise evade its permissions by starting another agent.
        """
        if not agent.parent:
            return None  # no task is started, because most calls come from the main agent
        return self._judge_by_ancestors(agent, call, tool)

    async def _judge_by_ancestors(self, agent: Agent, call: ToolCall, tool: Tool) -> Verdict | None:
        agents = self.session.plugin(Agents)
        if agents is None:
            return None
        verdicts = [await agents.judge_call(above, call, tool) for above in self._above(agent)]
        found = [verdict for verdict in verdicts if verdict is not None]
        return max(found, key=lambda verdict: verdict.rank, default=None)

    def _above(self, agent: Agent) -> Iterator[Agent]:
        """Yield an agent's ancestors, nearest first."""
        seen = {agent.name}
        name = agent.parent
        while name and name not in seen:
            seen.add(name)
            above = self.session.agents.get(name)
            if above is not None:
                yield above
                name = above.parent
            else:
                # The log still names the owner of an agent that has left the session.
                job = self.scheduler.jobs.latest.get(name)
                name = job.owner if job is not None else ""

    @hookimpl
    def remind(self, agent: Agent) -> str | None:
        """Reserve the budget granted to tasks, and return notices about agents that have ended."""
        self.scheduler.budgets.reserve(agent)
        return self.scheduler.notices.take(agent.name) or None

    @hookimpl
    def gather_context(self, agent: Agent) -> None:
        """Create the job of a run that begins, and reserve the budget granted to tasks."""
        self.scheduler.adopt(agent)
        self.scheduler.budgets.reserve(agent)


@asynccontextmanager
async def open_runs(session: Session) -> AsyncIterator[Runs]:
    """Yield the plugin instance of a session, and run its scheduler until the session closes."""
    async with trio.open_nursery() as nursery:
        settings = session.settings(SchedulerSettings)
        scheduler = Scheduler(session, settings, nursery)
        nursery.start_soon(scheduler.follow)
        nursery.start_soon(scheduler.tick)
        try:
            yield Runs(session, settings, scheduler)
        finally:
            # Tool calls may still be waiting for their tasks. Closing the scheduler releases such
            # calls; otherwise, trio could not exit.
            scheduler.close()
            scheduler.pool.release_all()
            nursery.cancel_scope.cancel()
