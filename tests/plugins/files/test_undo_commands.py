"""``hilum diff`` and ``hilum undo`` on the store that sessions leave."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import hilum_files
import hilum_shell
import hilum_store
import msgspec
import pytest
import trio
from hilum import Workspace
from hilum.__main__ import main
from hilum.events import CallDone, PluginEvent
from hilum.testing import open_bench, say, use
from hilum_files.journal.content_store import ContentStore
from hilum_files.journal.journal import Journal
from hilum_files.journal.ledger import Ledger
from hilum_files.journal.records import COMMAND, SHOWN, Record
from hilum_files.journal.snapshots import Snapshots
from hilum_files.journal.tree import SnapshotLimits

Hilum = Callable[..., str]


@pytest.fixture
def hilum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Hilum:
    """Run the command in the workspace, as the program does, and return everything it prints."""

    def hilum(*arguments: str, code: int = 0, data: Path | None = None) -> str:
        monkeypatch.setenv("HILUM_DATA", str(data or tmp_path / "data"))
        monkeypatch.setenv("HILUM_CONFIG", str(tmp_path / "config"))
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.chdir(tmp_path / "workspace")
        capsys.readouterr()
        returned = main(arguments)
        printed = capsys.readouterr()
        assert returned == code, printed
        assert "Traceback" not in printed.err
        return printed.out + printed.err

    return hilum


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A session that edited a file, wrote one, and ran a command, in two runs."""
    trio.run(work, tmp_path)
    return tmp_path


async def work(tmp_path: Path) -> None:
    async with open_bench(
        hilum_files,
        hilum_shell,
        hilum_store,
        folder=tmp_path,
        files={"a.txt": "one\ntwo\nthree\n", "b.txt": "b\n"},
    ) as bench:
        bench.model.next(
            use("read_file", path="a.txt"),
            use("edit_file", path="a.txt", old_string="two", new_string="2"),
            use("run_terminal_cmd", command="rm b.txt; printf '\\033[31mred\\n' > c.txt"),
            say("Done."),
        )
        await bench.run("First.")
        bench.model.next(use("write_file", path="new/d.txt", content="d\n"), say("Done."))
        await bench.run("Second.")


def test_diff_shows_the_last_run_by_default_and_any_other(folder: Path, hilum: Hilum) -> None:
    """The last run, one that is named, a turn, a call, or all of the session."""
    assert "+++ b/new/d.txt" in (said := hilum("diff"))
    assert "a.txt" not in said
    whole = hilum("diff", "session")
    assert all(
        text in whole
        for text in ("-two\n+2\n", "--- a/b.txt\n+++ /dev/null", "+++ b/c.txt", "+++ b/new/d.txt")
    )
    assert "\x1b" not in whole
    assert "+\\x1b[31mred" in whole
    listed = hilum("diff", "--list")
    run = listed.split()[1]
    assert "-two\n+2\n" in hilum("diff", "turn", f"{run}:2")
    assert "created c.txt (+1 -0)" in hilum("diff", "run", run, "--stat")


def test_undo_takes_back_run_by_run_and_says_so(folder: Path, hilum: Hilum) -> None:
    """A dry run changes nothing; each undo goes further back; an undo can be undone."""
    root = folder / "workspace"
    assert "new/d.txt: would be deleted" in hilum("undo", "--dry-run")
    assert (root / "new/d.txt").exists()
    assert "new/d.txt: deleted" in hilum("undo")
    assert not (root / "new").exists()
    said = hilum("undo")
    assert {"a.txt: restored", "b.txt: recreated", "c.txt: deleted"} <= set(said.splitlines())
    assert (root / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert "E_NOT_FOUND" in hilum("undo", code=2)
    assert "b.txt: deleted" in hilum("undo", "undo")
    assert (root / "a.txt").read_text() == "one\n2\nthree\n"
    assert "(undone)" in hilum("diff", "--list")


@pytest.mark.parametrize("command", ["echo 2 > g/y", "mkfifo g/pipe"])
def test_only_what_was_deleted_is_called_deleted(
    tmp_path: Path, hilum: Hilum, command: str
) -> None:
    """A folder with other files in it is kept, and both the dry run and the undo say so."""
    trio.run(work_in_a_folder, tmp_path, command)
    run = hilum("diff", "--list").split()[1]
    assert hilum("undo", "run", run, "--dry-run").splitlines() == [
        "g/x: would be deleted",
        "g/: would be kept, because other files are in it",
    ]
    assert hilum("undo", "run", run).splitlines() == [
        "g/x: deleted",
        "g/: kept, because other files are in it",
    ]
    assert (tmp_path / "workspace/g").is_dir()
    if command.startswith("echo"):
        assert hilum("undo").splitlines() == ["g/y: deleted", "g: deleted"]
        assert not (tmp_path / "workspace/g").exists()


def test_a_large_new_file_is_named_and_needs_no_further_step(tmp_path: Path, hilum: Hilum) -> None:
    """The user is told to delete it; trying the undo again would not help."""
    trio.run(work_in_a_folder, tmp_path, "truncate -s 11000000 big; rm -r g")
    said = hilum("undo")
    assert "big: left as it is: it is new, but its content was not kept" in said
    assert "To try again" not in said
    assert (tmp_path / "workspace/big").stat().st_size == 11_000_000


async def work_in_a_folder(tmp_path: Path, command: str) -> None:
    async with open_bench(hilum_files, hilum_shell, hilum_store, folder=tmp_path) as bench:
        for each in ("mkdir g; echo 1 > g/x", command):
            bench.model.next(use("run_terminal_cmd", command=each), say("Done."))
            await bench.run("Work.")


KILLED = """
import os, sys
from pathlib import Path
import hilum_files, hilum_shell, hilum_store, trio
from hilum.testing import open_bench, say, use

async def main(folder, command):
    async with open_bench(
        hilum_files, hilum_shell, hilum_store, folder=folder, files={"a.txt": "a\\n", "b.txt": "b\\n"}
    ) as bench:
        bench.model.next(
            use("run_terminal_cmd", command="echo first >> a.txt"),
            use("run_terminal_cmd", command=command.replace("HILUM", str(os.getpid()))),
            say("Done."),
        )
        await bench.run("Work.")

trio.run(main, Path(sys.argv[1]), sys.argv[2])
"""
"""A session whose second command says when hilum is killed."""


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """The workspace of a session that was killed while a command ran."""
    command = "rm b.txt; echo new > new.txt; kill -9 HILUM; sleep 100"
    argv = [sys.executable, "-c", KILLED, str(tmp_path), command]
    assert subprocess.run(argv, check=False).returncode == -signal.SIGKILL
    return tmp_path / "workspace"


def test_a_command_that_ran_when_hilum_was_killed_is_undone(killed: Path, hilum: Hilum) -> None:
    said = hilum("undo")
    assert {"a.txt: restored", "b.txt: recreated", "new.txt: deleted"} <= set(said.splitlines())
    assert "was interrupted" in said
    assert {path.name: path.read_text() for path in killed.iterdir()} == {
        "a.txt": "a\n",
        "b.txt": "b\n",
    }


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["diff"], "+++ b/new.txt"),
        (["diff", "--list"], "b.txt, new.txt"),
        (["undo", "--dry-run"], "b.txt: would be recreated"),
    ],
)
def test_a_command_that_ran_when_hilum_was_killed_is_shown(
    killed: Path, hilum: Hilum, arguments: list[str], expected: str
) -> None:
    assert expected in hilum(*arguments)
    # What the user changes from now on is not attributed to the command.
    (killed / "own.txt").write_text("own")
    hilum("undo")
    assert (killed / "own.txt").exists()
    assert (killed / "b.txt").exists()


async def test_a_command_that_still_runs_is_named(tmp_path: Path) -> None:
    """While the session is open, its command has not ended, and is not recorded as interrupted."""
    variables = f"HILUM_DATA={tmp_path}/data HILUM_CONFIG={tmp_path}/config"
    async with open_bench(hilum_files, hilum_shell, hilum_store, folder=tmp_path) as bench:
        command = f"echo new > new.txt; {variables} {sys.executable} -m hilum diff --list"
        bench.model.next(use("run_terminal_cmd", command=command), say("Done."))
        await bench.run("Work.")
        (done,) = bench.of(CallDone)
        assert "is running, or was interrupted" in done.result.text
        (record,) = bench.session.plugin(hilum_files.Changes).records()
        assert [change.path for change in record.changes] == ["new.txt"]
        assert not record.cut_off


def test_a_call_that_waited_for_approval_has_changed_nothing(tmp_path: Path) -> None:
    """If hilum is killed meanwhile, nothing that the user does later is attributed to the call."""
    ledger = Ledger()
    command = Record(id="c1", tool="run_terminal_cmd", what="make", call="1", agent="main")
    ledger.apply(msgspec.structs.replace(command.to_event(COMMAND), seq=1))
    assert ledger.is_interrupted
    assert not ledger.has_started(command)
    workspace = Workspace(tmp_path)
    store = ContentStore(tmp_path / "objects")
    logged: list[PluginEvent] = []
    journal = Journal(workspace, store, logged.append, "s")
    journal.ledger = ledger
    Snapshots(journal, "s", SnapshotLimits(1000, 1000)).recover()
    journal.apply_events([msgspec.structs.replace(event, seq=2) for event in logged])
    assert not journal.ledger.is_interrupted
    assert not journal.ledger.records
    store.close()


async def work_without_changes(tmp_path: Path) -> None:
    """A later session, with a command and a file in the prompt, that changes nothing."""
    async with open_bench(hilum_files, hilum_shell, hilum_store, folder=tmp_path) as bench:
        bench.model.next(use("run_terminal_cmd", command="true"), say("Done."))
        await bench.run("Look.")
        shown = PluginEvent(name=SHOWN, data={"files": {"a.txt": "0"}})
        bench.session.emit(shown)


def test_a_later_session_without_changes_does_not_hide_those_of_an_earlier_one(
    folder: Path, hilum: Hilum
) -> None:
    trio.run(work_without_changes, folder)
    assert "+++ b/new/d.txt" in hilum("diff")
    assert "new/d.txt: deleted" in hilum("undo")
    assert not (folder / "workspace" / "new").exists()


def test_undo_keeps_what_others_changed_since(folder: Path, hilum: Hilum) -> None:
    """Other lines are merged, the same lines are a reason to do nothing, and the rest can be asked
    for.
    """
    root = folder / "workspace"
    hilum("undo")
    (root / "a.txt").write_text("one\n2\nthree\nfour\n")
    assert "a.txt: merged" in hilum("undo")
    assert (root / "a.txt").read_text() == "one\ntwo\nthree\nfour\n"
    hilum("undo", "undo")
    (root / "a.txt").write_text("one\nTWO\nthree\n")
    said = hilum("undo", code=1)
    assert "E_STALE" in said
    assert "a.txt: it has since changed in the same lines" in said
    assert not (root / "b.txt").exists()
    run = hilum("diff", "--list").split()[1]
    said = hilum("undo", "--keep-going")
    assert "a.txt: left as it is: it has since changed in the same lines" in said
    assert f"To try again what was left as it is: hilum undo run {run}" in said
    assert (root / "a.txt").read_text() == "one\nTWO\nthree\n"
    assert (root / "b.txt").read_text() == "b\n"
    assert "(left as it is)" in hilum("diff", "--list")
    assert "E_NOT_FOUND" in hilum("undo", code=2)
    assert "E_STALE" in hilum("undo", "run", run, code=1)
    assert "Nothing was written." in hilum("undo", "run", run, "--keep-going")


def test_the_steps_after_an_undo_that_leaves_files_are_named(folder: Path, hilum: Hilum) -> None:
    """The older run is named when the undo is refused, and when it leaves a file."""
    root = folder / "workspace"
    (root / "new/d.txt").write_text("mine\n")
    listed = [line for line in hilum("diff", "--list").splitlines() if line.startswith("run ")]
    older, run = (line.split()[1] for line in listed)
    said = hilum("undo", code=1)
    assert f"hilum undo run {older}" in said
    said = hilum("undo", "--keep-going")
    assert f"To undo what was changed before that: hilum undo run {older}" in said
    assert f"hilum undo run {run}" in said
    assert "(undone except new/d.txt)" in hilum("diff", "--list")
    assert "+++ b/c.txt" in hilum("diff")
    assert "b.txt: recreated" in hilum("undo")


def test_bad_input_is_told_plainly(folder: Path, hilum: Hilum) -> None:
    """Unknown scopes, ids, sessions and folders; and help."""
    assert "E_BAD_ARGS" in hilum("undo", "everything", code=2)
    assert "E_NOT_FOUND" in hilum("undo", "call", "nope", code=2)
    assert "E_UNKNOWN" in hilum("diff", "--session", "nope", code=2)
    assert "No session has changed files" in hilum("diff", "-C", "/", code=2)
    assert "--dry-run" in hilum("undo", "--help")
    assert "last unit that changed something" in hilum("diff", "--help")


def test_folders_that_are_left_out_stand_on_one_line_at_the_end(
    tmp_path: Path, hilum: Hilum
) -> None:
    """What a tool makes anew does not hide what was changed."""

    async def test_run() -> None:
        async with open_bench(hilum_files, hilum_shell, hilum_store, folder=tmp_path) as bench:
            command = "mkdir .pytest_cache __pycache__; echo 1 > z.txt"
            bench.model.next(use("run_terminal_cmd", command=command), say("Done."))
            await bench.run("Go.")

    trio.run(test_run)
    lines = hilum("diff").splitlines()
    assert lines[0] == "--- /dev/null"
    assert lines[-1] == "Left out of snapshots: .pytest_cache/, __pycache__/"
    assert hilum("diff", "--stat").splitlines()[0] == "created z.txt (+1 -0)"


async def work_beside_data(tmp_path: Path) -> None:
    """Run a command that changes files in a folder which hilum's data is moved to afterwards."""
    files = {"a.txt": "one\n"}
    async with open_bench(
        hilum_files, hilum_shell, hilum_store, folder=tmp_path, files=files
    ) as bench:
        command = (
            "mkdir -p kept/objects; echo old > kept/sessions.db; echo old > kept/objects/x; echo"
            " two > a.txt"
        )
        bench.model.next(use("run_terminal_cmd", command=command), say("Done."))
        await bench.run("First.")


def test_changes_of_hilums_own_data_that_an_older_hilum_logged_are_ignored(
    tmp_path: Path, hilum: Hilum
) -> None:
    """They are neither shown nor undone, and conflict with nothing."""
    trio.run(work_beside_data, tmp_path)
    data = tmp_path / "workspace" / "kept"
    shutil.copytree(tmp_path / "data", data, dirs_exist_ok=True)
    (data / "sessions.db").touch()
    (data / "objects" / "x").write_text("changed since")
    shown = hilum("diff", data=data)
    assert "a.txt" in shown
    assert "kept/" not in shown
    said = hilum("undo", data=data)
    assert "a.txt: restored" in said
    assert "kept" not in said
    assert (tmp_path / "workspace" / "a.txt").read_text() == "one\n"
    assert (data / "objects" / "x").read_text() == "changed since"
    hilum("undo", "undo", data=data)
    assert (tmp_path / "workspace" / "a.txt").read_text() == "two\n"
