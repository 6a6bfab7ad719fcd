"""A recorded approval answers only a call of the same tool with the same arguments."""

import json
import re
from pathlib import Path

import pytest
import trio
from hilum import UserQuestions, hookimpl, tool
from hilum.events import ApprovalAsked, CallDone, ModelAnswered, PluginEvent
from hilum.messages import AssistantMessage, ToolCall
from hilum.store import MemoryStore
from hilum.testing import ScriptedModel, open_bench, use
from hilum_files.journal.content_store import ContentStore
from hilum_replay import serve
from hilum_replay.sessions.comparison import describe
from hilum_replay.sessions.exporting import make_recording, make_repeatable
from hilum_replay.sessions.player import Changes
from hilum_replay.sessions.recorded_log import QUESTION_ASKED
from hilum_replay.sessions.recording import Recording
from hilum_replay.sessions.session_test import ReplayOutcome, run_recording

FILES = {"a.txt": "a\n"}


class Weather:
    """A plugin that reaches outside."""

    name = "weather"

    @hookimpl
    def provide_tools(self) -> list[object]:
        return [self.weather]

    @tool(risk="network", effect="pure")
    async def weather(self, place: str) -> str:
        """Return the weather.

        Args:
            place: The place.
        """
        return f"It rains in {place}."


@pytest.fixture
async def recording(tmp_path: Path) -> Recording:
    """Record a session in which the user approves two calls."""
    answers = [
        use("weather", place="Oslo"),
        use("write_file", path="b.txt", content="b\n"),
        "Done.",
    ]
    folder = tmp_path / "bench"
    async with open_bench(
        "files",
        "guard",
        "plan",
        Weather(),
        model=ScriptedModel(answers),
        files=FILES,
        folder=folder,
    ) as bench:
        bench.session.set(approve="ask_first")
        run = await bench.start("Write.")
        last = 0
        for _ in range(2):
            asked = await bench.wait_for(ApprovalAsked, after=last)
            last = asked.seq
            bench.session.answer(asked.id, accepted=True)
        await run.wait()
        events = list(bench.events)
    store = ContentStore(folder / "data" / "objects")
    made = make_recording(events, store.get)
    store.close()
    made, outcome = await make_repeatable(made)
    assert outcome.comparison.identical, describe(outcome.comparison)
    return made


async def replay_with_model(
    recording: Recording, folder: Path, monkeypatch: pytest.MonkeyPatch, *calls: ToolCall
) -> ReplayOutcome:
    """Replay a session with a live model that makes these calls, and then ends."""
    answers = [AssistantMessage((call,)) for call in calls]
    first = next(event.seq for event in recording.events if isinstance(event, ModelAnswered))
    config = folder / "config"
    await trio.Path(config).mkdir()
    monkeypatch.setenv("HILUM_CONFIG", str(config))
    async with serve([*answers, "Done."]) as server:
        for name, value in server.environ.items():
            monkeypatch.setenv(name, value)
        changes = Changes(at=first - 1, model="openai/other")
        outcome = await run_recording(recording, folder / "work", changes=changes)
        assert not server.failures
    return outcome


def find_results(outcome: ReplayOutcome) -> list[str]:
    """Return the texts of all results in a replay."""
    events = outcome.replayed.events
    return [event.result.text for event in events if isinstance(event, CallDone)]


async def test_another_call_with_the_same_id_is_not_approved(recording, tmp_path, monkeypatch):
    outcome = await replay_with_model(
        recording,
        tmp_path,
        monkeypatch,
        ToolCall("call-1", "weather", '{"place": "Rome"}'),
        ToolCall("call-2", "write_file", '{"path": "a.txt", "content": "a"}'),
    )
    first, second = find_results(outcome)
    assert "It rains in Oslo" not in first
    assert re.match(r"E_(REJECTED|FAILED)", first)
    assert second.startswith("E_REJECTED: The user rejected the call: The recorded session has no")
    assert not await trio.Path(tmp_path / "work" / "a.txt").exists()


async def test_the_same_call_with_another_id_is_approved_once(recording, tmp_path, monkeypatch):
    written = '{"content": "b\\n", "path": "b.txt"}'
    outcome = await replay_with_model(
        recording,
        tmp_path,
        monkeypatch,
        ToolCall("call_x", "weather", '{ "place": "Oslo" }'),
        ToolCall("call_y", "write_file", written),
        ToolCall("call_z", "weather", '{"place": "Oslo"}'),
    )
    first, second, third = find_results(outcome)
    assert first == "It rains in Oslo."
    assert second.startswith("Created b.txt")
    assert third.startswith("E_REJECTED: The user rejected the call: The recorded session has no")
    # The comparison shows only the third call, although all calls have other ids.
    titles = [each.title for each in outcome.comparison.failures]
    assert not [title for title in titles if "call-1" in title or "call-2" in title]


async def test_a_call_that_ran_without_a_question_is_approved_if_a_rule_asks(tmp_path):
    answers = [use("write_file", path="b.txt", content="b\n"), "Done."]
    async with open_bench(
        "files", "guard", model=ScriptedModel(answers), files=FILES, folder=tmp_path / "bench"
    ) as bench:
        await bench.run("Write.")
        events = list(bench.events)
    assert not [event for event in events if isinstance(event, ApprovalAsked)]
    recording = make_recording(events, lambda _: None)
    changes = Changes(rules=("ask write_file",))
    outcome = await run_recording(recording, tmp_path / "work", changes=changes)
    assert [event for event in outcome.replayed.events if isinstance(event, ApprovalAsked)]
    assert find_results(outcome)[0].startswith("Created b.txt")
    titles = [each.title for each in outcome.comparison.differences]
    assert "approval asked (write_file call-1): only in the replay" in titles


@pytest.mark.parametrize("resumes", [True, False])
async def test_a_question_that_was_open_when_the_session_was_closed(tmp_path, resumes):
    store = MemoryStore()
    call = use("write_file", path="b.txt", content="b\n")
    options = {"files": FILES, "folder": tmp_path / "bench", "store": store}
    options["approve"] = "ask_first"
    async with open_bench("files", "guard", answers=[call], **options) as bench:
        await bench.start("Write.")
        await bench.wait_for(ApprovalAsked)
        session = bench.session.id
    async with open_bench(
        "files", "guard", answers=["Done.", "Done."], resume=session, **options
    ) as bench:
        if resumes:
            [run] = bench.session.resume()
            asked = await bench.wait_for(ApprovalAsked, after=bench.session.began_at)
            bench.session.answer(asked.id, accepted=True)
            await run.wait()
        await bench.run("And now?")
        events = list(await store.read(session))
    contents = ContentStore(tmp_path / "bench" / "data" / "objects")
    recording = make_recording(events, contents.get)
    contents.close()
    recording, _ = await make_repeatable(recording)
    outcome = await run_recording(recording, tmp_path / "work")
    assert outcome.comparison.identical, describe(outcome.comparison)


ASKED = {"question": "Which one?", "options": ["Tea", "Cake"]}
QUESTION = use("ask_question", **ASKED)


@pytest.mark.parametrize("by", ["headless", "timeout", "shown"])
async def test_a_question_that_nobody_answered_ends_at_once(tmp_path, by):
    async with open_bench(
        "plan", answers=[QUESTION, "Tea."], files=FILES, folder=tmp_path / "bench"
    ) as bench:
        run = await bench.start("Ask me.")
        asked = await bench.wait_for(PluginEvent, lambda event: event.name == QUESTION_ASKED)
        bench.session.plugin(UserQuestions).answer(asked.data["id"], by=by)
        await run.wait()
        events = list(bench.events)
    recording = make_recording(events, lambda _: None)
    with trio.fail_after(60):
        outcome = await run_recording(recording, tmp_path / "work")
    assert outcome.comparison.identical, describe(outcome.comparison)


async def test_a_question_that_the_recording_does_not_contain_ends_at_once(
    recording, tmp_path, monkeypatch
):
    with trio.fail_after(60):
        call = ToolCall("call-1", "ask_question", json.dumps(ASKED))
        outcome = await replay_with_model(recording, tmp_path, monkeypatch, call)
    [text] = find_results(outcome)
    assert text.startswith("Nobody can be asked. Continue with the first option, 'Tea'")


async def test_a_question_that_was_open_when_hilum_was_killed(tmp_path):
    store = MemoryStore()
    options = {"files": FILES, "folder": tmp_path / "bench", "store": store}
    async with open_bench("plan", answers=[QUESTION], **options) as bench:
        await bench.start("Ask me.")
        await bench.wait_for(PluginEvent, lambda event: event.name == QUESTION_ASKED)
        session = bench.session.id
    async with open_bench("plan", answers=["Done."], resume=session, **options) as bench:
        await bench.run("And now?")
        events = list(await store.read(session))
    recording = make_recording(events, lambda _: None)
    outcome = await run_recording(recording, tmp_path / "work")
    assert outcome.comparison.identical, describe(outcome.comparison)
