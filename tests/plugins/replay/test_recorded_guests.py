"""Sessions with guests are replayed: a guest's run is answered from the log, without its program."""

import json
import os
import shutil
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio
import trio.testing
from hilum.events import ApprovalAsked, CallDone, CallStarted, ModelUsed, PluginEvent, RunEnded
from hilum.store import MemoryStore
from hilum.testing import use
from hilum_files.journal.content_store import ContentStore
from hilum_replay.sessions.comparison import describe
from hilum_replay.sessions.exporting import make_recording, make_repeatable
from hilum_replay.sessions.player import Changes
from hilum_replay.sessions.recording import load_recording, save_recording
from hilum_replay.sessions.session_test import run_recording

from guest_bench import open_guest_bench
FILES = {"a.txt": "old\n", "b.txt": "b\n"}


def task(*steps, agent="guest", **more):
    """Return a call that gives a guest some steps."""
    return use("task", description="do it", prompt=json.dumps(steps), agent=agent, **more)


def code(text):
    return f"#begin\n{text}"


def task_code(text, agent="guest", **more):
    return use("task", description="do it", prompt=code(text), agent=agent, **more)


def make(events, folder):
    """Return a recording of events; this function blocks."""
    store = ContentStore(folder / "data" / "objects")
    recording = make_recording(events, store.get)
    store.close()
    return recording


async def settle(bench):
    """Return all events when nothing happens in the session any more."""
    while True:
        last = bench.session.journal.last
        await trio.testing.wait_all_tasks_blocked(0.1)
        if not bench.session.runs and bench.session.journal.last == last:
            return list(bench.events)


import sys; sys.path.insert(0, "/tmp")
from show import show, steps

async def replay_elsewhere(events, folder, monkeypatch):
    """Check that a session replays identically elsewhere, later and without its program."""
    recording, outcome = await make_repeatable(make(events, folder))
    if not outcome.comparison.identical:
        print("RECORDED"); show(events); print("REPLAYED"); show(outcome.replayed.events); print("STEPS"); steps(outcome); print("END")
    assert outcome.comparison.identical, describe(outcome.comparison)
    save_recording(recording, folder / "recording")
    shutil.rmtree(folder / "config", ignore_errors=True)
    recording = load_recording(folder / "recording")
    outcome = await run_recording(recording, folder / "other place" / "work")
    assert outcome.comparison.identical, describe(outcome.comparison)
    return recording, outcome


async def test_a_guest_that_another_agent_started(tmp_path, monkeypatch):
    steps = [
        ["think", "Let me see."],
        ["read", "a.txt"],
        ["write", "a.txt", "new\n"],
        ["disk", "made.txt", "by itself\n"],
        ["tool", "npm test", "3 passed"],
        ["terminal", "cat a.txt"],
        ["say", "Done."],
    ]
    answers = [task(*steps), "The guest did it."]
    async with open_guest_bench(tmp_path, files=FILES, answers=answers) as bench:
        await bench.run("Let the guest do it.")
        events = await settle(bench)
    recording, outcome = await replay_elsewhere(events, tmp_path, monkeypatch)
    work = tmp_path / "other place" / "work"
    assert (work / "a.txt").read_text() == "new\n"
    assert (work / "made.txt").read_text() == "by itself\n"
    assert any(key.startswith("guest-") for key in recording.header.from_log)


async def test_a_guest_that_the_user_called(tmp_path, monkeypatch):
    text = code("text, _ = client.request('fs/read_text_file', path=os.path.abspath('a.txt'))\n"
        "open('a.txt', 'a').write('more\\n')\nprint(text['content'])")
    async with open_guest_bench(tmp_path, files=FILES, guests={"guest": "bypassing"}) as bench:
        ended = await bench.run(f"@guest {text}")
        assert ended.text == "old\n\n"
        # The next run starts the program again, in the same conversation.
        ended = await bench.run(f"@guest {text}")
        assert ended.text == "old\nmore\n\n"
        events = await settle(bench)
    recording, _ = await replay_elsewhere(events, tmp_path, monkeypatch)
    assert len(recording.header.from_log) == 2


CALLS = """
client.say("begun")
for number in range({count}):
    print(call_model("Hello")[0])
open("made.txt", "w").write("made")
time.sleep({seconds})
"""


async def test_what_a_guest_used_is_in_the_replay(tmp_path, monkeypatch):
    answers = [task_code(CALLS.format(count=3, seconds=0)), "Done."]
    async with open_guest_bench(
        tmp_path, guests={"guest": "bypassing"}, answers=answers
    ) as bench:
        await bench.run("Let the guest do it.")
        events = await settle(bench)
    _, outcome = await replay_elsewhere(events, tmp_path, monkeypatch)
    used = [each for each in outcome.replayed.events if isinstance(each, ModelUsed)]
    assert [each.usage.total for each in used if each.purpose == "guest"] == [100] * 3


@pytest.mark.parametrize(
    "text",
    [
        "client.say('begun'); time.sleep(0.3); sys.exit(3)",
        "open('made.txt', 'w').write('made'); os._exit(4)",
        "client.say('x'); os._exit(0)",
        "client.permission('1', 'Run it', 'execute', rawInput={'command': 'true'}); os._exit(1)",
    ],
)
async def test_a_guest_that_fails(tmp_path, monkeypatch, text):
    answers = [task_code(text), "It failed."]
    async with open_guest_bench(
        tmp_path, guests={"guest": "bypassing"}, answers=answers
    ) as bench:
        await bench.run("Let the guest do it.")
        events = await settle(bench)
        assert "cannot continue" in bench.result("task").text
    await replay_elsewhere(events, tmp_path, monkeypatch)


async def test_a_guest_whose_program_does_not_exist(tmp_path, monkeypatch):
    async with open_guest_bench(tmp_path, answers=[task(["say", "x"]), "No."]) as bench:
        path = tmp_path / "config/agents/guest.md"
        path.write_text(path.read_text().replace("python3", "no-such-program"))
        await bench.run("Let the guest do it.")
        events = await settle(bench)
        assert "There is no program" in bench.result("task").text
    await replay_elsewhere(events, tmp_path, monkeypatch)


@pytest.mark.parametrize("by_name", [True, False])
async def test_a_guest_that_the_user_stopped(tmp_path, monkeypatch, by_name):
    text = CALLS.format(count=1, seconds=99)
    answers = ["Stopped."] if by_name else [task_code(text), "Stopped."]
    async with open_guest_bench(
        tmp_path, guests={"guest": "bypassing"}, answers=answers
    ) as bench:
        prompt = f"@guest {code(text)}" if by_name else "Let the guest do it."
        run = await bench.start(prompt)
        with trio.fail_after(20):
            while not (bench.workspace / "made.txt").exists():
                await trio.sleep(0.05)
        bench.session.stop()
        ended = await run.wait()
        assert ended.state == "stopped"
        await trio.testing.wait_all_tasks_blocked(0.1)
        await bench.run("And now?")
        events = await settle(bench)
    await replay_elsewhere(events, tmp_path, monkeypatch)


async def test_a_guest_that_is_stopped_in_a_call(tmp_path, monkeypatch):
    steps = [["disk", "made.txt", "x"], ["terminal", "echo begun; sleep 99"], ["say", "never"]]
    async with open_guest_bench(tmp_path, answers=[task(*steps), "Stopped."]) as bench:
        run = await bench.start("Let the guest do it.")
        await bench.wait_for(CallStarted, lambda event: event.call.name == "guest_terminal")
        await trio.testing.wait_all_tasks_blocked(0.3)
        bench.session.stop()
        await run.wait()
        await bench.run("And now?")
        events = await settle(bench)
    await replay_elsewhere(events, tmp_path, monkeypatch)


async def test_a_guest_that_is_stopped_by_its_budget(tmp_path, monkeypatch):
    answers = [task_code(CALLS.format(count=50, seconds=99)), "Too much."]
    async with open_guest_bench(
        tmp_path,
        guests={"guest": "bypassing"},
        front="limits: {token_limit: 250}",
        answers=answers,
    ) as bench:
        await bench.run("Let the guest do it.")
        events = await settle(bench)
        assert "token" in bench.result("task").text
    await replay_elsewhere(events, tmp_path, monkeypatch)


async def test_a_guest_that_is_stopped_by_the_budget_of_the_session(tmp_path, monkeypatch):
    answers = [task_code(CALLS.format(count=50, seconds=99)), "Too much."]
    async with open_guest_bench(
        tmp_path,
        "budgets",
        guests={"guest": "bypassing"},
        settings={"budgets.session": {"tokens": 500}},
        answers=answers,
    ) as bench:
        await bench.run("Let the guest do it.")
        events = await settle(bench)
    await replay_elsewhere(events, tmp_path, monkeypatch)


async def test_a_guest_that_takes_too_long(tmp_path, monkeypatch):
    answers = [task_code(CALLS.format(count=1, seconds=99)), "Too slow."]
    async with open_guest_bench(
        tmp_path, guests={"guest": "bypassing"}, front="limits: {timeout: 2}", answers=answers
    ) as bench:
        await bench.run("Let the guest do it.")
        events = await settle(bench)
        assert "time limit" in bench.result("task").text
    await replay_elsewhere(events, tmp_path, monkeypatch)
