"""Sessions of all tools are replayed identically, on another path and on another day."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
import trio
from hilum import UsageError
from hilum.errors import E_FILE_NOT_FOUND, E_NOT_INSTALLED, E_STORE
from hilum.events import CallStarted, ModelAnswered, RunEnded
from hilum.testing import use
from hilum_replay import serve
from hilum_replay.cassette_writer import dumps, save
from hilum_replay.recorder import record
from hilum_replay.sessions.comparison import describe
from hilum_replay.sessions.exporting import export_test, make_recording, make_repeatable
from hilum_replay.sessions.player import Changes
from hilum_replay.sessions.recording import (
    SESSION_FILE,
    Recording,
    load_recording,
    save_recording,
)
from hilum_replay.sessions.session_test import check_session, run_recording
from recorded_sessions import record_session

ROOT = Path(__file__).parents[3]
CORPUS = ROOT / "plugins/replay/hilum_replay/corpus"
FORTY_DAYS = 40 * 86_400
# The plugin of schemathesis, which the tests of hilum-serve need, takes half a second to import.
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis"]


async def record_and_settle(seed: int, folder: Path, *scenes: str) -> Recording:
    """Record a session, and make a recording of it."""
    session = await record_session(seed, folder / "bench", scenes=scenes)
    recording, _ = await make_repeatable(make_recording(session.events, session.get_content))
    shutil.rmtree(folder / "bench")
    return recording


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("seed", range(200))
async def test_a_session_replays_identically_elsewhere_and_later(tmp_path, seed, monkeypatch):
    recording = await record_and_settle(seed, tmp_path)
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + FORTY_DAYS)
    save_recording(recording, tmp_path / "recording")
    outcome = await run_recording(
        load_recording(tmp_path / "recording"), tmp_path / "some" / "other place" / "work"
    )
    assert outcome.comparison.identical, describe(outcome.comparison)


async def test_a_command_after_a_stopped_guest_finds_what_the_guest_changed(tmp_path):
    recording = await record_and_settle(128, tmp_path, "stopped_guest", "steering")
    outcome = await run_recording(recording, tmp_path / "work")
    assert outcome.comparison.identical, describe(outcome.comparison)
    assert (tmp_path / "work" / "begun.txt").exists()


async def test_an_exported_test_passes_without_network_and_keys(tmp_path):
    session = await record_session(3, tmp_path / "bench", scenes=["write_and_edit", "command"])
    recording, outcome = await make_repeatable(make_recording(session.events, session.get_content))
    assert not outcome.comparison.failures, describe(outcome.comparison)
    assert recording.after["shop/prices.py"] != recording.before["shop/prices.py"]
    # The contents are in the data folder of the bench.
    os.environ["HILUM_DATA"] = str(tmp_path / "bench" / "data")
    exported = await export_test(
        session.events, "two-scenes", tmp_path / "out", title='Make "cake"\ncheap'
    )
    assert exported.test.name == "test_two_scenes.py"
    shutil.rmtree(tmp_path / "bench")
    shutil.move(tmp_path / "out", tmp_path / "elsewhere")
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTEST_DEBUG_TEMPROOT": str(tmp_path),
    }
    done = await trio.run_process(
        [*PYTEST, "elsewhere"], cwd=tmp_path, env=environ, capture_stdout=True, check=False
    )
    assert done.returncode == 0, done.stdout.decode()
    assert b"1 passed" in done.stdout
    with pytest.raises(UsageError, match="exists"):
        await export_test(session.events, "two-scenes", tmp_path / "elsewhere")


async def test_a_changed_file_is_found_and_shown(tmp_path):
    recording = await record_and_settle(5, tmp_path, "write_and_edit")
    changed = dict(recording.before)
    changed["shop/prices.py"] = changed["shop/prices.py"].replace(b"return", b"RETURN")
    outcome = await run_recording(
        msgspec.structs.replace(recording, before=changed), tmp_path / "work"
    )
    titles = [difference.title for difference in outcome.comparison.failures]
    assert titles[0] == "call done (read_file call-1): result differs"
    assert "shop/prices.py has another content" in titles
    text = describe(outcome.comparison)
    assert text.startswith(
        "first difference: [behaviour] call done (read_file call-1): result differs"
    )
    assert "+ 5 |     RETURN PRICES[name]" in text


async def test_calls_that_reach_outside_are_answered_from_the_log(tmp_path):
    recording = await record_and_settle(5, tmp_path, "outside")
    # The plugin `Outside` is not loaded, and its results are random.
    outcome = await run_recording(recording, tmp_path / "work")
    assert outcome.comparison.identical, describe(outcome.comparison)
    assert set(outcome.replayed.answered) == {f"main/call-{number}" for number in range(1, 5)}


async def test_an_unstable_command_is_answered_from_the_log_with_its_files(tmp_path):
    recording = await record_and_settle(5, tmp_path, "unstable_command")
    assert "main/call-1" in recording.header.from_log
    outcome = await run_recording(recording, tmp_path / "work")
    assert outcome.comparison.identical, describe(outcome.comparison)
    clock = await trio.Path(tmp_path / "work" / "clock.txt").read_bytes()
    assert clock == recording.after["clock.txt"]


async def test_a_rule_makes_the_replay_differ(tmp_path):
    recording = await record_and_settle(5, tmp_path, "write_and_edit")
    changes = Changes(rules=("deny write_file",))
    outcome = await run_recording(recording, tmp_path / "work", changes=changes)
    first = outcome.comparison.failures[0]
    assert first.title == "call started (write_file call-3): only in the recorded session"
    assert "E_DENIED" in describe(outcome.comparison)


async def test_a_change_begins_at_an_event(tmp_path):
    recording = await record_and_settle(5, tmp_path, "write_and_edit", "approval")
    edits = [
        event.seq
        for event in recording.events
        if isinstance(event, CallStarted) and event.call.name == "write_file"
    ]
    answers = [event.seq for event in recording.events if isinstance(event, ModelAnswered)]
    at = max(seq for seq in answers if seq < edits[-1]) - 2
    changes = Changes(at=at, rules=("deny write_file",))
    outcome = await run_recording(recording, tmp_path / "work", changes=changes)
    failures = outcome.comparison.failures
    assert failures
    # Everything up to the event is the same, although the rule denies an earlier call as well.
    assert min(each.recorded for each in failures if each.recorded) > at
    assert any(each.title.endswith("result differs") for each in failures)


async def test_another_model_answers_after_an_event(tmp_path, monkeypatch):
    recording = await record_and_settle(5, tmp_path, "write_and_edit")
    config = tmp_path / "config"
    await trio.Path(config).mkdir()
    monkeypatch.setenv("HILUM_CONFIG", str(config))
    answers = [
        use("write_file", path="by_another.txt", content="x\n"),
        use("weather", place="Oslo"),
        "I am another model.",
    ]
    second = [event.seq for event in recording.events if isinstance(event, ModelAnswered)][1]
    async with serve(answers) as server:
        for name, value in server.environ.items():
            monkeypatch.setenv(name, value)
        changes = Changes(at=second - 1, model="openai/other", rules=("ask delete_file",))
        outcome = await run_recording(recording, tmp_path / "work", changes=changes)
        assert not server.failures
    ended = outcome.replayed.events[-1]
    ends = [event for event in outcome.replayed.events if isinstance(event, RunEnded)]
    assert ends[-1].text == "I am another model.", ended
    failures = outcome.comparison.failures
    assert min(each.recorded for each in failures if each.recorded) >= second - 1
    assert await trio.Path(tmp_path / "work" / "by_another.txt").exists()
    # The user's configuration stays as it was.
    assert await trio.to_thread.run_sync(lambda: list(config.iterdir())) == []


# --- bad recordings -------------------------------------------------------------------------------


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of a recording of the corpus."""
    shutil.copytree(CORPUS / "read_and_search", tmp_path / "copy")
    return tmp_path / "copy"


def rewrite(folder: Path, line: int, old: str, new: str) -> None:
    """Replace a text in a line of a recording."""
    file = folder / SESSION_FILE
    lines = file.read_text().split("\n")
    assert old in lines[line]
    lines[line] = lines[line].replace(old, new)
    file.write_text("\n".join(lines))


def check_refused(folder: Path, code: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        check_session(folder, folder.parent / "work")
    assert refused.value.code == code
    assert refused.value.hint


def test_a_newer_format_is_refused(copy):
    rewrite(copy, 0, '"format":1', '"format":2')
    check_refused(copy, E_STORE, r"newer version of hilum \(format 2\)")


def test_an_event_of_a_newer_version_is_refused(copy):
    rewrite(copy, 0, '"hilum":"0.1.0"', '"hilum":"0.9.0"')
    rewrite(copy, 4, '"type":"', '"type":"new_')
    check_refused(copy, E_STORE, r"newer version of hilum \(hilum 0\.9\.0\)")


def test_a_damaged_line_is_refused(copy):
    rewrite(copy, 4, '"type":"', '"type":')
    check_refused(copy, E_STORE, "damaged at line 5")


def test_a_missing_line_is_refused(copy):
    file = copy / SESSION_FILE
    lines = file.read_text().split("\n")
    del lines[6]
    file.write_text("\n".join(lines))
    check_refused(copy, E_STORE, "event 6 is missing")


def test_a_recording_that_was_cut_off_is_refused(copy):
    file = copy / SESSION_FILE
    lines = file.read_text().splitlines()
    file.write_text("\n".join(lines[:-3]) + "\n")
    check_refused(copy, E_STORE, r"damaged at line \d+: the last 3 of \d+ events are missing")


def test_an_empty_file_is_refused(copy):
    (copy / SESSION_FILE).write_text("")
    check_refused(copy, E_STORE, "damaged at line 1: the file is empty")


def test_a_folder_without_a_recording_is_refused(copy):
    (copy / SESSION_FILE).unlink()
    check_refused(copy, E_FILE_NOT_FOUND, "Cannot read the recorded session")


def test_a_missing_file_is_refused(copy):
    (copy / "before" / "shop" / "cart.py").unlink()
    check_refused(copy, E_STORE, "lacks the file before/shop/cart.py")


def test_a_changed_file_is_refused(copy):
    file = copy / "before" / "shop" / "cart.py"
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    check_refused(copy, E_STORE, r"before/shop/cart\.py was changed after")


def test_files_of_other_programs_are_not_part_of_a_recording(copy):
    (copy / "before" / "__pycache__").mkdir()
    (copy / "before" / "__pycache__" / "cart.pyc").write_bytes(b"x")
    check_session(copy, copy.parent / "work")
    assert not (copy.parent / "work" / "__pycache__").exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("format = 1", "format = 2", "cassette format 2"),
        ("[[exchange]]", "[[exchange", "is not valid TOML"),
        ("format = 1", "format = 1\nmisspelled = 2", "is not a cassette"),
        ("format = 1", "", "is not a cassette"),
    ],
)
def test_a_damaged_cassette_is_refused(copy, old, new, message):
    recording = load_recording(copy)
    text = dumps(record(recording.events))
    assert old in text
    (copy / "cassette.toml").write_text(text.replace(old, new, 1))
    check_refused(copy, E_STORE, message)


def test_a_cassette_of_another_session_is_refused(copy):
    other = load_recording(CORPUS / "picture")
    save(record(other.events), copy / "cassette.toml")
    check_refused(copy, E_STORE, "The cassette has 1 exchanges, but the log of its session has 4")


def test_a_link_out_of_the_workspace_is_refused(copy):
    rewrite(copy, 0, '"links":{}', '"links":{"a":"../../made"}')
    check_refused(copy, E_STORE, "leads out of the workspace")


def test_a_path_outside_of_the_workspace_is_refused(copy):
    rewrite(copy, 0, '"folders":[', '"folders":["../../made"],"other":[')
    check_refused(copy, E_STORE, "leads out of the workspace")
    assert not (copy.parent.parent / "made").exists()


def test_a_recording_for_another_plugin_set_is_refused(copy):
    text = (copy / SESSION_FILE).read_text()
    text = re.sub(r'"search 0\.1\.0"', '"other_search 0.1.0"', text)
    (copy / SESSION_FILE).write_text(text.replace('"plugin":"search"', '"plugin":"other_search"'))
    check_refused(copy, E_NOT_INSTALLED, "not installed: other_search")


# --- the corpus -----------------------------------------------------------------------------------


def run_corpus(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the corpus as the author of a plugin does, outside of this repository."""
    # In the usual folder, pytest would remove the files of earlier runs, which may take minutes.
    temporary = {"PYTEST_DEBUG_TEMPROOT": str(folder.parent)}
    return subprocess.run(
        [*PYTEST, *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **temporary, **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_corpus_passes_with_a_plugin_that_changes_nothing(tmp_path, request):
    names = sorted(path.name for path in CORPUS.iterdir())
    corpus = "standard"
    if not request.config.getoption("--all"):
        names = names[::4]
        corpus = str(tmp_path / "some")
        for name in names:
            shutil.copytree(CORPUS / name, tmp_path / "some" / name)
    plugin = tmp_path / "quiet.py"
    plugin.write_text(
        "from hilum import hookimpl\n\n\n@hookimpl\ndef remind(results):\n    return None\n"
    )
    done = run_corpus(tmp_path, "--hilum-corpus", corpus, "--hilum-plugin", str(plugin))
    assert done.returncode == 0, done.stdout
    assert f"{len(names)} passed" in done.stdout


def test_sessions_with_unknown_tools_pass_with_a_plugin_that_adds_a_tool(tmp_path):
    plugin = tmp_path / "counter.py"
    plugin.write_text(
        "from hilum import Tool, hookimpl, tool\n\n\n"
        '@tool(risk="read", effect="pure")\n'
        "async def count_words(path: str) -> str:\n"
        '    """Count words.\n\n    Args:\n        path: A file.\n    """\n'
        '    return "1"\n\n\n'
        "@hookimpl\ndef provide_tools() -> list[Tool]:\n    return [count_words]\n"
    )
    for name in ("bad_model", "memories"):
        shutil.copytree(CORPUS / name, tmp_path / "some" / name)
    done = run_corpus(
        tmp_path, "--hilum-corpus", str(tmp_path / "some"), "--hilum-plugin", str(plugin)
    )
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_the_corpus_finds_a_plugin_that_changes_results(tmp_path):
    plugin = tmp_path / "loud.py"
    plugin.write_text(
        "from hilum import hookimpl\n\n\n@hookimpl\ndef remind(results):\n    return 'Mind me.'\n"
    )
    # The first difference is enough.
    done = run_corpus(tmp_path, "-x", "--hilum-corpus", "standard", "--hilum-plugin", str(plugin))
    assert done.returncode == 1
    assert "differs from the recording" in done.stdout
    assert "Mind me." in done.stdout


def test_a_folder_without_recordings_is_no_corpus(tmp_path):
    done = run_corpus(tmp_path, "--hilum-corpus", str(tmp_path))
    assert done.returncode == 4
    assert "is not 'standard' or a folder with recorded sessions" in done.stderr


def test_pytest_does_not_collect_the_tests_of_a_recorded_project(tmp_path, copy):
    (copy / "before" / "test_never.py").write_text("def test_never():\n    assert False\n")
    (tmp_path / "test_own.py").write_text("def test_own():\n    pass\n")
    done = run_corpus(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
