"""Starts the processes of attempts, with a time limit for each."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import attrs
import trio
from hilum.processes import Command, CommandError, Process, Warden

from hilum_eval.regular_files import read_regular_file
from hilum_eval.worker_job import EXIT_MARK

# Variables that the interpreter reads when it starts, before the environment of an attempt is set.
_READ_AT_START = ("PYTHON", "LD_", "DYLD_", "MALLOC_", "LANG", "LC_")
_MAX_LINE = 100_000


@attrs.frozen(kw_only=True)
class WorkerEnd:
    """How the process of an attempt ended.

    Args:
        code: The exit code; if negative, the number of the signal. ``None`` if the process was killed
            at its time limit.
        text: The last line that it wrote.
    """

    code: int | None
    text: str = ""


class WorkerProcesses:
    """Starts a process for each attempt. ``open_worker_processes`` creates it."""

    def __init__(self, warden: Warden) -> None:
        self._warden = warden
        self._idle: list[_ForkServer] = []

    async def run(
        self, argv: Sequence[str], *, folder: Path, environ: Mapping[str, str], limit: float
    ) -> WorkerEnd:
        """Run ``hilum_eval.worker`` with arguments in a process of its own.

        When the method returns, the process and everything that it started have ended.

        Args:
            argv: The arguments.
            folder: A folder for the log of the process.
            environ: The environment of the process.
            limit: Seconds after which it is killed.
        """
        start = {name: text for name, text in environ.items() if name.startswith(_READ_AT_START)}
        server = self._take(start)
        request = {
            "argv": list(argv),
            "cwd": str(folder),
            "environ": dict(environ),
            "log": str(folder / "worker.log"),
            "modules": str(folder / "modules"),
        }
        code: int | None = None
        is_usable = False
        try:
            with trio.move_on_after(limit):
                code = await server.run(request)
                is_usable = True
        except CommandError as error:
            return WorkerEnd(code=1, text=error.message)
        finally:
            if is_usable:
                self._idle.append(server)
            else:
                # This also ends the process of the attempt with all its processes.
                await server.aclose()
        text = await trio.to_thread.run_sync(_read_last_line, folder / "worker.log")
        return WorkerEnd(code=code, text=text)

    async def aclose(self) -> None:
        """End all processes."""
        for server in self._idle:
            await server.aclose()
        self._idle.clear()

    def _take(self, start: dict[str, str]) -> _ForkServer:
        """Return a server that is not used, and whose interpreter started with these variables."""
        for server in self._idle:
            if server.start == start:
                self._idle.remove(server)
                return server
        return _ForkServer(self._warden, start)


@asynccontextmanager
async def open_worker_processes(warden: Warden) -> AsyncIterator[WorkerProcesses]:
    """Yield a starter of processes, which ends them all when the block is left."""
    processes = WorkerProcesses(warden)
    try:
        yield processes
    finally:
        await processes.aclose()


class _ForkServer:
    """A process that forks the processes of attempts, one at a time.

    Args:
        warden: Starts and ends the process.
        start: The variables that its interpreter reads when it starts.
    """

    def __init__(self, warden: Warden, start: dict[str, str]) -> None:
        self.start = start
        self._warden = warden
        self._stack = AsyncExitStack()
        self._process: Process | None = None
        self._received = b""

    async def run(self, request: Mapping[str, object]) -> int:
        """Make an attempt, and return the exit code of its process.

        Raises:
            CommandError: The server could not be started, or has ended.
        """
        if self._process is None:
            self._process = await self._stack.enter_async_context(
                self._warden.open(_make_command(self.start), stdin=True, merge=True)
            )
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send_all(json.dumps(request).encode() + b"\n")
        except trio.BrokenResourceError:
            pass  # the server has ended, and its last line says why
        line = ""
        while not line.startswith(EXIT_MARK):
            found = await self._read_line()
            if found is None:
                raise CommandError(f"The process for attempts has ended: {line or 'no reason'}")
            line = found
        return int(line.removeprefix(EXIT_MARK))

    async def aclose(self) -> None:
        """End the process and everything that it started."""
        self._process = None
        await self._stack.aclose()

    async def _read_line(self) -> str | None:
        """Return the next line of the server; ``None`` if it has ended."""
        assert self._process is not None
        while b"\n" not in self._received:
            piece = bytes(await self._process.stdout.receive_some(65536))
            if not piece:
                return None
            self._received = (self._received + piece)[-_MAX_LINE:]
        line, _, self._received = self._received.partition(b"\n")
        return line.decode(errors="replace")


def _make_command(start: Mapping[str, str]) -> Command:
    environ = {**os.environ, **start, "PYTHONDONTWRITEBYTECODE": "1"}
    # With -P, no module of the present folder takes the place of hilum's.
    argv = (sys.executable, "-P", "-m", "hilum_eval.fork_server")
    return Command(argv, "/", environ)


def _read_last_line(path: Path) -> str:
    try:
        lines = read_regular_file(path).strip().splitlines()
    except OSError:
        return ""
    return lines[-1].strip()[:500] if lines else ""
