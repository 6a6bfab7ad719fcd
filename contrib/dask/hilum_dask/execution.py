"""Carries out one attempt at a task, in a child process of its own."""

from __future__ import annotations

import importlib
import os
import signal
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import trio
from hilum import HilumError, UsageError
from hilum.errors import E_BUDGET, E_FAILED, E_INTERNAL, E_STOPPED
from hilum.hooks import describe_error, unwrap_group
from hilum.processes import Warden

from hilum_dask.folders import FULL, BatchFolder, describe_os_error, names_full_disk
from hilum_dask.records import Assignment, Record
from hilum_dask.session_runner import SessionRunner, record_timeout, verify_alone
from hilum_dask.workspaces import TaskWorkspace, WorkspaceError

RETRIED = frozenset(("E_LLM_429", "E_LLM_FAIL", "E_LLM_TIMEOUT"))
"""Codes of failures that another attempt may not meet, because the provider or the network had them.
A full disk and a lost worker are retried, too."""
CLEANING_SECONDS = 30.0
"""Seconds for the patch, and for the removal of the workspace, of an attempt that was stopped."""
Runner = Callable[[Assignment, Path], Awaitable[str]]
"""A function that carries out a task in a folder, instead of a session, and returns its answer."""


def run_assignment(assignment: Assignment) -> Record:
    """Carry out an attempt and return its record; it is also published if the task is finished.

    SIGTERM ends the attempt; the task is then still open.
    """
    return trio.run(_Attempt(assignment).run)


class _Attempt:
    """An attempt at a task."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._folder = BatchFolder(Path(assignment.folder))
        self._files = self._folder.attempt_name(assignment.name, assignment.attempt)
        self._record = Record(
            id=assignment.task.id,
            state="failed",
            attempts=assignment.attempt,
            epoch=assignment.epoch,
            started=time.time(),
            worker=f"{socket.gethostname()}:{os.getpid()}",
        )
        self._full = False

    async def run(self) -> Record:
        """Carry out the attempt and return its record."""
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            await nursery.start(self._stop_on_signal)
            with trio.CancelScope() as self._scope:
                await self._work_safely()
            nursery.cancel_scope.cancel()
        if self._scope.cancelled_caught:
            self._record.state = "stopped"
            self._record.code = E_STOPPED
            self._record.error = "The task was stopped."
        self._record.seconds = round(trio.current_time() - began, 4)
        await trio.to_thread.run_sync(self._publish_record)
        return self._record

    async def _stop_on_signal(
        self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        with trio.open_signal_receiver(signal.SIGTERM) as received:
            task_status.started()
            async for _ in received:
                self._scope.cancel()

    async def _work_safely(self) -> None:
        """Work on the task; an error becomes a part of the record."""
        try:
            async with Warden() as warden:
                await self._work(warden)
        except HilumError as error:
            self._fail(error)
        except OSError as error:
            self._full = self._full or error.errno in FULL
            self._fail(HilumError(f"The task failed: {describe_os_error(error)}.", code=E_FAILED))
        except Exception as error:
            found = unwrap_group(error)
            if not isinstance(found, HilumError):
                text = f"The task failed: {describe_error(error)}."
                hint = f"The log of the task shows where: logs/{self._files}.log."
                found = HilumError(text, code=E_INTERNAL, hint=hint)
                _print_traceback(error)
            self._fail(found)

    def _fail(self, error: HilumError) -> None:
        record = self._record
        record.state = "failed"
        record.code = error.code
        record.error = error.message
        record.hint = error.hint
        is_full = isinstance(error, WorkspaceError) and error.full
        self._full = self._full or is_full

    async def _work(self, warden: Warden) -> None:
        assignment = self._assignment
        # A continued attempt goes on in the workspace and the session of the earlier one.
        place = self._folder.attempt_name(
            assignment.name, assignment.continues or assignment.attempt
        )
        workspace = TaskWorkspace(self._folder.work / place, warden, os.environ)
        task = assignment.task
        try:
            if assignment.continues:
                workspace.reopen()
            else:
                await workspace.create(task.repo, task.ref, assignment.files, self._folder.root)
            await self._work_in(workspace, self._folder.sessions / f"{place}.db")
        finally:
            # An attempt that its share of the budget ended goes on later.
            if not assignment.options.keep and self._record.code != E_BUDGET:
                with trio.move_on_after(CLEANING_SECONDS, shield=True):
                    await workspace.remove()

    async def _work_in(self, workspace: TaskWorkspace, store: Path) -> None:
        """Work on the task in its workspace."""
        assignment = self._assignment
        try:
            if assignment.options.runner:
                await self._call_runner(load_runner(assignment.options.runner), workspace.tree)
            else:
                await SessionRunner(assignment, workspace.tree, store, self._record).work()
        finally:
            # The changes of an attempt that failed or was stopped may be useful, too.
            with trio.move_on_after(CLEANING_SECONDS, shield=True):
                await self._write_patch(workspace)

    async def _call_runner(self, runner: Runner, folder: Path) -> None:
        """Have a function carry out the task, and verify the result."""
        limit = self._assignment.task.timeout or float("inf")
        with trio.move_on_after(limit) as scope:
            self._record.text = await runner(self._assignment, folder)
            self._record.state = "completed"
        if scope.cancelled_caught:
            record_timeout(self._record, limit)
            return
        await verify_alone(self._assignment, folder, self._record)

    async def _write_patch(self, workspace: TaskWorkspace) -> None:
        path = self._folder.patches / f"{self._files}.patch"
        count = await workspace.write_patch(path)
        if count:
            self._record.patch = f"patches/{path.name}"
            self._record.files_changed = count

    def _publish_record(self) -> None:
        """Decide whether the task is finished; write and publish the record."""
        record = self._record
        is_last = self._assignment.retries <= 0
        if record.cost is not None or self._assignment.earlier_cost:
            record.task_cost = (record.cost or 0.0) + self._assignment.earlier_cost
        # The session store reports a full disk in its message only.
        is_full = self._full or names_full_disk(record.error)
        record.disk_full = record.state == "failed" and is_full
        may_help = record.code in RETRIED or record.disk_full
        record.retry = record.state == "failed" and may_help and not is_last
        # A task that has used up its share of the batch's budget is still open.
        is_open = record.state == "stopped" or record.retry or record.code == E_BUDGET
        # With a full disk, the driver decides: it stops the batch.
        is_open = is_open or record.disk_full
        record.published = not is_open
        if self._folder.read_epoch() > self._assignment.epoch:
            # Another driver has taken over, and gives the task to another process.
            record.state = "stopped"
            record.published = False
        try:
            self._folder.write_attempt(self._assignment.name, record)
            if record.published:
                record.published = self._folder.publish(self._assignment.name, record)
        except OSError as error:
            # The driver gets the record in another way, and may have room for it.
            record.published = False
            record.retry = not is_last
            record.state = "failed"
            record.disk_full = error.errno in FULL
            record.code = E_FAILED
            record.error = (
                f"The result cannot be written on {socket.gethostname()}:"
                f" {describe_os_error(error)}."
            )
            record.hint = "Free space on the disk."


def load_runner(name: str) -> Runner:
    """Return the function that a user named as ``module:function``.

    Raises:
        UsageError: It cannot be imported.
    """
    module, _, function = name.partition(":")
    try:
        return cast("Runner", getattr(importlib.import_module(module), function))
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(
            f"The runner {name!r} cannot be imported: {error}.",
            hint="Name a function in an installed module, as `package.module:function`.",
        ) from None


def _print_traceback(error: Exception) -> None:
    import traceback  # needed only for an unexpected error

    traceback.print_exception(error)
