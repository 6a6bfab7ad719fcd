"""Real ``hilum batch`` processes in a folder of their own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio
from hilum_replay import serve
from warm_start import WarmStarter, python_environment

LIMIT = 90
SUPPORT = Path(__file__).parents[2] / "support"
ACT = ("--runner", "batch_runners:act", "--quiet")
PRICE = {"input": 1.0, "output": 1000.0}


def write_tasks(path: Path, *tasks: object) -> Path:
    """Write a tasks file: texts as they are, and other values as JSON."""
    lines = [task if isinstance(task, str) else json.dumps(task) for task in tasks]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@attrs.define
class Batch:
    """Starts ``hilum batch`` with folders of its own."""

    folder: Path
    env: dict[str, str]
    warm: WarmStarter

    @property
    def out(self) -> Path:
        """The folder for results."""
        return self.folder / "out"

    @property
    def executions(self) -> list[str]:
        """Which task was carried out in which attempt, for each execution of a runner."""
        path = self.folder / "executions"
        return path.read_text().splitlines() if path.exists() else []

    def tasks(self, *tasks: object) -> str:
        """Write a tasks file."""
        return str(write_tasks(self.folder / "tasks.jsonl", *tasks))

    @property
    def rows(self) -> dict[str, dict]:
        """The table of results, by the ids of the tasks."""
        found = {}
        for line in (self.out / "results.jsonl").read_text().splitlines():
            row = json.loads(line)
            assert row["id"] not in found, "two results of one task"
            found[row["id"]] = row
        return found

    async def __call__(self, *arguments: str, **env: str):
        """Run to the end."""
        with trio.fail_after(LIMIT):
            done = await self.warm.run(("batch", *arguments), cwd=self.folder, env=self.env | env)
        assert "Traceback" not in done.err, done.err
        return done

    @asynccontextmanager
    async def started(self, *arguments: str, program: tuple[str, ...] = (), **env: str):
        """Start it, or another program; it is killed with the block."""
        argv = program or (sys.executable, "-m", "hilum", "batch", *arguments)
        with open(self.folder / "stderr", "ab") as errors:  # noqa: ASYNC230
            process = await trio.lowlevel.open_process(
                argv,
                cwd=self.folder,
                env=self.env | env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        try:
            with trio.fail_after(LIMIT):
                yield process
        finally:
            with trio.CancelScope(shield=True):
                if process.returncode is None:
                    process.kill()
                await process.wait()

    @asynccontextmanager
    async def model(self, script, **options):
        """Serve a model whose answers a function gives, and make it the default."""
        async with serve(script, **options) as server:
            self.env |= {"OPENAI_BASE_URL": f"{server.url}/v1", "HILUM_MODEL": "openai/scripted"}
            yield server


@pytest.fixture
def batch(tmp_path: Path, warm: WarmStarter) -> Batch:
    """``hilum batch`` in a folder of its own."""
    folders = {
        "HOME": str(tmp_path),
        "HILUM_CONFIG": str(tmp_path / "config"),
        "HILUM_DATA": str(tmp_path / "data"),
        "OPENAI_API_KEY": "none",
        "PYTHONPATH": str(SUPPORT),
        "EXECUTIONS": str(tmp_path / "executions"),
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    return Batch(tmp_path, python_environment() | folders, warm)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A Git repository with a text, a picture and two commits; the first one has the tag `first`."""
    folder = tmp_path / "repo"
    folder.mkdir()

    def git(*arguments: str) -> None:
        words = ["git", "-c", "user.name=t", "-c", "user.email=t@localhost", *arguments]
        subprocess.run(words, cwd=folder, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    (folder / "text.txt").write_text("one\n")
    (folder / "picture.bin").write_bytes(bytes(range(256)))
    git("add", "-A")
    git("commit", "-qm", "first")
    git("tag", "first")
    (folder / "text.txt").write_text("two\n")
    git("commit", "-qam", "second")
    return folder


@pytest.fixture
def wait_until() -> Callable:
    """Return a function that waits until something holds."""

    async def wait_until(condition: Callable[[], object]) -> None:
        with trio.fail_after(LIMIT):
            while not condition():  # noqa: ASYNC110  (it happens in other processes)
                await trio.sleep(0.01)

    return wait_until


def is_gone(pid: int) -> bool:
    """Return whether a process has ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


@pytest.fixture
def gone() -> Callable[[int], bool]:
    """Return a function that tells whether a process has ended."""
    return is_gone


@pytest.fixture
def kill() -> Callable[[int], None]:
    """Return a function that kills a process, if it still exists."""

    def kill(pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    return kill
