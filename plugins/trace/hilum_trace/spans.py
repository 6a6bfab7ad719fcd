"""Spans: the events of a session, folded into a tree of intervals.

Each event of the log belongs to exactly one span, also in logs that are damaged, that end in the
middle of a run, or that a newer hilum wrote. The fold reads no clock and performs no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, Literal

import msgspec
from hilum import events as ev
from hilum.events import Event
from hilum.messages import Usage, check_number, check_usage

from hilum_trace.bill.requests import SUB_AGENT

Kind = Literal[
    "session",
    "agent",
    "queue",
    "run",
    "turn",
    "model",
    "plugin_model",
    "compaction",
    "tool",
    "order",
    "approval",
    "question",
    "hook",
]
Wait = Literal["model", "retry", "user", "order", "queue", "down"]
PartChange = Literal["added", "removed", "changed"]
BreakCause = Literal["run", "compaction", "mode", "model", "provider"]

# The kinds of spans in which something waits, each with what it waits for.
_WAITS_OF: dict[Kind, tuple[Wait, ...]] = {
    "model": ("model", "retry"),
    "approval": ("user",),
    "question": ("user",),
    "order": ("order",),
}
_PROCESS_KINDS = ("model", "tool", "approval", "question")
_INTERRUPTED = "E_INTERRUPTED"
_CANCELLED = "Cancelled"
_QUEUED = "agents.queued"
_AGENT_EVENTS = (_QUEUED, "agents.status", "agents.result")
_ASKED = "plan.question_asked"
_ANSWERED = "plan.question_answered"
# A cached count may be lower than the last one by less than this share without a reason: providers
# cache in blocks, and count them differently from call to call.
_TOLERATED_LOSS = 0.1
# A smaller loss costs nothing worth reading about.
_MIN_LOSS = 512
# The longest secret that is recognized in a text that is shortened afterwards, in characters. A
# private key of 8192 bits has 6,400.
MARGIN = 8_000


class UnreadableEvent(msgspec.Struct, frozen=True):
    """An entry of a log that is not an event of this version.

    Attributes:
        type: The type of the event, from a newer hilum or a removed plugin; empty if the entry is
            damaged or missing.
        problem: Why the entry cannot be read.
    """

    seq: int
    type: str = ""
    problem: str = ""
    at: float = 0.0
    agent: str = ""
    run: str = ""


class Attempt(msgspec.Struct):
    """One request of a model call.

    Attributes:
        end: When the response was complete or the request failed; ``None`` while it runs.
        error: Code of the failure; empty if there is none. ``E_INTERRUPTED`` if the process ended
            during the request.
        action: What the kernel did about the failure: ``retry``, ``fallback``, ``compact`` or
            ``give_up``.
        wait: Seconds that the kernel waited before the next attempt.
    """

    model: str
    start: float
    end: float | None = None
    error: str = ""
    message: str = ""
    action: str = ""
    wait: float = 0.0


class PrefixBreak(msgspec.Struct):
    """A model call whose prompt does not begin with the one that the provider has cached.

    Attributes:
        cause: Why: a new ``run`` with other layers or tools, a ``compaction``, another ``mode`` or
            ``model``; ``provider`` if the prompt had not changed, but the provider's cached count
            fell.
        changed: What happened to the layers and tools that differ: whether they were ``added``,
            ``removed`` or ``changed``, by the names ``layer NAME`` and ``tool NAME``.
        cached_before: Cached tokens of the agent's previous call.
        cached: Cached tokens of this call.
    """

    cause: BreakCause
    changed: dict[str, PartChange] = {}
    cached_before: int = 0
    cached: int = 0


class Span(msgspec.Struct, eq=False, kw_only=True):
    """An interval of a session.

    Attributes:
        id: Index of the span in ``Trace.spans``. A parent has a lower id than its children.
        parent: Id of the span that this one is part of; ``None`` for the session.
        name: What the span shows: the prompt of a run, the model, the tool, the hook.
        start: Unix time in seconds.
        end: Unix time in seconds; ``None`` if the log does not contain the end.
        agent: Name of the agent; empty for the session.
        run: Id of the run; empty outside of runs.
        events: Sequence numbers of the events that belong to the span itself.
        waits: Seconds by what was waited for: the ``model`` (its first chunk), a ``retry``, the
            ``user``, the ``order`` of calls that use the same files or queues, the ``queue``, or
            for another process after one was killed (``down``).
        usage: Tokens and cost of the span itself, without its children.
        error: Code of the error that the span ended with.
        message: Text of the error.
        attempts: The requests of a model call, of which there are several after failures.
        breaks: Why the prompt of a model call does not continue the previous one.
        facts: Further details, as plain data.
    """

    id: int
    kind: Kind
    name: str
    parent: int | None
    start: float
    end: float | None = None
    agent: str = ""
    run: str = ""
    events: list[int] = []
    waits: dict[Wait, float] = {}
    usage: Usage = Usage()
    error: str = ""
    message: str = ""
    attempts: list[Attempt] = []
    breaks: list[PrefixBreak] = []
    facts: dict[str, Any] = {}

    @property
    def seconds(self) -> float:
        """Duration in seconds; 0 if the span has no end (see ``Trace.seconds``)."""
        return 0.0 if self.end is None else max(self.end - self.start, 0.0)

    @property
    def retries(self) -> int:
        """Number of requests beyond the first."""
        return max(len(self.attempts) - 1, 0)

    @property
    def cached_share(self) -> float | None:
        """Share of the input tokens that the provider had cached; ``None`` without input."""
        return self.usage.cached / self.usage.input if self.usage.input else None


FORGOTTEN = Span(id=-1, kind="turn", name="", parent=None, start=0.0, end=0.0)
"""The span in place of those that a fold has forgotten."""


class Trace(msgspec.Struct, eq=False):
    """The spans of a session.

    Attributes:
        session: Id of the session; empty if the log does not contain its beginning.
        spans: The spans; the first is that of the session. Parents precede their children.
        events: Number of the log's entries, each of which belongs to one span.
        unknown: Number of events by type that this version does not know.
        damaged: Sequence numbers of the entries that cannot be read.
        last_at: Time of the last event; the present if a process has the session open.
    """

    session: str = ""
    spans: list[Span] = []
    events: int = 0
    unknown: dict[str, int] = {}
    damaged: list[int] = []
    last_at: float = 0.0

    @property
    def root(self) -> Span:
        """The span of the session."""
        return self.spans[0]

    def seconds(self, span: Span) -> float:
        """Return the duration of a span, up to the last event if the span has no end."""
        end = self.last_at if span.end is None else span.end
        return max(end - span.start, 0.0)

    def children(self) -> list[list[Span]]:
        """Return the children of each span, by the id of the span, in the order of their starts."""
        children: list[list[Span]] = [[] for _ in self.spans]
        for span in self.spans:
            if span.parent is not None:
                children[span.parent].append(span)
        for group in children:
            group.sort(key=lambda span: (span.start, span.id))
        return children

    def totals(self) -> list[Usage]:
        """Return the usage of each span with all its descendants, by the id of the span."""
        totals = [span.usage for span in self.spans]
        # Children follow their parents, so a child is complete when it is added to its parent.
        for span in reversed(self.spans):
            if span.parent is not None and totals[span.id] != Usage():
                totals[span.parent] += totals[span.id]
        return totals

    def total_waits(self) -> list[dict[Wait, float]]:
        """Return the waits of each span with all its descendants, by the id of the span.

        The waits are sums: where calls or agents wait in parallel, they can be longer than the span.
        """
        totals: list[dict[Wait, float]] = [{} for _ in self.spans]
        for span in reversed(self.spans):
            own = totals[span.id]
            # A wait is also in the span around the one that waited; it counts once.
            for wait in _WAITS_OF.get(span.kind, ()):
                own[wait] = own.get(wait, 0.0) + span.waits.get(wait, 0.0)
            if span.parent is None:
                continue
            above = totals[span.parent]
            for wait, seconds in own.items():
                above[wait] = above.get(wait, 0.0) + seconds
        return totals


class _Actor(msgspec.Struct, eq=False):
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


class SpanFold:
    """The fold of a log into spans, one event at a time.

    Args:
        redact: Replaces secrets in a text. The fold shortens texts, after which a secret that was
            cut in two would not be recognized.
        forget: Whether to replace the spans of turns that have ended by ``FORGOTTEN`` when the next
            event is added, so that a long session takes little memory. The sums of such a trace are
            not complete.

    Attributes:
        trace: The spans so far.
    """

    def __init__(self, redact: Callable[[str], str] | None = None, *, forget: bool = False) -> None:
        self.trace = Trace()
        self._redact = redact
        self._forgets = forget
        self._ended_turns: list[Span] = []
        self._root = self._add("session", "session", None, 0.0)
        self._actors: dict[str, _Actor] = {}
        self._runs: dict[str, Span] = {}
        # Approvals and questions that have not been answered, by id.
        self._asked: dict[str, Span] = {}
        # The call that started an agent, by the name of the agent.
        self._starters: dict[str, tuple[str, str]] = {}
        self._agent_names: dict[str, str] = {}
        # The spans without an end, by id, for the ends of runs.
        self._open: dict[int, Span] = {}
        # The queued prompts among them.
        self._queues: dict[int, Span] = {}
        # When the processes of runs ended that no process has resumed.
        self._cut_runs: dict[str, float] = {}

    def apply(self, event: Event | UnreadableEvent) -> Span:
        """Add an event, and return the span that it belongs to."""
        trace = self.trace
        trace.events += 1
        for turn in self._ended_turns:
            self._forget(turn)
        self._ended_turns = []
        if event.at:
            trace.last_at = max(trace.last_at, event.at)
            self._root.start = min(self._root.start or event.at, event.at)
        if isinstance(event, UnreadableEvent):
            owner = self._unreadable(event)
        else:
            if event.run in self._cut_runs:
                del self._cut_runs[event.run]
            fold = _FOLDS.get(type(event), SpanFold._other)
            owner = fold(self, event)
            if event.agent and not isinstance(event, ev.ModelUsed | ev.HookCalled):
                self._actor(event).last_at = event.at
        owner.events.append(event.seq)
        return owner

    # --- spans ------------------------------------------------------------------------------------

    def _add(
        self, kind: Kind, name: str, parent: Span | None, start: float, event: Any = None
    ) -> Span:
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
            self._open[span.id] = span
        if kind == "queue":
            self._queues[span.id] = span
        return span

    def _end(self, span: Span | None, at: float) -> None:
        if span is not None and span.end is None:
            span.end = max(at, span.start)
            self._open.pop(span.id, None)
            self._queues.pop(span.id, None)
            if self._forgets and span.kind == "turn":
                self._ended_turns.append(span)

    def _end_below(self, parent: Span, at: float) -> None:
        """End the spans that are part of an ended one; the log has no end of their own."""
        inside = {parent.id}
        for span in list(self._open.values()):  # in the order of their ids
            if span.parent in inside and span.kind != "agent":
                inside.add(span.id)
                # A turn has no end of its own if it is the last one of its run.
                if span.kind != "turn":
                    span.error = span.error or _INTERRUPTED
                self._end(span, at)

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
        actor = self._actors.get(turn.agent)
        if actor is not None:
            actor.calls = {
                identity: call
                for identity, call in actor.calls.items()
                if spans[call.id] is not FORGOTTEN
            }

    def _actor(self, event: Event | UnreadableEvent) -> _Actor:
        actor = self._actors.get(event.agent)
        if actor is None:
            actor = self._actors[event.agent] = _Actor(home=self._root)
        return actor

    def _run(self, event: Event | UnreadableEvent) -> Span | None:
        return self._runs.get(event.run) if event.run else None

    def _place(self, event: Event | UnreadableEvent) -> Span:
        """Return the innermost span that is known for an event: its run, its agent, the session."""
        if not event.agent:
            return self._run(event) or self._root
        actor = self._actor(event)
        return self._run(event) or actor.queues.get(event.run) or actor.home

    def _turn(self, event: Event, number: int | None = None) -> Span:
        """Return the turn that an event is part of, which may begin with the event."""
        actor = self._actor(event)
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
            self._end(turn, event.at)
            self._end_below(turn, event.at)
        start = actor.boundary or event.at
        name = "turn" if number is None else f"turn {number}"
        turn = self._add("turn", name, self._place(event), min(start, event.at), event)
        if number is not None:
            turn.facts["turn"] = number
        actor.turn = turn
        actor.model = None
        return turn

    def _inner(self, event: Event) -> Span:
        """Return the turn of an event that does not begin one, or the span around it."""
        turn = self._actor(event).turn if event.agent else None
        if turn is not None and turn.run == event.run:
            return turn
        return self._place(event)

    def _shorten(self, text: str, limit: int = 120) -> str:
        """Return the beginning of a text on one line, without secrets."""
        if self._redact is not None:
            text = _redact_beginning(text, limit * 4, self._redact)
        return _to_line(text, limit)

    # --- session and agents -----------------------------------------------------------------------

    def _unreadable(self, event: UnreadableEvent) -> Span:
        trace = self.trace
        if event.type:
            trace.unknown[event.type] = trace.unknown.get(event.type, 0) + 1
        else:
            trace.damaged.append(event.seq)
        return self._place(event)

    def _other(self, event: Event) -> Span:
        return self._place(event)

    def _session_opened(self, event: ev.SessionOpened) -> Span:
        self.trace.session = event.session
        self._root.name = event.session
        self._root.facts = {"workspace": event.workspace, "version": event.version}
        if event.forked:
            self._root.facts["forked"] = event.forked
        return self._root

    def _agent_started(self, event: ev.AgentStarted) -> Span:
        actor = self._actors.get(event.agent)
        if not event.parent:
            self._actor(event)
            return self._root
        if actor is not None and actor.home is not self._root:
            # The agent started again, for example when the session was resumed.
            return actor.home
        parent = self._starter(event)
        name = self._agent_names.get(event.agent, event.agent)
        home = self._add("agent", name, parent, event.at, event)
        self._actors[event.agent] = _Actor(home=home)
        return home

    def _starter(self, event: ev.AgentStarted) -> Span:
        """Return the span that an agent is part of: the call that started it, if it is known."""
        owner, call = self._starters.get(event.agent, (event.parent, ""))
        actor = self._actors.get(owner)
        if actor is None:
            return self._root
        found = actor.calls.get(call)
        return found or actor.turn or actor.run or actor.home

    # --- runs and turns ---------------------------------------------------------------------------

    def _prompt_queued(self, event: ev.PromptQueued) -> Span:
        actor = self._actor(event)
        queue = self._add("queue", self._shorten(event.text), actor.home, event.at, event)
        actor.queues[event.run] = queue
        return queue

    def _run_started(self, event: ev.RunStarted | ev.RunRetried) -> Span:
        actor = self._actor(event)
        queue = actor.queues.pop(event.run, None)
        name = "continued run"
        if isinstance(event, ev.RunStarted):
            name = self._shorten(event.text)
        run = self._add("run", name, actor.home, event.at, event)
        run.facts = {"model": event.model, "mode": event.mode}
        if isinstance(event, ev.RunRetried):
            run.facts["previous"] = event.previous
        if queue is not None:
            self._end(queue, event.at)
            queue.waits["queue"] = queue.seconds
            run.waits["queue"] = queue.seconds
        if actor.run is not None and actor.run.end is None:
            self._end(actor.run, event.at)
            self._end_below(actor.run, event.at)
            actor.run.error = actor.run.error or _INTERRUPTED
        self._runs[event.run] = run
        if actor.home is not self._root:
            self._reopen(actor.home)
        actor.run = run
        actor.turn = None
        actor.model = None
        actor.boundary = event.at
        return run

    def _run_ended(self, event: ev.RunEnded) -> Span:
        actor = self._actor(event)
        run = self._run(event)
        if run is None:
            # The prompt was withdrawn before its run began, or the beginning is missing.
            queue = actor.queues.pop(event.run, None)
            self._end(queue, event.at)
            if queue is not None:
                queue.error = event.code or event.state
            return queue or actor.home
        if event.state != "completed":
            run.error = event.code or event.state
            run.message = event.error
        run.facts["state"] = event.state
        run.facts["turns"] = event.turns
        self._end_below(run, event.at)
        self._end(run, event.at)
        if actor.home is not self._root:
            # A sub-agent ends with its last run.
            self._end(actor.home, event.at)
        actor.turn = None
        actor.model = None
        return run

    def _runs_cut_off(self, event: ev.RunsCutOff | ev.SessionReopened) -> Span:
        if not event.last:
            return self._root  # an earlier version has written `RunsCutOff` too
        for span in list(self._open.values()):
            if span.kind in _PROCESS_KINDS and span.start <= event.last:
                self._cut_off(span, event.last)
            elif span.kind in ("run", "turn"):
                self._cut_runs.setdefault(span.run, event.last)
                down = max(event.at - event.last, 0.0)
                span.waits["down"] = span.waits.get("down", 0.0) + down
        for actor in self._actors.values():
            actor.model = None
        return self._root

    def _cut_off(self, span: Span, at: float) -> None:
        """End a span whose process has ended; ``at`` is the time of the last event of the process."""
        span.error = span.error or _INTERRUPTED
        span.message = span.message or "hilum was ended or killed meanwhile."
        span.facts["cut_off"] = True
        if span.attempts and span.attempts[-1].end is None:
            span.attempts[-1].end = at
            span.attempts[-1].error = _INTERRUPTED
        self._end(span, at)

    def finish(self, now: float | None = None) -> None:
        """Complete the trace after the last event.

        Args:
            now: The Unix time if a process has the session open, so that whatever has not ended is
                running. Otherwise, it ended with the last event of its process.
        """
        trace = self.trace
        if now is not None:
            # A run that was cut off and not resumed is not running, although the session is open.
            self._cut_off_rest(self._cut_runs)
            if self._open:
                trace.last_at = max(trace.last_at, now)
            return
        runs = {span.run: trace.last_at for span in self._open.values()}
        self._cut_off_rest(runs | self._cut_runs)
        self._end(self._root, trace.last_at)

    def _cut_off_rest(self, runs: Mapping[str, float]) -> None:
        """End what has not ended in runs whose processes have ended.

        Args:
            runs: The times of the last events of the processes, by the id of the run.
        """
        for span in list(self._open.values()):
            at = runs.get(span.run)
            if at is None:
                continue
            if span.kind == "turn":
                self._end(span, at)
            else:
                self._cut_off(span, at)
        # A sub-agent ends with its last run.
        for actor in self._actors.values():
            run = actor.run
            if actor.home.id in self._open and run is not None and run.end is not None:
                self._cut_off(actor.home, run.end)

    def _reopen(self, home: Span) -> None:
        home.end = None
        self._open[home.id] = home

    def _prompt_frozen(self, event: ev.PromptFrozen) -> Span:
        actor = self._actor(event)
        turn = self._turn(event)
        layers = [f"layer {layer.name}" for layer in event.layers]
        tools = [f"tool {spec.name}" for spec in event.tools]
        parts = frozenset(layers + tools)
        changed = {name: _find_change(name, actor.parts, parts) for name in event.changed}
        # The first prompt of an agent breaks nothing. A compaction is a break of its own, which
        # `Compacted` has already added.
        if actor.frozen and changed and event.cause != "compaction":
            actor.breaks.append(PrefixBreak(event.cause, changed))
        elif event.cause == "compaction" and changed:
            for known in actor.breaks:
                if known.cause == "compaction":
                    known.changed = changed
        actor.frozen = True
        actor.parts = parts
        return turn

    def _round_ended(self, event: ev.RoundEnded) -> Span:
        actor = self._actor(event)
        turn = self._inner(event)
        if turn is actor.turn:
            if event.objected:
                turn.facts["objected"] = True
            self._end(turn, event.at)
            self._end_below(turn, event.at)
            actor.turn = None
            actor.model = None
        actor.boundary = event.at
        return turn

    # --- models -----------------------------------------------------------------------------------

    def _model_started(self, event: ev.ModelStarted) -> Span:
        actor = self._actor(event)
        turn = self._turn(event, event.turn)
        span = actor.model
        if span is None or span.end is not None:
            span = self._add("model", event.model, turn, event.at, event)
            span.facts = {"turn": event.turn, "estimate": event.estimate}
            actor.model = span
            span.breaks = actor.breaks
            actor.breaks = []
        elif span.attempts and span.attempts[-1].end is None:
            # The process ended during the request, and the session was resumed.
            last = span.attempts[-1]
            last.end = event.at
            last.error = _INTERRUPTED
        span.name = event.model
        span.attempts.append(Attempt(event.model, event.at))
        return span

    def _model_failed(self, event: ev.ModelFailed) -> Span:
        span = self._actor(event).model
        if span is None or not span.attempts:
            return self._inner(event)
        last = span.attempts[-1]
        last.end = event.at
        last.error = event.code
        last.message = event.message
        last.action = event.action
        last.wait = check_number(event.wait)
        if event.action in ("retry", "fallback"):
            span.waits["retry"] = span.waits.get("retry", 0.0) + last.wait
            return span
        span.error = event.code
        span.message = event.message
        self._end(span, event.at)
        return span

    def _model_answered(self, event: ev.ModelAnswered) -> Span:
        actor = self._actor(event)
        span = actor.model
        if span is None or span.end is not None:
            turn = self._inner(event)
            # The start is missing, as in a damaged log.
            start = event.at - check_number(event.seconds)
            span = self._add("model", event.message.model, turn, start, event)
        if span.attempts:
            span.attempts[-1].end = event.at
        span.usage = check_usage(event.usage)
        first = check_number(event.first)
        if first:
            span.waits["model"] = first
        span.facts["stop"] = event.message.stop
        self._end(span, event.at)
        self._find_breaks(actor, span)
        parent = self._inner(event)
        for call in event.message.calls:
            tool = self._add("tool", call.name, parent, event.at, event)
            tool.facts = {"call": call.id, "arguments": self._shorten(call.arguments, 400)}
            actor.calls[call.id] = tool
        return span

    def _find_breaks(self, actor: _Actor, span: Span) -> None:
        """Complete the breaks of a model call with the provider's counts."""
        usage = span.usage
        model = span.name
        is_known = any(known.cause == "model" for known in span.breaks)
        if actor.last_model and model != actor.last_model and not is_known:
            span.breaks.append(PrefixBreak("model"))
        lost = actor.cached - usage.cached
        if not span.breaks and lost > max(_MIN_LOSS, actor.cached * _TOLERATED_LOSS):
            span.breaks.append(PrefixBreak("provider"))
        for known in span.breaks:
            known.cached_before = actor.cached
            known.cached = usage.cached
        actor.last_model = model
        actor.cached = usage.cached

    def _model_used(self, event: ev.ModelUsed) -> Span:
        if event.purpose.startswith(SUB_AGENT):
            # The spans of the sub-agent itself have the usage, which must not be counted twice.
            return self._inner(event)
        start = event.at - check_number(event.seconds)
        span = self._add("plugin_model", event.purpose, self._inner(event), start, event)
        span.usage = check_usage(event.usage)
        span.facts = {"model": event.model, "purpose": event.purpose}
        self._end(span, event.at)
        return span

    def _compacted(self, event: ev.Compacted) -> Span:
        actor = self._actor(event)
        parent: Span
        if self._run(event) is None:
            parent = self._place(event)
        else:
            parent = self._turn(event)
        # The plan for a compaction is made after the agent's previous event.
        start = min(actor.last_at or event.at, event.at)
        span = self._add("compaction", event.cause, parent, start, event)
        span.facts = {
            "before": event.before,
            "summarized": event.upto,
            "thinned": len(event.thinned),
        }
        self._end(span, event.at)
        if event.upto or event.thinned:
            actor.breaks.append(PrefixBreak("compaction"))
        return span

    # --- calls ------------------------------------------------------------------------------------

    def _call(self, event: Event, identity: str, name: str, *, again: bool = False) -> Span:
        """Return the span of a call. If its response is missing, the call begins now.

        Args:
            event: The event of the call.
            identity: The id of the call.
            name: The name of the tool.
            again: Whether the event begins the call again if its process was killed.
        """
        actor = self._actor(event)
        span = actor.calls.get(identity)
        is_repeated = again and span is not None and "cut_off" in span.facts
        if span is None or span.run != event.run or is_repeated:
            parent = self._inner(event)
            if self._run(event) is not None:
                # The run of a call that the user repeated begins with the call.
                parent = self._turn(event)
            span = self._add("tool", name, parent, event.at, event)
            span.facts = {"call": identity}
            actor.calls[identity] = span
        return span

    def _call_started(self, event: ev.CallStarted) -> Span:
        span = self._call(event, event.call.id, event.call.name, again=True)
        span.facts.update(plugin=event.plugin, risk=event.risk, began=event.at)
        if event.paths:
            span.facts["paths"] = list(event.paths)
        if event.rewritten_by:
            span.facts["rewritten_by"] = list(event.rewritten_by)
        waited = check_number(event.waited)
        if waited:
            span.waits["order"] = waited
            order = self._add("order", "other calls", span, event.at - waited, event)
            self._end(order, event.at)
            order.waits["order"] = waited
        return span

    def _call_done(self, event: ev.CallDone) -> Span:
        result = event.result
        span = self._call(event, result.call_id, result.name)
        span.error = result.code
        if result.code:
            span.message = self._shorten(result.text)
        if "cut_off" not in span.facts:
            span.facts["ran"] = check_number(event.seconds)
        self._end_below(span, event.at)
        self._end(span, event.at)
        return span

    def _approval_asked(self, event: ev.ApprovalAsked) -> Span:
        tool = self._call(event, event.call.id, event.call.name, again=True)
        span = self._add("approval", tool.name, tool, event.at, event)
        span.facts = {"risk": event.risk, "reason": event.reason}
        self._asked[event.id] = span
        return span

    def _approval_shown(self, event: ev.ApprovalShown) -> Span:
        return self._asked.get(event.id) or self._inner(event)

    def _approval_answered(self, event: ev.ApprovalAnswered) -> Span:
        span = self._asked.pop(event.id, None)
        if span is None:
            return self._inner(event)
        span.facts.update(accepted=event.accepted, by=event.by)
        self._end_wait(span, event.at)
        return span

    def _end_wait(self, span: Span, at: float) -> None:
        """End a wait for the user, and count it for the span around it."""
        self._end(span, at)
        span.waits["user"] = span.seconds
        parent = FORGOTTEN if span.parent is None else self.trace.spans[span.parent]
        if parent is not FORGOTTEN:
            parent.waits["user"] = parent.waits.get("user", 0.0) + span.seconds

    # --- plugins ----------------------------------------------------------------------------------

    def _hook_called(self, event: ev.HookCalled) -> Span:
        parent = self._inner(event)
        if event.call and event.agent:
            tool = self._actor(event).calls.get(event.call)
            if tool is not None and tool.run == event.run and "cut_off" not in tool.facts:
                parent = tool
        elif not event.agent and self._queues:
            # Plugins also run without an agent, while context is gathered for a prompt.
            parent = next(reversed(self._queues.values()))
        start = event.at - check_number(event.seconds)
        span = self._add("hook", event.hook, parent, start, event)
        span.facts = {"plugin": event.plugin}
        if event.error == _CANCELLED:
            # The plugin has not failed: it was stopped, for example with the call that it checked.
            span.facts["cancelled"] = True
        else:
            span.error = event.error
        self._end(span, event.at)
        return span

    def _plugin_event(self, event: ev.PluginEvent) -> Span:
        data = event.data
        if event.name == _ASKED:
            return self._question_asked(event, data)
        if event.name == _ANSWERED:
            asked = self._asked.pop(_text(data, "id"), None)
            if asked is not None:
                asked.facts["by"] = _text(data, "by") or "user"
                self._end_wait(asked, event.at)
                return asked
        elif event.name in _AGENT_EVENTS:
            return self._agent_event(event, data)
        return self._place(event)

    def _question_asked(self, event: ev.PluginEvent, data: dict[str, Any]) -> Span:
        parent = self._inner(event)
        actor = self._actors.get(event.agent or _text(data, "agent"))
        if actor is not None:
            parent = actor.calls.get(_text(data, "call")) or parent
        span = self._add(
            "question", self._shorten(_text(data, "question")), parent, event.at, event
        )
        self._asked[_text(data, "id")] = span
        return span

    def _agent_event(self, event: ev.PluginEvent, data: dict[str, Any]) -> Span:
        name = _text(data, "actor")
        actor = self._actors.get(name)
        if event.name == _QUEUED and name:
            self._starters[name] = (_text(data, "owner"), _text(data, "call"))
            self._agent_names[name] = _text(data, "title") or _text(data, "agent") or name
        if actor is not None and actor.home is not self._root:
            return actor.home
        owner = self._actors.get(_text(data, "owner"))
        call = owner.calls.get(_text(data, "call")) if owner is not None else None
        return call or self._place(event)


def fold_spans(
    events: Iterable[Event | UnreadableEvent], redact: Callable[[str], str] | None = None
) -> Trace:
    """Return the trace of a log's events, which may include entries that cannot be read.

    Args:
        events: The events.
        redact: See ``SpanFold``.
    """
    fold = SpanFold(redact)
    for event in events:
        fold.apply(event)
    return fold.trace


def is_running(trace: Trace) -> bool:
    """Return whether the log shows a run that has not ended."""
    return any(span.kind == "run" and span.end is None for span in trace.spans)


def _find_change(name: str, before: Container[str], after: Container[str]) -> PartChange:
    """Return what happened to a layer or tool between two prompts."""
    if name in after and name not in before:
        return "added"
    if name in before and name not in after:
        return "removed"
    return "changed"


def _text(data: dict[str, Any], key: str) -> str:
    """Return a text from a plugin's data, which may contain anything."""
    value = data.get(key)
    return value if isinstance(value, str) else ""


def _to_line(text: str, limit: int) -> str:
    """Return the beginning of a text on one line."""
    # A prompt may contain megabytes, of which only the beginning is needed.
    line = " ".join(text[: limit * 4].split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _redact_beginning(text: str, size: int, redact: Callable[[str], str]) -> str:
    """Return the beginning of a text without secrets, with at least ``size`` characters if it can.

    Secrets of up to ``MARGIN`` characters are recognized wherever they begin.
    """
    part = text[: size + 2 * MARGIN]
    clean = redact(part)
    if len(part) == len(text):
        return clean
    # The end of the part may be the first half of a secret, which was not recognized.
    return clean[: max(len(clean) - MARGIN, 0)]


_FOLDS: dict[type[Event], Callable[[SpanFold, Any], Span]] = {
    ev.SessionOpened: SpanFold._session_opened,
    ev.AgentStarted: SpanFold._agent_started,
    ev.PromptQueued: SpanFold._prompt_queued,
    ev.RunStarted: SpanFold._run_started,
    ev.RunRetried: SpanFold._run_started,
    ev.RunEnded: SpanFold._run_ended,
    ev.RunsCutOff: SpanFold._runs_cut_off,
    ev.SessionReopened: SpanFold._runs_cut_off,
    ev.PromptFrozen: SpanFold._prompt_frozen,
    ev.RoundEnded: SpanFold._round_ended,
    ev.ModelStarted: SpanFold._model_started,
    ev.ModelFailed: SpanFold._model_failed,
    ev.ModelAnswered: SpanFold._model_answered,
    ev.ModelUsed: SpanFold._model_used,
    ev.Compacted: SpanFold._compacted,
    ev.CallStarted: SpanFold._call_started,
    ev.CallDone: SpanFold._call_done,
    ev.ApprovalAsked: SpanFold._approval_asked,
    ev.ApprovalShown: SpanFold._approval_shown,
    ev.ApprovalAnswered: SpanFold._approval_answered,
    ev.HookCalled: SpanFold._hook_called,
    ev.PluginEvent: SpanFold._plugin_event,
}
