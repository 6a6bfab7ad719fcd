"""``hilum replay`` and ``hilum sessions export --test`` with sessions of the user's store."""

import errno
import json
import os
import shutil
from pathlib import Path

import hilum
import pytest
import trio
from hilum import UsageError
from hilum.errors import E_BAD_ARGS
from hilum.events import CallStarted, ModelUsed
from hilum.store import storage_plugins
from hilum.testing import open_bench, use
from hilum_cli import sessions
from hilum_replay import serve
from hilum_replay.sessions import exporting, player, replay_command
from hilum_replay.sessions.workspace_files import list_workspace

pytestmark = pytest.mark.slow(cases=7, of="file")

FILES = {
    "a.py": "x = 1\n",
    "secret.txt": "key = sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD\n",
}
ANSWERS = [
    use("read_file", path="a.py") + use("read_file", path="secret.txt"),
    use("edit_file", path="a.py", old_string="x = 1", new_string="x = 2"),
    use("run_terminal_cmd", command="cat a.py"),
    "Done.",
]


@pytest.fixture
def stored(tmp_path: Path) -> str:
    """Record a session in the user's store, and return its id."""

    async def record() -> str:
        async with open_bench(
            "files", "shell", "guard", "store", answers=ANSWERS, files=FILES, folder=tmp_path / "b"
        ) as bench:
            ended = await bench.run("Change x.")
            assert ended.state == "completed"
            return bench.session.id

    session = trio.run(record)
    os.environ["HILUM_DATA"] = str(tmp_path / "b" / "data")
    return session


def read_workspace(folder: Path) -> dict[str, bytes]:
    return {path: (folder / path).read_bytes() for path in list_workspace(folder)}


def test_an_unchanged_replay_is_identical_and_leaves_the_files_alone(stored, tmp_path, capsys):
    workspace = tmp_path / "b" / "workspace"
    (workspace / "a.py").write_text("the user goes on\n")
    before = read_workspace(workspace)
    assert replay_command.main([stored]) == replay_command.EXIT_SAME
    assert capsys.readouterr().out.startswith("Identical: ")
    assert read_workspace(workspace) == before


def test_a_rule_differs_and_the_difference_is_readable_and_json(stored, capsys):
    arguments = [stored, "--rule", "deny edit_file"]
    assert replay_command.main(arguments) == replay_command.EXIT_DIFFERENT
    shown = capsys.readouterr().out
    assert shown.startswith(
        "first difference: [behaviour] call started (edit_file call-3): only in the recorded session"
    )
    assert '- edit_file {"path":"a.py","old_string":"x = 1","new_string":"x = 2"}' in shown
    assert "+ E_DENIED: A user rule denies it: edit_file" in shown
    assert "The recording has no answer to this request, so the run ends here." in shown
    assert "[files] a.py has another content" in shown
    assert replay_command.main([*arguments, "--json"]) == replay_command.EXIT_DIFFERENT
    data = json.loads(capsys.readouterr().out)
    assert data["differs"]
    assert not data["identical"]
    kinds = {difference["kind"] for difference in data["differences"]}
    assert {"behaviour", "files"} <= kinds


def record_command(command: str, folder: Path) -> str:
    """Record a session in which one command runs in a repository, and return its id."""
    answers = [use("run_terminal_cmd", command=command), "Done."]

    async def record() -> str:
        async with open_bench(
            "files", "shell", "guard", "store", answers=answers, files=FILES, folder=folder
        ) as bench:
            workspace = str(bench.workspace)
            for arguments in (["init", "-q"], ["add", "a.py"], ["commit", "-q", "-m", "One."]):
                made = await trio.run_process(
                    ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", *arguments],
                    cwd=workspace,
                    capture_stderr=True,
                )
                assert made.returncode == 0
            ended = await bench.run("Go.")
            assert ended.state == "completed"
            return bench.session.id

    session = trio.run(record)
    os.environ["HILUM_DATA"] = str(folder / "data")
    return session


def test_a_command_with_a_random_result_is_no_effect_of_a_rule(tmp_path, capsys):
    session = record_command("python3 -c 'import random; print(random.random())'", tmp_path / "b")
    arguments = [session, "--rule", "deny edit_file"]
    assert replay_command.main(arguments) == replay_command.EXIT_SAME, capsys.readouterr().out
    shown = capsys.readouterr().out
    assert "Answered from the log: main/call-1: its result is another one" in shown


def test_a_command_that_reads_the_repository_is_no_effect_of_a_rule(tmp_path, capsys):
    session = record_command("git status --short; git log --format=%s", tmp_path / "b")
    assert replay_command.main([session, "--rule", "deny web_fetch"]) == replay_command.EXIT_SAME
    shown = capsys.readouterr().out
    assert "Answered from the log: main/call-1: its result is another one" in shown
    # Everything up to the event is repeated unchanged.
    arguments = [session, "--at", "20", "--rule", "deny edit_file"]
    assert replay_command.main(arguments) == replay_command.EXIT_SAME
    assert "fatal: not a git repository" not in capsys.readouterr().out


@pytest.mark.parametrize(("command", "denied"), [("date +%N", "date *"), ("git log", "git *")])
def test_a_call_that_the_log_could_answer_is_refused_by_a_change(tmp_path, capsys, command, denied):
    change = ["--rule", f"deny run_terminal_cmd({denied})"]
    session = record_command(command, tmp_path / "b")
    assert replay_command.main([session]) == replay_command.EXIT_SAME
    assert "Answered from the log: main/call-1: " in capsys.readouterr().out
    assert replay_command.main([session, *change]) == replay_command.EXIT_DIFFERENT
    shown = capsys.readouterr().out
    assert "call started (run_terminal_cmd call-1): only in the recorded session" in shown
    assert "call done (run_terminal_cmd call-1): result differs" in shown
    assert "+ E_DENIED: A user rule denies it: " in shown
    assert "The recording has no answer to this request, so the run ends here." in shown
    assert "+ state: failed" in shown
    assert "Answered from the log" not in shown
    assert replay_command.main([session, *change, "--json"]) == replay_command.EXIT_DIFFERENT
    assert json.loads(capsys.readouterr().out)["from_log"] == {}


def test_a_denial_names_the_rules_as_those_of_the_user(stored, capsys):
    replay_command.main([stored, "--rule", "deny edit_file"])
    shown = capsys.readouterr().out
    assert "edit_file (~/.config/hilum/permissions.toml)" in shown
    assert "hilum-replay-" not in shown


async def test_requests_to_a_live_model_are_billed(stored, tmp_path, monkeypatch):
    async with serve([use("read_file", path="a.py"), "Another answer."]) as server:
        for name, value in server.environ.items():
            monkeypatch.setenv(name, value)
        options = replay_command.make_parser().parse_args([stored, "--model", "openai/other"])
        await replay_command._replay(options)
    async with hilum.open_kernel(storage_plugins()) as kernel:
        billed = [info for info in await kernel.store.list() if info.id != stored]
        assert [info.title for info in billed] == [f"Replay of {stored}"]
        events = await kernel.store.read(billed[0].id)
    used = [event for event in events if isinstance(event, ModelUsed)]
    # The recorded answers of the other model are not billed again.
    assert [event.model for event in used] == ["openai/other"] * 2


def test_the_folder_of_a_replay_is_kept_and_named(stored, capsys):
    assert replay_command.main([stored, "--keep", "--json"]) == replay_command.EXIT_SAME
    folder = Path(json.loads(capsys.readouterr().out)["folder"])
    assert (folder / "a.py").read_text() == "x = 2\n"
    shutil.rmtree(folder.parent)


async def test_requests_of_a_replay_that_does_not_end_are_billed(stored, monkeypatch, capsys):
    """The error does not hide the folder that is kept."""
    monkeypatch.setattr(player, "MAX_LIVE_SECONDS", 5.0)

    async def answer(request):
        if server.requests[1:]:
            await trio.sleep_forever()
        return use("read_file", path="a.py")

    async with serve(answer) as server:
        for name, value in server.environ.items():
            monkeypatch.setenv(name, value)
        arguments = [stored, "--model", "openai/other", "--keep"]
        options = replay_command.make_parser().parse_args(arguments)
        with pytest.raises(UsageError, match="did not end within 5 seconds"):
            await replay_command._replay(options)
    kept = Path(capsys.readouterr().err.strip().removeprefix("The files of the replay are in "))
    assert kept.name == "workspace"
    await trio.to_thread.run_sync(shutil.rmtree, kept.parent)
    async with hilum.open_kernel(storage_plugins()) as kernel:
        [billed] = [info for info in await kernel.store.list() if info.id != stored]
        events = await kernel.store.read(billed.id)
    assert [event.model for event in events if isinstance(event, ModelUsed)] == ["openai/other"]


def test_a_file_that_other_programs_write_is_left_out(tmp_path, capfd):
    async def record() -> str:
        answers = [use("run_terminal_cmd", command="echo 1; cat run.log"), "Done."]
        files = {"a.py": "x = 1\n", "run.log": "began\n"}
        async with open_bench(
            "files", "shell", "guard", "store", answers=answers, files=files, folder=tmp_path / "b"
        ) as bench:
            log = trio.Path(bench.workspace / "run.log")
            run = await bench.start("Go.")
            await bench.wait_for(CallStarted)
            await log.write_text("began\nwent on\n")
            await run.wait()
            await log.write_text("began\nwent on\nended\n")
            return bench.session.id

    session = trio.run(record)
    os.environ["HILUM_DATA"] = str(tmp_path / "b" / "data")
    folder = tmp_path / "tests"
    arguments = ["export", session, "--test", "t", "-o", str(folder), "--without", "*.log"]
    assert sessions.main(arguments) == 0
    assert "Left out: run.log: --without *.log." in capfd.readouterr().out
    assert not (folder / "t" / "before" / "run.log").exists()
    with pytest.raises(UsageError, match="leaves files out of a test"):
        sessions.main(["export", session, "--without", "*.log"])
    with pytest.raises(UsageError, match="only the files that it was exported with"):
        replay_command.main([str(folder / "t"), "--without", "*.log"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rule", "edit_file"], "is not a permission rule"),
        (["--rule", "deny edit_file(("], "is invalid"),
        (["--at", "-1"], "must not be negative"),
        (["--at", "5"], "needs a change"),
        (["--at", "9999", "--rule", "deny edit_file"], "is not before the last event"),
    ],
)
def test_wrong_options_are_explained(stored, arguments, message):
    with pytest.raises(UsageError, match=message) as refused:
        replay_command.main([stored, *arguments])
    assert refused.value.code == E_BAD_ARGS
    assert refused.value.hint


def test_a_stored_session_becomes_a_test(stored, tmp_path, capfd):
    folder = tmp_path / "tests"
    assert sessions.main(["export", stored, "--test", "change_x", "-o", str(folder)]) == 0
    report = capfd.readouterr().out
    assert f"Wrote {folder}/test_change_x.py" in report
    assert "Secrets were replaced in secret.txt." in report
    written = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert b"sk-proj-abcdefghijklmnop" not in written
    assert str(tmp_path).encode() not in written
    assert (folder / "change_x" / "before" / "a.py").read_text() == "x = 1\n"
    assert (folder / "change_x" / "after" / "a.py").read_text() == "x = 2\n"
    # The folder of a recording can be replayed as well, and its cassette can be played on its own.
    assert replay_command.main([str(folder / "change_x")]) == replay_command.EXIT_SAME
    assert "[[exchange]]" in (folder / "change_x" / "cassette.toml").read_text()
    with pytest.raises(UsageError, match="exists"):
        sessions.main(["export", stored, "--test", "change_x", "-o", str(folder)])
    arguments = ["export", stored, "--test", "change_x", "-o", str(folder), "--force"]
    assert sessions.main(arguments) == 0


def test_an_earlier_test_stays_if_the_new_one_cannot_be_written(stored, tmp_path, monkeypatch):
    folder = tmp_path / "tests"
    arguments = ["export", stored, "--test", "change_x", "-o", str(folder), "--force"]
    assert sessions.main(arguments) == 0
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def fail(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(exporting, "dumps", fail)
    with pytest.raises(UsageError, match="No space left on device"):
        sessions.main(arguments)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert len(list(folder.iterdir())) == 2


def test_a_session_without_a_finished_run_is_refused(tmp_path, capsys):
    async def record() -> str:
        async with open_bench(
            "files", "guard", "store", answers=[], files=FILES, folder=tmp_path / "b"
        ) as bench:
            return bench.session.id

    session = trio.run(record)
    os.environ["HILUM_DATA"] = str(tmp_path / "b" / "data")
    with pytest.raises(UsageError, match="no run that could be replayed"):
        sessions.main(["export", session, "--test", "x", "-o", str(tmp_path / "tests")])
