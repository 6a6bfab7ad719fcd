"""A recorded approval answers only a call of the same tool with the same arguments."""

import re
from pathlib import Path

import pytest
import trio
from hilum import hookimpl, tool
from hilum.events import ApprovalAsked, CallDone, ModelAnswered
from hilum.messages import AssistantMessage, ToolCall
from hilum.testing import ScriptedModel, open_bench, use
from hilum_files.journal.content_store import ContentStore
from hilum_replay import serve
from hilum_replay.sessions.comparison import describe
from hilum_replay.sessions.exporting import make_recording, make_repeatable
from hilum_replay.sessions.player import Changes
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
        "files", "guard", Weather(), model=ScriptedModel(answers), files=FILES, folder=folder
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
