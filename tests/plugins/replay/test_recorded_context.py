"""The gathered context of a replay with a change is that of the recording, as far as it still fits."""

import os
from pathlib import Path

import pytest
import trio
from hilum import Block, hookimpl
from hilum.events import RunStarted
from hilum.messages import Text
from hilum.testing import ScriptedModel, open_bench, use
from hilum_files.journal.content_store import ContentStore
from hilum_replay import serve
from hilum_replay.sessions.comparison import Difference, describe
from hilum_replay.sessions.exporting import make_recording, make_repeatable
from hilum_replay.sessions.player import Changes
from hilum_replay.sessions.recording import Recording
from hilum_replay.sessions.session_test import ReplayOutcome, run_recording
from recorded_sessions import PLUGINS, settle

pytestmark = pytest.mark.slow(cases=5, of="file")

FILES = {
    "AGENTS.md": "# Rules\n\nUse short names.\n",
    "a.py": "x = 1\n",
    "b.py": "y = 1\n",
    "c.py": "z = 1\n",
}
TODO = {"id": "1", "content": "Change a.py", "status": "in_progress"}
ANSWERS = [
    # The context of the prompt contained all of `b.py`, which the user had just changed.
    use("edit_file", path="b.py", old_string="y = 2", new_string="y = 3"),
    use("todo_write", todos=[TODO]),
    use("read_file", path="a.py"),
    use("edit_file", path="a.py", old_string="x = 1", new_string="x = 2"),
    use("run_terminal_cmd", command="cat a.py"),
    "Changed.",
    use("read_file", path="a.py"),
    "It is as you wanted it.",
    "Nothing else.",
]
PROMPTS = ["Change x.", "Is it right?", "What else is in c.py?"]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Return the recording of a session in a git repository."""
    return trio.run(record, tmp_path_factory.mktemp("context") / "bench")


async def record(folder: Path) -> Recording:
    async with open_bench(
        *PLUGINS,
        model=ScriptedModel(ANSWERS, window=1_000_000),
        files=FILES,
        folder=folder,
        # The sources of context have the time that they need.
        settings={"context.timeout": 8},
    ) as bench:
        await run_git(bench.workspace, "init", "-q", "-b", "main")
        await run_git(bench.workspace, "add", ".")
        await run_git(bench.workspace, "commit", "-q", "-m", "Begin")
        await trio.Path(bench.workspace / "b.py").write_text("y = 2\n")
        for prompt in PROMPTS:
            ended = await bench.run(prompt)
            assert ended.state == "completed", ended
            await settle(bench)
        events = list(bench.events)
    store = ContentStore(folder / "data" / "objects")
    made = await trio.to_thread.run_sync(make_recording, events, store.get)
    store.close()
    recording, outcome = await make_repeatable(made)
    assert outcome.comparison.identical, describe(outcome.comparison)
    return recording


async def run_git(folder: Path, *arguments: str) -> None:
    name = {"NAME": "A", "EMAIL": "a@example.org"}
    environ = {f"GIT_{who}_{key}": name[key] for who in ("AUTHOR", "COMMITTER") for key in name}
    await trio.run_process(["git", "-C", str(folder), *arguments], env={**os.environ, **environ})


def find_context(outcome: ReplayOutcome) -> list[dict[tuple[str, str], str]]:
    """Return the context of each run in a replay, by type and first line."""
    return [read_context(event) for event in outcome.replayed.events if type(event) is RunStarted]


def find_recorded_context(recording: Recording) -> list[dict[tuple[str, str], str]]:
    """Return the context of each run in a recording, by type and first line."""
    return [read_context(event) for event in recording.events if type(event) is RunStarted]


def read_context(event: RunStarted) -> dict[tuple[str, str], str]:
    found = {}
    for part in event.message.parts:
        if isinstance(part, Text) and part.source.startswith("context:"):
            first_line, _, rest = part.text.partition("\n")
            found[part.source.removeprefix("context:"), first_line] = rest
    return found


def of_environment(outcome: ReplayOutcome) -> list[Difference]:
    return [each for each in outcome.comparison.differences if each.kind == "environment"]


RECENT_A = ("recently_edited", '<recently_edited path="a.py">')
RECENT_B = ("recently_edited", '<recently_edited path="b.py">')
ENVIRONMENT = ("environment", "<environment>")


def test_the_recording_has_context_that_a_replay_could_not_gather(recording):
    first, second, _ = find_recorded_context(recording)
    assert "branch main, 1 changed" in first[ENVIRONMENT]
    assert first[RECENT_B].startswith("y = 2\n")
    assert "branch main, 2 changed" in second[ENVIRONMENT]
    assert second[RECENT_A].startswith("x = 2\n")


class Watcher:
    """A plugin that changes nothing."""

    name = "watcher"

    @hookimpl
    def remind(self) -> None:
        return None


@pytest.mark.parametrize(
    "changes",
    [
        Changes(rules=("deny run_terminal_cmd(rm *)",)),
        Changes(settings={"plan.remind_after": 30}),
        Changes(plugins=(Watcher(),)),
    ],
    ids=["rule", "set", "plugin"],
)
async def test_a_change_without_effect_makes_no_difference(recording, tmp_path, changes):
    outcome = await run_recording(recording, tmp_path / "work", changes=changes)
    assert outcome.comparison.identical, describe(outcome.comparison)


async def test_only_context_that_the_change_made_wrong_is_gathered_again(recording, tmp_path):
    changes = Changes(rules=("deny edit_file(a.py)",))
    outcome = await run_recording(recording, tmp_path / "work", changes=changes)
    first, second, _ = find_context(outcome)
    assert first == find_recorded_context(recording)[0]
    # The agent did not edit `a.py` this time, so that it is not recently edited. The repository, the
    # todo items and the other file are as in the recording.
    expected = find_recorded_context(recording)[1]
    assert expected.pop(RECENT_A).startswith("x = 2\n")
    assert second == expected
    assert {each.title for each in of_environment(outcome)} == {
        "files.changing (call-4): only in the recorded session",
        "files.changed (call-4): only in the recorded session",
        "files.command (call-5): only in the recorded session",
        "model started: only in the recorded session",
        "rules.policy check: only in the recorded session",
        "run ended: usage differs",
        "run started: message differs",
    }


async def test_a_file_that_the_user_had_edited_has_its_content_in_the_replay(recording, tmp_path):
    changes = Changes(rules=("deny edit_file(b.py)",))
    outcome = await run_recording(recording, tmp_path / "work", changes=changes)
    _, second, _ = find_context(outcome)
    assert second[RECENT_B].startswith("y = 2\n")
    assert "branch main, 2 changed" in second[ENVIRONMENT]
    # The run ended before its todo list was written.
    assert ("todos", "<todos>") not in second


async def test_context_after_a_denied_command_is_as_in_the_recording(recording, tmp_path):
    changes = Changes(rules=("deny run_terminal_cmd",))
    outcome = await run_recording(recording, tmp_path / "work", changes=changes)
    assert find_context(outcome) == find_recorded_context(recording)
    assert {each.title for each in of_environment(outcome)} == {
        "model started: only in the recorded session",
        "rules.policy check: only in the recorded session",
        "run ended: usage differs",
    }


async def test_blocks_of_a_plugin_that_is_left_out_are_missing(recording, tmp_path):
    changes = Changes(without=("context",))
    outcome = await run_recording(recording, tmp_path / "work", changes=changes)
    # The first edit fails as well, because the agent has not seen the file.
    assert find_context(outcome) == [{}, {}, {}]
    changes = Changes(settings={"context.recent_edits": False})
    outcome = await run_recording(recording, tmp_path / "other", changes=changes)
    kinds = {kind for found in find_context(outcome) for kind, _ in found}
    assert kinds == {"environment", "search_result"}


class Weather:
    """A plugin that gathers context."""

    name = "weather"

    @hookimpl
    def gather_context(self) -> Block:
        return Block("weather", "Rain")


async def test_blocks_of_a_further_plugin_are_added(recording, tmp_path):
    changes = Changes(plugins=(Weather(),))
    outcome = await run_recording(recording, tmp_path / "work", changes=changes)
    added = {("weather", "<weather>"): "Rain\n</weather>"}
    expected = [found | added for found in find_recorded_context(recording)]
    assert find_context(outcome) == expected
    titles = [each.title for each in outcome.comparison.differences]
    assert titles == ["run started: message differs"] * 3


async def test_another_model_with_the_same_answers_makes_no_difference(
    recording, tmp_path, monkeypatch
):
    config = tmp_path / "config"
    await trio.Path(config).mkdir()
    monkeypatch.setenv("HILUM_CONFIG", str(config))
    async with serve(ANSWERS) as server:
        for name, value in server.environ.items():
            monkeypatch.setenv(name, value)
        changes = Changes(model="openai/other")
        outcome = await run_recording(recording, tmp_path / "work", changes=changes)
        assert not server.failures
    assert not outcome.comparison.failures, describe(outcome.comparison)
    assert find_context(outcome) == find_recorded_context(recording)
    # What depends on the model itself.
    assert {each.title for each in of_environment(outcome)} <= {
        "model started: model differs",
        "run started: model differs",
        "session changed: only in the replay",
        "prompt frozen: model differs",
        "prompt frozen: layers differs",
        "model answered: usage differs",
        "run ended: usage differs",
    }
