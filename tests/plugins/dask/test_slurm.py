"""``hilum batch --launcher`` with a real Slurm, whose jobs end and whose controller stops."""

import importlib.util
import json
import signal

import pytest
import trio
from hilum.messages import AssistantMessage, Text, ToolCall
from slurm_cluster import MISSING, has_slurm, run_slurm

# It is not imported here, because it replaces the handlers of signals.
HAS_JOBQUEUE = importlib.util.find_spec("dask_jobqueue") is not None
# Each test starts jobs with Dask workers, which takes half a minute.
pytestmark = [
    pytest.mark.skipif(not HAS_JOBQUEUE, reason="needs dask_jobqueue"),
    pytest.mark.skipif(not has_slurm(), reason=MISSING),
    pytest.mark.slow(cases=0, of="file"),
]

LAUNCHERS = """\
from dask_jobqueue import SLURMCluster

OPTIONS = {
    "cores": 2,
    "memory": "500MB",
    "interface": "lo",
    "walltime": "00:30:00",
}


def two_jobs():
    cluster = SLURMCluster(**OPTIONS)
    cluster.scale(jobs=2)
    return cluster


def later():
    cluster = SLURMCluster(**OPTIONS, job_extra_directives=["--begin=now+1hour"])
    cluster.scale(jobs=2)
    return cluster


def nowhere():
    cluster = SLURMCluster(**OPTIONS, queue="missing")
    cluster.scale(jobs=2)
    return cluster
"""
# The real times are for clusters on which a job starts within minutes.
SHORT_TIMES = """\
import sys
if "--launcher" in sys.orig_argv:
    import hilum_dask.cluster
    import hilum_dask.launched_cluster
    import hilum_dask.progress
    hilum_dask.cluster.WAIT_SECONDS = 2.0
    hilum_dask.launched_cluster.LOST_SECONDS = 2.0
    hilum_dask.launched_cluster.FIRST_DELAY = 0.5
    hilum_dask.progress.PLAIN_INTERVAL = 0.5
"""


@pytest.fixture(scope="module")
def slurm():
    """A running Slurm."""
    with run_slurm() as cluster:
        yield cluster


@pytest.fixture
def launch(batch, slurm):
    """Return a function that starts a batch with a launcher."""
    (batch.folder / "slurm_launchers.py").write_text(LAUNCHERS)
    (batch.folder / "sitecustomize.py").write_text(SHORT_TIMES)
    batch.env |= slurm.env
    batch.env["PYTHONPATH"] = f"{batch.folder}:{batch.env['PYTHONPATH']}"
    batch.env["PYTHONWARNINGS"] = "ignore"

    def launch(tasks, launcher, *options):
        words = ("--out", "out", "--launcher", f"slurm_launchers:{launcher}", *options)
        return batch.started(tasks, *words)

    return launch


def read_errors(batch):
    """Return what the drivers wrote to standard error."""
    return (batch.folder / "stderr").read_text()


async def test_tasks_survive_a_cancelled_job_and_a_stopped_controller(
    batch, slurm, launch, wait_until
):
    """Eight sessions in two jobs: each has one result, and the cancelled job is submitted again."""
    go = trio.Event()

    async def solve(request):
        if '"role":"tool"' in request.body.decode().replace(" ", ""):
            return AssistantMessage((Text("Written.", "model"),), "m")
        await go.wait()
        arguments = json.dumps({"path": "new.txt", "content": "new\n"})
        return AssistantMessage((ToolCall("c1", "write_file", arguments),), stop="calls")

    tasks = batch.tasks(
        *({"id": f"t{n}", "prompt": "Write new.txt", "verify": "test -e new.txt"} for n in range(8))
    )
    async with (
        batch.model(solve) as server,
        launch(tasks, "two_jobs", "--approve", "auto") as driver,
    ):
        await wait_until(lambda: "4 running, 4 workers" in read_errors(batch))
        await wait_until(lambda: len(server.requests) >= 4)
        first = await trio.to_thread.run_sync(lambda: slurm.jobs)
        assert len(first) == 2
        await trio.to_thread.run_sync(slurm.ask, "scancel", first[0])
        await wait_until(lambda: "1 job of the cluster ended" in read_errors(batch))
        await trio.to_thread.run_sync(slurm.stop, "slurmctld")
        # The sessions of the other job go on without the controller.
        go.set()
        await wait_until(lambda: len(list((batch.out / "results").glob("*.json"))) >= 2)
        await trio.to_thread.run_sync(slurm.start_controller)
        assert await driver.wait() == 0, read_errors(batch)
    assert "Traceback" not in read_errors(batch)
    rows = batch.rows
    assert sorted(rows) == [f"t{n}" for n in range(8)]
    assert all(row["passed"] for row in rows.values())
    assert sorted({row["attempts"] for row in rows.values()}) == [1, 2]
    assert all((batch.out / row["patch"]).exists() for row in rows.values())
    await wait_until(lambda: not slurm.jobs)


async def test_jobs_that_wait_are_shown_and_removed_by_ctrl_c(batch, slurm, launch, wait_until):
    """The user learns that the batch waits, and the queue is empty afterwards."""
    async with launch(batch.tasks("write x"), "later", "--runner", "batch_runners:act") as driver:
        await wait_until(lambda: "0 running, waiting for workers" in read_errors(batch))
        await wait_until(lambda: "no worker has joined for 2 s" in read_errors(batch))
        assert len(slurm.jobs) == 2
        driver.send_signal(signal.SIGINT)
        assert await driver.wait() == 130
    assert not slurm.jobs


async def test_a_submission_that_slurm_refuses_ends_the_batch(batch, slurm, launch):
    """With Slurm's own reason, and without a traceback."""
    async with launch(batch.tasks("write x"), "nowhere", "--runner", "batch_runners:act") as driver:
        assert await driver.wait() == 1
    assert "cannot start workers" in read_errors(batch)
    assert "invalid partition specified: missing" in read_errors(batch)
    assert "Traceback" not in read_errors(batch)


async def test_a_missing_sbatch_is_named(batch, slurm, launch):
    """As on a machine that is no login node."""
    batch.env["PATH"] = str(batch.folder / "empty")
    async with launch(batch.tasks("write x"), "nowhere", "--runner", "batch_runners:act") as driver:
        assert await driver.wait() == 1
    assert "there is no 'sbatch' on this machine" in read_errors(batch)
    assert "Traceback" not in read_errors(batch)
