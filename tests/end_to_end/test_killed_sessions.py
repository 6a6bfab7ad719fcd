"""What a killed ``hilum run`` leaves in a Git repository and elsewhere: the next start of hilum
looks at it and removes it.
"""

import base64
import json
import signal
import subprocess
from pathlib import Path

import pytest

PLANT = """
touch begun
until test -e go; do :; done
echo 'touch executed' > .envrc
git init -q sub
git -C sub config core.fsmonitor 'touch executed'
mkdir .husky
echo 'touch executed' > .husky/pre-commit
touch planted
until test -e never; do sleep 0.05; done
"""

RUNNER = "import base64, subprocess; subprocess.run(['sh', '-c', base64.b64decode(open('data.txt').read())])\n"
"""A program that runs what a data file says: nobody who reads the command knows what it does, so
that it runs.
"""


@pytest.fixture
def repository(cli):
    """A repository with settings of the user's, and folders of this test's own for all that hilum
    leaves.
    """
    root = cli.workspace
    subprocess.run(["git", "init", "-q", root], check=True)
    subprocess.run(["git", "-C", root, "config", "core.pager", "delta"], check=True)
    (root / ".idea").mkdir()
    (root / ".idea" / "workspace.xml").write_text("the user's")
    (root / "runner.py").write_text(RUNNER)
    (root / "data.txt").write_bytes(base64.b64encode(PLANT.encode()))
    (cli.folder / "tmp").mkdir()
    cli.env |= {"TMPDIR": str(cli.folder / "tmp")}
    return root


def groups():
    """The control groups of hilum's that are there, and their processes."""
    found = {}
    for base in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup"):
        for folder in Path(base).glob("hilum-*"):
            try:
                found[folder.name] = (folder / "cgroup.procs").read_text().split()
            except OSError:
                continue
    return found


def marks(cli):
    """The files by which sessions remember that commands run."""
    return sorted(
        path.name for path in (cli.folder / "data" / "running").rglob("*") if path.is_file()
    )


def is_stopped(pid):
    """Check whether all threads of a process are stopped."""
    stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return {stat.rpartition(") ")[2][0] for stat in stats} == {"T"}


async def start_and_plant(cli, root, wait_until, process):
    """Let a command write what other programs execute, while hilum can neither look nor end."""
    await wait_until((root / "begun").exists)
    process.send_signal(signal.SIGSTOP)
    # One thread takes the signal and stops the others when it gets its turn.
    await wait_until(lambda: is_stopped(process.pid))
    (root / "go").touch()
    await wait_until((root / "planted").exists)
    assert (root / ".envrc").exists()


def assert_made_inert(root, err):
    """Check that what the command wrote executes nothing, that the user's files are as they were,
    and what was told.
    """
    assert not (root / ".envrc").exists()
    assert (root / ".envrc.quarantined").read_text() == "touch executed\n"
    assert not (root / ".husky").exists()
    assert "fsmonitor" not in (root / "sub" / ".git" / "config").read_text()
    assert (root / ".idea" / "workspace.xml").read_text() == "the user's"
    assert "pager = delta" in (root / ".git" / "config").read_text()
    for name in (".envrc", ".husky", "sub/.git/config"):
        assert name in err


async def test_the_last_writes_before_a_kill_are_made_inert_by_the_next_start(
    cli, asks, repository, wait_until
):
    async with cli.model(
        asks("run_terminal_cmd", command="python3 runner.py"), "Hello.", "Hello again."
    ):
        async with cli.started("run", "go", "--approve", "auto") as process:
            await start_and_plant(cli, repository, wait_until, process)
            process.kill()
            await process.wait()
        assert (repository / ".envrc").exists()
        assert marks(cli)
        next_run = await cli("run", "hello")
        assert next_run.code == 0
        assert_made_inert(repository, next_run.err)
        assert "was killed while a command ran in this folder" in next_run.err
        assert marks(cli) == []
        last_run = await cli("run", "hello")
        assert "killed" not in last_run.err


async def test_a_second_signal_leaves_the_look_to_the_next_start(cli, asks, repository, wait_until):
    async with cli.model(asks("run_terminal_cmd", command="python3 runner.py"), "Hello."):
        async with cli.started("run", "go", "--approve", "auto") as process:
            await start_and_plant(cli, repository, wait_until, process)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
                process.send_signal(number)
            assert await process.wait() in (130, 143)
            told = await process.stderr.receive_some(1_000_000)
        next_run = await cli("run", "hello")
        assert next_run.code == 0
        # In the moment between the two signals, the first process may have looked, or not, and may
        # have written its report to the session's log only.
        (_, first) = json.loads((await cli("sessions", "list", "--json")).out)
        logged = await cli("sessions", "export", first["id"], "--format", "json")
        assert_made_inert(repository, told.decode() + logged.out + next_run.err)
        assert marks(cli) == []


async def test_a_living_sessions_command_is_not_taken_for_a_dead_ones(
    cli, asks, repository, wait_until
):
    running = "touch begun; until test -e go; do sleep 0.01; done; echo done"
    answers = [asks("run_terminal_cmd", command=running)]

    def answer(request):
        return answers.pop() if answers else "Hello."

    async with cli.model(answer), cli.started("run", "go", "--approve", "auto") as process:
        await wait_until((repository / "begun").exists)
        before = marks(cli)
        assert len(before) == 2
        other = await cli("run", "hello")
        assert other.code == 0
        assert "killed" not in other.err
        assert marks(cli) == before
        (repository / "go").touch()
        assert await process.wait() == 0
    assert marks(cli) == []


async def test_nothing_of_a_killed_run_is_left_after_the_next_start(
    cli, asks, repository, wait_until
):
    service = asks("run_terminal_cmd", command="sleep 1000", background=True, id="c0")
    slow = asks("run_terminal_cmd", command="touch begun; mkdir -p $TMPDIR/cache/x; sleep 1000")
    async with cli.model(service, slow, "Hello."):
        before = groups()
        async with cli.started("run", "go", "--approve", "auto") as process:
            await wait_until((repository / "begun").exists)
            mine = [name for name in groups() if name not in before and f"-{process.pid}-" in name]
            process.kill()
            await process.wait()
        await wait_until(lambda: not any(groups().get(name) for name in mine))
        assert list((cli.folder / "tmp").iterdir())
        assert (repository / ".hilum").is_dir()
        next_run = await cli("run", "hello")
        assert next_run.code == 0
    assert list((cli.folder / "tmp").iterdir()) == []
    assert not [name for name in mine if name in groups()]
    assert sorted(path.name for path in repository.iterdir()) == [
        ".git",
        ".idea",
        "begun",
        "data.txt",
        "runner.py",
    ]
    assert not (repository / ".git" / "config.worktree").exists()
    assert marks(cli) == []
    assert list((cli.folder / "data" / "masks").iterdir()) == []
