"""Starts the Dask cluster of ``--launcher``, and submits jobs again that ended before the batch did.

Dask starts a worker's job once. After its time limit, or after somebody cancelled it, a batch would
wait for ever for workers that nobody starts.
"""

from __future__ import annotations

import importlib
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import trio
from distributed import SpecCluster, Status
from distributed.deploy.spec import ProcessInterface
from hilum import HilumError, UsageError
from hilum.errors import E_FAILED, E_INTERRUPTED, E_UNKNOWN

from hilum_dask.progress import Progress

LOOK_SECONDS = 1.0
"""Seconds between two looks at the jobs."""
LOST_SECONDS = 30.0
"""Seconds without a worker after which a job that had one is over; a worker may be restarted."""
FIRST_DELAY = 10.0
"""Seconds before jobs are submitted again; each further delay is twice as long."""
MAX_DELAY = 300.0
CALL_SECONDS = 15.0
"""Seconds that the cluster has to answer."""
CLOSE_SECONDS = 60.0
"""Seconds that the cluster has to close."""
MAX_REASON = 500
"""Maximum length of an error of the cluster that is shown."""


class _Jobs(msgspec.Struct):
    """The jobs of a cluster.

    Attributes:
        failed: Names of jobs that could not be submitted.
        lost: Names of jobs that had workers and have none any more.
        submitted: Number of jobs that wait or run.
        joined: Number of jobs whose workers are connected.
    """

    failed: list[str]
    lost: list[str]
    submitted: int
    joined: int


class _LoopErrors:
    """Keeps the errors of the event loops of Dask's clusters, instead of logging their tracebacks.

    Dask raises the errors of a submission nowhere else.

    Attributes:
        last: The last error as text; empty if there was none.
    """

    def __init__(self) -> None:
        self.last = ""
        self._loggers = [logging.getLogger(name) for name in ("tornado.application", "asyncio")]

    def __enter__(self) -> _LoopErrors:
        for logger in self._loggers:
            logger.addFilter(self._take)
        return self

    def __exit__(self, *details: object) -> None:
        for logger in self._loggers:
            logger.removeFilter(self._take)

    @property
    def reason(self) -> str:
        """Why jobs cannot be submitted."""
        return self.last or "Dask names no reason"

    def _take(self, record: logging.LogRecord) -> bool:
        """Keep the error of a record; return whether to log its traceback."""
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return True
        # Only the text: the traceback would keep the failed job.
        self.last = _describe(error)
        return bool(os.environ.get("HILUM_TRACEBACK"))


class LaunchedCluster:
    """A Dask cluster that the user's function has started. Create it with ``open_launched``.

    Args:
        name: The function, as ``module:function``.
        cluster: The cluster.
        errors: Keeps the errors of the cluster's event loop.
        progress: Shows what happens to the jobs.

    Attributes:
        cluster: The cluster.
    """

    def __init__(self, name: str, cluster: Any, errors: _LoopErrors, progress: Progress) -> None:
        self.cluster = cluster
        self._name = name
        self._errors = errors
        self._progress = progress
        self._seen: dict[str, float] = {}  # when a job had a worker, by its name
        self._has_joined = False
        self._delay = FIRST_DELAY
        self._next: float | None = None

    async def watch(self) -> None:
        """Submit jobs again that ended or could not be submitted, until cancelled.

        Only clusters of jobs need that; those of Kubernetes replace their workers themselves.

        Raises:
            HilumError: No job at all can be submitted.
        """
        if not isinstance(self.cluster, SpecCluster):
            return
        while True:
            await trio.sleep(LOOK_SECONDS)
            jobs = await self._call(self._look)
            if jobs is not None:
                await self._react(jobs)

    async def close(self) -> None:
        """Close the cluster, which cancels its jobs."""
        problem = f"it did not answer for {CLOSE_SECONDS:.0f} s"
        with trio.move_on_after(CLOSE_SECONDS):
            await self._call(self._mark_failed)
            try:
                await trio.to_thread.run_sync(self.cluster.close, abandon_on_cancel=True)
                return
            except Exception as error:
                problem = _describe(error)
        self._progress.note(
            f"the cluster could not be closed ({problem}); look for jobs that it left behind"
        )

    async def _call(self, function: Callable[[], Any]) -> Any:
        """Call an asyncio function in the cluster's event loop; return ``None`` if it fails."""
        call = partial(self.cluster.sync, function, callback_timeout=CALL_SECONDS)
        try:
            return await trio.to_thread.run_sync(call, abandon_on_cancel=True)
        except Exception:
            return None

    async def _look(self) -> _Jobs:
        """Return the state of the jobs. Runs in the cluster's event loop."""
        jobs = _Jobs([], [], 0, 0)
        now = time.monotonic()
        connected = set(self.cluster.observed)
        # The workers of a job with several have its name and a number.
        connected |= {name.rpartition("-")[0] for name in connected if isinstance(name, str)}
        for name in self.cluster.worker_spec:
            job = self.cluster.workers.get(name)
            if job is not None and not isinstance(job, ProcessInterface):
                continue  # a process of this machine, which a nanny restarts
            if name in connected:
                self._seen[name] = now
                jobs.joined += 1
                jobs.submitted += 1
            elif job is not None and job.status == Status.created:
                jobs.failed.append(name)
            elif name in self._seen:
                # Dask itself forgets a job of one worker, but not one of several.
                if job is None or now - self._seen[name] > LOST_SECONDS:
                    jobs.lost.append(name)
            else:
                jobs.submitted += 1
        return jobs

    async def _react(self, jobs: _Jobs) -> None:
        """Submit missing jobs again, after a delay.

        Raises:
            HilumError: No job at all can be submitted.
        """
        self._has_joined = self._has_joined or jobs.joined > 0
        missing = len(jobs.failed) + len(jobs.lost)
        if not missing:
            self._next = None
            if jobs.joined == jobs.submitted:
                self._delay = FIRST_DELAY
            return
        if jobs.failed and not self._has_joined and not jobs.submitted:
            raise HilumError(
                f"The cluster of the launcher {self._name!r} cannot start workers:"
                f" {self._errors.reason}.",
                code=E_FAILED,
                hint="Correct it, then start the same command again.",
            )
        if self._progress.done + self._progress.running >= self._progress.total:
            return  # no task waits for them
        now = trio.current_time()
        if self._next is None:
            self._next = now + self._delay
            self._announce(jobs)
        elif now >= self._next:
            self._next = None
            self._delay = min(MAX_DELAY, 2 * self._delay)
            await self._call(partial(self._submit_again, jobs.failed + jobs.lost))

    def _announce(self, jobs: _Jobs) -> None:
        when = f"submitted again in {self._delay:.0f} s"
        if jobs.failed:
            self._progress.note(
                f"{_count(len(jobs.failed))} of the cluster could not be submitted, and will be"
                f" {when}: {self._errors.reason}"
            )
        if jobs.lost:
            self._progress.note(
                f"{_count(len(jobs.lost))} of the cluster ended, and will be {when}"
            )

    async def _submit_again(self, names: list[str]) -> None:
        """Let Dask submit jobs as if it had not done so. Runs in the cluster's event loop."""
        self._errors.last = ""
        for name in names:
            self._seen.pop(name, None)
            job = self.cluster.workers.pop(name, None)
            if job is None:
                continue
            if job.status == Status.created:
                job.status = Status.failed
            else:
                await job.close()
        # The method of dask-jobqueue counts workers; this one counts jobs.
        scale: Any = SpecCluster.scale
        scale(self.cluster, len(self.cluster.worker_spec))

    async def _mark_failed(self) -> None:
        """Let Dask close in spite of jobs that never started. Runs in the cluster's event loop."""
        for job in getattr(self.cluster, "workers", {}).values():
            if isinstance(job, ProcessInterface) and job.status == Status.created:
                job.status = Status.failed


@asynccontextmanager
async def open_launched(
    name: str, progress: Progress, stop: trio.Event
) -> AsyncIterator[LaunchedCluster]:
    """Start a cluster, yield it, and close it.

    Args:
        name: A function that returns a Dask cluster, as ``module:function``.
        progress: Shows what happens to the jobs.
        stop: An event after which the function is no longer waited for.

    Raises:
        UsageError: The function cannot be imported.
        HilumError: It fails, or returns something else.
    """
    function = _import_launcher(name)
    progress.note(f"starting the cluster with {name}")
    with _LoopErrors() as errors:
        cluster = await _launch(name, function, stop)
        launched = LaunchedCluster(name, cluster, errors, progress)
        try:
            yield launched
        finally:
            with trio.CancelScope(shield=True):
                await launched.close()


async def _launch(name: str, function: Callable[[], Any], stop: trio.Event) -> Any:
    """Return the cluster that a launcher starts.

    Raises:
        HilumError: The launcher fails or returns something else, or the batch was stopped.
    """
    found: list[Any] = []
    errors: list[BaseException] = []

    async def call() -> None:
        try:
            # When the process exits, Dask closes a cluster that was being started.
            found.append(await trio.to_thread.run_sync(function, abandon_on_cancel=True))
        except (Exception, SystemExit) as error:
            errors.append(error)
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        await stop.wait()
        nursery.cancel_scope.cancel()
    if errors:
        raise HilumError(
            f"The launcher {name!r} failed: {_describe(errors[0])}.",
            code=E_FAILED,
            hint=_make_hint(name, errors[0]),
        )
    if not found:
        raise HilumError(
            f"The batch was stopped while {name} started the cluster.",
            code=E_INTERRUPTED,
            hint="Check that nothing of it was left behind.",
        )
    cluster = found[0]
    if not hasattr(cluster, "scheduler_address"):
        raise HilumError(
            f"The launcher {name!r} returned {type(cluster).__name__}, not a Dask cluster.",
            code=E_FAILED,
            hint="End the function with `return cluster`.",
        )
    return cluster


def _import_launcher(name: str) -> Callable[[], Any]:
    """Return a launcher: a function that returns a cluster.

    Its module is imported in this thread, and the handlers of signals are restored afterwards:
    dask-jobqueue sets handlers when it is imported, which works in the main thread only.

    Raises:
        UsageError: The launcher cannot be imported.
    """
    module, _, function = name.partition(":")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    hint = "Name a function that returns a Dask cluster, as `module:function`."
    try:
        launcher: Callable[[], Any] = getattr(importlib.import_module(module), function)
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing == module:
            hint = "Install the module, or put its folder on PYTHONPATH."
        elif missing:
            hint = f"Install the package with {missing!r} where hilum is installed."
        raise UsageError(
            f"The launcher {name!r} cannot be imported: {_describe(error)}.",
            code=E_UNKNOWN,
            hint=hint,
        ) from None
    finally:
        for number, handler in handlers.items():
            if handler is not None:
                signal.signal(number, handler)
    return launcher


def _make_hint(name: str, error: BaseException) -> str:
    """Return the next step after a launcher failed."""
    if "main thread" in str(error):
        return "Import the packages of the cluster at the top of the module."
    module, _, function = name.partition(":")
    return f"`python -c 'import {module}; {module}.{function}()'` shows where it happened."


def _describe(error: BaseException) -> str:
    """Return an error as one line."""
    text = " ".join(str(error).split()).rstrip(".")
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"there is no {os.fspath(error.filename)!r} on this machine"
    if len(text) > MAX_REASON:
        text = f"… {text[-MAX_REASON:]}"
    kind = type(error).__name__
    return f"{kind}: {text}" if text else kind


def _count(number: int) -> str:
    return "1 job" if number == 1 else f"{number} jobs"
