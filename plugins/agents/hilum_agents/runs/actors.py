"""The agents in a session that entries run as: made when one begins, with what was said before, and
kept when it ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import trio
from hilum import Profile, UsageError, data_folder
from hilum.messages import writable

from hilum_agents.runs import kept
from hilum_agents.runs.records import Entry

if TYPE_CHECKING:
    from hilum import Agent, Message, Session

    from hilum_agents.definitions.definition import Definition

UNUSED = 10.0
"""Seconds after which the lock of an agent is given back whose prompt did not come."""


class Actors:
    """See the module.

    Args:
        session: The session.

    Attributes:
        joined: Names of agents that the user may prompt himself; what they are prompted with counts
            as started here.
        definitions: By start, what an agent is held to from when it begins.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._literal: Counter[str] = Counter()
        self._spoken = trio.Event()
        self.joined: set[str] = set()
        self.definitions: dict[str, Definition] = {}
        self._locks: dict[str, tuple[IO[bytes], float]] = {}
        self._entered: set[str] = set()

    # --- prompts ----------------------------------------------------------------------------------

    @contextmanager
    def literal(self, text: str) -> Iterator[None]:
        """While this lasts, the text is a prompt as it is: no command, and addressed to nobody."""
        text = writable(text)
        self._literal[text] += 1
        try:
            yield
        finally:
            self._literal -= Counter({text: 1})
            if not self._literal:
                self._spoken.set()
                self._spoken = trio.Event()

    async def wait_spoken(self) -> None:
        """Wait until no prompt of ours is on its way."""
        while self._literal:
            await self._spoken.wait()

    def is_literal(self, text: str) -> bool:
        """Return whether a prompt on its way is one of ours."""
        return text in self._literal

    @property
    def speaking(self) -> bool:
        """Whether a prompt of ours is on its way."""
        return bool(self._literal)

    @property
    def closing(self) -> bool:
        """Whether the session is being closed: what is queued now begins when it is resumed."""
        return self._session.work.cancel_scope.cancel_called

    # --- coming and going -------------------------------------------------------------------------

    def enter(self, profile: Profile, owner: str, *, keeps: bool) -> Agent:
        """See that an agent is there, as it is defined now and with what was said before.

        Args:
            profile: What it is; its name is the agent's in the session.
            owner: Name of the agent that started it, empty for the user.
            keeps: Whether its conversation is one that outlives sessions.
        """
        agents = self._session.agents
        root = self._session.workspace.root
        agent = agents.get(profile.name)
        if agent is not None and self.works(profile.name):
            return agent  # it goes on as what it began
        messages = tuple(agent.conversation.messages) if agent else ()
        fresh = agent is None or (agent.profile, agent.parent) != (profile, owner)
        if keeps:
            self._entered.add(profile.name)
            known = kept.load(root, profile.name)
            if known is not None and (agent is None or known.session != self._session.id):
                messages = tuple(known.messages)
                fresh = True
        if agent is None or fresh:
            agents.pop(profile.name, None)
            agent = self._session.add_agent(profile, owner, messages)
        return agent

    def bind(self, entry: Entry) -> None:
        """Hold an agent that begins to its definition, as it was when it was started."""
        definition = self.definitions.pop(entry.id, None)
        if definition is not None:
            self.hold(entry.actor, definition)

    def hold(self, actor: str, definition: Definition) -> None:
        """Hold an agent of the session to a definition."""
        from hilum_agents.half import Agents

        agents = self._session.half(Agents)
        if agents is not None:
            agents.bind(actor, definition)

    def claim(self, name: str) -> bool:
        """Have a named agent for this session alone, until it is let go.

        Says whether no other session has it.
        """
        if name not in self._locks:
            file = kept.lock(self._session.workspace.root, name)
            if file is None:
                return False
            self._locks[name] = file, trio.current_time()
        return True

    def let_go(self, name: str) -> None:
        """Let other sessions have a named agent."""
        if name in self._locks:
            self._locks.pop(name)[0].close()

    def let_all_go(self, busy: set[str] | None = None) -> None:
        """Let all go: those that nobody has prompted, or every one.

        Args:
            busy: Names of those that are at work; ``None`` to let these go, too.
        """
        for name, (_, since) in list(self._locks.items()):
            idle = busy is not None and name not in busy and not self.works(name)
            if busy is None or (idle and trio.current_time() - since > UNUSED):
                self.let_go(name)

    @property
    def holds(self) -> bool:
        """Whether this session has any named agent for itself."""
        return bool(self._locks)

    def works(self, name: str) -> bool:
        """Return whether an agent is at work, whoever started it."""
        agent = self._session.agents.get(name)
        return agent is not None and bool(agent.conversation.pending) and agent.scope is not None

    def keep(self, entry: Entry) -> str:
        """Write down the conversation of one that keeps it.

        Gives what went wrong, empty for nothing.
        """
        agent = self._session.agents.get(entry.actor)
        name = entry.actor
        if not entry.keeps or agent is None or not entry.run:
            self.let_go(name)
            return ""
        root = str(self._session.workspace.root)
        said = list(agent.conversation.messages)
        if not self.claim(name) or (name not in self._entered and self._is_ahead(name, said)):
            return (
                f"{entry.agent} has gone on in another session since; what it did here stands only"
                " in this one."
            )
        try:
            kept.save(
                kept.Kept(
                    agent=entry.actor, workspace=root, session=self._session.id, messages=said
                )
            )
        except OSError as error:
            return f"The conversation of {entry.agent} could not be kept: {error}."
        finally:
            self.let_go(name)
        return ""

    def _is_ahead(self, name: str, said: list[Message]) -> bool:
        """Return whether another session has an agent say more, while it was cut off here."""
        known = kept.load(self._session.workspace.root, name)
        return (
            known is not None
            and known.session != self._session.id
            and said[: len(known.messages)] != known.messages
        )

    def leave(self, entry: Entry) -> None:
        """Let go of one that nobody will ask again, so that many do not fill the memory.

        One that failed can be retried, and what the user lets run unasked until the session ends
        goes on holding.
        """
        agent = self._session.agents.get(entry.actor)
        if agent is None or entry.keeps or entry.status != "completed":
            return
        if not agent.conversation.grants and not agent.conversation.pending:
            del self._session.agents[entry.actor]

    def clear(self, name: str) -> bool:
        """Forget a named agent's conversation, here and on disk; says whether there was one.

        Raises:
            UsageError: It is at work, here or in another session.
        """
        agent = self._session.agents.get(name)
        if agent is not None and agent.conversation.pending:
            raise UsageError(f"The agent {name} is at work.", code="E_BUSY", hint="Stop it first.")
        self.let_go(name)
        there = kept.clear(self._session.workspace.root, name)
        if agent is not None and agent.conversation.messages and name != "main":
            del self._session.agents[name]
            self._session.add_agent(agent.profile, agent.parent)
            there = True
        return there

    # --- a stop from another process --------------------------------------------------------------

    def stop_wanted(self, entry: Entry) -> bool:
        """Return whether another process has asked for its stop; the request is taken away."""
        path = stop_file(entry.id)
        if not path.exists():
            return False
        path.unlink(missing_ok=True)
        return True


def stop_file(identity: str) -> Path:
    """Return the file whose existence asks for the stop of an agent in another process."""
    return data_folder() / "agents" / "stop" / identity
