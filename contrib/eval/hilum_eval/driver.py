"""Makes the attempts of a measurement, several at once, and stores each result at once."""

from __future__ import annotations

import signal
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import trio
from hilum import StoreError, config_folder
from hilum.errors import E_STORE
from hilum.processes import Warden

from hilum_eval.attempt import Attempt
from hilum_eval.attempts import AttemptRunner
from hilum_eval.jobs import Job
from hilum_eval.measurement import ResultsFile
from hilum_eval.sandbox import find_sandbox
from hilum_eval.worker_processes import open_worker_processes


@attrs.define
class Outcome:
    """The attempts of a measurement.

    Attributes:
        attempts: The attempts, in the order of the jobs.
        reused: Number of them that an earlier process made.
        sandboxed: Whether verifiers ran in a sandbox; ``None`` if none was run.
        signal: Number of the signal that stopped the measurement; 0 if it was not stopped.
    """

    attempts: list[Attempt]
    reused: int = 0
    sandboxed: bool | None = None
    signal: int = 0


class Progress:
    """Receives the progress of a measurement. This one shows nothing."""

    def begin(self, total: int, reused: int) -> None:
        """Receive the beginning of the measurement.

        Args:
            total: Number of attempts.
            reused: Number of them that were made before.
        """

    def add(self, attempt: Attempt) -> None:
        """Receive the result of an attempt."""

    def end(self) -> None:
        """Receive the end of the measurement."""


def measure(
    jobs: Sequence[Job],
    results: ResultsFile,
    *,
    at_once: int,
    progress: Progress,
    keep: Path | None = None,
    hidden: Sequence[Path] = (),
) -> Outcome:
    """Make all attempts whose results are missing.

    The first SIGINT or SIGTERM stops the measurement: running attempts are ended with all their
    processes, and their results are missing.

    Args:
        jobs: The attempts.
        results: The results so far, to which each result is added.
        at_once: Number of attempts to make at the same time.
        progress: Receives each attempt.
        keep: The folder in which the workspaces are kept; by default, they are removed.
        hidden: Folders that agents must not see, beside those of the cases and of the results.
    """
    found = {job: results.find(job) for job in jobs}
    missing = [job for job, attempt in found.items() if attempt is None]
    outcome = Outcome([], reused=len(jobs) - len(missing))
    progress.begin(len(jobs), outcome.reused)
    try:
        if missing:
            with _open_base(keep) as base:
                trio.run(
                    partial(
                        _run_jobs,
                        missing,
                        results,
                        found,
                        outcome,
                        base=base,
                        at_once=at_once,
                        progress=progress,
                        keep=keep is not None,
                        hidden=(results.path.parent, *hidden),
                    )
                )
    finally:
        progress.end()
    outcome.attempts = [attempt for attempt in found.values() if attempt is not None]
    return outcome


@contextmanager
def _open_base(keep: Path | None) -> Iterator[Path]:
    """Yield the folder in which the workspaces are created; it is removed unless it is kept."""
    if keep is not None:
        try:
            keep.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"The folder {keep} cannot be used: {error.strerror}.",
                code=E_STORE,
                hint="Choose another folder: --keep DIR.",
            ) from None
        yield keep.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="hilum-eval-", ignore_cleanup_errors=True) as folder:
        # Links are resolved, because agents see the path of their workspace resolved.
        yield Path(folder).resolve()


async def _run_jobs(
    jobs: Sequence[Job],
    results: ResultsFile,
    found: dict[Job, Attempt | None],
    outcome: Outcome,
    *,
    base: Path,
    at_once: int,
    progress: Progress,
    keep: bool,
    hidden: Sequence[Path],
) -> None:
    waiting = iter(jobs)

    async def work(runner: AttemptRunner) -> None:
        for job in waiting:
            attempt = await runner.run(job)
            found[job] = attempt
            await trio.to_thread.run_sync(results.append, job, attempt)
            progress.add(attempt)

    async with (
        Warden() as warden,
        open_worker_processes(warden) as processes,
        trio.open_nursery() as signals,
    ):
        await signals.start(_listen, outcome, signals.cancel_scope)
        outcome.sandboxed = await find_sandbox(warden)
        runner = AttemptRunner(
            warden,
            processes,
            base,
            models=_read_models(),
            sandboxed=outcome.sandboxed,
            keep=keep,
            hidden=hidden,
        )
        async with trio.open_nursery() as nursery:
            for _ in range(min(at_once, len(jobs))):
                nursery.start_soon(work, runner)
        signals.cancel_scope.cancel()


async def _listen(
    outcome: Outcome,
    scope: trio.CancelScope,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Cancel the measurement at the first signal; a second one has its usual effect."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as received:
        task_status.started()
        async for number in received:
            outcome.signal = number
            scope.cancel()
            return


def _read_models() -> Mapping[str, Any]:
    """Return the table ``models`` of the user's settings, which live models need."""
    try:
        table = tomllib.loads((config_folder() / "settings.toml").read_text()).get("models", {})
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError):
        return {}
    return table if isinstance(table, dict) else {}
