"""Events of plugins: slow hooks, questions to the user, and agents that wait for their start."""

from __future__ import annotations

from typing import Any

from hilum import events as ev
from hilum.messages import check_number

from hilum_trace.spans.fold_state import FoldState
from hilum_trace.spans.texts import get_text
from hilum_trace.spans.trace_data import Span

_CANCELLED = "Cancelled"
_QUEUED = "agents.queued"
_AGENT_EVENTS = (_QUEUED, "agents.status", "agents.result")
_ASKED = "plan.question_asked"
_ANSWERED = "plan.question_answered"


def fold_hook_called(state: FoldState, event: ev.HookCalled) -> Span:
    """Add a slow hook to what it was called for."""
    parent = state.find_inner(event)
    if event.call and event.agent:
        tool = state.find_actor(event).calls.get(event.call)
        if tool is not None and tool.run == event.run and "cut_off" not in tool.facts:
            parent = tool
    elif not event.agent and state.queues:
        # Plugins also run without an agent, while context is gathered for a prompt.
        parent = next(reversed(state.queues.values()))
    ended = event.at - check_number(event.delay)
    start = ended - check_number(event.seconds)
    if parent.kind == "queue":
        # Plugins prepare a prompt before it is queued.
        parent.start = min(parent.start, start)
    span = state.add("hook", event.hook, parent, start, event)
    span.facts = {"plugin": event.plugin}
    if event.error == _CANCELLED:
        # The plugin has not failed: it was stopped, for example with the call that it checked.
        span.facts["cancelled"] = True
    else:
        span.error = event.error
    state.end(span, ended)
    return span


def fold_plugin_event(state: FoldState, event: ev.PluginEvent) -> Span:
    """Add an event that a plugin defines."""
    data = event.data
    if event.name == _ASKED:
        return _fold_question(state, event, data)
    if event.name == _ANSWERED:
        asked = state.asked.pop(get_text(data, "id"), None)
        if asked is not None:
            asked.facts["by"] = get_text(data, "by") or "user"
            state.end_wait(asked, event.at)
            return asked
    elif event.name in _AGENT_EVENTS:
        return _fold_agent_event(state, event, data)
    return state.find_place(event)


def _fold_question(state: FoldState, event: ev.PluginEvent, data: dict[str, Any]) -> Span:
    parent = state.find_inner(event)
    actor = state.actors.get(event.agent or get_text(data, "agent"))
    if actor is not None:
        parent = actor.calls.get(get_text(data, "call")) or parent
    span = state.add("question", state.shorten(get_text(data, "question")), parent, event.at, event)
    state.asked[get_text(data, "id")] = span
    return span


def _fold_agent_event(state: FoldState, event: ev.PluginEvent, data: dict[str, Any]) -> Span:
    name = get_text(data, "actor")
    actor = state.actors.get(name)
    if event.name == _QUEUED and name:
        state.starters[name] = (get_text(data, "owner"), get_text(data, "call"))
        state.agent_names[name] = get_text(data, "title") or get_text(data, "agent") or name
    if actor is not None and actor.home is not state.root:
        return actor.home
    owner = state.actors.get(get_text(data, "owner"))
    call = owner.calls.get(get_text(data, "call")) if owner is not None else None
    return call or state.find_place(event)
