"""What is remembered while commands run, and the look that the next session does for one that was
killed.
"""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import hilum_guard
import hilum_shell
import pytest
from hilum.events import PluginEvent
from hilum.testing import open_bench, say, use
from hilum_guard.sandbox.masks import Masks
from hilum_guard.watching import run_markers
from hilum_guard.watching.recovery import recover
from hilum_guard.watching.run_markers import RunMarker
from hilum_guard.watching.workspace_watcher import WorkspaceWatcher

# Each line of the input describes a session: the environment, the workspace, what its command does,
# and how it ends. Forking is much faster than another interpreter.
SESSIONS = """
import json, os, signal, sys
from hilum_guard.watching.run_markers import RunMarker
from hilum_guard.watching.workspace_watcher import WorkspaceWatcher
def run(environ, root, does, mode):
    os.environ.update(environ)
    watch = WorkspaceWatcher([root], alive=lambda: mode != "idle", mark=RunMarker(root))
    watch.begin()
    if mode == "idle":
        watch.check()
    else:
        exec(does, {"os": os, "root": root, "watch": watch})
    if mode == "lives":
        print(os.getpid(), flush=True)
        signal.pause()
    os.kill(os.getpid(), signal.SIGKILL)
for line in sys.stdin:
    pid = os.fork()
    if not pid:
        try:
            run(*json.loads(line))
        finally:
            os._exit(1)
    status = os.waitpid(pid, 0)[1]
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


@pytest.fixture(scope="module")
def sessions() -> Iterator[subprocess.Popen[str]]:
    """A process that runs sessions, each in a process of its own."""
    argv = [sys.executable, "-c", SESSIONS]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


Start = Callable[..., str]
Killed = Callable[..., None]


@pytest.fixture
def start(sessions: subprocess.Popen[str]) -> Start:
    """Start a session, and return the next line that is written about it."""

    def start(root: Path, does: str = "", mode: str = "killed") -> str:
        assert sessions.stdin is not None
        assert sessions.stdout is not None
        environ = {name: os.environ[name] for name in ("HILUM_DATA", "HOME") if name in os.environ}
        print(json.dumps([environ, str(root), does, mode]), file=sessions.stdin, flush=True)
        return sessions.stdout.readline().strip()

    return start


@pytest.fixture
def killed(start: Start) -> Killed:
    """Run a session that is killed after a command has done something."""

    def killed(root: Path, does: str = "", mode: str = "killed") -> None:
        assert start(root, does, mode) == str(-signal.SIGKILL)

    return killed


@pytest.fixture
def root(tmp_path: Path, new_repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository, and a folder for hilum's data."""
    monkeypatch.setenv("HILUM_DATA", str(tmp_path / "data"))
    return shutil.copytree(new_repository, tmp_path.resolve() / "proj")


def files(root: Path) -> list[str]:
    """The files of marks."""
    folder = run_markers.folder_of(str(root))
    return sorted(path.suffix for path in folder.iterdir()) if folder.exists() else []


def test_what_appeared_while_the_command_ran_is_made_inert(root: Path, killed: Killed) -> None:
    (root / ".envrc").write_text("the user's")
    killed(root, "open(f'{root}/.mise.toml', 'w'); open(f'{root}/.git/hooks/pre-commit', 'w')")
    assert files(root) == [".owner", ".state"]
    said = recover(str(root))
    assert len(said) == 2
    assert (root / ".envrc").read_text() == "the user's"
    assert (root / ".mise.toml.quarantined").exists()
    assert (root / ".git/hooks/pre-commit.quarantined").exists()
    assert files(root) == []
    assert recover(str(root)) == []


def test_a_link_that_was_replaced_is_put_back(root: Path, killed: Killed) -> None:
    target = root / "elsewhere"
    subprocess.run(["git", "init", "-q", "--bare", target], check=True)
    (root / "sub").mkdir()
    (root / "sub" / ".git").symlink_to(target)
    killed(root, "os.unlink(f'{root}/sub/.git'); os.symlink('/etc', f'{root}/sub/.git')")
    assert len(recover(str(root))) == 1
    assert os.readlink(root / "sub" / ".git") == str(target)


def test_what_the_user_writes_after_a_kill_is_set_aside_and_named(
    root: Path, killed: Killed
) -> None:
    killed(root)
    (root / ".envrc").write_text("the user's")
    [said] = recover(str(root))
    assert said.startswith(".envrc ")
    assert (root / ".envrc.quarantined").read_text() == "the user's"


KILLED_AFTER_RENAMING = """
import signal
from hilum_guard.watching import quarantine
rename = quarantine._rename
def rename_and_die(path):
    rename(path)
    os.kill(os.getpid(), signal.SIGKILL)
quarantine._rename = rename_and_die
open(f"{root}/.envrc", "w")
watch.check()
"""


def test_a_file_made_inert_right_before_a_kill_is_reported(root: Path, killed: Killed) -> None:
    killed(root, KILLED_AFTER_RENAMING)
    assert (root / ".envrc.quarantined").exists()
    [said] = recover(str(root))
    assert ".envrc.quarantined" in said
    assert recover(str(root)) == []


def test_a_file_made_inert_right_before_the_recovery_is_killed_is_reported(
    root: Path, killed: Killed
) -> None:
    killed(root, "open(f'{root}/.envrc', 'w')")
    pid = os.fork()
    if not pid:
        names: dict[str, object] = {"os": os, "root": root, "watch": None}
        exec(KILLED_AFTER_RENAMING.rpartition("open(")[0], names)
        recover(str(root))
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    [said] = recover(str(root))
    assert ".envrc.quarantined" in said
    assert files(root) == []


def test_what_the_user_writes_after_the_last_look_stays(root: Path, killed: Killed) -> None:
    killed(root, mode="idle")
    (root / ".envrc").write_text("the user's")
    assert recover(str(root)) == []
    assert (root / ".envrc").exists()
    assert files(root) == []


def test_a_living_sessions_mark_is_left_alone(
    root: Path, start: Start, sessions: subprocess.Popen[str]
) -> None:
    pid = int(start(root, "open(f'{root}/.envrc', 'w')", "lives"))
    assert recover(str(root)) == []
    assert files(root) == [".owner", ".state"]
    os.kill(pid, signal.SIGKILL)
    assert sessions.stdout is not None
    assert int(sessions.stdout.readline()) == -signal.SIGKILL
    assert len(recover(str(root))) == 1


def test_another_workspaces_mark_is_left_alone(root: Path, tmp_path: Path, killed: Killed) -> None:
    killed(root, "open(f'{root}/.envrc', 'w')")
    assert recover(str(tmp_path)) == []
    assert files(root) == [".owner", ".state"]


@pytest.mark.parametrize("damage", ["{", "[]", '{"rules": "other"}'])
def test_what_cannot_be_read_is_told(root: Path, damage: str, killed: Killed) -> None:
    killed(root, "open(f'{root}/.envrc', 'w')")
    [state] = run_markers.folder_of(str(root)).glob("*.state")
    state.write_text(damage)
    [said] = recover(str(root))
    assert "not known" in said
    assert files(root) == []


def test_a_mark_that_misses_a_part_is_told(root: Path, killed: Killed) -> None:
    killed(root)
    [state] = run_markers.folder_of(str(root)).glob("*.state")
    state.write_text(json.dumps({"rules": json.loads(state.read_text())["rules"]}))
    assert "damaged" in recover(str(root))[0]


def test_a_session_killed_before_it_wrote_anything_leaves_nothing(root: Path) -> None:
    folder = run_markers.folder_of(str(root))
    folder.mkdir(parents=True)
    (folder / "x.owner").touch()
    (folder / "x.writing").write_text("{")
    assert recover(str(root)) == []
    assert not folder.exists()


def test_the_mark_goes_with_the_last_look_and_with_the_session(root: Path) -> None:
    alive = 1
    mark = RunMarker(str(root))
    watch = WorkspaceWatcher([str(root)], alive=lambda: alive, mark=mark)
    watch.begin()
    watch.check()
    assert files(root) == [".owner", ".state"]
    alive = 0
    watch.check()
    assert files(root) == [".owner", ".writing"]
    mark.close()
    assert files(root) == []


def test_a_mark_with_the_same_state_is_not_written_again(root: Path) -> None:
    mark = RunMarker(str(root))
    watch = WorkspaceWatcher([str(root)], alive=lambda: 0, mark=mark)
    folder = run_markers.folder_of(str(root))
    [first, second, third] = [_begin_and_end(watch, folder) for _ in range(3)]
    assert first == second == third
    shutil.rmtree(folder)
    mark.close()
    mark = RunMarker(str(root))
    watch = WorkspaceWatcher([str(root)], alive=lambda: 0, mark=mark)
    before = _begin_and_end(watch, folder)
    (root / ".envrc").write_text("the user's")
    after = _begin_and_end(watch, folder)
    assert ".envrc" not in before[1]
    assert ".envrc" in after[1]
    [kept] = folder.glob("*.writing")
    kept.unlink()
    assert _begin_and_end(watch, folder)[1] == after[1]
    assert recover(str(root), mark) == []
    mark.close()
    assert files(root) == []


def _begin_and_end(watch: WorkspaceWatcher, folder: Path) -> tuple[int, str]:
    """Return the inode and the content of the marker while a command runs."""
    watch.begin()
    [state] = folder.glob("*.state")
    found = state.stat().st_ino, state.read_text()
    watch.check()
    assert not list(folder.glob("*.state"))
    return found


def test_what_was_found_and_not_logged_is_told_without_another_look(
    root: Path, killed: Killed
) -> None:
    """A kill between the look and the log entry."""
    alive = 1
    mark = RunMarker(str(root))
    watch = WorkspaceWatcher([str(root)], alive=lambda: alive, mark=mark)
    watch.begin()
    (root / ".envrc").touch()
    alive = 0
    said = watch.check()
    assert files(root) == [".owner", ".state"]
    watch.note_reported(said)
    watch.settle()
    assert files(root) == [".owner", ".writing"]
    mark.close()
    killed(root, "open(f'{root}/.envrc', 'w'); watch.alive = lambda: 0; watch.check()")
    (root / ".mise.toml").write_text("the user's")
    assert [line.partition(" ")[0] for line in recover(str(root))] == [".envrc"]
    assert (root / ".mise.toml").exists()


def test_what_the_user_agreed_to_is_remembered_as_theirs(root: Path, killed: Killed) -> None:
    """The mark follows what the watch knows, while commands go on."""
    killed(root, "open(f'{root}/.envrc', 'w'); watch.accept(f'{root}/.envrc')")
    assert recover(str(root)) == []
    assert (root / ".envrc").exists()


def test_a_data_folder_that_cannot_be_written_is_told_and_stops_nothing(
    root: Path, tmp_path: Path
) -> None:
    (tmp_path / "data").write_text("a file")
    watch = WorkspaceWatcher([str(root)], alive=lambda: 1, mark=RunMarker(str(root)))
    watch.begin()
    assert watch.unmarked
    (root / ".envrc").touch()
    assert len(watch.check()) == 1


def test_installed_packages_that_were_there_are_left_alone(root: Path) -> None:
    """They are looked into at the end only; what is older than the command is not its work."""
    old = root / "node_modules" / "pkg"
    (old / ".vscode").mkdir(parents=True)
    (root / "node_modules" / "moved").mkdir()
    time.sleep(0.1)  # times of change are compared, and have the system's own resolution
    watch = WorkspaceWatcher([str(root)], alive=lambda: 0)
    watch.begin()
    (root / "node_modules" / "new" / ".vscode").mkdir(parents=True)
    said = watch.check(everywhere=True)
    assert [line.partition(" ")[0] for line in said] == ["node_modules/new/.vscode"]
    assert (old / ".vscode").is_dir()


def test_a_folder_that_a_command_moved_to_the_packages_is_new(root: Path, killed: Killed) -> None:
    (root / "parked" / "inner" / ".vscode").mkdir(parents=True)
    (root / "node_modules" / "pkg").mkdir(parents=True)
    killed(
        root,
        "time = __import__('time'); os.rename(f'{root}/parked/inner', f'{root}/node_modules/inner')",
    )
    assert len(recover(str(root))) == 1
    os.rename(root / "node_modules", root / "packages")
    (root / "packages" / "pkg" / ".vscode").mkdir()
    (root / "node_modules").mkdir()
    time.sleep(0.1)
    killed(
        root,
        "os.rmdir(f'{root}/node_modules'); os.rename(f'{root}/packages', f'{root}/node_modules')",
    )
    assert len(recover(str(root))) == 1


def test_without_marks_it_takes_no_time(root: Path) -> None:
    """It is done before each command."""
    began = time.perf_counter()
    for _ in range(100):
        recover(str(root))
    assert (time.perf_counter() - began) / 100 < 0.005


def test_a_mask_that_another_process_removes_meanwhile_is_put_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between making it and holding it, a sweeping process may take it for one without an owner."""
    from hilum_guard.sandbox import masks as masks_module

    real = masks_module.lock
    removals = [root / ".vscode"]

    def remove_first(fd: int, *, exclusive: bool) -> None:
        if removals:
            removals.pop().rmdir()
        real(fd, exclusive=exclusive)

    monkeypatch.setattr(masks_module, "lock", remove_first)
    masks = Masks()
    masks.put(str(root / ".vscode"))
    assert (root / ".vscode").is_dir()
    masks.close()
    assert not (root / ".vscode").exists()


async def test_a_session_that_is_open_recovers_before_its_next_command(
    tmp_path: Path, killed: Killed
) -> None:
    """Not only one that starts: what the user agrees to afterwards is not in doubt."""
    async with open_bench(hilum_guard, hilum_shell, folder=tmp_path, approve="auto") as bench:
        root = bench.session.workspace.root
        killed(root, "open(f'{root}/.envrc', 'w')")
        bench.model.next(use("run_terminal_cmd", command="echo hello"), say("Done."))
        await bench.run("go")
        noted = [
            e for e in bench.events if isinstance(e, PluginEvent) and e.name == "guard.recovered"
        ]
    assert len(noted) == 1
    assert ".envrc" in noted[0].data["say"]
    assert (root / ".envrc.quarantined").exists()


def test_a_file_system_without_locks_is_reported(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried once, leaves no file, and says why."""

    def lock(fd: int, *, exclusive: bool) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(run_markers, "lock", lock)
    watch = WorkspaceWatcher([str(root)], alive=lambda: False, mark=RunMarker(str(root)))
    watch.begin()
    assert "No locks available" in watch.unmarked
    assert os.listdir(run_markers.folder_of(str(root))) == []


async def test_a_mark_with_names_that_are_no_text_stops_no_session(
    tmp_path: Path, killed: Killed
) -> None:
    async with open_bench(hilum_guard, hilum_shell, folder=tmp_path, approve="auto") as bench:
        root = bench.session.workspace.root
        killed(root, "os.makedirs(os.fsencode(root) + b'/sub\\xff/.vscode')")
        bench.model.next(use("run_terminal_cmd", command="echo hello"), say("Done."))
        await bench.run("go")
        noted = [
            e for e in bench.events if isinstance(e, PluginEvent) and e.name == "guard.recovered"
        ]
    assert "sub\\xff/.vscode" in noted[0].data["say"]


def test_sentences_that_another_hilum_wrote_are_text(root: Path, killed: Killed) -> None:
    killed(root, "watch._unreported = ['sub\\udcff was written']; watch._write_mark()")
    assert recover(str(root)) == ["sub\\xff was written"]


@pytest.mark.parametrize("folder", ["x.quarantined", ".github/x", ".pdbrc/x", "docs/mcp.json"])
def test_nested_repositories_that_a_killed_session_left_are_found(
    root: Path, folder: str, killed: Killed
) -> None:
    killed(
        root,
        f"os.system(f'git init -q {{root}}/{folder}; git -C {{root}}/{folder} config core.fsmonitor evil')",
    )
    assert "core.fsmonitor=evil" in "\n".join(recover(str(root)))
