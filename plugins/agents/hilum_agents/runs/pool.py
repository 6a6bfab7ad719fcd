"""The pool of a session's agents that execute jobs.

The pool creates an agent when its job begins, with the messages of its earlier conversation, and
saves the conversation when the job ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import attrs
import trio
from hilum import Agent, Message, Profile, Session, UsageError, data_folder
from hilum.messages import replace_surrogates

from hilum_agents.agents import Agents
from hilum_agents.runs import conversations
from hilum_agents.runs.conversations import StoredConversation
from hilum_agents.runs.jobs import Job

if TYPE_CHECKING:
    from hilum_agents.definitions.definition import Definition

# Seconds after which an unused lock on a conversation is released.
UNUSED_LOCK_TIMEOUT = 10.0


@attrs.frozen
class _Lock:
    """A conversation lock and the trio time at which it was acquired."""

    file: IO[bytes]
    since: float


class AgentPool:
    """The session's agents that execute jobs.

    Args:
        session: The session.

    Attributes:
        joined: Names of the agents that the user may prompt directly. Prompts to these agents
            become jobs.
        definitions: The definition to which each job's agent is bound when the job begins, by job
            id.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._literal: Counter[str] = Counter()
        self._all_queued = trio.Event()
        self._locks: dict[str, _Lock] = {}
        self._loaded: set[str] = set()
        self.joined: set[str] = set()
        self.definitions: dict[str, Definition] = {}

    # --- prompts ----------------------------------------------------------------------------------

    @contextmanager
    def literal(self, text: str) -> Iterator[None]:
        """Treat a prompt with this text as plain text inside this context.

        A task is never a command or a call of another agent, even if it looks like one.
        """
        # The session compares prompts in the form in which the log stores them.
        text = replace_surrogates(text)
        # Texts are counted, because several agents may get the same text at the same time.
        self._literal[text] += 1
        try:
            yield
        finally:
            # Subtracting drops counts of zero, so an empty counter means that nothing is being
            # prompted.
            self._literal -= Counter({text: 1})
            if not self._literal:
                self._all_queued.set()
                self._all_queued = trio.Event()

    async def wait_until_queued(self) -> None:
        """Wait until all prompts of the pool are queued in the session."""
        while self._literal:
            await self._all_queued.wait()

    def is_literal(self, text: str) -> bool:
        """Return whether the pool is currently prompting an agent with a text."""
        return text in self._literal

    @property
    def is_prompting(self) -> bool:
        """Whether the pool is currently prompting any agent."""
        return bool(self._literal)

    # --- agents -----------------------------------------------------------------------------------

    def enter(self, profile: Profile, owner: str, *, persistent: bool) -> Agent:
        """Add an agent to the session, or update its profile and messages, and return the agent.

        Args:
            profile: The profile; its name is the agent's name in the session.
            owner: Name of the agent that started this agent; empty for the user.
            persistent: Whether the agent's conversation outlives the session.
        """
        agents = self._session.agents
        agent = agents.get(profile.name)
        if agent is not None and self.is_running(profile.name):
            return agent  # a run keeps the profile with which it started
        messages = tuple(agent.conversation.messages) if agent else ()
        outdated = agent is None or (agent.profile, agent.parent) != (profile, owner)
        if persistent:
            self._loaded.add(profile.name)
            stored = conversations.load(self._session.workspace.root, profile.name)
            # The messages on disk are newer if another session has written or deleted them since.
            if stored is not None and (agent is None or stored.session != self._session.id):
                messages = tuple(stored.messages)
                outdated = True
                if messages:
                    self._note_continued(profile.name)
        if agent is None or outdated:
            agents.pop(profile.name, None)
            agent = self._session.add_agent(profile, owner, messages)
        return agent

    def _note_continued(self, name: str) -> None:
        """Inform the user that an agent knows more than what was said to it in this session."""
        say = (
            f"The agent {name} continues its conversation of an earlier session."
            f" `hilum agents clear {name}` deletes it."
        )
        self._session.note("agents.continued", say=say, agent=name)

    def bind(self, actor: str, definition: Definition | None) -> None:
        """Bind an agent in the session to a definition, if there is one."""
        agents = self._session.plugin(Agents)
        if agents is not None and definition is not None:
            agents.bind(actor, definition)

    def is_running(self, name: str) -> bool:
        """Return whether an agent is running, regardless of who prompted it."""
        agent = self._session.agents.get(name)
        return agent is not None and bool(agent.conversation.pending) and agent.scope is not None

    def leave(self, job: Job) -> None:
        """Remove a job's agent from the session if it is no longer needed.

        Without removal, thousands of sub-agents would accumulate in memory. A failed agent stays,
        because it can be retried. An agent for which the user granted approvals for the session
        also stays.
        """
        agent = self._session.agents.get(job.actor)
        if agent is None or job.persistent or job.status != "completed":
            return
        if not agent.conversation.grants and not agent.conversation.pending:
            del self._session.agents[job.actor]

    # --- persistent conversations -----------------------------------------------------------------

    def claim(self, name: str) -> bool:
        """Lock the conversation of a named agent for this session.

        Returns:
            Whether this session now holds the lock.
        """
        if name not in self._locks:
            file = conversations.lock(self._session.workspace.root, name)
            if file is None:
                return False
            self._locks[name] = _Lock(file, trio.current_time())
        return True

    def release(self, name: str) -> None:
        """Release the lock on a named agent's conversation."""
        lock = self._locks.pop(name, None)
        if lock is not None:
            lock.file.close()

    def release_all(self) -> None:
        """Release all locks."""
        for name in list(self._locks):
            self.release(name)

    def release_unused(self, is_busy: Callable[[str], bool]) -> None:
        """Release the locks on conversations of agents that have not been prompted in the meantime.

        Args:
            is_busy: A function that returns whether an agent is running a job.
        """
        oldest = trio.current_time() - UNUSED_LOCK_TIMEOUT
        for name, lock in list(self._locks.items()):
            if lock.since < oldest and not is_busy(name) and not self.is_running(name):
                self.release(name)

    @property
    def holds_locks(self) -> bool:
        """Whether this session holds any lock on a conversation."""
        return bool(self._locks)

    def keep(self, job: Job) -> str:
        """Save a job's conversation if it is persistent, and release the lock on it.

        Returns:
            The reason why the conversation could not be saved; empty on success.
        """
        agent = self._session.agents.get(job.actor)
        if not job.persistent or agent is None or not job.run:
            self.release(job.actor)
            return ""
        messages = list(agent.conversation.messages)
        # After a crash, another session may have continued the conversation; its messages take
        # precedence.
        if not self.claim(job.actor) or self._is_superseded(job.actor, messages):
            return (
                f"Another session has continued the conversation of {job.agent}. The messages of"
                " this run are in this session only."
            )
        conversation = StoredConversation(
            agent=job.actor,
            workspace=str(self._session.workspace.root),
            session=self._session.id,
            messages=messages,
        )
        try:
            conversations.save(conversation)
        except OSError as error:
            return f"The conversation of {job.agent} could not be saved: {error}."
        finally:
            self.release(job.actor)
        return ""

    def _is_superseded(self, name: str, messages: list[Message]) -> bool:
        """Return whether another session continued a conversation that was interrupted here."""
        if name in self._loaded:
            return False
        stored = conversations.load(self._session.workspace.root, name)
        if stored is None or stored.session == self._session.id:
            return False
        # If no other session continued the conversation, the agent begins with the stored messages.
        return messages[: len(stored.messages)] != stored.messages

    def clear(self, name: str) -> bool:
        """Delete a named agent's conversation, in the session and on disk.

        Returns:
            Whether there was a conversation.

        Raises:
            UsageError: The agent is running, here or in another session.
        """
        agent = self._session.agents.get(name)
        if agent is not None and agent.conversation.pending:
            raise UsageError(f"The agent {name} is running.", code="E_BUSY", hint="Stop it first.")
        # Deleting the conversation acquires the lock itself.
        self.release(name)
        existed = conversations.clear(self._session.workspace.root, name)
        if agent is not None and agent.conversation.messages and name != "main":
            del self._session.agents[name]
            self._session.add_agent(agent.profile, agent.parent)
            existed = True
        return existed

    # --- stops from other processes ---------------------------------------------------------------

    def take_stop_request(self, job: Job) -> bool:
        """Return whether another process has requested a stop, and delete that request."""
        path = stop_file(job.id)
        if not path.exists():
            return False
        path.unlink(missing_ok=True)
        return True


def stop_file(identity: str) -> Path:
    """Return the path of the file that signals the process running a job to stop the job."""
    return data_folder() / "agents" / "stop" / identity
