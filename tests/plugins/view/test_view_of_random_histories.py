"""Properties of the view over histories of the simulator: random tools, failing models and plugins,
stops, kills and resumes, several agents.
"""

import functools
import random
import sys
from pathlib import Path

import msgspec
import pytest
from hilum import events as ev
from hilum_view import SessionView

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "simulation"))

from simulator.command import run_once
from simulator.determinism import Folders
from simulator.generation import generate

# The first ones start sub-agents.
SEEDS = (39, 56, 67, 100, 103, 111, 138, 317, *range(200, 240))
PARTS = {
    "session": ("id", "workspace", "kind", "forked", "mode", "model", "approve", "files"),
    "actors": ("actors",),
    "agents": ("agents",),
    "waiting": ("waiting",),
    "usage": ("totals",),
    "failures": ("failures",),
    "entries": ("entries", "unattended", "denied_rules", "effects"),
}


@functools.cache
def history_of(seed):
    """The log of a seed."""
    folders = Folders()
    events = run_once(generate(seed), folders).events
    folders.remove()
    return events


def resumed(events):
    """The view of a process that reads the log."""
    return SessionView().apply_all([ev.decode(ev.encode(event)) for event in events])


def test_the_histories_are_of_all_kinds():
    """They would prove little otherwise."""
    missing = {ev.ModelFailed, ev.ApprovalAsked, ev.PluginFault, ev.Compacted, "agents", "runs"}
    for seed in SEEDS:
        history = history_of(seed)
        missing -= {type(event) for event in history}
        if any(event.agent not in ("", "main") for event in history):
            missing.discard("agents")
        if len({event.run for event in history}) > 3:
            missing.discard("runs")
        if not missing:
            return
    pytest.fail(f"no history has {missing}")


@pytest.mark.slow(cases=10)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_beginning_of_a_log_gives_the_view_that_was_live(seed):
    """Also where a request or a call was on its way, with pieces of output."""
    chance = random.Random(seed)
    history = history_of(seed)
    cuts = set(chance.sample(range(len(history) + 1), min(12, len(history))))
    live = SessionView()
    for number, event in enumerate(history):
        if number in cuts:
            assert without_streams(live) == without_streams(resumed(history[:number]))
        live.apply(event)
        for delta in deltas_after(event, chance):
            live.apply(delta)
    live.apply(ev.RunEnded(agent="main", run="", state="stopped"))
    again = resumed(history)
    again.apply(ev.RunEnded(agent="main", run="", state="stopped"))
    assert without_streams(live) == without_streams(again)


def deltas_after(event, chance):
    """Pieces of an answer or of output, as the kernel shows them after these events."""
    if isinstance(event, ev.ModelStarted):
        kinds = [("text", ""), ("thinking", ""), ("arguments", "c1")]
    elif isinstance(event, ev.CallStarted):
        kinds = [("output", event.call.id)]
    else:
        return
    for _ in range(chance.randrange(4)):
        kind, call_id = chance.choice(kinds)
        yield ev.Delta(event.seq, event.agent, event.run, kind, "piece ", call_id)


def without_streams(view):
    """The view without the pieces that a log does not hold."""
    data = view.snapshot()
    for entry in data["entries"]:
        if entry["kind"] == "card":
            entry["output"] = ""
        elif entry["kind"] == "answer" and entry["state"] == "streaming":
            entry |= {"text": "", "thinking": "", "arguments": {}, "tools": {}}
    return data


@pytest.mark.slow(cases=10)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_change_is_reported(seed):
    """A face that redraws only what it is told of shows what one shows that draws everything."""
    chance = random.Random(seed)
    view = SessionView()
    shown = view.snapshot()
    for event in history_of(seed):
        for item in (event, *deltas_after(event, chance)):
            changes = view.apply(item)
            now = view.snapshot()
            for part, names in PARTS.items():
                if any(shown[name] != now[name] for name in names):
                    assert part in changes.parts, f"{item} has changed {part}"
            told = {entry.id for entry in changes.entries}
            before = dict(enumerate(shown["entries"]))
            for number, entry in enumerate(now["entries"]):
                assert entry["id"] == number
                assert before.get(number) == entry or number in told
            shown = now


@pytest.mark.slow(cases=10)
@pytest.mark.parametrize("seed", SEEDS)
def test_events_in_any_order_from_any_point_raise_nothing(seed):
    """A page may join late, and a damaged log may lack events."""
    chance = random.Random(seed)
    history = list(history_of(seed))
    SessionView().apply_all(history[chance.randrange(len(history)) :])
    chance.shuffle(history)
    view = SessionView().apply_all(history)
    assert msgspec.json.decode(msgspec.json.encode(view.snapshot(20)))["entries"]
