"""Child processes for one workspace.

The processes share a default folder, an environment, and a function that each command must first
pass.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from hilum.processes.client import GRACE, Command, CommandError, Completed, Process, Warden
from hilum.processes.warden import contained


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
        alive: Number of commands that are running or being started, including brief ones.
        brief: Number of those that hilum runs for itself and ends soon, such as linters.
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
        self.alive: int = 0
        self.brief: int = 0
        self.live: dict[Process, Command] = {}
        # Set, and then replaced by a new event, when no brief command runs any more.
        self._brief_ended = trio.Event()

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
        brief: bool = False,
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
            brief: Whether hilum runs the command for itself and ends it soon, such as a linter.
                What cannot happen beside a command waits for it (see ``wait_for_brief``).

        Raises:
            CommandError: The command could not be started, or its keeper was killed. Exceptions of
                ``wrap`` propagate.
        """
        self.alive += 1  # increased before `wrap` calls plugins, which read this number
        self.brief += brief
        try:
            command = await self._wrapped(argv, cwd, env)
            return await self._warden.run(
                command, input=input, on_output=on_output, limit=limit, grace=grace
            )
        finally:
            self.alive -= 1
            self.brief -= brief
            if brief and not self.brief:
                self._brief_ended.set()
                self._brief_ended = trio.Event()

    async def wait_for_brief(self) -> None:
        """Wait until no brief command runs; commands of agents and of the user may still run."""
        while self.brief:
            await self._brief_ended.wait()

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

        Raises:
            CommandError: The command could not be started. Exceptions of ``wrap`` propagate.
        """
        self.alive += 1
        try:
            command = await self._wrapped(argv, cwd, env)
            async with self._warden.open(
                command, stdin=stdin, merge=merge, grace=grace, hold=hold
            ) as process:
                self.live[process] = command
                try:
                    yield process
                finally:
                    del self.live[process]
        finally:
            self.alive -= 1

    async def _wrapped(
        self, argv: Sequence[str], cwd: str | Path | None, env: Mapping[str, str] | None
    ) -> Command:
        if not argv:
            raise CommandError("There is no command to run.", hint="Name a program.")
        folder = os.path.join(self._cwd, cwd) if cwd else self._cwd
        return await self._wrap(Command(tuple(argv), folder, {**self._environ, **(env or {})}))
