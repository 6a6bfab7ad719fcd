"""Events of calls of tools, and of the user's approvals."""

from __future__ import annotations

from hilum import events as ev
from hilum.events import Event
from hilum.messages import check_number

from hilum_trace.spans.fold_state import FoldState
from hilum_trace.spans.trace_data import Span


def _find_call(
    state: FoldState, event: Event, identity: str, name: str, *, again: bool = False
) -> Span:
    """Return the span of a call. If its response is missing, the call begins now.

    Args:
        event: The event of the call.
        identity: The id of the call.
        name: The name of the tool.
        again: Whether the event begins the call again if its process was killed.
    """
    actor = state.find_actor(event)
    span = actor.calls.get(identity)
    is_repeated = again and span is not None and "cut_off" in span.facts
    if span is None or span.run != event.run or is_repeated:
        parent = state.find_inner(event)
        if state.find_run(event) is not None:
            # The run of a call that the user repeated begins with the call.
            parent = state.find_turn(event)
        span = state.add("tool", name, parent, event.at, event)
        span.facts = {"call": identity}
        actor.calls[identity] = span
    return span


def fold_call_started(state: FoldState, event: ev.CallStarted) -> Span:
    """Add the start of a call, with its wait for other calls."""
    span = _find_call(state, event, event.call.id, event.call.name, again=True)
    span.facts.update(plugin=event.plugin, risk=event.risk, began=event.at)
    if event.paths:
        span.facts["paths"] = list(event.paths)
    if event.rewritten_by:
        span.facts["rewritten_by"] = list(event.rewritten_by)
    waited = check_number(event.waited)
    if waited:
        span.waits["order"] = waited
        order = state.add("order", "other calls", span, event.at - waited, event)
        state.end(order, event.at)
        order.waits["order"] = waited
    return span


def fold_call_done(state: FoldState, event: ev.CallDone) -> Span:
    """End a call with its result."""
    result = event.result
    span = _find_call(state, event, result.call_id, result.name)
    span.error = result.code
    if result.code:
        span.message = state.shorten(result.text)
    if "cut_off" not in span.facts:
        span.facts["ran"] = check_number(event.seconds)
    state.end_below(span, event.at)
    state.end(span, event.at)
    return span


def fold_approval_asked(state: FoldState, event: ev.ApprovalAsked) -> Span:
    """Begin the wait for the user's approval of a call."""
    tool = _find_call(state, event, event.call.id, event.call.name, again=True)
    span = state.add("approval", tool.name, tool, event.at, event)
    span.facts = {"risk": event.risk, "reason": event.reason}
    state.asked[event.id] = span
    return span


def fold_approval_shown(state: FoldState, event: ev.ApprovalShown) -> Span:
    """Return the approval that a face showed to the user."""
    return state.asked.get(event.id) or state.find_inner(event)


def fold_approval_answered(state: FoldState, event: ev.ApprovalAnswered) -> Span:
    """End the wait for the user's approval."""
    span = state.asked.pop(event.id, None)
    if span is None:
        return state.find_inner(event)
    span.facts.update(accepted=event.accepted, by=event.by)
    state.end_wait(span, event.at)
    return span
