"""Writing events: secrets are removed, and the event is folded, stored and shown to readers."""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec.structs import replace

from hilum import events as ev
from hilum.agents import Agent
from hilum.journal import Journal
from hilum.messages import replace_surrogates
from hilum.redaction import Redaction
from hilum.repetition import may_have_changed
from hilum.runs import Run
from hilum.wall_clock import read_clock


class EventWriter:
    """The writer of a session's events.

    Args:
        journal: The log of the session and the log's readers.
        redaction: The object that removes secrets from events.
        agents: The session's agents by name.
        runs: The runs that have not ended, by id.
    """

    def __init__(
        self,
        journal: Journal,
        redaction: Redaction,
        agents: dict[str, Agent],
        runs: dict[str, Run],
    ) -> None:
        self._journal = journal
        self._redaction = redaction
        self._agents = agents
        self._runs = runs

    def write(self, event: ev.Event, agent: Agent | None = None, run: str = "") -> int:
        """Write an event; see ``Session.emit``."""
        # The prompts of an agent with a parent come from the parent's model, not from the user.
        by_model = agent is not None and bool(agent.parent)
        # The sequence number is taken after the redaction, because a failed redaction writes an
        # event of its own first.
        redacted = self._redaction.event(event, by_model=by_model)
        seq = self._journal.last + 1
        at = read_clock()
        whose: dict[str, Any] = {}
        if agent is not None:
            current = agent.conversation.run
            run = run or (current.id if current else "")
            whose = {"agent": agent.name, "run": run}
        written = replace(redacted, seq=seq, at=at, **whose)
        events = [written]
        if agent is not None:
            # An event that cannot be encoded must not be folded either, because the conversation
            # would then differ from that of a resumed session.
            ev.encode(written)
            before = agent.conversation.state
            self.fold(written, agent)
            _keep_unwritten(event, agent)
            state = agent.conversation.state
            if state != before:
                # The event and its change of state are appended together, so that no reader sees
                # one without the other.
                changed = ev.StateChanged(seq=seq + 1, at=at, state=state, previous=before, **whose)
                events.append(changed)
        shown = None
        if isinstance(event, ev.ApprovalAsked) and event is not redacted:
            # The user must see what would run, so readers get the question with its secrets.
            question = replace(event, seq=seq, at=at, **whose)
            shown = [question, *events[1:]]
        self._journal.append(events, shown)
        # Waiting tasks are woken after the append, so that they find the end of the run in the log.
        self._end_output(written)
        return seq

    def fold(self, event: ev.Event, agent: Agent) -> None:
        """Fold an event of an agent into the state of its conversation.

        A call that may have changed files also resets the repetition counts of other agents.
        """
        started = None
        if isinstance(event, ev.CallDone) and agent.conversation.run is not None:
            started = agent.run.calls[event.result.call_id].started
        agent.conversation.apply(event)
        if started is None:
            return
        result = event.result  # type: ignore[attr-defined]
        if not may_have_changed(started, result):
            return
        for other in self._agents.values():
            if other is not agent:
                other.conversation.failures.clear()

    def show_output(
        self, seq: int, agent: Agent, kind: str, text: str, call_id: str = "", tool: str = ""
    ) -> None:
        """Show readers a piece of output that belongs to the event ``seq``. It is not stored."""
        current = agent.conversation.run
        run = current.id if current else ""
        key = (seq, kind, call_id)
        self._journal.delta(key, agent.name, run, replace_surrogates(text), tool)

    def _end_output(self, event: ev.Event) -> None:
        """Drop the streamed output that an event replaces, and wake tasks that wait for a run."""
        self._journal.drop_replaced(event)
        if isinstance(event, ev.RunEnded) and event.run in self._runs:
            self._journal.when_durable(event.seq, partial(self._end_run, event))

    def _end_run(self, event: ev.RunEnded) -> None:
        run = self._runs.pop(event.run, None)
        if run is not None:
            run._finish(event)


def _keep_unwritten(event: ev.Event, agent: Agent) -> None:
    """Keep in memory the parts of an event that this process needs but the log must not contain.

    Calls run with the secrets that the model wrote. A lasting approval applies to the scope that
    the user saw; a resumed session asks again.
    """
    if isinstance(event, ev.ModelAnswered):
        for call in event.message.calls:
            state = agent.run.calls[call.id]
            if state.withheld:
                state.written = call
    elif isinstance(event, ev.ApprovalAsked):
        agent.run.calls[event.call.id].scope = event.scope
    elif isinstance(event, ev.ApprovalAnswered) and event.accepted:
        for state in agent.run.calls.values():
            if state.asked is None or state.asked.id != event.id:
                continue
            state.edited = event.arguments
            if state.scope and event.remember != "once":
                agent.conversation.grants.add(state.scope)
