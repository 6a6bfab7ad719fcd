"""The agents in a session that entries run as: made when one begins, with what was said before, and kept when it ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hilum import Profile, UsageError, data_folder
from hilum.messages import writable

from hilum_agents.runs import kept
from hilum_agents.runs.records import Entry

if TYPE_CHECKING:
    from hilum import Agent, Session


class Actors:
    """See the module.

    Args:
        session: The session.

    Attributes:
        joined: Names of agents that the user may prompt himself; what they are prompted with counts as started here.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._literal: Counter[str] = Counter()
        self.joined: set[str] = set()

    # --- prompts ------------------------------------------------------------------------------------------------------

    @contextmanager
    def literal(self, text: str) -> Iterator[None]:
        """While this lasts, the text is a prompt as it is: no command, and addressed to nobody."""
        text = writable(text)
        self._literal[text] += 1
        try:
            yield
        finally:
            self._literal -= Counter({text: 1})

    def is_literal(self, text: str) -> bool:
        """Whether a prompt on its way is one of ours."""
        return text in self._literal

    @property
    def speaking(self) -> bool:
        """Whether a prompt of ours is on its way."""
        return bool(self._literal)

    # --- coming and going ---------------------------------------------------------------------------------------------

    def enter(self, profile: Profile, owner: str, *, keeps: bool) -> Agent:
        """See that an agent is there, as it is defined now and with what was said before.

        Args:
            profile: What it is; its name is the agent's in the session.
            owner: Name of the agent that started it, empty for the user.
            keeps: Whether its conversation is one that outlives sessions.
        """
        agents, root = self._session.agents, self._session.workspace.root
        agent = agents.get(profile.name)
        if agent is not None and self.works(profile.name):
            return agent  # it goes on as what it began
        messages = tuple(agent.conversation.messages) if agent else ()
        fresh = agent is None or (agent.profile, agent.parent) != (profile, owner)
        if keeps:
            known = kept.load(root, profile.name)
            if known is not None and (agent is None or known.session != self._session.id):
                messages, fresh = tuple(known.messages), True
        if agent is None or fresh:
            agents.pop(profile.name, None)
            agent = self._session.add_agent(profile, owner, messages)
        return agent

    def works(self, name: str) -> bool:
        """Whether an agent is at work, whoever started it."""
        agent = self._session.agents.get(name)
        return agent is not None and bool(agent.conversation.pending) and agent.scope is not None

    def keep(self, entry: Entry) -> str:
        """Write down the conversation of one that keeps it; gives what went wrong, empty for nothing."""
        agent = self._session.agents.get(entry.actor)
        if not entry.keeps or agent is None:
            return ""
        root, said = str(self._session.workspace.root), list(agent.conversation.messages)
        try:
            kept.save(kept.Kept(agent=entry.actor, workspace=root, session=self._session.id, messages=said))
        except OSError as error:
            return f"The conversation of {entry.agent} could not be kept: {error}."
        return ""

    def leave(self, entry: Entry) -> None:
        """Let go of one that nobody will ask again, so that many do not fill the memory.

        One that failed can be retried, and what the user lets run unasked until the session ends goes on holding.
        """
        agent = self._session.agents.get(entry.actor)
        if agent is None or entry.keeps or entry.status != "completed":
            return
        if not agent.conversation.grants and not agent.conversation.pending:
            del self._session.agents[entry.actor]

    def clear(self, name: str) -> bool:
        """Forget a named agent's conversation, here and on disk; says whether there was one.

        Raises:
            UsageError: It is at work.
        """
        agent = self._session.agents.get(name)
        if agent is not None and agent.conversation.pending:
            raise UsageError(f"The agent {name} is at work.", code="E_BUSY", hint="Stop it first.")
        there = kept.clear(self._session.workspace.root, name)
        if agent is not None and agent.conversation.messages and name != "main":
            del self._session.agents[name]
            self._session.add_agent(agent.profile, agent.parent)
            there = True
        return there

    # --- a stop from another process ----------------------------------------------------------------------------------

    def stop_wanted(self, entry: Entry) -> bool:
        """Whether another process has asked for its stop; the request is taken away."""
        path = stop_file(entry.id)
        if not path.exists():
            return False
        path.unlink(missing_ok=True)
        return True


def stop_file(identity: str) -> Path:
    """Give the file whose existence asks for the stop of an agent in another process."""
    return data_folder() / "agents" / "stop" / identity
