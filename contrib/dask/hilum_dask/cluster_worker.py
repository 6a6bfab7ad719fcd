"""What runs on the workers of a Dask cluster: each attempt in a child process of the worker.

A Dask worker runs ``run_attempt`` in one of its threads, which waits for the child. Dask cannot cancel
a function that runs, so the thread looks whether the worker still has the task: it no longer has it
after the driver cancelled it, the driver ended or the scheduler ended. The child is then ended.
"""

from __future__ import annotations

import tempfile
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgspec
import trio
from hilum import remove_folder

from hilum_dask.folders import BatchFolder
from hilum_dask.pool import AttemptLost, ChildPool, open_pool
from hilum_dask.records import Assignment, Record, decode_assignment
from hilum_dask.versions import list_versions

LOOK_SECONDS = 0.5
"""Seconds between two looks whether the worker still has the task."""
MAX_LOG = 1 << 20
"""Maximum number of bytes of a log that is sent to the driver, from its end."""


class WorkerInfo(msgspec.Struct):
    """What a driver must know of a worker.

    Attributes:
        id: The id of the worker, which is new after each start.
        versions: The versions of Python and hilum's packages.
        shares: Whether the worker sees the batch's folder.
    """

    id: str
    versions: dict[str, str]
    shares: bool


class Delivery(msgspec.Struct):
    """The end of an attempt, as a worker delivers it.

    Attributes:
        record: The record; ``None`` if the child ended without one.
        lost: Why there is no record.
        is_late: Whether the child was killed because it did not react to its time limit.
        is_local: Whether the files are only on the worker, so that they are delivered, too.
        patch: The patch.
        session: The session's store.
        log: The end of the log.
    """

    record: Record | None = None
    lost: str = ""
    is_late: bool = False
    is_local: bool = False
    patch: bytes = b""
    session: bytes = b""
    log: bytes = b""


def describe_worker(folder: str, batch: str, dask_worker: Any) -> bytes:
    """Return a ``WorkerInfo`` of a worker as JSON.

    Args:
        folder: The batch's folder.
        batch: The identity of the batch.
        dask_worker: The worker, which Dask passes by this name.
    """
    shares = _sees(folder, batch)
    return msgspec.json.encode(WorkerInfo(dask_worker.id, list_versions(), shares))


def run_attempt(data: bytes, key: str, worker: str) -> bytes:
    """Carry out an attempt; return a ``Delivery`` as JSON.

    Args:
        data: The assignment as JSON.
        key: The key of the Dask task.
        worker: The id of the worker that the driver has chosen.

    Raises:
        RuntimeError: This is another worker, for example one that has taken the place of the chosen
            one, which the driver does not know yet.
    """
    from distributed import get_worker

    here = get_worker()
    if here.id != worker:
        raise RuntimeError(f"The worker {worker} is no longer here.")
    return _find_runner().run(decode_assignment(data), key, here)


def stop_attempt(key: str) -> None:
    """Let an attempt end soon."""
    _find_runner().stop(key)


def _sees(folder: str, batch: str) -> bool:
    """Return whether this machine sees the folder of a batch."""
    try:
        info = BatchFolder(Path(folder)).read_info()
    except Exception:  # whatever is there, it is not this batch
        return False
    return info is not None and info.batch == batch


class _Runner:
    """The child processes of a worker, which a trio thread owns."""

    def __init__(self) -> None:
        ready: Future[trio.lowlevel.TrioToken] = Future()
        threading.Thread(
            target=trio.run, args=(self._serve, ready), name="hilum-batch", daemon=True
        ).start()
        self._token = ready.result()
        self._stops: dict[str, trio.Event] = {}

    async def _serve(self, ready: Future[trio.lowlevel.TrioToken]) -> None:
        async with open_pool() as self._pool:
            ready.set_result(trio.lowlevel.current_trio_token())
            await trio.sleep_forever()

    def run(self, assignment: Assignment, key: str, worker: Any) -> bytes:
        """Carry out an attempt, and wait for its end."""
        delivery = trio.from_thread.run(
            self._carry_out, assignment, key, worker, trio_token=self._token
        )
        return msgspec.json.encode(delivery)

    def stop(self, key: str) -> None:
        """Let an attempt end soon."""

        def stop() -> None:
            if key in self._stops:
                self._stops[key].set()

        self._token.run_sync_soon(stop)

    async def _carry_out(self, assignment: Assignment, key: str, worker: Any) -> Delivery:
        shared = await trio.to_thread.run_sync(_sees, assignment.folder, assignment.batch)
        if not shared:
            assignment.folder = tempfile.mkdtemp(prefix="hilum-batch-")
        folder = BatchFolder(Path(assignment.folder))
        stop = self._stops[key] = trio.Event()
        try:
            if not shared:
                folder.create()
            delivery = await _run_child(self._pool, folder, assignment, stop, key, worker)
            if not shared:
                await trio.to_thread.run_sync(_pack, delivery, folder, assignment)
            return delivery
        finally:
            del self._stops[key]
            if not shared:
                remove_folder(assignment.folder)


async def _run_child(
    pool: ChildPool,
    folder: BatchFolder,
    assignment: Assignment,
    stop: trio.Event,
    key: str,
    worker: Any,
) -> Delivery:
    """Run the child; end it if the worker no longer has the task."""
    delivery = Delivery(lost="the driver no longer wants it")
    files = folder.attempt_name(assignment.name, assignment.attempt)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_end_with_task, nursery.cancel_scope, key, worker)
        try:
            log = folder.logs / f"{files}.log"
            delivery.record = await pool.run(assignment, stop, log)
        except AttemptLost as lost:
            delivery.lost = lost.reason
            delivery.is_late = lost.is_late
        nursery.cancel_scope.cancel()
    return delivery


async def _end_with_task(scope: trio.CancelScope, key: str, worker: Any) -> None:
    """Cancel a scope when a worker is closing or no longer has a task."""
    while True:
        await trio.sleep(LOOK_SECONDS)
        # The state belongs to another thread, but a look at it needs no lock.
        task = worker.state.tasks.get(key)
        is_closing = worker.status.name not in ("running", "paused")
        if is_closing or task is None or task.state in ("cancelled", "resumed", "released"):
            scope.cancel()
            return


def _pack(delivery: Delivery, folder: BatchFolder, assignment: Assignment) -> None:
    """Add the files of an attempt to a delivery."""
    files = folder.attempt_name(assignment.name, assignment.attempt)
    delivery.is_local = True
    delivery.patch = _read(folder.patches / f"{files}.patch")
    delivery.session = _read(folder.sessions / f"{files}.db")
    delivery.log = _read(folder.logs / f"{files}.log")[-MAX_LOG:]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


_runner: _Runner | None = None
_making = threading.Lock()


def _find_runner() -> _Runner:
    """Return the runner of this worker's process, which is created at its first task."""
    global _runner
    with _making:
        if _runner is None:
            _runner = _Runner()
        return _runner
