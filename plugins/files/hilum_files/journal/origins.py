"""Tracks the agent, run, turn and call that made each change, and what started the agent."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import msgspec
from hilum import events
from hilum.messages import replace_surrogates

from hilum_files.journal.records import Record, Scope

QUEUED = "agents.queued"
"""The event that the plugin for agents logs when one agent starts another."""
RESULT = "agents.result"
"""The event that the plugin for agents logs when an agent has finished or could not start."""
_KEY_FIELDS = {"call": 4, "turn": 3, "run": 2}


class Origin(NamedTuple):
    """The part of a session in which a change was made."""

    agent: str
    run: str
    turn: int = 0
    call: str = ""

    def key(self, scope: Scope) -> tuple[object, ...]:
        """Return the fields that identify the call, turn or run."""
        return tuple(self)[: _KEY_FIELDS[scope]]


class _Start(msgspec.Struct, frozen=True):
    """The fields of a ``QUEUED`` event that this module uses."""

    actor: str
    prompt: str
    agent_id: str = ""
    owner: str = ""
    owner_run: str = ""
    key: str = ""

    def origin(self) -> Origin:
        """Return the call that started an agent, or only its run if the call is unknown."""
        fields = self.key.rsplit("/", 3)
        if len(fields) == 4:
            _, run, turn, call = fields
            if run == self.owner_run and turn.isdecimal():
                return Origin(self.owner, run, int(turn), call)
        return Origin(self.owner, self.owner_run)


class OriginTracker:
    """Tracks which agents start which runs of other agents.

    Attributes:
        started: The origin of each sub-agent's run, keyed by that run.
    """

    def __init__(self) -> None:
        self.started: dict[str, Origin] = {}
        self._waiting: dict[str, list[_Start]] = {}
        self._parents: dict[str, str] = {}
        self._runs: dict[str, str] = {}

    def apply(self, event: events.AnyEvent) -> None:
        """Update the state with an event."""
        if isinstance(event, events.AgentStarted):
            self._parents[event.agent] = event.parent
        elif isinstance(event, events.PromptQueued):
            self._apply_prompt(event)
        elif isinstance(event, events.RunStarted):
            self._runs[event.agent] = event.run
        elif isinstance(event, events.RunEnded):
            self._runs.pop(event.agent, None)
        elif isinstance(event, events.PluginEvent):
            if event.name == QUEUED:
                self._apply_start(event)
            elif event.name == RESULT:
                self._forget(event.data.get("agent_id"))

    def _apply_start(self, event: events.PluginEvent) -> None:
        """Remember the origin of an agent's next run."""
        with suppress(msgspec.ValidationError):  # written by a later version of hilum
            start = msgspec.convert(event.data, _Start)
            self._waiting.setdefault(start.actor, []).append(start)

    def _forget(self, agent_id: object) -> None:
        for waiting in self._waiting.values():
            waiting[:] = [start for start in waiting if start.agent_id != agent_id]

    def _apply_prompt(self, event: events.PromptQueued) -> None:
        """Find the origin of a run from its prompt."""
        waiting = self._waiting.get(event.agent)
        if waiting is None:
            # A program added this agent, which works for its parent while the parent is running.
            parent = self._parents.get(event.agent, "")
            if parent in self._runs:
                self.started[event.run] = Origin(parent, self._runs[parent])
            return
        # The event does not contain the id of the start, but the prompt is the same.
        for start in waiting:
            if replace_surrogates(start.prompt) == event.text:
                waiting.remove(start)
                if start.owner_run:
                    self.started[event.run] = start.origin()
                return

    def trace(self, record: Record) -> list[Origin]:
        """Return the origins of a record and the runs that led to it, up to the user's prompt."""
        origin = Origin(record.agent, record.run, record.turn, record.call or record.id)
        origins = [origin]
        runs = {record.run}
        parent = self.started.get(record.run)
        # A damaged log could contain a cycle.
        while parent is not None and parent.run not in runs:
            origins.append(parent)
            runs.add(parent.run)
            parent = self.started.get(parent.run)
        return origins


def call_name(origin: Origin) -> str:
    """Return the name of a call with its run, which is unique in a session."""
    return f"{origin.run}:{origin.call}"


def find_named(origins: list[Origin], scope: Scope, name: str) -> list[Origin]:
    """Return the origins that match a name: a prefix of an id, or the number of a turn.

    A number without a run refers to the run that the user prompted. ``RUN:CALL`` names a call whose
    id another run has used, too.
    """
    if scope == "call":
        if ":" in name:
            named = [origin for origin in origins if call_name(origin).startswith(name)]
            if named:
                return named
        return [origin for origin in origins if origin.call.startswith(name)]
    if scope == "run":
        return [origin for origin in origins if origin.run.startswith(name)]
    run, _, number = name.rpartition(":")
    candidates = origins if run else origins[-1:]
    turns = [origin for origin in candidates if str(origin.turn) == number]
    return [origin for origin in turns if origin.run.startswith(run)]
