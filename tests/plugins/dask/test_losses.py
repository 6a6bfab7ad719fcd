"""Processes of a batch are killed, hang or lack something: each task has exactly one result."""

import json
import os
import random
import shutil
import signal
from pathlib import Path

import pytest
import trio
from hilum_dask import pool
from hilum_dask.folders import BatchFolder
from hilum_dask.records import Assignment, Options, Task

pytestmark = pytest.mark.slow(cases=7, of="file")

ACT = ("--runner", "batch_runners:act", "--quiet")


def pids(batch, task):
    """Return the processes that carried out a task."""
    return [int(line.split()[2]) for line in batch.executions if line.split()[0] == task]


def find_parent(pid):
    """Return the parent of a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


async def test_each_failure_is_named_and_the_rest_goes_on(batch, gone):
    """A killed child, a full disk, an error, a missing repository, a file that is missing."""
    tasks = batch.tasks(
        {"id": "killed once", "prompt": "die 1"},
        {"id": "killed always", "prompt": "die 9"},
        {"id": "full", "prompt": "full 1"},
        {"id": "wrong", "prompt": "fail"},
        {"id": "no repo", "prompt": "write x", "repo": "/missing/repo"},
        {"id": "no file", "prompt": "write x", "files": ["missing.txt"]},
        {"id": "../../good", "prompt": "write x"},
    )
    done = await batch(tasks, "--out", "out", "--retries", "1", "--jobs", "3", *ACT)
    rows = batch.rows
    assert done.code == 3
    states = {identity: (row["state"], row["attempts"]) for identity, row in rows.items()}
    assert states == {
        "killed once": ("completed", 2),
        "killed always": ("failed", 2),
        "full": ("completed", 2),
        "wrong": ("failed", 1),
        "no repo": ("failed", 1),
        "no file": ("failed", 1),
        "../../good": ("completed", 1),
    }
    assert "signal 9" in rows["killed always"]["error"]
    assert "this runner fails" in rows["wrong"]["error"]
    assert "this runner fails" in (batch.out / "logs" / "wrong.1.log").read_text()
    assert "/missing/repo" in rows["no repo"]["error"]
    assert "missing.txt" in rows["no file"]["error"]
    assert not list((batch.out / "work").iterdir())
    assert all(gone(int(line.rpartition(" ")[2])) for line in batch.executions)


async def test_a_task_that_hangs_is_killed(batch, gone, monkeypatch):
    """Its process blocks, so it does not react to the time limit itself."""
    monkeypatch.setattr(pool, "HANG_TIMEOUT", 0.5)
    for name in ("PYTHONPATH", "EXECUTIONS"):
        monkeypatch.setenv(name, batch.env[name])
    folder = BatchFolder(batch.out)
    folder.create()
    task = Task(id="hang", prompt="block", timeout=0.5)
    assignment = Assignment(
        task=task,
        options=Options(runner="batch_runners:act"),
        name="hang",
        attempt=1,
        epoch=1,
        batch="x",
        folder=str(batch.out),
    )
    with trio.fail_after(60):
        async with pool.open_pool() as children:
            with pytest.raises(pool.AttemptLost) as caught:
                await children.run(assignment, trio.Event(), folder.logs / "log")
            assert caught.value.is_late
            assert all(gone(pid) for pid in pids(batch, "hang"))
    assert folder.read_result("hang") is None


async def test_a_runner_has_a_verify_command_and_a_time_limit(batch):
    """As a session has: what it did until then is kept."""
    tasks = batch.tasks(
        {"id": "good", "prompt": "write x", "verify": "test -e x"},
        {"id": "bad", "prompt": "write x", "verify": "echo no; exit 3"},
        {"id": "long", "prompt": "dawdle x", "timeout": 1, "verify": "true"},
    )
    done = await batch(tasks, "--out", "out", "--jobs", "3", *ACT)
    rows = batch.rows
    assert done.code == 3
    assert {name: (row["state"], row["passed"]) for name, row in rows.items()} == {
        "good": ("completed", True),
        "bad": ("completed", False),
        "long": ("timed_out", None),
    }
    assert rows["bad"]["verification"]["exit_code"] == 3
    assert rows["bad"]["verification"]["output"] == "no"
    assert rows["long"]["code"] == "E_TIMEOUT"
    assert "longer than 1 s" in rows["long"]["error"]
    assert "+written" in (batch.out / rows["long"]["patch"]).read_text()


async def test_a_task_that_was_killed_for_its_time_limit_names_the_option(batch):
    """It is not repeated, so the hint must not say so."""
    early = batch.folder / "early"
    early.mkdir()
    (early / "sitecustomize.py").write_text(
        "import sys\n"
        "if 'batch' in sys.orig_argv:\n"
        "    import hilum_dask.pool\n"
        "    hilum_dask.pool.HANG_TIMEOUT = 0.2\n"
    )
    tasks = batch.tasks({"id": "hang", "prompt": "block", "timeout": 0.2})
    path = f"{early}:{batch.env['PYTHONPATH']}"
    async with batch.started(tasks, "--out", "out", *ACT, PYTHONPATH=path) as driver:
        assert await driver.wait() == 3
    row = batch.rows["hang"]
    assert (row["state"], row["code"]) == ("timed_out", "E_TIMEOUT")
    assert "--task-timeout" in row["hint"]


async def test_a_task_that_waits_for_its_repetition_can_be_cancelled(batch, wait_until):
    """It does not run again."""
    tasks = batch.tasks({"id": "w", "prompt": "die 9"})
    options = ("--out", "out", "--retries", "9", *ACT)
    async with batch.started(tasks, *options) as driver:
        await wait_until(lambda: (batch.out / "attempts" / "w.3.json").exists())
        assert (await batch("cancel", "out", "w")).code == 0
        assert await driver.wait() == 3
    assert batch.rows["w"]["state"] == "cancelled"
    assert len(pids(batch, "w")) == 3


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_all_children_and_the_batch_continues(batch, gone, wait_until, number):
    """The running tasks stay open."""
    tasks = batch.tasks({"id": "w", "prompt": "wait 1000"}, {"id": "x", "prompt": "write x"})
    async with batch.started(tasks, "--out", "out", "--jobs", "2", *ACT) as driver:
        await wait_until(lambda: pids(batch, "w") and (batch.out / "results/x.json").exists())
        driver.send_signal(number)
        assert await driver.wait() == 128 + number
    assert all(gone(pid) for pid in pids(batch, "w"))
    assert list(batch.rows) == ["x"]
    batch.tasks({"id": "w", "prompt": "wait 0"}, {"id": "x", "prompt": "write x"})
    done = await batch(tasks, "--out", "out", *ACT)
    assert done.code == 0
    assert {row["attempts"] for row in batch.rows.values()} == {1, 2}
    assert len(pids(batch, "x")) == 1


async def test_a_killed_driver_leaves_no_child_and_the_next_one_continues(
    batch, gone, wait_until, trials
):
    """At random instants; each task has one result, and no child outlives its driver."""
    count = trials(2, 40)
    tasks = batch.tasks(*({"id": f"t{number}", "prompt": "write x"} for number in range(16)))
    draw = random.Random(17)
    command = (tasks, "--out", "out", "--jobs", "3", *ACT)
    for _ in range(count):
        before = len(batch.executions)
        async with batch.started(*command) as driver:
            with trio.move_on_after(10):
                await wait_until(
                    lambda: len(batch.executions) > before or driver.returncode is not None  # noqa: B023
                )
            await trio.sleep(draw.uniform(0, 0.1))
            driver.kill()
        await wait_until(
            lambda: all(gone(int(line.rpartition(" ")[2])) for line in batch.executions)
        )
    results = {path.name: path.read_bytes() for path in (batch.out / "results").glob("*.json")}
    done = await batch(*command)
    assert done.code == 0, done.err
    assert len(batch.rows) == 16
    for name, content in results.items():
        assert (batch.out / "results" / name).read_bytes() == content
    finished = [line.split()[0] for line in batch.executions]
    # Only what was cut off ran twice.
    assert len(finished) - 16 <= 3 * count


async def test_a_killed_fork_server_takes_its_children_along(batch, gone, wait_until):
    """Another one is started, and the tasks are repeated."""
    tasks = batch.tasks({"id": "w", "prompt": "wait 2"})
    async with batch.started(tasks, "--out", "out", *ACT) as driver:
        await wait_until(lambda: pids(batch, "w"))
        child = pids(batch, "w")[0]
        server = find_parent(child)
        os.kill(server, signal.SIGKILL)
        await wait_until(lambda: gone(child))
        assert await driver.wait() == 0
    assert batch.rows["w"]["attempts"] == 2


async def test_a_second_driver_is_refused_by_name(batch, wait_until):
    """E_BUSY, and the first one is not disturbed; `status` and `cancel` work meanwhile."""
    tasks = batch.tasks({"id": "w", "prompt": "wait 1000"}, {"id": "v", "prompt": "wait 1000"})
    async with batch.started(tasks, "--out", "out", "--jobs", "1", *ACT) as driver:
        await wait_until(lambda: pids(batch, "w"))
        done = await batch(tasks, "--out", "out", *ACT)
        assert done.code == 5
        assert "E_BUSY" in done.err
        assert f"process {driver.pid} on " in done.err
        status = json.loads((await batch("status", "out", "--json")).out)
        assert status["states"] == {"running": 1, "open": 1}
        assert f"process {driver.pid}" in status["driver"]
        assert (await batch("cancel", "out", "w", "v")).code == 0
        assert await driver.wait() == 3
    assert {row["state"] for row in batch.rows.values()} == {"cancelled"}
    assert not pids(batch, "v")


async def test_the_whole_batch_can_be_cancelled(batch, wait_until, gone):
    """Its tasks stay open; without a driver, a single task can still be cancelled."""
    tasks = batch.tasks({"id": "w", "prompt": "wait 1000"}, {"id": "v", "prompt": "write x"})
    async with batch.started(tasks, "--out", "out", "--jobs", "1", *ACT) as driver:
        await wait_until(lambda: pids(batch, "w"))
        assert (await batch("cancel", "out")).code == 0
        assert await driver.wait() == 130
    assert batch.rows == {}
    assert all(gone(pid) for pid in pids(batch, "w"))
    assert "1 open tasks were cancelled" in (await batch("cancel", "out", "w")).out
    unknown = await batch("cancel", "out", "vv")
    assert (unknown.code, "'v'" in unknown.err or "v" in unknown.err) == (2, True)
    done = await batch(tasks, "--out", "out", *ACT)
    assert {row["id"]: row["state"] for row in batch.rows.values()} == {
        "w": "cancelled",
        "v": "completed",
    }
    assert done.code == 3


async def test_a_batch_ends_with_its_time_limit(batch):
    """The exit code is that of timeout(1)."""
    done = await batch(batch.tasks("wait 1000"), "--out", "out", "--timeout", "2", *ACT)
    assert done.code == 124
    assert batch.rows == {}


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["missing.jsonl"], 2, "missing.jsonl"),
        (["tasks.jsonl", "--jobs", "0"], 2, "--jobs"),
        (["tasks.jsonl", "--budget", "nan"], 2, "--budget"),
        (["tasks.jsonl", "--repo", "/missing"], 2, "/missing"),
        (["tasks.jsonl", "--out", "tasks.jsonl"], 2, "not a folder"),
        (["tasks.jsonl", "--out", "/proc/x"], 1, "cannot be written"),
        (["tasks.jsonl", "--runner", "missing:x", "--retries", "0", "--out", "o"], 3, "missing"),
        (["tasks.jsonl", "--launcher", "missing:x", "--out", "o"], 2, "missing:x"),
        (["tasks.jsonl", "--scheduler", "tcp://127.0.0.1:1", "--launcher", "a:b"], 2, "exclude"),
        (["status", "missing"], 2, "There is no batch"),
        (["worker", "tcp://127.0.0.1:1", "--threads", "-1"], 2, "--threads must not be negative"),
        (["worker", "--", "--x"], 2, "'--x' is not the address"),
        (["trace", "missing", "x"], 2, "There is no batch"),
    ],
)
async def test_what_cannot_work_is_refused_with_a_reason(batch, arguments, code, text):
    """Before anything starts, where that is possible."""
    batch.tasks("write x")
    done = await batch(*arguments)
    assert done.code == code, done
    assert text in done.err


async def test_a_full_disk_stops_the_batch_which_then_continues(batch, repo):
    """Git reports the full disk here, in its own words; no task has failed for good."""
    full = batch.folder / "full"
    full.touch()
    git = batch.folder / "bin" / "git"
    git.parent.mkdir()
    git.write_text(
        f"#!/bin/sh\n[ -e {full} ] && case $* in *clone*)\n"
        "echo 'fatal: cannot copy: Out of diskspace' >&2; exit 128;; esac\n"
        f'exec {shutil.which("git")} "$@"\n'
    )
    git.chmod(0o755)
    path = f"{git.parent}{os.pathsep}{os.environ['PATH']}"
    tasks = batch.tasks("write x", "write y")
    command = (tasks, "--out", "out", "--repo", str(repo), "--retries", "0", *ACT)
    done = await batch(*command, PATH=path)
    assert done.code == 1
    assert "The batch was stopped" in done.err
    assert "No space left" in done.err
    assert not list((batch.out / "results").iterdir())
    full.unlink()
    done = await batch(*command, PATH=path)
    assert done.code == 0, done.err
    assert len(batch.rows) == 2


@pytest.mark.parametrize("content", ["", '{"id": "1", "sta\n{]'])
async def test_a_damaged_result_is_named_and_the_task_done_again(batch, content):
    """The table never contains what is not JSON."""
    command = (batch.tasks("write x", "write y"), "--out", "out", "--runner", ACT[1])
    done = await batch(*command)
    assert done.code == 0, done.err
    (batch.out / "results" / "1.json").write_text(content)
    done = await batch(*command)
    assert done.code == 0, done.err
    assert "results/1.json is damaged" in done.err
    assert {row["state"] for row in batch.rows.values()} == {"completed"}
    assert len(batch.rows) == 2
    assert len(list((batch.out / "attempts").glob("1.damaged-*"))) == 1


async def test_an_unknown_task_is_named_without_its_control_characters(batch):
    """Neither ids that are known nor the one that was typed reach the terminal as they are."""
    tasks = batch.tasks({"id": "a\x1b]0;x\x07" + "b" * 500, "prompt": "write x"})
    await batch(tasks, "--out", "out", *ACT)
    done = await batch("cancel", "out", "no\x1b[2J" + "p" * 500)
    assert done.code == 2
    assert "\x1b" not in done.err
    assert len(done.err) < 400


async def test_a_dry_run_starts_nothing(batch):
    """It shows what would run."""
    done = await batch(batch.tasks({"id": "a", "prompt": "write x"}), "--out", "out", "--dry-run")
    assert done.code == 0
    assert "1 of 1 tasks would run" in done.out
    assert not batch.out.exists()
    assert not batch.executions
