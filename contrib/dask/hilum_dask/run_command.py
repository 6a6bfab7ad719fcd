"""``hilum batch TASKS``: checks the tasks, carries them out, and writes the table of results."""

from __future__ import annotations

import os
import secrets
from argparse import Namespace
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from hilum import HilumError, UsageError, parse_pair
from hilum.command import Parser, add_session_options
from hilum.errors import E_BAD_ARGS, E_FILE_NOT_FOUND, E_INTERRUPTED
from hilum_cli import exits
from hilum_cli.stopping import Stopping
from hilum_cli.terminal import Out, escape_terminal, quiet_exit

from hilum_dask.driver import Driver
from hilum_dask.executors import Executor, LocalExecutor
from hilum_dask.folders import FORMAT, BatchFolder, BatchInfo, describe_os_error
from hilum_dask.lease import Lease, hold_lease
from hilum_dask.pool import open_pool
from hilum_dask.progress import Progress
from hilum_dask.records import Options
from hilum_dask.table import check_parquet, write_parquet, write_table
from hilum_dask.tasks import TaskFile, copy_tasks

EPILOG = """\
TASKS has one task in each line: a prompt, or a JSON object with `prompt` and any of `id`, `repo`,
`ref`, `files`, `model`, `settings`, `verify` and `timeout`. Each task runs in a workspace and a
process of its own. The same command again continues: tasks with a result do not run again.

  hilum batch tasks.jsonl --repo . --approve auto --jobs 8 --budget 20
  hilum batch tasks.jsonl --scheduler tcp://head:8786 --out /shared/batch
  hilum batch status batch-out             progress and results so far
  hilum batch cancel batch-out [TASK …]    cancel tasks, or stop the whole batch
  hilum batch trace batch-out TASK         what happened in a task's session
  hilum batch worker tcp://head:8786       a Dask worker that restarts when it ends

exit codes:
  0    all tasks completed, and all verify commands succeeded
  1    failed
  2    usage error; nothing was started
  3    tasks without success, or open tasks because the cost limit was reached
  5    another driver works on the batch
  124  --timeout was reached
  130  stopped by Ctrl-C (143 by SIGTERM); the same command continues
"""
DEFAULT_OUT = "batch-out"
DEFAULT_TIMEOUT = 3600.0


def main(argv: Sequence[str]) -> int:
    """Carry out the tasks; return the exit code."""
    options = _parse(argv)
    tasks = TaskFile(Path(options.tasks))
    tasks.load()
    _check_tasks(tasks, options)
    if options.parquet:
        check_parquet()
    if options.dry_run:
        return _show_plan(tasks, options)
    run = _BatchRun(tasks, options)
    code = trio.run(run.main)
    quiet_exit()
    return code


def make_parser() -> Parser:
    """Declare the options."""
    parser = Parser("hilum batch", "Carry out many tasks.", EPILOG)
    add = parser.add_argument
    add("tasks", metavar="TASKS", help="file with one task in each line")
    add("--out", default=DEFAULT_OUT, metavar="DIR", help=f"folder for results ({DEFAULT_OUT})")
    add("--jobs", "-j", type=int, metavar="N", help="tasks at the same time (default: processors)")
    add("--repo", default="", metavar="DIR", help="repository, folder or URL for all tasks")
    add("--ref", default="", help="commit, branch or tag to start from")
    add("--model", default="", metavar="PROVIDER/NAME", help="model for all tasks")
    add("--mode", default=None, help="mode of the sessions: agent, ask, plan, debug")
    add(
        "--approve",
        default=None,
        choices=("ask_first", "auto", "readonly"),
        help="calls that change something: denied (ask_first, readonly) or allowed (auto)",
    )
    add("--verify", default="", metavar="COMMAND", help="command that decides about each result")
    add("--retries", type=int, default=2, metavar="N", help="repetitions of a failed task (2)")
    add("--retry-failed", action="store_true", help="repeat the tasks that were not solved")
    add("--budget", type=float, default=0.0, metavar="DOLLARS", help="limit on the total cost")
    add("--task-budget", type=float, default=0.0, metavar="DOLLARS", help="limit for each task")
    add("--timeout", type=float, default=0.0, metavar="S", help="seconds for the whole batch")
    add(
        "--task-timeout",
        type=float,
        default=DEFAULT_TIMEOUT,
        metavar="S",
        help=f"seconds for each attempt ({DEFAULT_TIMEOUT:.0f}; 0: no limit)",
    )
    add("--scheduler", default="", metavar="ADDRESS", help="carry out the tasks on a Dask cluster")
    add("--launcher", default="", metavar="MODULE:NAME", help="function that makes a Dask cluster")
    add("--runner", default="", metavar="MODULE:NAME", help="function that carries out a task")
    add("--parquet", default="", metavar="FILE", help="also write the table as a Parquet file")
    add("--keep", action="store_true", help="keep the workspaces of finished tasks")
    add("--resume", action="store_true", help="changes nothing: a batch always continues")
    add("--dry-run", action="store_true", help="check the tasks and show what would run")
    add("--json", action="store_true", help="print the summary as JSON")
    add("--quiet", "-q", action="store_true", help="show no progress")
    add_session_options(parser)
    return parser


def _parse(argv: Sequence[str]) -> Namespace:
    """Read the command line.

    Raises:
        UsageError: It is invalid.
    """
    options = make_parser().parse_args(argv)
    if options.jobs is None:
        affinity = getattr(os, "sched_getaffinity", None)
        options.jobs = len(affinity(0)) if affinity else os.cpu_count() or 1
    checks = [
        ("--jobs", options.jobs, 1),
        ("--retries", options.retries, 0),
        ("--budget", options.budget, 0),
        ("--task-budget", options.task_budget, 0),
        ("--timeout", options.timeout, 0),
        ("--task-timeout", options.task_timeout, 0),
    ]
    for name, value, least in checks:
        if not least <= value < float("inf"):
            raise UsageError(
                f"{name} must be a number of at least {least}, not {value}.",
                code=E_BAD_ARGS,
                hint="hilum batch --help explains the options.",
            )
    if options.scheduler and options.launcher:
        raise UsageError(
            "--scheduler and --launcher exclude each other.",
            code=E_BAD_ARGS,
            hint="Pass the address of a running scheduler, or a function that starts a cluster.",
        )
    for pair in options.set:
        parse_pair(pair)
    if options.repo and "://" not in options.repo and os.path.isdir(options.repo):
        options.repo = os.path.abspath(options.repo)
    return options


def _check_tasks(tasks: TaskFile, options: Namespace) -> None:
    """Check what can be checked before anything starts, beyond the tasks file itself.

    Raises:
        UsageError: The folder or the repository cannot be used.
    """
    out = Path(options.out)
    if out.exists() and not out.is_dir():
        raise UsageError(
            f"{options.out!r} is not a folder.", code=E_BAD_ARGS, hint="Choose another --out."
        )
    local = not options.scheduler and not options.launcher
    is_url = "://" in options.repo or "@" in options.repo
    if options.repo and local and not is_url and not os.path.isdir(options.repo):
        raise UsageError(
            f"There is no repository {options.repo!r}.",
            code=E_FILE_NOT_FOUND,
            hint="Name a folder or a URL with --repo.",
        )


def _make_options(options: Namespace) -> Options:
    return Options(
        repo=options.repo,
        ref=options.ref,
        model=options.model,
        approve=options.approve,
        mode=options.mode,
        settings=options.set,
        plugin=[os.path.abspath(path) for path in options.plugin],
        without=options.no_plugin,
        verify=options.verify,
        attempts=options.retries + 1,
        task_timeout=options.task_timeout,
        task_dollars=options.task_budget,
        runner=options.runner,
        keep=options.keep,
    )


def _show_plan(tasks: TaskFile, options: Namespace) -> int:
    """Show what would run."""
    out = Out(1)
    finished = BatchFolder(Path(options.out)).result_names()
    open_tasks = [entry for entry in tasks.entries if entry.name not in finished]
    if options.json:
        data = {
            "type": "plan",
            "tasks": len(tasks.entries),
            "open": [entry.id for entry in open_tasks],
            "out": options.out,
            "jobs": options.jobs,
        }
        out.say_json(data)
        return out.finish()
    for entry in open_tasks:
        task = tasks.read(entry)
        parts = [task.repo or options.repo or "(empty workspace)", task.ref or options.ref]
        where = "@".join(part for part in parts if part)
        prompt = " ".join(task.prompt.split())[:60]
        out.say(escape_terminal(f"{entry.id}\t{where}\t{prompt}"))
    out.say(f"{len(open_tasks)} of {len(tasks.entries)} tasks would run. Nothing was started.")
    return out.finish()


class _BatchRun:
    """One start of the driver.

    Args:
        tasks: The tasks that the user named.
        options: The command line.
    """

    def __init__(self, tasks: TaskFile, options: Namespace) -> None:
        self._source = tasks
        self._options = options
        self._folder = BatchFolder(Path(os.path.abspath(options.out)))
        self._progress = Progress(
            len(tasks.entries), is_quiet=options.quiet or (options.json and not Out(2).terminal)
        )
        self._driver: Driver | None = None
        self._stopped = trio.Event()
        self._stopping = Stopping(self._stop)

    async def main(self) -> int:
        """Carry out the tasks and return the exit code.

        Raises:
            HilumError: The batch cannot start, or cannot go on.
        """
        code = exits.FAILED
        error: HilumError | None = None
        async with trio.open_nursery() as nursery:
            await nursery.start(self._stopping.listen)
            try:
                code = await self._work()
            except HilumError as raised:
                error = raised
            finally:
                nursery.cancel_scope.cancel()
        if error is not None and error.code == E_INTERRUPTED and self._stopping.signal:
            self._progress.note(str(error).replace("\n", " "))
            return 128 + self._stopping.signal
        if error is not None:
            raise error
        return code

    def _stop(self) -> None:
        self._stopped.set()
        if self._driver is not None:
            self._driver.stop("signal")

    async def _work(self) -> int:
        self._folder.create()
        with hold_lease(self._folder) as lease:
            try:
                info = self._write_info()
            except OSError as error:
                raise HilumError(
                    f"The folder {str(self._folder.root)!r} cannot be written:"
                    f" {describe_os_error(error)}.",
                    hint="Choose another folder with --out.",
                ) from None
            tasks = TaskFile(self._folder.tasks_file)
            tasks.load()
            if self._options.retry_failed:
                self._reopen_tasks(tasks)
            failure: HilumError | None = None
            try:
                async with self._open_executor(info) as executor:
                    await self._drive(info, tasks, executor, lease)
            except (HilumError, ExceptionGroup) as raised:
                failure = _find_error(raised)
                if failure is None:
                    raise
            # The results so far are kept, and the table shows them.
            self._write_tables(tasks)
        if failure is not None:
            raise failure
        return self._report(tasks)

    def _write_info(self) -> BatchInfo:
        """Write the description of the batch, and copy the tasks file."""
        before = self._folder.read_info()
        source = Path(self._options.tasks).absolute().parent
        is_copy = source == self._folder.root
        info = BatchInfo(
            format=FORMAT,
            batch=before.batch if before else secrets.token_hex(8),
            options=_make_options(self._options),
            source=before.source if before and is_copy else str(source),
            budget=self._options.budget,
        )
        copy_tasks(self._source.path, self._folder.tasks_file)
        self._folder.write_info(info)
        return info

    def _reopen_tasks(self, tasks: TaskFile) -> None:
        for entry in tasks.entries:
            record = self._folder.read_result(entry.name)
            if record is not None and not record.solved:
                self._folder.reopen_task(entry.name)

    @asynccontextmanager
    async def _open_executor(self, info: BatchInfo) -> AsyncIterator[Executor]:
        if self._options.scheduler or self._options.launcher:
            from hilum_dask.cluster import open_cluster

            async with open_cluster(
                self._folder,
                info,
                self._options.scheduler,
                self._options.launcher,
                self._progress,
                self._stopped,
            ) as cluster:
                yield cluster
            return
        async with open_pool() as pool:
            yield LocalExecutor(pool, self._folder, self._options.jobs)

    async def _drive(
        self, info: BatchInfo, tasks: TaskFile, executor: Executor, lease: Lease
    ) -> None:
        driver = Driver(self._folder, info, tasks, executor, lease, self._progress)
        await driver.prepare()
        self._driver = driver
        if self._stopping.signal:
            driver.stop("signal")
        async with trio.open_nursery() as nursery:
            if self._options.timeout:
                nursery.start_soon(_stop_after, driver, self._options.timeout)
            await driver.run()
            nursery.cancel_scope.cancel()

    def _write_tables(self, tasks: TaskFile) -> None:
        """Write the tables.

        Raises:
            HilumError: A table cannot be written; the results themselves are kept.
        """
        try:
            write_table(self._folder, tasks.entries)
            if self._options.parquet:
                write_parquet(self._folder, tasks.entries, Path(self._options.parquet))
        except OSError as error:
            raise HilumError(
                f"The table cannot be written: {describe_os_error(error)}.",
                hint=f"The results are in {str(self._folder.results)!r}; start the command again.",
            ) from None

    def _report(self, tasks: TaskFile) -> int:
        """Print the summary, and return the exit code."""
        assert self._driver is not None
        progress = self._progress
        stopped = self._driver.stopped
        left = len(tasks.entries) - progress.done
        code = self._exit_code(left)
        out = Out(1)
        if self._options.json:
            out.say_json(
                {
                    "type": "batch",
                    "out": str(self._folder.root),
                    "tasks": len(tasks.entries),
                    "solved": progress.solved,
                    "states": dict(progress.counts),
                    "open": left,
                    "cost": self._driver.cost.spent,
                    "stopped": stopped,
                    "budget_reached": self._driver.cost.is_reached,
                    "table": str(self._folder.table),
                    "exit_code": code,
                }
            )
            return out.finish(code)
        cost = f" Cost: ${self._driver.cost.spent:.4f}." if self._driver.cost.spent else ""
        out.say(f"{progress.solved} of {len(tasks.entries)} tasks solved, {left} open.{cost}")
        out.say(f"Results: {os.path.relpath(self._folder.table)}")
        if left and self._driver.cost.is_reached:
            rest = self._driver.cost.free
            reason = "The cost limit was reached."
            if rest > 0:
                reason = f"The rest of the cost limit (${rest:.4f}) is too small for another task."
            out.say(f"{reason} The same command with a higher --budget continues.")
        elif left:
            out.say("The same command continues.")
        return out.finish(code)

    def _exit_code(self, left: int) -> int:
        assert self._driver is not None
        if self._driver.stopped == "timeout":
            return exits.TIMED_OUT
        if self._driver.stopped:
            return 128 + self._stopping.signal if self._stopping.signal else exits.INTERRUPTED
        if left or self._progress.solved < self._progress.total:
            return exits.PARTIAL
        return exits.COMPLETED


async def _stop_after(driver: Driver, seconds: float) -> None:
    await trio.sleep(seconds)
    driver.stop("timeout")


def _find_error(error: Exception) -> HilumError | None:
    """Return one of hilum's errors, also out of a nursery's group; ``None`` for any other error."""
    if isinstance(error, ExceptionGroup):
        ours, rest = error.split(HilumError)
        if ours is None or rest is not None:
            return None
        return _find_error(ours.exceptions[0])
    return error if isinstance(error, HilumError) else None
