"""What an agent owes the one that started it: the account of what it used, and word of its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from hilum import HilumError, Usage
from hilum import events as ev
from hilum_hooks import Fault

from hilum_agents.runs.actors import Actors
from hilum_agents.runs.records import Entry, Ledger, mark

if TYPE_CHECKING:
    from hilum import Session


class Owners:
    """See the module.

    Args:
        session: The session.
        ledger: What the log says.
        actors: Those that run.
        nursery: Owns what wakes them.
    """

    def __init__(self, session: Session, ledger: Ledger, actors: Actors, nursery: trio.Nursery) -> None:
        self._session, self._ledger, self._actors, self._nursery = session, ledger, actors, nursery

    def charge(self, entry: Entry, usage: Usage) -> None:
        """Count what a task has used to its owner's run, once."""
        owner = self._session.agents.get(entry.owner)
        if entry.lane and not entry.charged and owner is not None and (usage.total or usage.cost):
            entry.charged = True
            model = owner.conversation.sealed.model or owner.model
            owner.emit(ev.ModelUsed(model=model, purpose=f"agent {entry.id}", usage=usage))

    def wake(self, name: str) -> None:
        """Tell an agent that has nothing to do of what it has started and has ended."""
        owner = self._session.agents.get(name) if name else None
        if owner is not None and not owner.conversation.pending and self._news(name):
            self._nursery.start_soon(self._prompt, name)

    def _news(self, name: str) -> list[Entry]:
        return [entry for entry in self._ledger.owned(name) if entry.over and entry.wakes and not entry.told]

    def tell_news(self, name: str) -> str:
        """Give the words that tell an agent of what it has started and has ended; they count as told."""
        lines = []
        for entry in self._news(name):
            entry.told = True  # what the log says once they are written
            ended = f"{mark(entry)} The background agent {entry.agent} has ended: {entry.status}."
            lines.append(f"{ended} get_agent_result gives what it found.")
        return "\n".join(lines)

    async def _prompt(self, name: str) -> None:
        agent = self._session.agents[name]
        if agent.conversation.pending or not (text := self.tell_news(name)):
            return  # it was told meanwhile, or will be
        try:
            with self._actors.literal(text):
                await self._session.prompt(text, agent=name)
        except HilumError as error:
            self._session.report(Fault("scheduler", "wake", error))
