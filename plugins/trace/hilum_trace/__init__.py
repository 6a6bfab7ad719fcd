"""Traces of sessions: the events of a log, folded into spans with durations, waits and usage.

The names are loaded on first use, because the plugin ``budgets`` of this package is imported at
every start, and needs none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hilum_trace.spans import Attempt as Attempt
    from hilum_trace.spans import PrefixBreak as PrefixBreak
    from hilum_trace.spans import Span as Span
    from hilum_trace.spans import SpanFold as SpanFold
    from hilum_trace.spans import Trace as Trace
    from hilum_trace.spans import UnreadableEvent as UnreadableEvent
    from hilum_trace.spans import fold_spans as fold_spans

__all__ = [
    "Attempt",
    "PrefixBreak",
    "Span",
    "SpanFold",
    "Trace",
    "UnreadableEvent",
    "fold_spans",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("hilum_trace.spans"), name)
