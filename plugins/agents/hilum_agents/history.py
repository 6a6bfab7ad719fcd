"""What the log has of a session's agents and the conversations do not: what trims took, and what
each agent is held to.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
import msgspec
from hilum import Agent, Message, NoteMessage, Session, ToolMessage, ToolResult
from hilum.events import (
    AgentStarted,
    AnyEvent,
    CallDone,
    ModelAnswered,
    PluginEvent,
    RoundEnded,
    RunStarted,
)

from hilum_agents.definitions.definition import Definition, Permission

HELD = "agents.held"
_FIELDS = ("agents", "skills", "answer", "form")


class History:
    """A fold over the log, made when it is needed first: most sessions have no agent that it
    matters to.

    Args:
        session: The session.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._seq = 0
        self._said: dict[str, list[Message]] = {}
        self._results: dict[str, list[ToolResult]] = {}
        self._held: dict[str, Definition] = {}

    def messages(self, agent: Agent) -> Sequence[Message]:
        """Return all that was said in an agent's conversation, with what was cut from it since."""
        if not agent.conversation.epoch:
            return agent.conversation.messages
        self._read()
        return self._said.get(agent.name, agent.conversation.messages)

    def held(self, agent: str) -> Definition | None:
        """Return what an agent was last held to, ``None`` where the log does not say."""
        self._read()
        return self._held.get(agent)

    def hold(self, agent: str, definition: Definition) -> None:
        """Write down what an agent is held to from now on."""
        narrow = {
            name: value
            for name in _FIELDS
            if (value := getattr(definition, name)) not in (None, "")
        }
        permissions = [attrs.asdict(each) for each in definition.permissions]
        about = {"agent": agent, "definition": definition.name, "path": str(definition.path)}
        self._session.note(HELD, **about, permissions=permissions, **narrow)

    def _read(self) -> None:
        while page := self._session.journal.since(self._seq):
            for event in page:
                if isinstance(event, PluginEvent) and event.name == HELD:
                    self._hold(event)
                else:
                    self._fold(event)
            self._seq = page[-1].seq

    def _fold(self, event: AnyEvent) -> None:
        """Take in what was said; what a trim takes stays."""
        match event:
            case AgentStarted(agent=name, messages=messages):
                self._said[name], self._results[name] = [*messages], []
            case (
                RunStarted(agent=name, message=message) | ModelAnswered(agent=name, message=message)
            ):
                self._said.setdefault(name, []).append(message)
            case CallDone(agent=name, result=result):
                self._results.setdefault(name, []).append(result)
            case RoundEnded(agent=name, notes=notes):
                said = self._said.setdefault(name, [])
                results = self._results.pop(name, [])
                if results:
                    said.append(ToolMessage(tuple(results)))
                if notes:
                    said.append(NoteMessage("\n\n".join(notes)))

    def _hold(self, event: PluginEvent) -> None:
        try:
            told = msgspec.convert(event.data, _Told)
        except msgspec.ValidationError:  # any plugin may write an event of this name
            return
        permissions = tuple(Permission(**each) for each in told.permissions)  # type: ignore[arg-type]
        self._held[told.agent] = Definition(
            told.definition,
            Path(told.path),
            agents=told.agents,
            skills=told.skills,
            permissions=permissions,
            answer=told.answer,
            form=told.form,
        )


class _Told(msgspec.Struct):
    agent: str
    definition: str
    path: str
    permissions: tuple[dict[str, str | None], ...] = ()
    agents: tuple[str, ...] | None = None
    skills: tuple[str, ...] | None = None
    answer: str = ""
    form: dict[str, object] | None = None
