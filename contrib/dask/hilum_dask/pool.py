"""Child processes for attempts, forked from one warm process: see ``fork_server``."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import trio
from hilum import Command, HilumError
from hilum.errors import E_FAILED
from hilum.processes import CommandError, Process, Warden

from hilum_dask.fork_server import Reply, Request
from hilum_dask.records import Assignment, Record

STOP_TIMEOUT = 4.0
"""Seconds that a child has to end its session after it was stopped."""
HANG_TIMEOUT = 60.0
"""Seconds beyond its time limits after which a child that does not react is killed."""
MAX_ERRORS = 4000
_decode_reply = msgspec.json.Decoder(Reply).decode


class AttemptLost(Exception):
    """The child process of an attempt ended without a report.

    Attributes:
        reason: Why, as a part of a sentence.
        is_late: Whether it was killed because it did not react to its time limit.
        counts: Whether the task may have been the cause, so that it counts as a failed attempt.
    """

    def __init__(self, reason: str, *, is_late: bool = False, counts: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_late = is_late
        self.counts = counts


class _Waiting:
    """A caller that waits for the end of an attempt."""

    def __init__(self) -> None:
        self.reply: Reply | None = None
        self.ended = trio.Event()


class ChildPool:
    """Runs attempts in child processes. Create it with ``open_pool``."""

    def __init__(self, nursery: trio.Nursery, warden: Warden) -> None:
        self._nursery = nursery
        self._warden = warden
        self._process: Process | None = None
        self._starting = trio.Lock()
        self._sending = trio.Lock()
        self._waiting: dict[int, _Waiting] = {}
        self._count = 0
        self._errors = bytearray()

    async def run(self, assignment: Assignment, stop: trio.Event, log: Path) -> Record:
        """Carry out an attempt in a child process.

        If this method is cancelled, the child is ended first.

        Args:
            assignment: The attempt.
            stop: An event after which the child stops its session and ends.
            log: File for what the child writes to standard error.

        Returns:
            The record that the child reported.

        Raises:
            AttemptLost: The child ended without a report.
            HilumError: No child process can be started.
        """
        self._count += 1
        number = self._count
        waiting = self._waiting[number] = _Waiting()
        is_late = False
        try:
            await self._send(Request(number, assignment, str(log)))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._stop_when, stop, number)
                with trio.move_on_after(_limit(assignment)) as scope:
                    await waiting.ended.wait()
                is_late = scope.cancelled_caught
                nursery.cancel_scope.cancel()
        finally:
            if not waiting.ended.is_set():
                with trio.CancelScope(shield=True):
                    await self._end(number, waiting, grace=0.0 if is_late else STOP_TIMEOUT)
            del self._waiting[number]
        reply = waiting.reply
        if reply is not None and reply.record is not None:
            return reply.record
        raise AttemptLost(self._explain(reply), is_late=is_late)

    async def _stop_when(self, stop: trio.Event, number: int) -> None:
        await stop.wait()
        await self._send(Request(number, grace=STOP_TIMEOUT))

    async def _end(self, number: int, waiting: _Waiting, *, grace: float) -> None:
        """End a child, and wait until it has ended."""
        with trio.move_on_after(grace + STOP_TIMEOUT):
            try:
                await self._send(Request(number, grace=grace))
            except HilumError:
                return
            await waiting.ended.wait()

    def _explain(self, reply: Reply | None) -> str:
        if reply is None:
            last = self._errors.decode(errors="replace").strip().splitlines()
            return f"the process that starts tasks ended{f': {last[-1]}' if last else ''}"
        if reply.status < 0:
            return f"its process was ended by signal {-reply.status}"
        return f"its process ended with exit code {reply.status}"

    # --- the fork server --------------------------------------------------------------------------

    async def _send(self, request: Request) -> None:
        """Send a request to the fork server, which is started if it is not running."""
        data = msgspec.json.encode(request) + b"\n"
        # Only the start of an attempt needs a new server: with the old one, its children ended.
        process = self._process
        if process is None:
            if request.assignment is None:
                return
            process = await self._start()
        async with self._sending:
            assert process.stdin is not None
            try:
                # A line that is cut off would damage the next one.
                with trio.CancelScope(shield=True):
                    await process.stdin.send_all(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                if request.assignment is not None:
                    raise AttemptLost("the process that starts tasks ended") from None

    async def _start(self) -> Process:
        async with self._starting:
            if self._process is None:
                self._process = await self._nursery.start(self._serve)
            assert self._process is not None
            return self._process

    async def _serve(self, task_status: trio.TaskStatus[Process]) -> None:
        """Keep a fork server open until it ends."""
        # Without -P, a module in the current folder, which may be the agent's repository, would be
        # imported in place of an installed one.
        argv = (sys.executable, "-P", "-m", "hilum_dask.fork_server")
        command = Command(argv, os.getcwd(), dict(os.environ))
        self._errors.clear()
        try:
            async with (
                self._warden.open(command, stdin=True, grace=STOP_TIMEOUT) as process,
                trio.open_nursery() as nursery,
            ):
                nursery.start_soon(self._read_errors, process)
                task_status.started(process)
                await self._read_replies(process)
                nursery.cancel_scope.cancel()
        except CommandError as error:
            raise HilumError(
                f"No process for tasks can be started: {error.message}", code=E_FAILED
            ) from None
        finally:
            self._process = None
            for waiting in self._waiting.values():
                waiting.ended.set()

    async def _read_replies(self, process: Process) -> None:
        buffer = bytearray()
        while chunk := await process.stdout.receive_some(65536):
            buffer += chunk
            if b"\n" not in chunk:
                continue
            *lines, rest = buffer.split(b"\n")
            buffer = rest
            for line in lines:
                reply = _decode_reply(line)
                waiting = self._waiting.get(reply.number)
                if waiting is not None:
                    waiting.reply = reply
                    waiting.ended.set()

    async def _read_errors(self, process: Process) -> None:
        assert process.stderr is not None
        while chunk := await process.stderr.receive_some(65536):
            self._errors += chunk
            del self._errors[:-MAX_ERRORS]


@asynccontextmanager
async def open_pool() -> AsyncIterator[ChildPool]:
    """Yield a pool; leaving the block ends all its processes."""
    async with Warden() as warden, trio.open_nursery() as nursery:
        try:
            yield ChildPool(nursery, warden)
        finally:
            nursery.cancel_scope.cancel()


def _limit(assignment: Assignment) -> float:
    """Return the seconds after which a child that does not react is killed."""
    limit = assignment.task.timeout
    if not limit:
        return float("inf")
    # The session and the verify command have the same limit.
    return 2 * limit + HANG_TIMEOUT
