"""Carries out attempts on the workers of a Dask cluster.

Dask transports assignments and deliveries, and knows which workers are alive. The driver itself chooses the worker
of each attempt: Dask would otherwise start an attempt again on another worker, without the driver knowing
of the first one, after a worker was lost.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import math
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import trio
from hilum import HilumError, UsageError
from hilum.errors import E_NOT_INSTALLED, E_UNREACHABLE

from hilum_dask.cluster_worker import (
    Delivery,
    WorkerInfo,
    describe_worker,
    run_attempt,
    stop_attempt,
)
from hilum_dask.folders import BatchFolder, BatchInfo
from hilum_dask.pool import STOP_TIMEOUT, AttemptLost
from hilum_dask.progress import Progress
from hilum_dask.records import Assignment, Record
from hilum_dask.versions import describe_difference, list_versions

CONNECT_SECONDS = 10.0
"""Seconds that one attempt to connect to the scheduler may take."""
RECONNECT_SECONDS = 600.0
"""Seconds in which a scheduler that ended has to be available again."""
LOOK_SECONDS = 1.0
"""Seconds between two looks at the workers."""
WAIT_SECONDS = 60.0
"""Seconds without any worker after which the user learns what may be the reason."""
LOOK_INTERVAL_FACTOR = 10.0
"""Seconds between two looks at the workers, for each second that a look takes."""
CALL_SECONDS = 15.0
"""Seconds that a worker or the scheduler has to answer a question."""
PLUGIN = "hilum-dask"


class _Worker:
    """A worker that has been checked.

    Attributes:
        address: Its address.
        id: Its id, which is new after each start.
        threads: How many attempts it carries out at the same time.
        shares: Whether it sees the batch's folder.
        running: The attempts that were given to it.
        lost: An event that is set when it is gone.
    """

    def __init__(self, address: str, identity: str, threads: int, *, shares: bool) -> None:
        self.address = address
        self.id = identity
        self.threads = threads
        self.shares = shares
        self.running = 0
        self.lost = trio.Event()


class ClusterExecutor:
    """Carries out attempts on a Dask cluster. Create it with ``open_cluster``.

    Args:
        folder: The batch's folder.
        info: The description of the batch.
        connect: A function that returns a new client; it blocks.
        progress: Shows which workers were refused.
    """

    def __init__(
        self,
        folder: BatchFolder,
        info: BatchInfo,
        connect: Callable[[], Any],
        progress: Progress,
    ) -> None:
        self._folder = folder
        self._info = info
        self._connect = connect
        self._progress = progress
        self._client: Any = None
        self._workers: dict[str, _Worker] = {}  # by address
        self._refused: set[str] = set()
        self._without_workers: float | None = None  # when to say so
        self._versions = list_versions()
        self._token = trio.lowlevel.current_trio_token()

    @property
    def slots(self) -> int:
        """How many attempts the workers carry out at the same time.

        No attempt waits in a worker's queue: it could run on another worker meanwhile, and a round
        trip of some milliseconds is nothing beside an attempt.
        """
        return sum(worker.threads for worker in self._workers.values())

    @property
    def keeps_workspaces(self) -> bool:
        """Whether all workers see the batch's folder."""
        return all(worker.shares for worker in self._workers.values())

    async def run(self, assignment: Assignment, stop: trio.Event) -> Record:
        """Carry out an attempt on a worker."""
        worker = self._choose(assignment)
        worker.running += 1
        try:
            delivery = await self._run_on(worker, assignment, stop)
        finally:
            worker.running -= 1
        if delivery.is_local:
            await trio.to_thread.run_sync(self._unpack, delivery, assignment)
        if delivery.record is not None:
            return delivery.record
        raise AttemptLost(f"{delivery.lost} (worker {worker.address})", is_late=delivery.is_late)

    def _choose(self, assignment: Assignment) -> _Worker:
        workers = list(self._workers.values())
        if not workers:
            raise AttemptLost("the workers are gone", counts=False)
        if assignment.continues:
            # The workspace and the session of the earlier attempt are in the batch's folder.
            workers = [worker for worker in workers if worker.shares]
            if not workers:
                raise AttemptLost("no worker sees the folder of the batch", counts=False)
        return min(workers, key=lambda worker: worker.running / worker.threads)

    async def _run_on(self, worker: _Worker, assignment: Assignment, stop: trio.Event) -> Delivery:
        client = self._client
        key = f"hilum-{assignment.name[:60]}-{assignment.attempt}-{secrets.token_hex(6)}"
        submit = partial(
            client.submit,
            run_attempt,
            msgspec.json.encode(assignment),
            key,
            worker.id,
            key=key,
            workers=[worker.address],
            allow_other_workers=False,
            pure=False,
        )
        done = trio.Event()
        future = await trio.to_thread.run_sync(submit)
        try:
            future.add_done_callback(lambda _: self._token.run_sync_soon(done.set))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._stop_when, stop, client, worker, key, done)
                nursery.start_soon(_forward, worker.lost, done)
                await done.wait()
                nursery.cancel_scope.cancel()
            return await trio.to_thread.run_sync(_read_result, future, worker)
        except AttemptLost:
            # Another worker may have taken its place, which is then checked again.
            if self._workers.get(worker.address) is worker and not stop.is_set():
                del self._workers[worker.address]
            raise
        finally:
            # If the attempt is still running, the worker ends it.
            with trio.CancelScope(shield=True), contextlib.suppress(Exception):
                await trio.to_thread.run_sync(partial(_release, client, future))

    async def _stop_when(
        self, stop: trio.Event, client: Any, worker: _Worker, key: str, done: trio.Event
    ) -> None:
        """Ask the worker to stop an attempt; give up if it does not end."""
        await stop.wait()
        with contextlib.suppress(Exception):
            await trio.to_thread.run_sync(
                partial(client.run, stop_attempt, key, workers=[worker.address]),
                abandon_on_cancel=True,
            )
        await trio.sleep(3 * STOP_TIMEOUT)
        done.set()

    def _unpack(self, delivery: Delivery, assignment: Assignment) -> None:
        """Write the files of an attempt into the batch's folder, and publish its result."""
        folder = self._folder
        files = folder.attempt_name(assignment.name, assignment.attempt)
        if delivery.patch:
            (folder.patches / f"{files}.patch").write_bytes(delivery.patch)
        if delivery.session:
            (folder.sessions / f"{files}.db").write_bytes(delivery.session)
        if delivery.log:
            (folder.logs / f"{files}.log").write_bytes(delivery.log)
        record = delivery.record
        if record is not None:
            folder.write_attempt(assignment.name, record)
            if record.published:
                folder.publish(assignment.name, record)

    # --- workers ----------------------------------------------------------------------------------

    async def watch(self) -> None:
        """Connect to the scheduler, and notice which workers come and go, until cancelled.

        Raises:
            HilumError: The scheduler cannot be reached.
        """
        self._client = await self._connect_for(CONNECT_SECONDS)
        while True:
            began = trio.current_time()
            try:
                found = await trio.to_thread.run_sync(
                    partial(_list_workers, self._client), abandon_on_cancel=True
                )
            except Exception:
                await self._reconnect()
                continue
            await self._compare(found)
            self._show_workers()
            # The answer for ten thousand workers takes a while, and must not keep anybody busy.
            took = trio.current_time() - began
            await trio.sleep(max(LOOK_SECONDS, LOOK_INTERVAL_FACTOR * took))

    def _show_workers(self) -> None:
        """Show how many workers there are, and once if there is none for a while."""
        self._progress.workers = len(self._workers)
        now = trio.current_time()
        if self._workers:
            self._without_workers = None
        elif self._without_workers is None:
            self._without_workers = now + WAIT_SECONDS
        elif now > self._without_workers:
            self._without_workers = math.inf
            self._progress.note(
                f"no worker has joined for {WAIT_SECONDS:.0f} s. If jobs wait in a queue, the"
                " batch starts when they do; otherwise see what the jobs or workers wrote."
            )

    async def _compare(self, found: dict[str, int]) -> None:
        """Forget the workers that are gone, and check those that are new."""
        for address in set(self._workers) - set(found):
            self._workers.pop(address).lost.set()
        # Another worker may have the same address later.
        self._refused &= set(found)
        new = {
            address: threads
            for address, threads in found.items()
            if address not in self._workers and address not in self._refused
        }
        if new:
            await trio.to_thread.run_sync(self._check, new, abandon_on_cancel=True)

    def _check(self, new: dict[str, int]) -> None:
        """Accept the new workers that have the same versions as this machine."""
        addresses = list(new)
        # The plugin may be missing, so the first question must not need it.
        plugins = self._ask(importlib.metadata.version, PLUGIN, workers=addresses)
        able = [address for address in addresses if isinstance(plugins.get(address), str)]
        infos = {}
        if able:
            folder = str(self._folder.root)
            infos = self._ask(describe_worker, folder, self._info.batch, workers=able)
        for address, threads in new.items():
            reason = ""
            info = None
            if address not in plugins:
                continue  # it is asked again
            if address not in able:
                reason = f"{PLUGIN} is not installed there"
            elif not isinstance(infos.get(address), bytes):
                reason = f"its {PLUGIN} does not work ({infos.get(address)!r})"
            else:
                info = msgspec.json.decode(infos[address], type=WorkerInfo)
                reason = describe_difference(self._versions, info.versions)
            if info is None or reason:
                self._refused.add(address)
                self._token.run_sync_soon(self._progress.refuse, address, reason)
                continue
            worker = _Worker(address, info.id, threads, shares=info.shares)
            self._token.run_sync_soon(self._workers.__setitem__, address, worker)

    def _ask(self, function: Callable[..., Any], *arguments: object, workers: list[str]) -> Any:
        """Call a function on workers; return the results or exceptions by address."""
        call = partial(self._client._run, function, *arguments)
        try:
            # Unlike `Client.run`, this has a time limit: a frozen worker must not hide the others.
            return self._client.sync(
                call, workers=workers, on_error="return", callback_timeout=CALL_SECONDS
            )
        except Exception:
            if len(workers) == 1:
                return {}
        # One worker that cannot answer must not hide the others.
        found: dict[str, object] = {}
        for worker in workers:
            found |= self._ask(function, *arguments, workers=[worker])
        return found

    # --- connection -------------------------------------------------------------------------------

    async def _reconnect(self) -> None:
        """Connect again after the scheduler ended; its workers and their attempts are lost."""
        for worker in self._workers.values():
            worker.lost.set()
        self._workers.clear()
        self._progress.note("the scheduler cannot be reached; waiting for it")
        old = self._client
        await trio.to_thread.run_sync(partial(_close, old), abandon_on_cancel=True)
        self._client = await self._connect_for(RECONNECT_SECONDS)
        self._progress.note("connected to the scheduler again")

    async def _connect_for(self, seconds: float) -> Any:
        """Return a client; try for a number of seconds.

        Raises:
            HilumError: The scheduler cannot be reached.
        """
        end = trio.current_time() + seconds
        while True:
            try:
                return await trio.to_thread.run_sync(self._connect, abandon_on_cancel=True)
            except OSError as error:
                if trio.current_time() > end:
                    raise HilumError(
                        f"The scheduler cannot be reached: {error}.",
                        code=E_UNREACHABLE,
                        hint="Start it (`dask scheduler`), then start the same command again.",
                    ) from None
            await trio.sleep(LOOK_SECONDS)

    async def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            await trio.to_thread.run_sync(partial(_close, self._client))


@asynccontextmanager
async def open_cluster(
    folder: BatchFolder,
    info: BatchInfo,
    scheduler: str,
    launcher: str,
    progress: Progress,
    stop: trio.Event,
) -> AsyncIterator[ClusterExecutor]:
    """Yield an executor that uses a Dask cluster.

    Args:
        folder: The batch's folder.
        info: The description of the batch.
        scheduler: Address of a running scheduler; empty to start a cluster.
        launcher: A function that returns a Dask cluster, as ``module:function``.
        progress: Shows which workers were refused.
        stop: An event after which the launcher is no longer waited for.

    Raises:
        UsageError: distributed is not installed, or the launcher cannot be imported.
        HilumError: The launcher failed.
    """
    try:
        distributed = await trio.to_thread.run_sync(importlib.import_module, "distributed")
    except ImportError:
        raise UsageError(
            "A Dask cluster needs distributed, which is not installed.",
            code=E_NOT_INSTALLED,
            hint="pip install 'hilum-dask[cluster]'",
        ) from None
    async with AsyncExitStack() as stack:
        target: Any = scheduler
        launched = None
        if launcher:
            from hilum_dask.launched_cluster import open_launched  # needs distributed

            launched = await stack.enter_async_context(open_launched(launcher, progress, stop))
            target = launched.cluster
        connect = partial(distributed.Client, target, timeout=CONNECT_SECONDS, set_as_default=False)
        executor = ClusterExecutor(folder, info, connect, progress)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(executor.watch)
                if launched is not None:
                    nursery.start_soon(launched.watch)
                yield executor
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True), trio.move_on_after(CALL_SECONDS):
                await executor.close()


def _list_workers(client: Any) -> dict[str, int]:
    """Return the number of threads of each worker, by its address.

    Raises:
        OSError: The scheduler cannot be reached.
    """
    if client.status != "running":
        raise OSError(f"the connection is {client.status}")
    # Unlike `Client.scheduler_info`, which may return what it knows from before, this asks.
    info = client.sync(client.scheduler.identity, n_workers=-1, callback_timeout=CALL_SECONDS)
    return {
        address: max(1, worker["nthreads"])
        for address, worker in info["workers"].items()
        if worker.get("status", "running") in ("running", "paused")
    }


async def _forward(source: trio.Event, target: trio.Event) -> None:
    await source.wait()
    target.set()


def _read_result(future: Any, worker: _Worker) -> Delivery:
    """Return what a worker delivered.

    Raises:
        AttemptLost: The worker or the scheduler was lost.
    """
    if future.status == "finished":
        return msgspec.json.decode(future.result(timeout=CALL_SECONDS), type=Delivery)
    if future.status == "error":
        error = future.exception(timeout=CALL_SECONDS)
        raise AttemptLost(f"the worker {worker.address} failed: {error}")
    is_gone = worker.lost.is_set()
    reason = f"the worker {worker.address} is gone" if is_gone else "Dask has dropped it"
    raise AttemptLost(reason, counts=is_gone)


def _release(client: Any, future: Any) -> None:
    if client.status == "running":
        future.cancel()
    future.release()


def _close(client: Any) -> None:
    with contextlib.suppress(Exception):
        client.close(timeout=CONNECT_SECONDS)
