"""How much of what happened in a session its trace shows.

The share counts, for everything that happened, whether the trace contains a span of the right kind
with its duration, and with its tokens and cost where there are some.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hilum.events import (
    AnyEvent,
    ApprovalAnswered,
    CallDone,
    Compacted,
    ModelAnswered,
    ModelUsed,
    RunEnded,
)
from hilum_trace.spans import Span, Trace, fold_spans


def measure_observability(events: Sequence[AnyEvent], requests: int = 0) -> float | None:
    """Return the share of the required facts that the trace of a session contains, 0 to 1.

    Args:
        events: The events of the session.
        requests: Number of requests that the model's server has answered. It counts what the
            session did independently of its log; 0 if it is unknown.

    Returns:
        The share, or ``None`` if nothing happened.
    """
    if not events:
        return None
    trace = fold_spans(events)
    found = list(_check_facts(events, trace))
    answered = [event for event in events if isinstance(event, ModelAnswered | ModelUsed)]
    # Requests that the log does not contain are missing in the trace as well.
    found += [index < len(answered) for index in range(requests)]
    return sum(found) / len(found)


def _check_facts(events: Sequence[AnyEvent], trace: Trace) -> Iterator[bool]:
    """Yield for each required fact whether the trace contains it."""
    spans = {seq: span for span in trace.spans for seq in span.events}
    yield bool(trace.session)
    yield not trace.damaged
    yield trace.events == len(events)
    for event in events:
        span = spans.get(event.seq)
        match event:
            case RunEnded():
                yield _has_duration(span, "run")
                yield span is not None and span.facts.get("state") == event.state
            case ModelAnswered():
                yield _has_duration(span, "model")
                yield span is not None and span.usage.total > 0
                yield span is not None and span.usage.cost is not None
            case ModelUsed():
                yield _has_duration(span, "plugin_model")
                yield span is not None and span.usage.total > 0
            case CallDone():
                yield _has_duration(span, "tool")
                yield span is not None and span.error == event.result.code
            case ApprovalAnswered():
                yield _has_duration(span, "approval")
                yield span is not None and span.facts.get("by") == event.by
            case Compacted():
                yield _has_duration(span, "compaction")


def _has_duration(span: Span | None, kind: str) -> bool:
    """Return whether there is a span of a kind that has ended."""
    return span is not None and span.kind == kind and span.end is not None
