"""Every entry of a log belongs to exactly one span: in logs of the simulator with stops, kills,
resumes and several agents, in their parts, and in nonsense.
"""

import functools
import random
import sys
from pathlib import Path

import msgspec
import pytest
from hilum import events as ev
from hilum.messages import Usage
from hilum_trace import UnreadableEvent, fold_spans
from hilum_trace.exports import make_json, make_speedscope
from hilum_trace.flame import render_flame
from hilum_trace.page import make_page
from hilum_trace.tree import Painter, list_runs, render_slowest, render_tree
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from sample_events import SAMPLE_EVENTS

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "simulation"))

from simulator.command import run_once
from simulator.determinism import Folders
from simulator.generation import generate

# The first ones start sub-agents.
SEEDS = (39, 56, 67, 100, 103, 111, 138, 317, *range(240, 272))


@functools.cache
def history_of(seed):
    """The log of a seed."""
    folders = Folders()
    events = run_once(generate(seed), folders).events
    folders.remove()
    return events


def check(events):
    """Fold events, and check what must hold for any trace."""
    trace = fold_spans(events)
    owned = sorted(seq for span in trace.spans for seq in span.events)
    assert owned == sorted(event.seq for event in events)
    assert trace.events == len(events)
    for number, span in enumerate(trace.spans):
        assert span.id == number
        assert (span.parent is None) == (number == 0)
        assert span.parent is None or span.parent < number
        assert span.end is None or span.end >= span.start
    used = Usage()
    for event in events:
        # The usage of a sub-agent is in its own spans.
        if isinstance(event, ev.ModelUsed) and not event.purpose.startswith("agent "):
            used += event.usage
    charged = [span.usage for span in trace.spans if span.kind == "plugin_model"]
    assert sum((usage.total for usage in charged), 0) == used.total
    return trace


@pytest.mark.slow(cases=12)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_event_of_a_history_and_of_its_parts_has_one_span(seed):
    chance = random.Random(seed)
    history = list(history_of(seed))
    trace = check(history)
    # A session that has ended leaves nothing open but what its last run did not end.
    for run in list_runs(trace):
        if run.end is not None:
            inside = [span for span in trace.spans if span.run == run.run and span.kind == "turn"]
            assert all(span.end is not None for span in inside)
    answered = [event.usage.total for event in history if isinstance(event, ev.ModelAnswered)]
    models = [span.usage.total for span in trace.spans if span.kind == "model"]
    assert sum(answered) == sum(models)
    check(history[: chance.randrange(len(history))])
    check(history[chance.randrange(len(history)) :])
    lost = [event for event in history if chance.random() > 0.2]
    check(lost)
    chance.shuffle(history)
    check(history)


@pytest.mark.slow(cases=4)
@pytest.mark.parametrize("seed", SEEDS[:16])
def test_every_view_can_show_every_history(seed):
    trace = fold_spans(history_of(seed))
    lines = list(render_tree(trace, Painter(60, color=True), complete=True))
    assert len(lines) > len(list_runs(trace))
    assert list(render_slowest(trace, Painter(), 5))
    for run in list_runs(trace):
        assert all(len(line) <= 60 for line in render_flame(trace, run, 60))
    assert msgspec.json.decode(make_json(trace))["events"] == trace.events
    assert msgspec.json.decode(make_speedscope(trace))["profiles"]
    assert "<h1>" in make_page(trace)


AGENTS = st.sampled_from(["", "main", "t1"])
RUNS = st.sampled_from(["", "r1", "r2"])
EVENTS = st.sampled_from([*SAMPLE_EVENTS, UnreadableEvent(0, "future"), UnreadableEvent(0)])


@given(st.lists(st.tuples(EVENTS, AGENTS, RUNS, st.integers(-5, 20)), max_size=40))
def test_every_event_has_one_span_whatever_the_log_contains(entries):
    """Also where the clock goes backwards."""
    events = []
    at = 1000.0
    for seq, (event, agent, run, passed) in enumerate(entries, 1):
        at += passed
        events.append(replace(event, seq=seq, agent=agent, run=run, at=at))
    trace = check(events)
    list(render_tree(trace, Painter(40), complete=True))
    for run in list_runs(trace):
        list(render_flame(trace, run, 40))
    check_nesting(msgspec.json.decode(make_speedscope(trace)))


def check_nesting(profile):
    """Check that each profile opens and closes its frames in order, and that time only goes on."""
    names = profile["shared"]["frames"]
    for each in profile["profiles"]:
        stack = []
        now = each["startValue"]
        for event in each["events"]:
            assert 0 <= event["frame"] < len(names)
            assert event["at"] >= now
            now = event["at"]
            if event["type"] == "O":
                stack.append(event["frame"])
            else:
                assert stack.pop() == event["frame"]
        assert stack == []
        assert now <= each["endValue"]
