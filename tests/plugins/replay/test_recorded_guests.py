"""Sessions with guests are replayed: a guest's run is answered from the log, without its program."""

import json
import os
import shutil
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio
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


async def replay_elsewhere(events, folder, monkeypatch):
    """Check that a session replays identically elsewhere, later and without its program."""
    recording, outcome = await make_repeatable(make(events, folder))
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
        events = list(bench.events)
    recording, outcome = await replay_elsewhere(events, tmp_path, monkeypatch)
    work = tmp_path / "other place" / "work"
    assert (work / "a.txt").read_text() == "new\n"
    assert (work / "made.txt").read_text() == "by itself\n"
    assert any(key.startswith("guest-") for key in recording.header.from_log)
