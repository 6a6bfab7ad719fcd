"""The fold of a session's events into spans."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from hilum import events as ev
from hilum.events import Event

from hilum_trace.spans import model_calls, plugin_events, runs, tool_calls
from hilum_trace.spans.fold_state import FoldState
from hilum_trace.spans.trace_data import Span, Trace, UnreadableEvent

_FOLDS: dict[type[Event], Callable[[FoldState, Any], Span]] = {
    ev.SessionOpened: runs.fold_session_opened,
    ev.AgentStarted: runs.fold_agent_started,
    ev.PromptQueued: runs.fold_prompt_queued,
    ev.RunStarted: runs.fold_run_started,
    ev.RunRetried: runs.fold_run_started,
    ev.RunEnded: runs.fold_run_ended,
    ev.RunsCutOff: runs.fold_runs_cut_off,
    ev.SessionReopened: runs.fold_runs_cut_off,
    ev.PromptFrozen: model_calls.fold_prompt_frozen,
    ev.RoundEnded: runs.fold_round_ended,
    ev.ModelStarted: model_calls.fold_model_started,
    ev.ModelFailed: model_calls.fold_model_failed,
    ev.ModelAnswered: model_calls.fold_model_answered,
    ev.ModelUsed: model_calls.fold_model_used,
    ev.Compacted: model_calls.fold_compacted,
    ev.CallStarted: tool_calls.fold_call_started,
    ev.CallDone: tool_calls.fold_call_done,
    ev.ApprovalAsked: tool_calls.fold_approval_asked,
    ev.ApprovalShown: tool_calls.fold_approval_shown,
    ev.ApprovalAnswered: tool_calls.fold_approval_answered,
    ev.HookCalled: plugin_events.fold_hook_called,
    ev.PluginEvent: plugin_events.fold_plugin_event,
}


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
        self._state = FoldState(redact, forgets=forget)
        self.trace = self._state.trace

    def apply(self, event: Event | UnreadableEvent) -> Span:
        """Add an event, and return the span that it belongs to."""
        state = self._state
        state.begin(event)
        if isinstance(event, UnreadableEvent):
            owner = runs.fold_unreadable(state, event)
        else:
            state.cut_runs.pop(event.run, None)
            fold = _FOLDS.get(type(event), runs.fold_other)
            owner = fold(state, event)
            if event.agent and not isinstance(event, ev.ModelUsed | ev.HookCalled):
                state.find_actor(event).last_at = event.at
        owner.events.append(event.seq)
        return owner

    def finish(self, now: float | None = None) -> None:
        """Complete the trace after the last event.

        Args:
            now: The Unix time if a process has the session open, so that whatever has not ended is
                running. Otherwise, it ended with the last event of its process.
        """
        runs.finish(self._state, now)


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
