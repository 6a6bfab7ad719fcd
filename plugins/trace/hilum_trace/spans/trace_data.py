"""The data of a trace: its spans, and what each of them contains."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from hilum.messages import Usage

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
INTERRUPTED = "E_INTERRUPTED"
BreakCause = Literal["run", "compaction", "mode", "model", "provider"]

# The kinds of spans in which something waits, each with what it waits for.
_WAITS_OF: dict[Kind, tuple[Wait, ...]] = {
    "model": ("model", "retry"),
    "approval": ("user",),
    "question": ("user",),
    "order": ("order",),
}


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


def is_running(trace: Trace) -> bool:
    """Return whether the log shows a run that has not ended."""
    return any(span.kind == "run" and span.end is None for span in trace.spans)
