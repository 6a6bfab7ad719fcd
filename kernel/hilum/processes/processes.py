"""Child processes for one workspace.

The processes share a default folder, an environment, and a function that each command must first
pass.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import trio

from hilum.processes.client import (
    GRACE,
    Command,
    CommandError,
    Completed,
    Process,
    Spare,
    Streams,
    Warden,
)
from hilum.processes.warden import contained

Purpose = Literal["command", "service", "check", "look", "server"]
"""Why a process runs:

- ``command``: it does a part of the work, and ends.
- ``service``: it runs on, such as a server or another agent.
- ``check``: hilum started it to check files. It may run the project's code, and may be ended.
- ``look``: it only looks at files, and neither runs the project's code nor changes a file.
- ``server``: it answers hilum's questions about files, such as a language server. It may run the
  project's code, and gets a sandbox in which it cannot change a file of the workspace. Without a
  sandbox, nothing enforces that.
"""
_READ_ONLY: tuple[Purpose, ...] = ("look", "server")


class Processes:
    """A launcher of child processes in one folder; a function may change or refuse each command.

    Args:
        warden: The warden that starts and ends the processes.
        wrap: Called with every command before it starts; it returns the command to start, or raises
            an exception to refuse it.
        cwd: The default working directory. Relative working directories are relative to this
            folder.
        environ: The environment that commands inherit.

    Attributes:
        live: The open commands that have not ended, in the form in which they were started.
    """

    def __init__(
        self,
        warden: Warden,
        wrap: Callable[[Command], Awaitable[Command]],
        cwd: str,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._warden = warden
        self._wrap = wrap
        self._cwd = cwd
        self._environ = environ
        self.live: dict[Process, Command] = {}
        self._running: Counter[Purpose] = Counter()
        self._checks: set[trio.CancelScope] = set()
        # How many callers keep processes from starting, and the event after the last of them.
        self._holders = 0
        self._released = trio.Event()
        self._checks_ended = trio.Event()

    @property
    def alive(self) -> int:
        """Number of commands that are running or being started."""
        return self._running.total()

    def count(self, *purposes: Purpose) -> int:
        """Return the number of commands with these purposes that are running or being started."""
        return sum(self._running[each] for each in purposes)

    @property
    def contained(self) -> bool:
        """Whether whole process trees are ended (as on Linux), and not only process groups."""
        return contained()

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        input: bytes = b"",
        on_output: Callable[[str, bytes], None] | None = None,
        limit: int = 1_000_000,
        grace: float = GRACE,
        purpose: Purpose = "command",
        begun: trio.Event | None = None,
    ) -> Completed:
        """Run a command to completion.

        If this method is cancelled, it ends the whole process tree before the cancellation
        propagates.

        Args:
            argv: Program and arguments; no shell is involved.
            cwd: Working directory; a relative one is relative to this object's ``cwd``.
            env: Variables to add to the environment that commands inherit.
            input: The standard input of the command; empty by default.
            on_output: Called with ``"stdout"`` or ``"stderr"`` and each chunk as it arrives.
            limit: Maximum number of bytes to keep of each stream, half from its beginning and half
                from its end.
            grace: Seconds between SIGTERM and SIGKILL when the method is cancelled.
            purpose: Why the command runs.
            begun: Set when the command has been handed to the warden.

        Raises:
            CommandError: The command could not be started, or its keeper was killed, or it is a
                check that was ended. Exceptions of ``wrap`` propagate.
        """
        with trio.CancelScope() as scope:
            # Counted before `wrap` calls plugins, which read the number.
            async with self._counted(purpose, scope):
                command = await self._wrapped(argv, cwd, env, purpose)
                return await self._warden.run(
                    command,
                    input=input,
                    on_output=on_output,
                    limit=limit,
                    grace=grace,
                    begun=begun,
                )
        raise CommandError("It was ended, because a file was about to be changed.")

    @asynccontextmanager
    async def open(
        self,
        argv: Sequence[str],
        *,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bool = False,
        merge: bool = False,
        grace: float = GRACE,
        hold: bool = False,
        purpose: Literal["command", "service", "look", "server"] = "command",
    ) -> AsyncIterator[Process]:
        """Start a command and communicate with it.

        Leaving the ``async with`` block ends the whole process tree.

        Args:
            argv: Program and arguments; no shell is involved.
            cwd: Working directory; a relative one is relative to this object's ``cwd``.
            env: Variables to add to the environment that commands inherit.
            stdin: Whether the command gets a pipe to read from; otherwise its standard input is
                empty.
            merge: Whether standard error is merged into standard output.
            grace: Seconds between SIGTERM and SIGKILL when the block is left.
            hold: Whether processes that the command leaves running may continue after its exit,
                until they end or are stopped (Linux only).
            purpose: Why the command runs.

        Raises:
            CommandError: The command could not be started. Exceptions of ``wrap`` propagate.
        """
        async with self._counted(purpose):
            command = await self._wrapped(argv, cwd, env, purpose)
            async with self._warden.open(
                command, stdin=stdin, merge=merge, grace=grace, hold=hold
            ) as process:
                self.live[process] = command
                try:
                    yield process
                finally:
                    del self.live[process]

    async def start_spare(self, command: Command, streams: Streams) -> Spare:
        """Start a process that waits for a command; it counts as running only when it runs one.

        Args:
            command: The program that waits, in the form in which it starts. It is not wrapped again.
            streams: How the process is connected.

        Raises:
            CommandError: The process could not be started.
        """
        return await self._warden.start_spare(command, streams)

    @asynccontextmanager
    async def quiet(self, patience: float) -> AsyncIterator[bool]:
        """Keep processes from changing files in the ``async with`` block, as far as possible.

        Until the block is left, no process starts, except those that only look at files and servers
        that only answer. Checks that run are waited for, and ended if they take too long.

        Args:
            patience: Seconds after which checks are ended.

        Yields:
            Whether no process runs that may change files. Commands and services are not ended.
        """
        self._holders += 1
        try:
            if not self.count("command", "service"):
                with trio.move_on_after(patience):
                    await self._wait_for_checks()
                for scope in self._checks:
                    scope.cancel()
                await self._wait_for_checks()
            yield not self.count("command", "service", "check")
        finally:
            self._holders -= 1
            if not self._holders:
                self._released.set()
                self._released = trio.Event()

    async def _wait_for_checks(self) -> None:
        while self.count("check"):
            await self._checks_ended.wait()

    @asynccontextmanager
    async def _counted(
        self, purpose: Purpose, scope: trio.CancelScope | None = None
    ) -> AsyncIterator[None]:
        """Count a process while it runs, which begins when no caller keeps it from starting."""
        while self._holders and purpose not in _READ_ONLY:
            await self._released.wait()
        self._running[purpose] += 1
        if scope is not None and purpose == "check":
            self._checks.add(scope)
        try:
            yield
        finally:
            self._running[purpose] -= 1
            if scope is not None and purpose == "check":
                self._checks.discard(scope)
                self._checks_ended.set()
                self._checks_ended = trio.Event()

    async def _wrapped(
        self,
        argv: Sequence[str],
        cwd: str | Path | None,
        env: Mapping[str, str] | None,
        purpose: Purpose,
    ) -> Command:
        if not argv:
            raise CommandError("There is no command to run.", hint="Name a program.")
        folder = os.path.join(self._cwd, cwd) if cwd else self._cwd
        environ = {**self._environ, **(env or {})}
        command = Command(tuple(argv), folder, environ, read_only=purpose in _READ_ONLY)
        return await self._wrap(command)
