"""Events of the session, of agents, and of their runs and turns."""

from __future__ import annotations

from collections.abc import Mapping

from hilum import events as ev
from hilum.events import Event

from hilum_trace.spans.fold_state import Actor, FoldState
from hilum_trace.spans.trace_data import INTERRUPTED, Span, UnreadableEvent

_PROCESS_KINDS = ("model", "tool", "approval", "question")


def fold_unreadable(state: FoldState, event: UnreadableEvent) -> Span:
    """Count an entry that cannot be read."""
    trace = state.trace
    if event.type:
        trace.unknown[event.type] = trace.unknown.get(event.type, 0) + 1
    else:
        trace.damaged.append(event.seq)
    return state.find_place(event)


def fold_other(state: FoldState, event: Event) -> Span:
    """Return the span around an event that changes nothing."""
    return state.find_place(event)


def fold_session_opened(state: FoldState, event: ev.SessionOpened) -> Span:
    """Add what the log says about the session."""
    state.trace.session = event.session
    state.root.name = event.session
    state.root.facts = {"workspace": event.workspace, "version": event.version}
    if event.forked:
        state.root.facts["forked"] = event.forked
    return state.root


def fold_agent_started(state: FoldState, event: ev.AgentStarted) -> Span:
    """Add an agent; an agent with a parent is a span in what started it."""
    actor = state.actors.get(event.agent)
    if not event.parent:
        state.find_actor(event)
        return state.root
    if actor is not None and actor.home is not state.root:
        # The agent started again, for example when the session was resumed.
        return actor.home
    parent = _find_starter(state, event)
    name = state.agent_names.get(event.agent, event.agent)
    home = state.add("agent", name, parent, event.at, event)
    state.actors[event.agent] = Actor(home=home)
    return home


def _find_starter(state: FoldState, event: ev.AgentStarted) -> Span:
    """Return the span that an agent is part of: the call that started it, if it is known."""
    owner, call = state.starters.get(event.agent, (event.parent, ""))
    actor = state.actors.get(owner)
    if actor is None:
        return state.root
    found = actor.calls.get(call)
    return found or actor.turn or actor.run or actor.home


def fold_prompt_queued(state: FoldState, event: ev.PromptQueued) -> Span:
    """Begin the wait of a prompt for its run."""
    actor = state.find_actor(event)
    queue = state.add("queue", state.shorten(event.text), actor.home, event.at, event)
    actor.queues[event.run] = queue
    return queue


def fold_run_started(state: FoldState, event: ev.RunStarted | ev.RunRetried) -> Span:
    """Begin a run, and end the wait of its prompt."""
    actor = state.find_actor(event)
    queue = actor.queues.pop(event.run, None)
    name = "continued run"
    if isinstance(event, ev.RunStarted):
        name = state.shorten(event.text)
    run = state.add("run", name, actor.home, event.at, event)
    run.facts = {"model": event.model, "mode": event.mode}
    if isinstance(event, ev.RunRetried):
        run.facts["previous"] = event.previous
    if queue is not None:
        state.end(queue, event.at)
        queue.waits["queue"] = queue.seconds
        run.waits["queue"] = queue.seconds
    if actor.run is not None and actor.run.end is None:
        state.end(actor.run, event.at)
        state.end_below(actor.run, event.at)
        actor.run.error = actor.run.error or INTERRUPTED
    state.runs[event.run] = run
    if actor.home is not state.root:
        state.reopen(actor.home)
    actor.run = run
    actor.turn = None
    actor.model = None
    actor.boundary = event.at
    return run


def fold_run_ended(state: FoldState, event: ev.RunEnded) -> Span:
    """End a run with everything that is part of it."""
    actor = state.find_actor(event)
    run = state.find_run(event)
    if run is None:
        # The prompt was withdrawn before its run began, or the beginning is missing.
        queue = actor.queues.pop(event.run, None)
        state.end(queue, event.at)
        if queue is not None:
            queue.error = event.code or event.state
        return queue or actor.home
    if event.state != "completed":
        run.error = event.code or event.state
        run.message = event.error
    run.facts["state"] = event.state
    run.facts["turns"] = event.turns
    state.end_below(run, event.at)
    state.end(run, event.at)
    if actor.home is not state.root:
        # A sub-agent ends with its last run.
        state.end(actor.home, event.at)
    actor.turn = None
    actor.model = None
    return run


def fold_runs_cut_off(state: FoldState, event: ev.RunsCutOff | ev.SessionReopened) -> Span:
    """End what a process that was killed was doing."""
    if not event.last:
        return state.root  # an earlier version has written `RunsCutOff` too
    for span in list(state.open.values()):
        if span.kind in _PROCESS_KINDS and span.start <= event.last:
            state.cut_off(span, event.last)
        elif span.kind in ("run", "turn"):
            state.cut_runs.setdefault(span.run, event.last)
            down = max(event.at - event.last, 0.0)
            span.waits["down"] = span.waits.get("down", 0.0) + down
    for actor in state.actors.values():
        actor.model = None
    return state.root


def fold_round_ended(state: FoldState, event: ev.RoundEnded) -> Span:
    """End a turn."""
    actor = state.find_actor(event)
    turn = state.find_inner(event)
    if turn is actor.turn:
        if event.objected:
            turn.facts["objected"] = True
        state.end(turn, event.at)
        state.end_below(turn, event.at)
        actor.turn = None
        actor.model = None
    actor.boundary = event.at
    return turn


def finish(state: FoldState, now: float | None = None) -> None:
    """Complete the trace after the last event.

    Args:
        now: The Unix time if a process has the session open, so that whatever has not ended is
            running. Otherwise, it ended with the last event of its process.
    """
    trace = state.trace
    if now is not None:
        # A run that was cut off and not resumed is not running, although the session is open.
        _cut_off_rest(state, state.cut_runs)
        if state.open:
            trace.last_at = max(trace.last_at, now)
        return
    runs = {span.run: trace.last_at for span in state.open.values()}
    _cut_off_rest(state, runs | state.cut_runs)
    state.end(state.root, trace.last_at)


def _cut_off_rest(state: FoldState, runs: Mapping[str, float]) -> None:
    """End what has not ended in runs whose processes have ended.

    Args:
        runs: The times of the last events of the processes, by the id of the run.
    """
    for span in list(state.open.values()):
        at = runs.get(span.run)
        if at is None:
            continue
        if span.kind == "turn":
            state.end(span, at)
        else:
            state.cut_off(span, at)
    # A sub-agent ends with its last run.
    for actor in state.actors.values():
        run = actor.run
        if actor.home.id in state.open and run is not None and run.end is not None:
            state.cut_off(actor.home, run.end)
