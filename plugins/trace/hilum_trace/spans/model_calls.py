"""Events of requests to models, and of what is in their prompts."""

from __future__ import annotations

from collections.abc import Container

from hilum import events as ev
from hilum.messages import check_number, check_usage

from hilum_trace.bill.requests import SUB_AGENT
from hilum_trace.spans.fold_state import Actor, FoldState
from hilum_trace.spans.trace_data import INTERRUPTED, Attempt, PartChange, PrefixBreak, Span

# A cached count may be lower than the last one by less than this share without a reason: providers
# cache in blocks, and count them differently from call to call.
_TOLERATED_LOSS = 0.1
# A smaller loss costs nothing worth reading about.
_MIN_LOSS = 512


def fold_prompt_frozen(state: FoldState, event: ev.PromptFrozen) -> Span:
    """Record the layers and tools of a prompt, for the breaks of the next model call."""
    actor = state.find_actor(event)
    turn = state.find_turn(event)
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


def fold_model_started(state: FoldState, event: ev.ModelStarted) -> Span:
    """Begin a model call, or another attempt of one."""
    actor = state.find_actor(event)
    turn = state.find_turn(event, event.turn)
    span = actor.model
    if span is None or span.end is not None:
        span = state.add("model", event.model, turn, event.at, event)
        span.facts = {"turn": event.turn, "estimate": event.estimate}
        actor.model = span
        span.breaks = actor.breaks
        actor.breaks = []
    elif span.attempts and span.attempts[-1].end is None:
        # The process ended during the request, and the session was resumed.
        last = span.attempts[-1]
        last.end = event.at
        last.error = INTERRUPTED
    span.name = event.model
    span.attempts.append(Attempt(event.model, event.at))
    return span


def fold_model_failed(state: FoldState, event: ev.ModelFailed) -> Span:
    """End an attempt, and the model call if no other attempt follows."""
    span = state.find_actor(event).model
    if span is None or not span.attempts:
        return state.find_inner(event)
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
    state.end(span, event.at)
    return span


def fold_model_answered(state: FoldState, event: ev.ModelAnswered) -> Span:
    """End a model call, and begin the calls of tools in its response."""
    actor = state.find_actor(event)
    span = actor.model
    if span is None or span.end is not None:
        turn = state.find_inner(event)
        # The start is missing, as in a damaged log.
        start = event.at - check_number(event.seconds)
        span = state.add("model", event.message.model, turn, start, event)
    if span.attempts:
        span.attempts[-1].end = event.at
    span.usage = check_usage(event.usage)
    first = check_number(event.first)
    if first:
        span.waits["model"] = first
    span.facts["stop"] = event.message.stop
    state.end(span, event.at)
    _find_breaks(state, actor, span)
    parent = state.find_inner(event)
    for call in event.message.calls:
        tool = state.add("tool", call.name, parent, event.at, event)
        tool.facts = {"call": call.id, "arguments": state.shorten(call.arguments, 400)}
        actor.calls[call.id] = tool
    return span


def _find_breaks(state: FoldState, actor: Actor, span: Span) -> None:
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


def fold_model_used(state: FoldState, event: ev.ModelUsed) -> Span:
    """Add a request that a plugin made to a model."""
    if event.purpose.startswith(SUB_AGENT):
        # The spans of the sub-agent itself have the usage, which must not be counted twice.
        return state.find_inner(event)
    start = event.at - check_number(event.seconds)
    span = state.add("plugin_model", event.purpose, state.find_inner(event), start, event)
    span.usage = check_usage(event.usage)
    span.facts = {"model": event.model, "purpose": event.purpose}
    state.end(span, event.at)
    return span


def fold_compacted(state: FoldState, event: ev.Compacted) -> Span:
    """Add a compaction."""
    actor = state.find_actor(event)
    parent: Span
    if state.find_run(event) is None:
        parent = state.find_place(event)
    else:
        parent = state.find_turn(event)
    # The plan for a compaction is made after the agent's previous event.
    start = min(actor.last_at or event.at, event.at)
    span = state.add("compaction", event.cause, parent, start, event)
    span.facts = {
        "before": event.before,
        "summarized": event.upto,
        "thinned": len(event.thinned),
    }
    state.end(span, event.at)
    if event.upto or event.thinned:
        actor.breaks.append(PrefixBreak("compaction"))
    return span


def _find_change(name: str, before: Container[str], after: Container[str]) -> PartChange:
    """Return what happened to a layer or tool between two prompts."""
    if name in after and name not in before:
        return "added"
    if name in before and name not in after:
        return "removed"
    return "changed"
