"""The half of a session through which agents are started, watched, stopped, and asked for what they
found.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from hilum import Agent, Interpretation, Profile, Tool, ToolCall, UsageError, Verdict, hookimpl
from hilum.events import PluginEvent

from hilum_agents.runs import delegate, kept
from hilum_agents.runs.records import GO_ON, Entry, status_of
from hilum_agents.runs.scheduler import Scheduler
from hilum_agents.runs.settings import SchedulerSettings

if TYPE_CHECKING:
    from hilum import Session

    from hilum_agents.definitions.definition import Definition


class Runs:
    """Agents that run side by side. ``session.half(Runs)`` gives it.

    Args:
        session: The session.
        settings: The user's.
        scheduler: What runs them.
    """

    def __init__(self, session: Session, settings: SchedulerSettings, scheduler: Scheduler) -> None:
        self.session = session
        self.settings = settings
        self.scheduler = scheduler

    # --- starting ---------------------------------------------------------------------------------

    async def start(self, name: str, prompt: str, **options: Any) -> str:
        """Start an agent that is defined in a file.

        It keeps its conversation, and works on one thing after another.

        Args:
            name: Its name.
            prompt: What it is to do.
            options: As ``begin`` takes them.

        Returns:
            The id of this start, for all other methods.

        Raises:
            UsageError: There is no such agent, it cannot work here, or there is nothing to do.
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
        """Start an agent. It begins at once, or when there is room.

        Args:
            profile: What it is.
            prompt: What it is to do.
            urgent: Whether the user waits for it; such ones go first.
            timeout: Seconds its run may take; the profile's without.
            keep: Whether it has one conversation, under its name, that outlives the session; else
                one for each start.
            definition: What it is held to from when it begins.
            more: For agents that start agents: ``title``, ``owner``, ``owner_run``, ``lane``,
                ``wakes``, ``key``, ``depth``.

        Returns:
            The id of this start, for all other methods.

        Raises:
            UsageError: There is nothing to do, or it is the main agent.
        """
        if not prompt.strip():
            raise UsageError("There is nothing to do.", hint="Say what the agent is to do.")
        if profile.name == "main":
            raise UsageError(
                "The main agent is not started; prompt it.", hint="Give the agent another name."
            )
        limits: dict[str, Any] = {"timeout": timeout} if timeout is not None else {}
        if profile.turns is None:
            limits["turns"] = self.settings.turns
        if profile.cost_limit is None:
            limits["cost_limit"] = self.settings.cost_limit
        identity = os.urandom(6).hex()
        actor = profile.name if keep else f"{profile.name}-{identity}"
        if definition is not None and keep:
            self.scheduler.actors.definitions[identity] = (
                definition  # it may still be at work on something else
            )
        elif definition is not None:
            self.scheduler.actors.hold(actor, definition)
        entry = Entry(
            id=identity,
            agent=profile.name,
            actor=actor,
            prompt=prompt,
            urgent=urgent,
            keeps=keep,
            profile=msgspec.structs.replace(profile, name=actor, **limits),
            **more,
        )
        self.scheduler.add(entry)
        return identity

    def join(self, profile: Profile) -> Agent:
        """Have a named agent in the session for the user to prompt, with the conversation that is
        kept of it.

        What it is prompted with from now on has a status and a result like everything that is
        started.
        """
        if profile.turns is None:
            profile = msgspec.structs.replace(profile, turns=self.settings.turns)
        self.scheduler.actors.joined.add(profile.name)
        return self.scheduler.actors.enter(profile, "", keeps=True)

    def can_begin(self, name: str) -> bool:
        """Return whether a named agent would begin at once.

        If so, no other session can have it from now on, until it has ended.
        """
        return self.scheduler.can_begin(name)

    async def prepare(self, name: str) -> tuple[Definition, Profile]:
        """Return a defined agent that can be started here, as its file says now.

        Raises:
            UsageError: There is none of that name, or it cannot work here.
        """
        from hilum_agents.half import Agents

        agents = self.session.half(Agents)
        if agents is None:
            raise UsageError("Agents are not defined here.", hint="Load the plugin agents.")
        return await agents.prepare(name)

    async def retry(self, agent_id: str) -> str:
        """Start one again that failed, was stopped or was cut off: from where it stood, with what
        it has done already.

        Returns:
            The id of the new start.

        Raises:
            UsageError: There is none, it is not over, or it is done.
        """
        old = self.scheduler.ledger.find(agent_id)
        if not old.over or old.status == "completed":
            raise UsageError(
                f"The agent {old.id} is {old.status}.",
                hint="Only one that did not complete is retried.",
            )
        data = (await self._event(old.queued_seq)).data
        later = self.scheduler.ledger.followed(old)
        if later is not None:
            text = f"The agent {old.id} goes on as {later.id}, which is {later.status}."
            raise UsageError(text, hint="Retry that one.")
        agent = self.session.agents.get(old.actor)
        begun = agent is not None and bool(agent.conversation.messages) and bool(old.run)
        prompt = f"{GO_ON}\n\n{data['prompt']}" if begun else data["prompt"]
        profile = msgspec.convert(data["profile"], Profile)
        named = ("title", "owner", "lane", "depth")
        entry = Entry(
            id=os.urandom(6).hex(),
            agent=old.agent,
            actor=old.actor,
            prompt=prompt,
            keeps=old.keeps,
            profile=profile,
            of=old.id,
            **{name: data[name] for name in named if name in data},
        )
        self.scheduler.add(entry)
        return entry.id

    def resume(self) -> None:
        """Go on with everything that was cut off, as ``Session.resume`` does, and with the
        queue.
        """
        self.session.resume()
        self.scheduler.recover()
        self.scheduler.owners.wake_all()

    # --- stopping ---------------------------------------------------------------------------------

    def stop(self, agent_id: str = "") -> None:
        """Stop one, wherever it stands, or all of them; one that is over stays as it is.

        Raises:
            UsageError: There is none of that id.
        """
        ledger = self.scheduler.ledger
        for entry in [ledger.find(agent_id)] if agent_id else [*ledger.open()][::-1]:
            self.scheduler.stop(entry)

    # --- looking ----------------------------------------------------------------------------------

    def status(self, agent_id: str) -> dict[str, Any]:
        """Return where one stands: ``agent_id, agent, status, progress, current_step, place`` (in
        the queue, 0 for not there).

        Raises:
            UsageError: There is none of that id.
        """
        entry = self.scheduler.ledger.find(agent_id)
        return {**status_of(entry), "place": self.scheduler.places().get(entry.id, 0)}

    def list(self) -> list[dict[str, Any]]:
        """Return where each stands, oldest first."""
        places = self.scheduler.places()
        return [
            {**status_of(one), "place": places.get(one.id, 0)}
            for one in self.scheduler.ledger.entries.values()
        ]

    def busy(self, beside: str = "") -> bool:
        """Return whether one runs, waits, or has ended and is still to be told to the agent that
        started it.

        Args:
            beside: An actor that does not count.
        """
        ledger = self.scheduler.ledger
        actors = self.scheduler.actors
        untold = any(
            entry.wakes and not entry.told
            for entry in ledger.entries.values()
            if entry.actor != beside
        )
        return untold or any(entry.actor != beside for entry in ledger.open()) or actors.speaking

    async def wait(self, agent_id: str) -> dict[str, Any]:
        """Wait for the end of one, and give its result.

        Raises:
            UsageError: There is none of that id, or the session closed before it ended.
        """
        entry = self.scheduler.ledger.find(agent_id)
        await entry.ended.wait()
        return await self.result(entry.id)

    async def after(self, agent_id: str) -> str:
        """Wait for what an agent that is over has left to run in the background.

        Gives the id under which it goes on then.

        Returns:
            The id; empty where it has left nothing.
        """
        ledger = self.scheduler.ledger
        entry = ledger.find(agent_id)
        for left in [one for one in ledger.owned(entry.actor) if one.wakes]:
            await left.ended.wait()
        later = ledger.followed(entry)
        return later.id if later is not None else ""

    async def result(self, agent_id: str) -> dict[str, Any]:
        """Return the result of one: text, files, actions, usage, error, what is done and what is
        not.

        Raises:
            UsageError: There is none of that id, or it is not over.
        """
        entry = self.scheduler.ledger.find(agent_id)
        if not entry.over:
            text = f"The agent {entry.id} has no result yet: it is {entry.status}. {entry.step}"
            raise UsageError(text.strip(), code="E_NOT_FOUND", hint="Ask again when it has ended.")
        return (await self._event(entry.seq)).data

    async def _event(self, seq: int) -> PluginEvent:
        (event,) = await self.session.kernel.store.read(self.session.id, seq - 1, 1)
        assert isinstance(event, PluginEvent)
        return event

    # --- conversations ----------------------------------------------------------------------------

    def clear(self, name: str) -> bool:
        """Forget the conversation of a named agent; says whether there was one.

        Raises:
            UsageError: It is at work.
        """
        return self.scheduler.actors.clear(name)

    def fork(self, name: str, new: str) -> None:
        """Give another named agent a copy of an agent's conversation.

        From there each goes its own way.

        Raises:
            UsageError: There is nothing to copy, or the other has a conversation already.
        """
        kept.fork(self.session.workspace.root, name, new)

    # --- hooks ------------------------------------------------------------------------------------

    @hookimpl(tryfirst=True)
    def interpret_prompt(self, text: str) -> Interpretation | None:
        """Take what is said to an agent by the scheduler as it is: a task is no command, and calls
        nobody.
        """
        if self.scheduler.actors.is_literal(text):
            return Interpretation(text)
        return None

    @hookimpl
    async def on_tool_call(self, agent: Agent, call: ToolCall, tool: Tool) -> Verdict | None:
        """Hold an agent to the permissions of those that started it: starting one gains nothing."""
        from hilum_agents.half import Agents

        definitions = self.session.half(Agents)
        found = list[Verdict]()
        if definitions is None:
            return None
        for above in self._above(agent):
            definition = await definitions.held(above)
            if definition is not None:
                found += (
                    [verdict]
                    if (verdict := await definitions.judge(definition, above, call, tool))
                    else []
                )
        return max(found, key=lambda verdict: verdict.rank, default=None)

    def _above(self, agent: Agent) -> Iterator[Agent]:
        """Yield those that started an agent, the nearest first.

        One that has ended and is gone is known from the log.
        """
        seen = {agent.name}
        name = agent.parent
        while name and name not in seen:
            seen.add(name)
            above = self.session.agents.get(name)
            if above is not None:
                yield above
                name = above.parent
            else:
                if (entry := self.scheduler.ledger.latest(name)) is not None:
                    name = entry.owner
                else:
                    name = ""

    @hookimpl
    def remind(self, agent: Agent) -> str | None:
        """Tell an agent at work of the ends of what it has started.

        What it has granted is not its own to spend.
        """
        self.scheduler.owners.hold(agent)
        return self.scheduler.owners.tell_news(agent.name) or None

    @hookimpl
    def gather_context(self, agent: Agent) -> None:
        """Limit a run that begins to what its agent has not granted to others."""
        self.scheduler.owners.hold(agent)

    async def fall_silent(self) -> None:
        """Tell no agent of ends any more: the program is about to end, and a resumed session tells
        of them.

        When this returns, the prompts that were on their way are queued.
        """
        self.scheduler.owners.silent = True
        await self.scheduler.actors.wait_spoken()

    @hookimpl
    def provide_tools(self) -> Sequence[Tool]:
        """Return the tools by which agents start agents."""
        return (delegate.task, delegate.handover, delegate.get_agent_result)


@asynccontextmanager
async def live(session: Session) -> AsyncIterator[Runs]:
    """Keep the half of a session running."""
    async with trio.open_nursery() as nursery:
        settings = session.settings(SchedulerSettings)
        scheduler = Scheduler(session, settings, nursery)
        nursery.start_soon(scheduler.follow)
        nursery.start_soon(scheduler.tick)
        try:
            yield Runs(session, settings, scheduler)
        finally:
            # A call that waits for the end of its task was left behind, and would keep trio from
            # ending.
            scheduler.close()
            scheduler.actors.let_all_go()
            nursery.cancel_scope.cancel()
