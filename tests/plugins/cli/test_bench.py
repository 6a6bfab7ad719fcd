"""``hilum bench``: what it measures, that it touches nothing of the user's, and its advice."""

import json
import os
import signal
import subprocess
import sys
import tempfile

import pytest
from hilum import HilumError, UsageError, sweep_temporary_folders
from hilum.processes import Warden
from hilum_cli.bench import advice, command, measuring, memory, project_copy


def run_git(folder, *words):
    git = ["git", "-C", folder, "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run([*git, *words], check=True, capture_output=True)


def list_tree(folder):
    """The files of a folder with their contents and times."""
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def repository(tmp_path):
    """A repository with a commit, a change that is not committed, and a hook."""
    source = tmp_path / "source"
    (source / "inner").mkdir(parents=True)
    run_git(source, "init", "-q")
    (source / "inner" / "a.py").write_text("one\n")
    run_git(source, "add", ".")
    run_git(source, "commit", "-qm", "Begin")
    (source / "inner" / "a.py").write_text("two\n")
    hook = source / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hook-ran\n")
    hook.chmod(0o755)
    return source


# --- the copy of the project ----------------------------------------------------------------------


async def test_a_repository_is_cloned_and_not_touched(repository, tmp_path):
    before = list_tree(repository)
    async with Warden() as warden:
        copy = await project_copy.copy_project(warden, repository / "inner", tmp_path / "copy")
    assert copy == (tmp_path / "copy" / "inner", 1, 2, True, True, "")
    assert (copy.folder / "a.py").read_text() == "one\n"
    assert list_tree(repository) == before
    assert not (tmp_path / "hook-ran").exists()


async def test_filters_that_the_user_configured_do_not_run(repository, tmp_path, monkeypatch):
    """A filter may download files, or take long."""
    (repository / ".gitattributes").write_text("*.py filter=own\n")
    run_git(repository, "add", ".gitattributes")
    run_git(repository, "commit", "-qm", "Filter")
    config = tmp_path / "config"
    config.write_text(f'[filter "own"]\n\tsmudge = touch {tmp_path}/ran; cat\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    async with Warden() as warden:
        copy = await project_copy.copy_project(warden, repository, tmp_path / "copy")
    assert copy.is_repository
    assert not (tmp_path / "ran").exists()


async def test_a_damaged_repository_is_copied_as_files(tmp_path):
    source = tmp_path / "source"
    (source / ".git").mkdir(parents=True)
    (source / "a.py").write_text("one\n")
    async with Warden() as warden:
        copy = await project_copy.copy_project(warden, source, tmp_path / "copy")
    assert copy == (tmp_path / "copy", 1, 1, False, True, "Git could not clone the project")


@pytest.mark.parametrize(
    ("git", "problem"),
    [
        ("", "Git is not installed"),
        ("#!/bin/sh\nexec sleep 100\n", "Git could not clone the project within 1.5 seconds"),
    ],
)
async def test_a_repository_that_git_does_not_clone_is_copied_as_files(
    repository, tmp_path, monkeypatch, git, problem
):
    """The report says why, and not that there is no repository."""
    (tmp_path / "bin").mkdir()
    if git:
        (tmp_path / "bin" / "git").write_text(git)
        (tmp_path / "bin" / "git").chmod(0o755)
        (tmp_path / "bin" / "sleep").symlink_to("/bin/sleep")
        monkeypatch.setattr(project_copy, "CLONE_TIMEOUT", 1.5)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    async with Warden() as warden:
        copy = await project_copy.copy_project(warden, repository, tmp_path / "copy")
    assert not copy.is_repository
    assert copy.problem == problem
    assert (copy.folder / "inner" / "a.py").read_text() == "two\n"


async def test_other_folders_are_copied_without_links_and_environments(tmp_path, monkeypatch):
    source = tmp_path / "source"
    for name in ("node_modules", ".venv", "lib"):
        (source / name).mkdir(parents=True)
        (source / name / "file.txt").write_text(name)
    (source / "link").symlink_to("/etc/passwd")
    os.mkfifo(source / "pipe")
    async with Warden() as warden:
        copy = await project_copy.copy_project(warden, source, tmp_path / "copy")
        assert [path.name for path in copy.folder.rglob("*")] == ["lib", "file.txt"]
        assert copy.is_whole
        (source / "lib" / "second.txt").write_text("more")
        monkeypatch.setattr(project_copy, "MAX_FILES", 1)
        copy = await project_copy.copy_project(warden, source, tmp_path / "part")
    assert not copy.is_whole
    assert copy.files == 1


async def test_a_file_that_is_too_large_does_not_keep_others_from_being_copied(
    tmp_path, monkeypatch
):
    source = tmp_path / "source"
    source.mkdir()
    for name, size in (("a", 10), ("b", 10**12), ("c", 20)):
        with (source / name).open("wb") as file:
            file.truncate(size)
    async with Warden() as warden:
        copy = await project_copy.copy_project(warden, source, tmp_path / "copy")
    assert sorted(os.listdir(copy.folder)) == ["a", "c"]
    assert not copy.is_whole


async def test_files_that_vanish_or_cannot_be_read_are_left_out(tmp_path, monkeypatch):
    source = tmp_path / "source"
    source.mkdir()
    for name in ("a", "b", "c"):
        (source / name).write_text(name)
    real = project_copy.shutil.copyfile

    def copy_file(path, target):
        if path.name == "a":
            raise PermissionError(13, "Permission denied")
        if path.name == "b":
            path.unlink()
        real(path, target)

    monkeypatch.setattr(project_copy.shutil, "copyfile", copy_file)
    async with Warden() as warden:
        copy = await project_copy.copy_project(warden, source, tmp_path / "copy")
    assert os.listdir(copy.folder) == ["c"]
    assert not copy.is_whole


@pytest.mark.parametrize("seconds", ["-5", "nan", "1.5", "²", "9" * 5000, ""])
def test_an_impossible_number_of_seconds_is_explained(seconds):
    with pytest.raises(UsageError) as caught:
        command.main([f"--seconds={seconds}"])
    assert caught.value.code == "E_BAD_ARGS"
    assert "whole number" in caught.value.hint


async def test_a_repository_without_a_commit_has_its_files(tmp_path):
    source = tmp_path / "source"
    (source / "inner").mkdir(parents=True)
    (source / "inner" / "a.py").write_text("one\n")
    run_git(source, "init", "-q")
    async with Warden() as warden:
        copy = await project_copy.copy_project(warden, source / "inner", tmp_path / "copy")
    assert copy == (tmp_path / "copy" / "inner", 1, 2, True, True, "")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("folder", ["/proc", "/proc/self/fdinfo", "/proc/version", "/nonexistent"])
def test_what_is_no_folder_of_files_is_refused(folder):
    """Reading a file such as /proc/kmsg does not end."""
    with pytest.raises(UsageError):
        command.main(["-C", folder])


@pytest.mark.skipif(sys.platform == "win32", reason="hilum runs no commands there")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_it_and_leaves_no_copy(repository, tmp_path, name):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "hilum", "bench", "-C", str(repository)],
        env=os.environ | {"TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        while "Round 1" not in process.stderr.readline():
            assert process.poll() is None
        assert list(temporary.glob("hilum-bench-*"))
        number = getattr(signal, name)
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert out == ""
    assert "E_" not in err
    assert list(temporary.glob("hilum-bench-*")) == []


@pytest.mark.skipif(sys.platform == "win32", reason="no folder is locked there")
def test_the_copy_that_a_killed_process_leaves_is_swept(repository, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-m", "hilum", "bench", "-C", str(repository)],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        while "Copying" not in process.stderr.readline():
            assert process.poll() is None
        sweep_temporary_folders()
        assert list(tmp_path.glob("hilum-bench-*"))
        process.kill()
        # Its child processes end at once, and close the pipe.
        process.stderr.read()
    sweep_temporary_folders()
    assert list(tmp_path.glob("hilum-bench-*")) == []


# --- the measurement ------------------------------------------------------------------------------


async def test_the_bare_loop_carries_out_the_script(tmp_path):
    """A turn lasts from an answer to the next request, so it contains the command."""
    (tmp_path / measuring.SAMPLE).write_text(measuring.make_sample(5))
    scripts = measuring.make_scripts(2, 2, 2)
    script = [[("run_terminal_cmd", {"command": "sleep 0.2"})], *scripts["edit"]]
    async with Warden() as warden:
        found = await measuring.measure(
            warden, measuring.make_bare_command(), script, tmp_path, tmp_path
        )
    assert len(found.turns) == 4
    assert found.turns[0] > 200
    assert found.start > 0
    assert "VALUE = 2\n" in (tmp_path / measuring.SAMPLE).read_text()
    if sys.platform == "linux":
        [part] = found.memory
        assert part[:2] == ("bare loop", 1)
        assert 5 < part.megabytes < 200


async def test_a_run_that_fails_is_explained(tmp_path):
    async with Warden() as warden:
        with pytest.raises(HilumError, match=r"exit code 3, 0 of 1 requests.*\nno luck"):
            await measuring.measure(
                warden, ["sh", "-c", "echo no luck >&2; exit 3"], [], tmp_path, tmp_path
            )


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_descendants_without_the_mark_count():
    """Commands in a sandbox do not inherit the variable."""
    code = "import subprocess; subprocess.run(['env', '-i', 'sh', '-c', 'echo x; read y'])"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env={"MARK_OF_TEST": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"x\n"
        found = memory.measure_memory("MARK_OF_TEST=1")
        process.communicate(b"\n")
    assert sum(part.processes for part in found) == 2
    assert not memory.measure_memory("MARK_OF_TEST=1")


# --- advice ---------------------------------------------------------------------------------------

FAST = {"start": 200.0, "command": 9.0, "unguarded": 6.0, "edit": 9.0, "read": 3.0}
BARE = {"start": 150.0, "command": 3.0, "edit": 2.0, "read": 1.0}


def find(tmp_path, *, times=(), project=(), **facts):
    """The advice for a fast machine, except for the given facts."""
    copied = project_copy.ProjectCopy(tmp_path, 40, 4, True, True)._replace(**dict(project))
    found = advice.Facts(copied, tmp_path, FAST | dict(times), BARE, 10.0, False, 0.1)
    return " ".join(advice.find_advice(found._replace(**facts)))


@pytest.fixture
def equipped(monkeypatch, tmp_path):
    """A machine on which everything is installed."""
    limit = tmp_path / "watches"
    limit.write_text("524288\n")
    monkeypatch.setattr(advice, "_WATCHES", limit)
    monkeypatch.setattr(advice.shutil, "which", lambda name: f"/usr/bin/{name}")
    return limit


def test_nothing_is_advised_where_all_is_well(tmp_path, equipped):
    assert find(tmp_path) == ""


def test_each_cause_has_its_advice(tmp_path, equipped):
    linux = sys.platform == "linux"
    assert "plugins.block" in find(tmp_path, times={"start": 800.0})
    assert ("one folder" in find(tmp_path, times={"command": 90.0})) == linux
    assert "core.untrackedCache" in find(tmp_path, status=150.0)
    assert "core.untrackedCache" not in find(tmp_path, status=150.0, has_untracked_cache=True)
    assert "not in a Git repository" in find(tmp_path, project={"is_repository": False})
    assert "Only a part" in find(tmp_path, project={"is_whole": False})
    found = find(tmp_path, project={"is_repository": False, "problem": "Git is not installed"})
    assert found == "Git is not installed, so its files were measured without Git."
    if linux:
        found = find(tmp_path, project={"folders": 400_000})
        assert "at most half of the 524,288 folders" in found
        assert "max_user_watches=800000" in found


def test_a_busy_machine_is_no_reason_for_other_advice(tmp_path, equipped):
    slow = {"start": 800.0, "command": 90.0, "edit": 60.0}
    found = find(tmp_path, times=slow, status=150.0, load=1000.0)
    assert found.startswith("The machine is busy")
    assert "plugins.block" not in found
    assert "core.untrackedCache" not in found
    assert "one folder" not in found


def test_a_missing_program_is_named(tmp_path, monkeypatch, equipped):
    monkeypatch.setattr(advice.shutil, "which", lambda name: None)
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\n")
    found = find(tmp_path)
    assert "pip install ruff" in found
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "ruff").touch()
    assert "hilum trust" in find(tmp_path)
    if sys.platform == "linux":
        assert "bubblewrap (bwrap) is not installed" in found


def test_a_project_file_with_mistakes_is_no_failure(tmp_path, equipped):
    (tmp_path / "pyproject.toml").write_text("[[[")
    assert find(tmp_path) == ""


def test_the_table_has_every_figure():
    report = {
        "hilum": "1",
        "python": "3",
        "processors": 2,
        "load": 0.5,
        "files": 1234,
        "is_repository": True,
        "rounds": 2,
        "figures": [
            {"name": "start", "unit": "ms", "bare": 150.0, "hilum": 225.0, "ratio": 1.5},
            {"name": "unguarded", "unit": "ms", "bare": None, "hilum": 6.0, "ratio": None},
            {"name": "memory", "unit": "MB", "bare": 30.0, "hilum": 60.0, "ratio": 2.0},
        ],
        "memory": [
            {"part": "hilum", "processes": 1, "megabytes": 54.5},
            {"part": "supervision of commands", "processes": 3, "megabytes": 5.5},
        ],
        "advice": ["Do this."],
    }
    text = command.format_report(report)
    assert "1,234 files in a Git repository" in text
    rows = [line.split() for line in text.splitlines()]
    assert "start to first request 150.0 ms 225.0 ms 1.50".split() in rows
    assert "the same without sandbox 6.0 ms".split() in rows
    assert "hilum 54.5 MB, supervision of commands (3 processes) 5.5 MB" in text
    assert text.endswith("What would help:\n- Do this.")
    assert "; medians of 2 rounds\n" in text
    assert "; medians of 1 round\n" in command.format_report(report | {"rounds": 1})
    assert "nothing to improve" in command.format_report(report | {"advice": []})


# --- the whole command ----------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="hilum runs no commands there")
def test_the_command_measures_both_sides(repository, tmp_path, monkeypatch, capfd):
    before = list_tree(repository)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(command, "TURNS", 4)
    monkeypatch.setattr(command, "READS", 4)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    assert command.main(["--json", "--seconds", "0", "-C", str(repository)]) == 0
    out, err = capfd.readouterr()
    report = json.loads(out)
    figures = {figure["name"]: figure for figure in report["figures"]}
    assert {"start", "command", "unguarded", "first", "edit", "read", "eight"} <= figures.keys()
    assert figures["eight"]["hilum"] >= 500
    assert all(figure["hilum"] > 0 for figure in figures.values())
    assert report["files"] == 1
    assert "Round 1: turn with a read, hilum …" in err
    assert "Round 2" not in err
    assert list_tree(repository) == before
    assert list(temporary.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="fork server: only Linux")
async def test_a_start_is_measured_with_a_fork_server_of_its_own(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    async with Warden() as warden:
        (found,) = await measuring.measure_forked(warden, tmp_path / "work", tmp_path / "home", 1)
    assert found.start > 0
    folder = tmp_path / "home" / ".local/share/hilum/fork-server"
    assert [path.suffix for path in folder.iterdir()] == [".lock"]


@pytest.mark.parametrize("knows_settings", [True, False])
def test_in_a_hook_git_does_not_use_the_users_index(monkeypatch, tmp_path, knows_settings):
    """There, Git sets variables that lead to it."""
    for name in ("GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    env = project_copy.make_git_environment(uses_settings=knows_settings)
    assert env["PATH"] == os.environ["PATH"]
    assert not env.keys() & {"GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_DIR"}
    assert ("GIT_CONFIG_GLOBAL" in env) is not knows_settings
