"""Spans: the events of a session, folded into a tree of intervals.

Each event of the log belongs to exactly one span, also in logs that are damaged, that end in the
middle of a run, or that a newer hilum wrote. The fold reads no clock and performs no I/O.

``trace_data`` contains the spans, ``fold`` the table of events, ``fold_state`` what the fold knows, and
``runs``, ``model_calls``, ``tool_calls`` and ``plugin_events`` what each event changes.
"""

from __future__ import annotations

from hilum_trace.spans.fold import SpanFold, fold_spans
from hilum_trace.spans.texts import MARGIN
from hilum_trace.spans.trace_data import (
    FORGOTTEN,
    Attempt,
    BreakCause,
    Kind,
    PartChange,
    PrefixBreak,
    Span,
    Trace,
    UnreadableEvent,
    Wait,
    is_running,
)

__all__ = [
    "FORGOTTEN",
    "MARGIN",
    "Attempt",
    "BreakCause",
    "Kind",
    "PartChange",
    "PrefixBreak",
    "Span",
    "SpanFold",
    "Trace",
    "UnreadableEvent",
    "Wait",
    "fold_spans",
    "is_running",
]
