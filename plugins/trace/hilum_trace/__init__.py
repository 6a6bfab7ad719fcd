"""Traces of sessions: the events of a log, folded into spans with durations, waits and usage."""

from hilum_trace.spans import (
    Attempt,
    PrefixBreak,
    Span,
    SpanFold,
    Trace,
    UnreadableEvent,
    fold_spans,
)

__all__ = [
    "Attempt",
    "PrefixBreak",
    "Span",
    "SpanFold",
    "Trace",
    "UnreadableEvent",
    "fold_spans",
]
