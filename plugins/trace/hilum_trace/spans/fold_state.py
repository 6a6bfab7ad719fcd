"""What the fold of a log knows: the spans so far, and which of them have not ended.

The modules for the kinds of events (``runs``, ``model_calls``, ``tool_calls``, ``plugin_events``)
change this state through its methods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from hilum.events import Event

from hilum_trace.spans.texts import redact_beginning, to_line
from hilum_trace.spans.trace_data import (
    FORGOTTEN,
    INTERRUPTED,
    Kind,
    PrefixBreak,
    Span,
    Trace,
    UnreadableEvent,
)


class Actor(msgspec.Struct, eq=False):
    """What the fold knows about an agent.

    Attributes:
        home: The span that the agent's runs are part of: the session, or the sub-agent.
        queues: The waits of queued prompts, by run.
        boundary: When the last turn ended or the run began, which is where the next turn begins.
        turn: The turn that has not ended.
        model: The model call that has not ended.
        calls: The calls by id. Ids may occur again in a later run.
        breaks: Causes that the next model call will have.
        frozen: Whether a prompt was frozen before.
        parts: The layers and tools of the last prompt, as ``layer NAME`` and ``tool NAME``.
        last_model: Model of the previous model call.
        cached: Cached tokens of the previous call.
        last_at: Time of the last event that was not written at the end of something longer.
    """

    home: Span
    run: Span | None = None
    queues: dict[str, Span] = {}
    boundary: float = 0.0
    turn: Span | None = None
    model: Span | None = None
    calls: dict[str, Span] = {}
    breaks: list[PrefixBreak] = []
    frozen: bool = False
    parts: frozenset[str] = frozenset()
    last_model: str = ""
    cached: int = 0
    last_at: float = 0.0


class FoldState:
    """The spans of the events so far, and what the next events may refer to.

    Args:
        redact: See ``SpanFold``.
        forgets: See ``SpanFold``.

    Attributes:
        trace: The spans so far.
        root: The span of the session.
        actors: The agents by name.
        runs: The spans of runs by id.
        asked: Approvals and questions that have not been answered, by id.
        starters: The call that started an agent, as its agent and its id, by the name of the agent.
        agent_names: The names that are shown for agents.
        open: The spans without an end, by id, for the ends of runs.
        queues: The queued prompts among them.
        cut_runs: When the processes of runs ended that no process has resumed.
    """

    def __init__(self, redact: Callable[[str], str] | None, *, forgets: bool) -> None:
        self.trace = Trace()
        self._redact = redact
        self._forgets = forgets
        self._ended_turns: list[Span] = []
        self.root = self.add("session", "session", None, 0.0)
        self.actors: dict[str, Actor] = {}
        self.runs: dict[str, Span] = {}
        self.asked: dict[str, Span] = {}
        self.starters: dict[str, tuple[str, str]] = {}
        self.agent_names: dict[str, str] = {}
        self.open: dict[int, Span] = {}
        # The same by the id of the parent: one response may begin very many calls.
        self._open_children: dict[int | None, dict[int, Span]] = {}
        self.queues: dict[int, Span] = {}
        self.cut_runs: dict[str, float] = {}

    def begin(self, event: Event | UnreadableEvent) -> None:
        """Record the time of the next event, and that its run continues."""
        trace = self.trace
        trace.events += 1
        for turn in self._ended_turns:
            self._forget(turn)
        self._ended_turns = []
        if event.at:
            trace.last_at = max(trace.last_at, event.at)
            self.root.start = min(self.root.start or event.at, event.at)

    def add(
        self, kind: Kind, name: str, parent: Span | None, start: float, event: Any = None
    ) -> Span:
        """Add a span, which begins; ``event`` names its agent and run."""
        span = Span(
            id=len(self.trace.spans),
            kind=kind,
            name=name,
            parent=None if parent is None else parent.id,
            start=start,
        )
        if event is not None:
            span.agent = event.agent
            span.run = event.run
        self.trace.spans.append(span)
        if parent is not None:
            self._add_open(span)
        if kind == "queue":
            self.queues[span.id] = span
        return span

    def end(self, span: Span | None, at: float) -> None:
        """End a span that has not ended."""
        if span is not None and span.end is None:
            span.end = max(at, span.start)
            self.open.pop(span.id, None)
            siblings = self._open_children.get(span.parent, {})
            siblings.pop(span.id, None)
            if not siblings:
                self._open_children.pop(span.parent, None)
            self.queues.pop(span.id, None)
            if self._forgets and span.kind == "turn":
                self._ended_turns.append(span)

    def end_below(self, parent: Span, at: float) -> None:
        """End the spans that are part of an ended one; the log has no end of their own."""
        inside = [parent.id]
        while inside:
            for span in list(self._open_children.get(inside.pop(), {}).values()):
                if span.kind == "agent":
                    continue
                inside.append(span.id)
                # A turn has no end of its own if it is the last one of its run.
                if span.kind != "turn":
                    span.error = span.error or INTERRUPTED
                self.end(span, at)

    def _forget(self, turn: Span) -> None:
        """Replace a turn and what is part of it, except for agents and what has not ended."""
        spans = self.trace.spans
        inside = {turn.id}
        kept: set[int] = set()
        for index in range(turn.id + 1, len(spans)):
            span = spans[index]
            if span.parent not in inside:
                continue
            inside.add(index)
            if span.end is None or span.kind in ("agent", "run"):
                above: int | None = index
                while above in inside and above not in kept:
                    kept.add(above)
                    above = spans[above].parent
        for index in inside - kept:
            spans[index] = FORGOTTEN
        actor = self.actors.get(turn.agent)
        if actor is not None:
            actor.calls = {
                identity: call
                for identity, call in actor.calls.items()
                if spans[call.id] is not FORGOTTEN
            }

    def find_actor(self, event: Event | UnreadableEvent) -> Actor:
        """Return what is known about the agent of an event."""
        actor = self.actors.get(event.agent)
        if actor is None:
            actor = self.actors[event.agent] = Actor(home=self.root)
        return actor

    def find_run(self, event: Event | UnreadableEvent) -> Span | None:
        """Return the run of an event, if it has begun."""
        return self.runs.get(event.run) if event.run else None

    def find_place(self, event: Event | UnreadableEvent) -> Span:
        """Return the innermost span that is known for an event: its run, its agent, the session."""
        if not event.agent:
            return self.find_run(event) or self.root
        actor = self.find_actor(event)
        return self.find_run(event) or actor.queues.get(event.run) or actor.home

    def find_turn(self, event: Event, number: int | None = None) -> Span:
        """Return the turn that an event is part of, which may begin with the event."""
        actor = self.find_actor(event)
        turn = actor.turn
        if turn is not None and turn.run == event.run:
            known = turn.facts.get("turn")
            if number is None or known is None or known == number:
                if number is not None:
                    turn.facts["turn"] = number
                    turn.name = f"turn {number}"
                return turn
        if turn is not None:
            # The end of the turn is missing, as in a damaged log.
            self.end(turn, event.at)
            self.end_below(turn, event.at)
        start = actor.boundary or event.at
        name = "turn" if number is None else f"turn {number}"
        turn = self.add("turn", name, self.find_place(event), min(start, event.at), event)
        if number is not None:
            turn.facts["turn"] = number
        actor.turn = turn
        actor.model = None
        return turn

    def find_inner(self, event: Event) -> Span:
        """Return the turn of an event that does not begin one, or the span around it."""
        turn = self.find_actor(event).turn if event.agent else None
        if turn is not None and turn.run == event.run:
            return turn
        return self.find_place(event)

    def shorten(self, text: str, limit: int = 120) -> str:
        """Return the beginning of a text on one line, without secrets."""
        if self._redact is not None:
            text = redact_beginning(text, limit * 4, self._redact)
        return to_line(text, limit)

    def reopen(self, home: Span) -> None:
        """Continue a span of a sub-agent, which has another run."""
        home.end = None
        self._add_open(home)

    def _add_open(self, span: Span) -> None:
        self.open[span.id] = span
        self._open_children.setdefault(span.parent, {})[span.id] = span

    def cut_off(self, span: Span, at: float) -> None:
        """End a span whose process has ended; ``at`` is the time of the last event of the process."""
        span.error = span.error or INTERRUPTED
        span.message = span.message or "hilum was ended or killed meanwhile."
        span.facts["cut_off"] = True
        if span.attempts and span.attempts[-1].end is None:
            span.attempts[-1].end = at
            span.attempts[-1].error = INTERRUPTED
        self.end(span, at)

    def end_wait(self, span: Span, at: float) -> None:
        """End a wait for the user, and count it for the span around it."""
        self.end(span, at)
        span.waits["user"] = span.seconds
        parent = FORGOTTEN if span.parent is None else self.trace.spans[span.parent]
        if parent is not FORGOTTEN:
            parent.waits["user"] = parent.waits.get("user", 0.0) + span.seconds
