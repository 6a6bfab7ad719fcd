"""The history of a session's agents: their complete conversations and their definitions.

In memory, conversations are compacted, and a resumed session has no bindings of agents to
definitions. The log contains complete conversations and all bindings.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import msgspec
from hilum import (
    Agent,
    Image,
    Message,
    NoteMessage,
    Session,
    ToolMessage,
    ToolResult,
    make_repeat_report,
)
from hilum.events import (
    AgentStarted,
    AnyEvent,
    CallDone,
    ModelAnswered,
    PluginEvent,
    PromptQueued,
    RoundEnded,
    RunStarted,
)

from hilum_agents.definitions.definition import Definition, Permission

BINDING = "agents.held"
_OPTIONAL_FIELDS = ("agents", "skills", "answer", "form")


class _Binding(msgspec.Struct):
    """The data of an event that binds an agent to a definition."""

    agent: str
    definition: str
    path: str
    permissions: tuple[dict[str, str | None], ...] = ()
    agents: tuple[str, ...] | None = None
    skills: tuple[str, ...] | None = None
    answer: str = ""
    form: dict[str, object] | None = None


class History:
    """A fold over the session's log, computed on first use because most sessions need none.

    Args:
        session: The session.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._seq = 0
        self._messages: dict[str, list[Message]] = {}
        self._results: dict[str, list[ToolResult]] = {}
        # The images of prompts whose runs have not started.
        self._images: dict[str, tuple[Image, ...]] = {}
        # The ids of calls that the user repeated.
        self._repeated: set[str] = set()
        self._bindings: dict[str, Definition] = {}

    def messages(self, agent: Agent) -> Sequence[Message]:
        """Return all messages of an agent's conversation, including compacted ones."""
        # The epoch counts compactions. Without compactions, the log need not be read.
        if not agent.conversation.epoch:
            return agent.conversation.messages  # never compacted
        self._read()
        return self._messages.get(agent.name, agent.conversation.messages)

    def binding(self, agent: str) -> Definition | None:
        """Return the definition to which an agent was last bound, or ``None`` if there is none."""
        self._read()
        return self._bindings.get(agent)

    def bind(self, agent: str, definition: Definition) -> None:
        """Log the definition that an agent is bound to from now on."""
        data: dict[str, Any] = {
            "agent": agent,
            "definition": definition.name,
            "path": str(definition.path),
            "permissions": [attrs.asdict(each) for each in definition.permissions],
        }
        for name in _OPTIONAL_FIELDS:
            value = getattr(definition, name)
            if value not in (None, ""):
                data[name] = value
        self._session.note(BINDING, **data)

    def _read(self) -> None:
        while page := self._session.journal.since(self._seq):
            for event in page:
                if isinstance(event, PluginEvent) and event.name == BINDING:
                    self._apply_binding(event)
                else:
                    self._apply_message(event)
            self._seq = page[-1].seq

    def _apply_message(self, event: AnyEvent) -> None:
        """Apply a message; compaction events are deliberately ignored."""
        match event:
            case AgentStarted(agent=name, messages=messages):
                self._messages[name] = [*messages]
                self._results[name] = []
            case PromptQueued(run=run, images=images) if images:
                self._images[run] = images
            case RunStarted(agent=name, run=run, message=message, repeats=repeats):
                if repeats is not None:
                    self._repeated.add(repeats.call.id)
                whole = message.with_image_data(self._images.pop(run, ()))
                self._messages.setdefault(name, []).append(whole)
            case ModelAnswered(agent=name, message=message):
                self._messages.setdefault(name, []).append(message)
            case CallDone(agent=name, result=result):
                self._results.setdefault(name, []).append(result)
            case RoundEnded(agent=name, notes=notes):
                conversation = self._messages.setdefault(name, [])
                results = self._results.pop(name, [])
                if results:
                    round_message: Message = ToolMessage(tuple(results))
                    if results[0].call_id in self._repeated:
                        round_message = make_repeat_report(round_message)
                    conversation.append(round_message)
                if notes:
                    conversation.append(NoteMessage("\n\n".join(notes)))

    def _apply_binding(self, event: PluginEvent) -> None:
        try:
            binding = msgspec.convert(event.data, _Binding)
        except msgspec.ValidationError:  # any plugin may write an event with this name
            return
        permissions = [Permission(**each) for each in binding.permissions]  # type: ignore[arg-type]
        self._bindings[binding.agent] = Definition(
            binding.definition,
            Path(binding.path),
            agents=binding.agents,
            skills=binding.skills,
            permissions=tuple(permissions),
            answer=binding.answer,
            form=binding.form,
        )
