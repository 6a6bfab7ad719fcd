"""Child processes for one workspace.

They share a default folder, an environment, and a function that each command passes first.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from hilum.processes.client import GRACE, Command, CommandError, Completed, Process, Warden
from hilum.processes.warden import contained


class Processes:
    """Child processes that start in one folder; each command is first passed through a function.

    Args:
        warden: The warden that starts and ends them.
        wrap: Called with every command before it starts; it returns the command to start, or raises
            an exception to refuse it.
        cwd: The default working directory. Relative ones are relative to it.
        environ: The environment that commands inherit.

    Attributes:
        alive: Number of commands that may be running, including those that are being started.
        live: The commands that were opened and have not ended, as they were started.
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
        self.live: dict[Process, Command] = {}

    @property
    def contained(self) -> bool:
        """Whether whole process trees are ended (on Linux) or only process groups."""
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
    ) -> Completed:
        """Run a command to completion.

        If this is cancelled, the whole tree is ended before the cancellation propagates.

        Args:
            argv: Program and arguments; no shell is involved.
            cwd: Working directory; relative to ``cwd`` of this object.
            env: Variables to add to the environment that commands inherit.
            input: The standard input of the command; empty by default.
            on_output: Called with ``"stdout"`` or ``"stderr"`` and each chunk as it comes.
            limit: Bytes to keep of each stream: its head and its tail.
            grace: Seconds between SIGTERM and SIGKILL when this is cancelled.

        Raises:
            CommandError: The command could not be started, or its keeper was killed. Exceptions of
                ``wrap`` propagate.
        """
        self.alive += 1  # before `wrap`, whose plugins read it
        try:
            command = await self._wrapped(argv, cwd, env)
            return await self._warden.run(
                command, input=input, on_output=on_output, limit=limit, grace=grace
            )
        finally:
            self.alive -= 1

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
            cwd: Working directory; relative to ``cwd`` of this object.
            env: Variables to add to the environment that commands inherit.
            stdin: Whether the command gets a pipe to read from; otherwise its standard input is
                empty.
            merge: Whether standard error is merged into standard output.
            grace: Seconds between SIGTERM and SIGKILL when the block is left.
            hold: Whether processes that the command leaves running continue after its exit, until
                they end or are stopped (Linux only).

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
