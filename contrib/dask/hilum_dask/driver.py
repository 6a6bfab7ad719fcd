"""The driver of a batch: gives out tasks, repeats what failed, and collects what they cost."""

from __future__ import annotations

import errno
import math
import os
import random
import time
from collections import deque
from pathlib import Path

import msgspec
import trio
from hilum import HilumError, UsageError
from hilum.errors import E_BUDGET, E_FAILED, E_INTERRUPTED, E_STOPPED, E_TIMEOUT

from hilum_dask.costs import CostLimit, read_cost
from hilum_dask.executors import Executor
from hilum_dask.folders import STOP_ALL, BatchFolder, BatchInfo, describe_os_error
from hilum_dask.lease import HEARTBEAT, Lease
from hilum_dask.pool import AttemptLost
from hilum_dask.progress import Progress
from hilum_dask.records import TIMEOUT_HINT, Assignment, Record
from hilum_dask.tasks import Entry, TaskError, TaskFile, read_files
from hilum_dask.workspaces import remove_folder

LOOK_SECONDS = 0.5
"""Seconds between two looks at the requests of ``hilum batch cancel``."""
FIRST_DELAY = 1.0
"""Seconds before the first repetition of a failed task; each further delay is twice as long."""
MAX_DELAY = 120.0
KEY_CODES = ("E_LLM_AUTH", "E_NO_MODEL", "E_SETTINGS", "E_NOT_CONFIGURED")
"""Codes of failures that all tasks share, because the settings or the key are wrong."""
MAX_KEY_FAILURES = 3
"""Number of such failures, without any other end of a task, after which the batch stops."""


class _OpenTask(msgspec.Struct, eq=False):
    """A task without a result.

    Attributes:
        entry: The task.
        attempt: Number of the last attempt.
        failures: Number of failed attempts of this driver.
        cost: What all attempts cost.
        continues: The attempt to continue, which its share of the budget ended.
        session: The session of that attempt.
        too_small: An amount in US dollars that is known to be too small for the next attempt.
    """

    entry: Entry
    attempt: int = 0
    failures: int = 0
    cost: float = 0.0
    continues: int = 0
    session: str = ""
    too_small: float = 0.0


class Driver:
    """Works on the open tasks of a batch until each has a result.

    Args:
        folder: The batch's folder.
        info: The description of the batch.
        tasks: The tasks.
        executor: What carries out attempts.
        lease: The lease of this driver.
        progress: Shows the progress.

    Attributes:
        stopped: Why the batch was stopped before its end; empty if it was not.
        error: The error that ended the batch.
        cost: The limit on the cost, with what was spent.
    """

    def __init__(
        self,
        folder: BatchFolder,
        info: BatchInfo,
        tasks: TaskFile,
        executor: Executor,
        lease: Lease,
        progress: Progress,
    ) -> None:
        self.stopped = ""
        self.error: HilumError | None = None
        self.cost = CostLimit(info.budget, info.options.task_dollars)
        self._folder = folder
        self._info = info
        self._tasks = tasks
        self._executor = executor
        self._lease = lease
        self._progress = progress
        self._queue: deque[_OpenTask] = deque()
        self._running: dict[str, trio.Event] = {}
        self._delayed = 0
        self._cancelled: set[str] = set()
        self._changes = trio.Event()
        self._key_failures = 0
        self._has_other_ends = False

    # --- preparation ------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Find the open tasks, and settle the attempts that an earlier driver left.

        Raises:
            HilumError: The folder cannot be read or written.
        """
        try:
            await trio.to_thread.run_sync(self._find_open)
        except OSError as error:
            raise _disk_error(error) from None
        for name in self._folder.list_cancelled():
            # A request that no driver has seen is of an earlier driver's time.
            self._folder.clear_cancelled(name)
        try:
            await self._settle_left()
        except OSError as error:
            raise _disk_error(error) from None
        self._progress.begin(len(self._queue))

    def _find_open(self) -> None:
        """Queue the tasks without a result, and count the others."""
        known = self._read_attempts()
        finished = self._folder.result_names()
        for entry in self._tasks.entries:
            if entry.name in finished:
                record = self._folder.read_result(entry.name)
                if record is not None:
                    self._progress.skip(record)
                    continue
                kept = self._folder.set_damaged_aside(entry.name)
                self._progress.note(
                    f"The result results/{entry.name}.json is damaged and was moved to {kept}; the"
                    " task is done again."
                )
            self._queue.append(known.get(entry.name) or _OpenTask(entry))

    def _read_attempts(self) -> dict[str, _OpenTask]:
        """Return what is known of earlier attempts, by the file names of the tasks."""
        entries = {entry.name: entry for entry in self._tasks.entries}
        found: dict[str, _OpenTask] = {}
        for name, record in self._folder.read_attempts():
            self.cost.spent += record.cost or 0.0
            if name not in entries:
                continue
            task = found.setdefault(name, _OpenTask(entries[name]))
            task.cost += record.cost or 0.0
            if record.attempts >= task.attempt:
                task.attempt = record.attempts
                goes_on = record.code == E_BUDGET and self._executor.keeps_workspaces
                task.continues = self._find_workspace(name, record.attempts) if goes_on else 0
                task.session = record.session if task.continues else ""
        return found

    def _find_workspace(self, name: str, attempt: int) -> int:
        """Return the attempt whose workspace an attempt used; 0 if it no longer exists."""
        for number in range(attempt, 0, -1):
            if (self._folder.work / self._folder.attempt_name(name, number)).is_dir():
                return number
        return 0

    async def _settle_left(self) -> None:
        """Record the attempts that were cut off when an earlier driver ended.

        Their workspaces are removed, unless they are to be kept; their sessions and logs are kept.
        """
        reason = "the driver ended"
        # An attempt that continued another one has no workspace of its own.
        for waiting in self._queue:
            if waiting.continues and self._was_cut_off(waiting):
                waiting.attempt += 1
                await self._record_lost(waiting, waiting.attempt, reason)
                waiting.continues = 0
                waiting.session = ""
        continued = {
            self._folder.attempt_name(task.entry.name, task.continues)
            for task in self._queue
            if task.continues
        }
        open_tasks = {task.entry.name: task for task in self._queue}
        for folder in await trio.to_thread.run_sync(lambda: sorted(self._folder.work.iterdir())):
            if folder.name in continued:
                continue
            name, _, number = folder.name.rpartition(".")
            task = open_tasks.get(name)
            ended = (self._folder.attempts / f"{folder.name}.json").exists()
            if task is not None and number.isdigit() and not ended:
                task.attempt = max(task.attempt, int(number))
                await self._record_lost(task, int(number), reason)
            if not self._info.options.keep:
                await trio.to_thread.run_sync(remove_folder, folder)

    def _was_cut_off(self, task: _OpenTask) -> bool:
        """Return whether the attempt after the last one with a record has started."""
        files = self._folder.attempt_name(task.entry.name, task.attempt + 1)
        return (self._folder.logs / f"{files}.log").exists()

    async def _record_lost(self, task: _OpenTask, attempt: int, reason: str) -> Record:
        """Record an attempt without a report, with the cost that its session's log contains."""
        name = task.entry.name
        store = self._folder.sessions / f"{self._folder.attempt_name(name, attempt)}.db"
        known = 0.0
        if task.continues and not store.exists():
            # The session is that of the attempt that was continued. Its log contains earlier costs.
            place = self._folder.attempt_name(name, task.continues)
            store = self._folder.sessions / f"{place}.db"
            known = self._folder.sum_costs(name, attempt - 1, task.session)
        session, cost = await read_cost(store)
        if cost is not None:
            cost = max(0.0, cost - known)
        record = Record(
            id=task.entry.id,
            state="lost",
            code=E_INTERRUPTED,
            error=f"The attempt was cut off: {reason}.",
            hint="It is repeated; what it had done is lost.",
            attempts=attempt,
            session=session,
            cost=cost,
            started=time.time(),
            epoch=self._lease.epoch,
        )
        self._folder.write_attempt(task.entry.name, record)
        task.cost += cost or 0.0
        self.cost.spent += cost or 0.0
        return record

    # --- work -------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until no task is open, or until the batch is stopped.

        Raises:
            HilumError: The batch cannot go on.
        """
        async with trio.open_nursery() as helpers:
            helpers.start_soon(self._beat)
            helpers.start_soon(self._watch_requests)
            helpers.start_soon(self._progress.tick)
            async with trio.open_nursery() as nursery:
                await self._give_out(nursery)
            helpers.cancel_scope.cancel()
        if self.error is not None:
            raise self.error

    def stop(self, reason: str) -> None:
        """Stop all running tasks, and start no more; they stay open."""
        if self.stopped:
            return
        self.stopped = reason
        for stop in self._running.values():
            stop.set()
        self._wake()

    async def _give_out(self, nursery: trio.Nursery) -> None:
        while not self.stopped:
            changes = self._changes
            started = self._start_next(nursery)
            is_over = not self._queue and not self._running and not self._delayed
            if is_over or (self.cost.is_reached and not self._running and not self._delayed):
                return
            if not started:
                await changes.wait()

    def _start_next(self, nursery: trio.Nursery) -> bool:
        """Start the next task if there is a free place and money; return whether it did."""
        if not self._queue or len(self._running) >= self._executor.slots:
            return False
        task = self._queue[0]
        slots = self._executor.slots
        share = self.cost.reserve(slots, len(self._queue), task.cost, task.too_small)
        if share is None:
            return False
        self._queue.popleft()
        stop = trio.Event()
        self._running[task.entry.id] = stop
        nursery.start_soon(self._work_on, nursery, task, share, stop)
        return True

    def _wake(self) -> None:
        self._changes.set()
        self._changes = trio.Event()

    async def _work_on(
        self, nursery: trio.Nursery, task: _OpenTask, share: float, stop: trio.Event
    ) -> None:
        """Carry out one attempt at a task, and decide what follows."""
        try:
            record = await self._attempt(task, share, stop)
            self._handle_end(nursery, task, record, share)
        except HilumError as error:
            self.error = self.error or error
            self.stop("error")
        except OSError as error:
            self.error = self.error or _disk_error(error)
            self.stop("error")
        finally:
            del self._running[task.entry.id]
            self._progress.running = len(self._running)
            self._wake()

    async def _attempt(self, task: _OpenTask, share: float, stop: trio.Event) -> Record:
        """Carry out an attempt; return its record, whose cost is settled."""
        task.attempt += 1
        self._progress.running = len(self._running)
        cost: float | None = None
        is_finished = False
        try:
            try:
                assignment = await trio.to_thread.run_sync(self._assign, task, share)
                record = await self._executor.run(assignment, stop)
                task.cost += record.cost or 0.0
                cost = record.cost
            except UsageError as error:
                # A file of this task is missing; the other tasks can run.
                record = _failed_record(task, error)
            except TaskError as error:
                raise HilumError(
                    f"The tasks file changed while the batch ran: {error}.", code=E_FAILED
                ) from None
            except AttemptLost as lost:
                spent = self.cost.spent
                record = await self._record_lost(task, task.attempt, lost.reason)
                task.failures -= not lost.counts
                cost = self.cost.spent - spent
                self.cost.spent = spent
                if lost.is_late:
                    record.state = "timed_out"
                    record.code = E_TIMEOUT
                    record.error = "The task did not react to its time limit and was killed."
                    record.hint = TIMEOUT_HINT
            is_finished = record.published
        finally:
            self.cost.settle(share, cost, is_finished=is_finished)
        return record

    def _assign(self, task: _OpenTask, share: float) -> Assignment:
        """Return the assignment for the next attempt, with the defaults of the batch."""
        options = self._info.options
        content = self._tasks.read(task.entry)
        files = read_files(content, Path(self._info.source))
        content.files = {}
        content.repo = content.repo or options.repo
        content.ref = content.ref or (options.ref if content.repo == options.repo else "")
        content.model = content.model or options.model
        content.verify = content.verify or options.verify
        content.timeout = content.timeout or options.task_timeout or None
        dollars = None
        if math.isfinite(share):
            # A continued session has spent what earlier attempts cost.
            dollars = share + (task.cost if task.continues else 0.0)
        return Assignment(
            task=content,
            options=options,
            name=task.entry.name,
            attempt=task.attempt,
            retries=max(0, options.attempts - task.failures - 1),
            epoch=self._lease.epoch,
            batch=self._info.batch,
            folder=str(self._folder.root),
            dollars=dollars,
            files=files,
            session=task.session,
            continues=task.continues,
            earlier_cost=task.cost,
        )

    # --- ends of attempts -------------------------------------------------------------------------

    def _handle_end(
        self, nursery: trio.Nursery, task: _OpenTask, record: Record, share: float
    ) -> None:
        """Decide what follows the end of an attempt."""
        task.continues = 0
        task.session = ""
        if record.published or self._folder.read_result(task.entry.name) is not None:
            self._finish(task, record)
        elif task.entry.id in self._cancelled:
            record.state = "cancelled"
            record.code = E_STOPPED
            record.error = "The task was cancelled."
            self._publish(task, record)
        elif self.stopped and record.state in ("stopped", "lost"):
            return
        elif record.code == E_BUDGET:
            self._handle_exhausted_budget(task, record, share)
        elif record.state in ("lost", "stopped") or record.retry or record.disk_full:
            self._repeat(nursery, task, record)
        else:
            self._publish(task, record)

    def _handle_exhausted_budget(self, task: _OpenTask, record: Record, share: float) -> None:
        """Continue a task whose share of the budget was too small, if there is money left."""
        own = self.cost.task
        if (own and task.cost >= own * 0.999) or not self.cost.limit:
            # The limit of the task itself is reached.
            self._publish(task, record)
            return
        if own and share >= own - (task.cost - (record.cost or 0.0)) - 1e-9:
            self._publish(task, record)
            return
        if self.cost.exhaust(share, record.cost or 0.0):
            return
        if self._executor.keeps_workspaces:
            task.continues = self._find_workspace(task.entry.name, task.attempt)
            task.session = record.session if task.continues else ""
        # A session that continues needs money for its next request only.
        task.too_small = share - (record.cost or 0.0) if task.continues else share
        self._queue.append(task)

    def _repeat(self, nursery: trio.Nursery, task: _OpenTask, record: Record) -> None:
        """Repeat a failed attempt after a while, or publish it as the result if it was the last."""
        task.failures += 1
        if task.failures >= self._info.options.attempts:
            # On this machine, the disk is that of the batch's folder, and no task can run. On a
            # cluster, it may be that of one worker.
            if record.disk_full and self._executor.keeps_workspaces:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            record.state = "failed"
            self._publish(task, record)
            return
        longest = min(MAX_DELAY, FIRST_DELAY * 2 ** (task.failures - 1))
        delay = longest * random.uniform(0.5, 1.0)
        self._progress.repeat(record, delay)
        self._delayed += 1
        nursery.start_soon(self._queue_later, task, delay)

    async def _queue_later(self, task: _OpenTask, delay: float) -> None:
        """Queue a task again after a delay, which ends with the batch and if it is cancelled."""
        end = trio.current_time() + delay
        is_cancelled = False
        while not self.stopped and not is_cancelled and trio.current_time() < end:
            changes = self._changes
            with trio.move_on_at(end):
                await changes.wait()
            is_cancelled = task.entry.id in self._cancelled
        self._delayed -= 1
        if is_cancelled:
            self._publish_cancelled(task)
        else:
            self._queue.append(task)
        self._wake()

    def _publish_cancelled(self, task: _OpenTask) -> None:
        """Publish the result of a task that was cancelled while it did not run."""
        try:
            self._publish(task, cancelled_record(task.entry, task.attempt))
        except OSError as error:
            self.error = self.error or _disk_error(error)
            self.stop("error")

    def _publish(self, task: _OpenTask, record: Record) -> None:
        """Publish a result that the child left to the driver."""
        record.published = True
        record.retry = False
        record.task_cost = task.cost or record.cost
        self._folder.write_attempt(task.entry.name, record)
        self._folder.publish(task.entry.name, record)
        self._finish(task, record)

    def _finish(self, task: _OpenTask, record: Record) -> None:
        self._progress.finish(record, self.cost.spent)
        if task.attempt > 1 and not self._info.options.keep:
            for number in range(1, task.attempt + 1):
                folder = self._folder.work / self._folder.attempt_name(task.entry.name, number)
                if folder.exists():
                    remove_folder(folder)
        if record.code not in KEY_CODES:
            self._has_other_ends = True
        self._key_failures += record.code in KEY_CODES
        if not self._has_other_ends and self._key_failures >= MAX_KEY_FAILURES:
            self.error = HilumError(
                f"The batch was stopped, because no task can run: {record.error}",
                code=record.code,
                hint=f"{record.hint} Then repeat these tasks with --retry-failed.".strip(),
            )
            self.stop("error")

    # --- helpers ----------------------------------------------------------------------------------

    async def _beat(self) -> None:
        while True:
            self._lease.beat()
            await trio.sleep(HEARTBEAT)

    async def _watch_requests(self) -> None:
        """Carry out the requests of ``hilum batch cancel``, and notice new places."""
        while True:
            await trio.sleep(LOOK_SECONDS)
            self._wake()
            names = self._folder.list_cancelled()
            if STOP_ALL in names:
                self._folder.clear_cancelled(STOP_ALL)
                self.stop("cancelled")
            if names:
                self._cancel(names)
                self._wake()

    def _cancel(self, names: set[str]) -> None:
        for entry in self._tasks.entries:
            if entry.name not in names:
                continue
            self._folder.clear_cancelled(entry.name)
            self._cancelled.add(entry.id)
            if entry.id in self._running:
                self._running[entry.id].set()
                continue
            for task in list(self._queue):
                if task.entry.id == entry.id:
                    self._queue.remove(task)
                    self._publish_cancelled(task)


def cancelled_record(entry: Entry, attempts: int) -> Record:
    """Return the result of a task that was cancelled before it ran."""
    return Record(
        id=entry.id,
        state="cancelled",
        code=E_STOPPED,
        error="The task was cancelled.",
        attempts=attempts,
        started=time.time(),
    )


def _failed_record(task: _OpenTask, error: HilumError) -> Record:
    """Return the record of an attempt that could not start."""
    return Record(
        id=task.entry.id,
        state="failed",
        code=error.code,
        error=error.message,
        hint=error.hint,
        attempts=task.attempt,
        started=time.time(),
    )


def _disk_error(error: OSError) -> HilumError:
    return HilumError(
        f"The batch was stopped, because its folder cannot be written: {describe_os_error(error)}.",
        code=E_FAILED,
        hint="Free space on the disk, then start the same command again: it goes on.",
    )
