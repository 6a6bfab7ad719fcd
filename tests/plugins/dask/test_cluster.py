"""``hilum batch`` on a real Dask cluster, whose processes are killed."""

import contextlib
import os
import random
import signal
import socket
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio
from hilum_dask.cluster import ClusterExecutor
from hilum_dask.cluster import _Worker as Worker
from hilum_dask.folders import BatchFolder, BatchInfo
from hilum_dask.pool import AttemptLost
from hilum_dask.progress import Progress
from hilum_dask.records import Assignment, Options, Task

ACT = ("--runner", "batch_runners:act")
# Each test starts the processes of a cluster; without --all, only the first one does.
pytestmark = pytest.mark.slow(cases=1, of="file")


@attrs.define
class Cluster:
    """A scheduler and workers, which can be started again at the same address."""

    batch: object
    port: int

    @property
    def address(self):
        return f"tcp://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def scheduler(self):
        """Run a scheduler."""
        words = ["--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"]
        program = (sys.executable, "-m", "distributed.cli.dask_scheduler", *words)
        async with self.batch.started(program=program, PYTHONWARNINGS="ignore") as process:
            yield process

    @asynccontextmanager
    async def worker(self, *options, **env):
        """Run a worker under its supervisor."""
        words = ("worker", self.address, "--threads", "2", *options)
        async with self.batch.started(*words, PYTHONWARNINGS="ignore", **env) as process:
            yield process

    def start(self, tasks, *options):
        """Start a driver."""
        return self.batch.started(*self.words(tasks, *options), PYTHONWARNINGS="ignore")

    def words(self, tasks, *options):
        """Return the arguments of a driver."""
        return (tasks, "--out", "out", "--scheduler", self.address, *ACT, *options)

    @property
    def said(self):
        """What all processes wrote to standard error."""
        return (self.batch.folder / "stderr").read_text()


@pytest.fixture
def cluster(batch):
    """Return a cluster without processes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return Cluster(batch, port)


def children(batch):
    """Return the processes that carried out tasks."""
    return [int(line.rpartition(" ")[2]) for line in batch.executions]


def parents(pid):
    """Yield the ancestors of a process, the nearest first."""
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        yield pid


def find_worker(pid):
    """Return the Dask worker that a child belongs to."""
    for parent in parents(pid):
        if b"dask_worker" in Path(f"/proc/{parent}/cmdline").read_bytes():
            return parent
    raise AssertionError("no worker")


def find_dask_worker(supervisor):
    """Return the Dask worker that a supervisor started."""
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            command = (path / "cmdline").read_bytes()
            if b"dask_worker" in command and supervisor in parents(int(path.name)):
                return int(path.name)
    raise AssertionError("no worker")


async def test_tasks_run_on_workers_that_may_be_killed(batch, cluster, gone, kill, wait_until):
    """A worker, the scheduler and the driver are killed in turn; each task has one result."""
    go = batch.folder / "go"
    tasks = batch.tasks(
        *({"id": f"w{number}", "prompt": f"until {go}"} for number in range(3)),
        *({"id": f"x{number}", "prompt": "write x"} for number in range(3)),
    )
    async with cluster.worker(), cluster.scheduler() as scheduler, cluster.start(tasks) as driver:
        await wait_until(lambda: children(batch))
        lost = children(batch)
        kill(find_worker(lost[0]))
        await wait_until(lambda: all(map(gone, lost)))
        await wait_until(lambda: len(batch.executions) > len(lost))
        lost = children(batch)
        scheduler.kill()
        await scheduler.wait()
        # The workers end with their scheduler, and their children with them.
        await wait_until(lambda: all(map(gone, lost)))
        async with cluster.scheduler():
            await wait_until(lambda: len(batch.executions) > len(lost))
            driver.kill()
            await wait_until(lambda: all(map(gone, children(batch))))
            go.touch()
            async with cluster.start(tasks) as again:
                assert await again.wait() == 0, cluster.said
    assert len(batch.rows) == 6
    assert {row["state"] for row in batch.rows.values()} == {"completed"}
    assert all(map(gone, children(batch)))
    assert (batch.out / batch.rows["x0"]["patch"]).exists()


@pytest.mark.slow(cases=0)
@pytest.mark.parametrize("seed", range(12))
async def test_random_kills(batch, cluster, gone, kill, wait_until, seed):
    """At random instants, again and again."""
    draw = random.Random(seed)
    tasks = batch.tasks(*({"id": f"t{number}", "prompt": "wait 0.2"} for number in range(40)))
    async with cluster.worker(), cluster.worker():
        for _ in range(4):
            victim = draw.choice(("worker", "scheduler", "driver"))
            before = len(batch.executions)
            async with cluster.scheduler() as scheduler, cluster.start(tasks) as driver:
                await wait_until(
                    lambda: len(batch.executions) > before or driver.returncode is not None  # noqa: B023
                )
                await trio.sleep(draw.uniform(0, 1.5))
                if victim == "scheduler":
                    scheduler.kill()
                elif victim == "driver":
                    driver.kill()
                elif not gone(children(batch)[-1]):
                    kill(find_worker(children(batch)[-1]))
                await trio.sleep(draw.uniform(0, 1.5))
            await wait_until(lambda: all(map(gone, children(batch))))
        async with cluster.scheduler(), cluster.start(tasks) as driver:
            assert await driver.wait() == 0, cluster.said
    assert len(batch.rows) == 40


async def test_unfit_workers_are_refused_by_name(batch, cluster, wait_until):
    """One without the plugin, and one with another version; a fit one carries out the tasks."""
    site = batch.folder / "other"
    found = site / "hilum_dask-9.9.9.dist-info"
    found.mkdir(parents=True)
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: hilum-dask\nVersion: 9.9.9\n")
    bare = batch.folder / "bare"
    bare.mkdir()
    # As if the plugin were not installed: its metadata is not found.
    (bare / "sitecustomize.py").write_text(
        "import importlib.metadata as metadata\n"
        "found = metadata.version\n"
        "def version(name):\n"
        "    if name == 'hilum-dask':\n"
        "        raise metadata.PackageNotFoundError(name)\n"
        "    return found(name)\n"
        "metadata.version = version\n"
    )
    path = batch.env["PYTHONPATH"]
    tasks = batch.tasks("write x", "write x")
    async with (
        cluster.scheduler(),
        cluster.worker(PYTHONPATH=f"{site}:{path}"),
        cluster.worker(PYTHONPATH=f"{bare}:{path}"),
        cluster.start(tasks) as driver,
    ):
        await wait_until(lambda: cluster.said.count("is not used: ") == 2)
        assert "hilum-dask 9.9.9 there, 0.1.0 here" in cluster.said
        assert "hilum-dask is not installed there" in cluster.said
        assert not batch.executions
        async with cluster.worker():
            assert await driver.wait() == 0
    assert len(batch.rows) == 2


async def test_a_worker_that_does_not_share_the_folder_delivers_its_files(
    batch, cluster, tmp_path, wait_until, gone
):
    """Patches and logs travel to the driver; a task that is cancelled there ends."""
    tasks = batch.tasks(
        {"id": "x", "prompt": "write x", "files": {"given": "y"}},
        {"id": "w", "prompt": "wait 1000"},
        {"id": "bad", "prompt": "fail"},
    )
    # The worker sees another folder at this path: as if it were on another machine.
    hidden = batch.folder / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import sys\n"
        "if 'dask_worker' in ' '.join(sys.orig_argv):\n"
        "    import hilum_dask.cluster_worker as module\n"
        "    module._sees = lambda folder, batch: False\n"
    )
    path = f"{hidden}:{batch.env['PYTHONPATH']}"
    async with (
        cluster.scheduler(),
        cluster.worker(PYTHONPATH=path),
        cluster.start(tasks) as driver,
    ):
        await wait_until(lambda: (batch.out / "results" / "x.json").exists())
        await wait_until(lambda: len(children(batch)) == 3)
        assert (await batch("cancel", "out", "w")).code == 0
        assert await driver.wait() == 3
        assert all(map(gone, children(batch)))
    rows = batch.rows
    assert {name: row["state"] for name, row in rows.items()} == {
        "x": "completed",
        "w": "cancelled",
        "bad": "failed",
    }
    patch = (batch.out / rows["x"]["patch"]).read_text()
    assert "+written" in patch
    assert "given" not in patch
    assert "this runner fails" in (batch.out / "logs" / "bad.1.log").read_text()


async def test_a_frozen_worker_does_not_hide_the_others(batch, cluster, wait_until):
    """It is asked again, and another one carries out the tasks."""
    early = batch.folder / "early"
    early.mkdir()
    (early / "sitecustomize.py").write_text(
        "import sys\n"
        "if '--scheduler' in sys.orig_argv:\n"
        "    import hilum_dask.cluster\n"
        "    hilum_dask.cluster.CALL_SECONDS = 2.0\n"
    )
    path = f"{early}:{batch.env['PYTHONPATH']}"
    batch.env["PYTHONPATH"] = path
    tasks = batch.tasks("write x", "write y")
    async with cluster.scheduler(), cluster.worker() as supervisor:
        await wait_until(lambda: "Registered to" in cluster.said)
        frozen = find_dask_worker(supervisor.pid)
        os.kill(frozen, signal.SIGSTOP)
        try:
            async with cluster.worker(), cluster.start(tasks) as driver:
                assert await driver.wait() == 0, cluster.said
        finally:
            os.kill(frozen, signal.SIGCONT)
    assert len(batch.rows) == 2


async def test_a_continued_attempt_runs_where_its_workspace_is(tmp_path):
    """A worker that does not see the batch's folder has neither the workspace nor the session."""
    folder = BatchFolder(tmp_path)
    info = BatchInfo(1, "x", Options())
    progress = Progress(1, is_quiet=True)
    executor = ClusterExecutor(folder, info, lambda: None, progress)
    executor._workers["far"] = Worker("far", "1", 8, shares=False)
    task = Task(id="t", prompt="x")
    again = Assignment(
        task=task,
        options=Options(),
        name="t",
        attempt=2,
        epoch=1,
        batch="x",
        folder="/",
        continues=1,
    )
    with pytest.raises(AttemptLost, match="no worker sees the folder") as caught:
        await executor.run(again, trio.Event())
    assert not caught.value.counts
    executor._workers["near"] = Worker("near", "2", 1, shares=True)
    executor._workers["near"].running = 1
    assert executor._choose(again).address == "near"
    again.continues = 0
    assert executor._choose(again).address == "far"


async def test_a_scheduler_that_is_not_there_is_named(batch, monkeypatch):
    """The driver does not wait for ever."""
    done = await batch(
        batch.tasks("write x"),
        "--out",
        "out",
        "--scheduler",
        "tcp://127.0.0.1:1",
        *ACT,
        PYTHONWARNINGS="ignore",
    )
    assert done.code == 1
    assert "E_UNREACHABLE" in done.err
    assert "dask scheduler" in done.err


async def test_a_launcher_makes_the_cluster(batch):
    """Any of Dask's own, such as those for SSH, Kubernetes and Slurm.

    dask-jobqueue sets a handler of a signal when it is imported.
    """
    (batch.folder / "my_cluster.py").write_text(
        "import signal, sys\n"
        "from distributed import LocalCluster\n"
        "signal.signal(signal.SIGINT, lambda *_: sys.exit())\n"
        "def make():\n"
        "    return LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=None)\n"
    )
    path = f"{batch.folder}:{batch.env['PYTHONPATH']}"
    done = await batch(
        batch.tasks("write x", "write y"),
        "--out",
        "out",
        "--launcher",
        "my_cluster:make",
        *ACT,
        PYTHONPATH=path,
        PYTHONWARNINGS="ignore",
    )
    assert done.code == 0, done.err
    assert len(batch.rows) == 2


BAD_LAUNCHERS = """\
def raises():
    raise RuntimeError("no such image")


def forgets():
    pass


def ends():
    raise SystemExit("2")


def imports_late():
    raise ValueError("signal only works in main thread of the main interpreter")
"""


@pytest.mark.parametrize(
    ("launcher", "texts"),
    [
        ("raises", ["failed: RuntimeError: no such image.", "bad_launchers.raises()"]),
        ("forgets", ["returned NoneType, not a Dask cluster", "return cluster"]),
        ("ends", ["failed: SystemExit: 2."]),
        ("imports_late", ["at the top of the module"]),
        ("missing", ["has no attribute 'missing'", "module:function"]),
    ],
)
async def test_a_launcher_that_fails_is_named(batch, launcher, texts):
    """It is the user's code, not hilum's plugin, that has to be corrected."""
    (batch.folder / "bad_launchers.py").write_text(BAD_LAUNCHERS)
    done = await batch(
        batch.tasks("write x"),
        "--out",
        "out",
        "--launcher",
        f"bad_launchers:{launcher}",
        *ACT,
        PYTHONPATH=f"{batch.folder}:{batch.env['PYTHONPATH']}",
        PYTHONWARNINGS="ignore",
    )
    assert done.code == (2 if launcher == "missing" else 1)
    assert f"The launcher 'bad_launchers:{launcher}' " in done.err
    for text in texts:
        assert text in done.err


async def test_ctrl_c_ends_a_launcher_that_waits(batch, wait_until):
    """Dask closes what was being started when Python ends, which it must be able to do."""
    (batch.folder / "slow_launcher.py").write_text(
        "import atexit, pathlib, time\n"
        "def make():\n"
        "    atexit.register(pathlib.Path('closed').touch)\n"
        "    pathlib.Path('begun').touch()\n"
        "    time.sleep(1000)\n"
    )
    batch.env["PYTHONPATH"] = f"{batch.folder}:{batch.env['PYTHONPATH']}"
    words = ("--out", "out", "--launcher", "slow_launcher:make", *ACT)
    async with batch.started(batch.tasks("write x"), *words, PYTHONWARNINGS="ignore") as driver:
        await wait_until((batch.folder / "begun").exists)
        driver.send_signal(signal.SIGINT)
        assert await driver.wait() == 130
    assert (batch.folder / "closed").exists()
    said = (batch.folder / "stderr").read_text()
    assert "The batch was stopped while slow_launcher:make started the cluster." in said
    assert "Traceback" not in said


async def test_a_launcher_whose_imports_are_missing_is_named(batch):
    """The module that is missing may be the launcher's own or one that it imports."""
    (batch.folder / "needs_more.py").write_text("import missing_package\n")
    hints = {
        "needs_more:make": "Install the package with 'missing_package' where hilum is installed.",
        "not_there:make": "Install the module, or put its folder on PYTHONPATH.",
    }
    for launcher, hint in hints.items():
        done = await batch(
            batch.tasks("write x"),
            "--out",
            "out",
            "--launcher",
            launcher,
            *ACT,
            PYTHONPATH=f"{batch.folder}:{batch.env['PYTHONPATH']}",
            PYTHONWARNINGS="ignore",
        )
        assert done.code == 2
        assert hint in done.err
