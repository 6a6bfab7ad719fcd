"""The settings of a recorded session, and what happened when it was closed and opened again."""

from pathlib import Path

import msgspec
import pytest
from hilum import UsageError
from hilum.errors import E_BAD_ARGS, E_UNKNOWN
from hilum.events import CallStarted, RoundEnded, SessionOpened, SessionReopened
from hilum.store import MemoryStore
from hilum.testing import ScriptedModel, open_bench, use
from hilum_replay.sessions.comparison import describe
from hilum_replay.sessions.exporting import make_recording, make_repeatable
from hilum_replay.sessions.player import Changes
from hilum_replay.sessions.recording import Recording
from hilum_replay.sessions.session_test import run_recording

PLUGINS = ("files", "shell", "guard", "budgets", "search")


def make(events) -> Recording:
    return make_recording(events, lambda _: None)


async def check_identical(recording: Recording, folder: Path) -> None:
    recording, _ = await make_repeatable(recording)
    outcome = await run_recording(recording, folder / "replayed")
    assert outcome.comparison.identical, describe(outcome.comparison)


async def test_limits_of_the_user_apply_in_a_replay(tmp_path):
    settings = {"turns": 3, "search.limit": 1, "shell.output_limit": 2_000, "approve": "auto"}
    answers = [
        use("search_files", pattern="line"),
        use("run_terminal_cmd", command="seq 4000"),
        use("list_directory", path="."),
        use("list_directory", path="."),
    ]
    files = {"a.txt": "line 1\nline 2\nline 3\n"}
    async with open_bench(
        *PLUGINS, answers=answers, files=files, folder=tmp_path / "b", settings=settings
    ) as bench:
        ended = await bench.run("Look.")
        assert ended.code == "E_TURN_LIMIT"
        events = list(bench.events)
    assert isinstance(events[0], SessionOpened)
    assert events[0].settings["turns"] == 3
    # A choice that extends what the agent may do is in the log on its own, not as a setting.
    assert "approve" not in events[0].settings
    await check_identical(make(events), tmp_path)


async def test_a_budget_of_the_user_ends_the_replay_as_well(tmp_path):
    settings = {"budgets.session.tokens": 3_000}
    answers = [use("list_directory", path=".")] * 9
    async with open_bench(
        *PLUGINS, answers=answers, files={"a.txt": "x\n"}, folder=tmp_path / "b", settings=settings
    ) as bench:
        ended = await bench.run("Look.")
        assert ended.code == "E_BUDGET"
        events = list(bench.events)
    await check_identical(make(events), tmp_path)


async def test_a_recording_may_not_set_what_only_the_user_sets(tmp_path):
    async with open_bench(*PLUGINS, answers=["Yes."], folder=tmp_path / "b") as bench:
        await bench.run("Well?")
        events = list(bench.events)
    forged = msgspec.structs.replace(events[0], settings={"guard.sandbox": "off"})
    recording = make([forged, *events[1:]])
    with pytest.raises(UsageError, match=r"sets guard\.sandbox, which only the user") as refused:
        await run_recording(recording, tmp_path / "work")
    assert refused.value.code == E_BAD_ARGS


async def test_a_session_that_was_closed_during_a_call_and_opened_with_other_settings(tmp_path):
    workspace = tmp_path / "work"
    workspace.mkdir()
    store = MemoryStore()
    first = ScriptedModel([use("run_terminal_cmd", command="sleep 5; echo slept")])
    second = ScriptedModel([use("list_directory", path=".")] * 9)
    common = {"approve": "auto"}
    async with open_bench(
        *PLUGINS, model=first, folder=tmp_path / "b", settings=common, store=store
    ) as bench:
        await bench.start("Sleep.")
        await bench.wait_for(CallStarted)
        session = bench.session.id
    async with open_bench(
        *PLUGINS,
        model=second,
        folder=tmp_path / "b",
        settings={**common, "turns": 4},
        store=store,
        resume=session,
    ) as bench:
        [run] = bench.session.resume()
        ended = await run.wait()
        assert ended.code == "E_TURN_LIMIT"
        events = list(await store.read(session))
    [reopened] = [each for each in events if isinstance(each, SessionReopened)]
    assert reopened.interrupted == ("main",)
    assert reopened.settings["turns"] == 4
    await check_identical(make(events), tmp_path)


async def test_reminders_of_the_users_rules_are_as_in_the_recording(tmp_path):
    settings = {"rules.text": ["Use short names."], "approve": "auto"}
    answers = [use("write_file", path="a.txt", content="x\n"), "Done."]
    async with open_bench(
        *PLUGINS, "rules", answers=answers, folder=tmp_path / "b", settings=settings
    ) as bench:
        await bench.run("Write.")
        events = list(bench.events)
    assert any("rules" in each.noted_by for each in events if isinstance(each, RoundEnded))
    outcome = await run_recording(make(events), tmp_path / "replayed")
    assert not outcome.comparison.failures, describe(outcome.comparison)


async def test_an_unknown_plugin_cannot_be_left_out(tmp_path):
    async with open_bench(*PLUGINS, answers=["Yes."], folder=tmp_path / "b") as bench:
        await bench.run("Well?")
        events = list(bench.events)
    with pytest.raises(UsageError, match="no plugin 'nosuch'") as refused:
        await run_recording(make(events), tmp_path / "w", changes=Changes(without=("nosuch",)))
    assert refused.value.code == E_UNKNOWN
