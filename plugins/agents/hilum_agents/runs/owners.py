"""What an agent and the one that started it owe each other: a budget, the account of what was used,
word of the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
import trio
from hilum import Agent, Profile, Usage
from hilum import events as ev
from hilum_hooks import FAULTS, Fault

from hilum_agents.runs.actors import Actors
from hilum_agents.runs.records import Entry, Ledger, mark

if TYPE_CHECKING:
    from hilum import Session

Budget = tuple[int | None, float | None]


class Owners:
    """See the module.

    Args:
        session: The session.
        ledger: What the log says.
        actors: Those that run.
        nursery: Owns what wakes them.
        cost_limit: US dollars that a run may cost whose profile does not say.
        go_on: Starts an agent again that was started here: its last start, and what it is told.

    Attributes:
        awake: Whether anything goes on here yet. A session that was only opened, to look at it,
            wakes nobody.
    """

    def __init__(
        self,
        session: Session,
        ledger: Ledger,
        actors: Actors,
        nursery: trio.Nursery,
        cost_limit: float | None,
        go_on: Callable[[Entry, str], None],
    ) -> None:
        self._session = session
        self._ledger = ledger
        self._actors = actors
        self._nursery = nursery
        self._cost_limit = cost_limit
        self._go_on = go_on
        self._base: dict[str, Profile] = {}
        self._left: dict[str, Budget] = {}
        self.awake = False
        self.silent = False

    # --- budgets ----------------------------------------------------------------------------------

    def free(self, agent: Agent) -> Budget:
        """Return the tokens and US dollars an agent may still spend in its run: what it has used,
        and what it has granted to tasks that are not over, is taken off. ``None`` for any number.
        """
        base = self._base.get(agent.name, agent.profile)
        if base.token_limit is None:
            tokens = agent.session.options.token_limit
        else:
            tokens = base.token_limit
        dollars = self._cost_limit if base.cost_limit is None else base.cost_limit
        used = agent.conversation.run.usage if agent.conversation.run else Usage()
        granted = [
            entry.profile
            for entry in self._ledger.owned(agent.name)
            if entry.lane and not entry.over
        ]
        if tokens is not None:
            tokens -= used.total + sum(profile.token_limit or 0 for profile in granted)
        if dollars is not None:
            dollars -= (used.cost or 0.0) + sum(profile.cost_limit or 0.0 for profile in granted)
        return tokens, dollars

    def hold(self, agent: Agent) -> None:
        """Have an agent's run end where it would spend what it has granted to its tasks."""
        self._base.setdefault(agent.name, agent.profile)
        (tokens, dollars), used = (
            self.free(agent),
            agent.conversation.run.usage if agent.conversation.run else Usage(),
        )
        limits = {
            "token_limit": None if tokens is None else max(tokens + used.total, 1),
            "cost_limit": None if dollars is None else max(dollars + (used.cost or 0.0), 0.0),
        }
        agent.profile = msgspec.structs.replace(agent.profile, **limits)

    def release(self, name: str, used: Usage) -> None:
        """A run is over: the next one has its limits anew, unless it goes on for a task that still
        runs.
        """
        agent = self._session.agents.get(name)
        base = self._base.pop(name, None)
        if agent is None or base is None:
            return
        now = agent.profile
        agent.profile = base
        tokens = None if now.token_limit is None else max(now.token_limit - used.total, 1)
        if now.cost_limit is None:
            dollars = None
        else:
            dollars = max(now.cost_limit - (used.cost or 0.0), 0.0)
        self._left[name] = tokens, dollars

    def rest(self, name: str, profile: Profile) -> Profile:
        """Return a profile with what an agent's last run has left of its budget."""
        tokens, dollars = self._left.get(name, (profile.token_limit, profile.cost_limit))
        return msgspec.structs.replace(profile, token_limit=tokens, cost_limit=dollars)

    def charge(self, entry: Entry, usage: Usage) -> None:
        """Count what a task has used to its owner's run, once."""
        owner = self._session.agents.get(entry.owner)
        if entry.lane and not entry.charged and owner is not None and (usage.total or usage.cost):
            entry.charged = True
            model = owner.conversation.sealed.model or owner.model
            owner.emit(ev.ModelUsed(model=model, purpose=f"agent {entry.id}", usage=usage))

    # --- ends -------------------------------------------------------------------------------------

    def wake(self, name: str) -> None:
        """Tell an agent that has nothing to do of what it has started and has ended."""
        if name and self.awake and not self._actors.closing:
            owner = self._session.agents.get(name)
        else:
            owner = None
        if self.silent or owner is None or owner.conversation.pending or not self._news(name):
            return
        last = self._ledger.latest(name)
        if last is None:
            self._nursery.start_soon(self._prompt, name)
        else:
            self._go_on(last, self.tell_news(name))

    def wake_all(self) -> None:
        """Wake all that were not told of an end before hilum ended itself."""
        self.awake = True
        for name in list(self._session.agents):
            self.wake(name)

    def _news(self, name: str) -> list[Entry]:
        return [
            entry
            for entry in self._ledger.owned(name)
            if entry.over and entry.wakes and not entry.told
        ]

    def tell_news(self, name: str) -> str:
        """Return the words that tell an agent of what it has started and has ended.

        They count as told.
        """
        lines = []
        for entry in self._news(name):
            entry.told = True  # what the log says once they are written
            ended = f"{mark(entry)} The background agent {entry.agent} has ended: {entry.status}."
            lines.append(f"{ended} get_agent_result gives what it found.")
        return "\n".join(lines)

    async def _prompt(self, name: str) -> None:
        agent = self._session.agents[name]
        if self.silent or agent.conversation.pending or not (text := self.tell_news(name)):
            return  # it was told meanwhile, or will be
        try:
            with self._actors.literal(text):
                await self._session.prompt(text, agent=name)
        except FAULTS as error:
            if not self._actors.closing:
                self._session.report(Fault("scheduler", "wake", error))
