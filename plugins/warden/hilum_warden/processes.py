"""Child processes for one place: where they start, with what environment, and what each command
passes before.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from hilum_warden.client import GRACE, Command, Completed, Process, Warden
from hilum_warden.warden import contained


class Processes:
    """Child processes that start in one folder, each after its command has passed a function.

    Args:
        warden: Holds them.
        wrap: What every command passes before it starts: it may change the command, or raise to
            refuse it.
        cwd: The working directory where a caller names none, and the one that relative ones are
            relative to.
        environ: The environment that commands inherit.

    Attributes:
        alive: How many commands may be running, those that are just being started included.
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
        self.alive = 0
        self.live: dict[Process, Command] = {}

    @property
    def contained(self) -> bool:
        """Whether whole process trees are held, as on Linux; elsewhere process groups only."""
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
        """Run a command to its end.

        If this is cancelled, the whole tree is ended before the cancellation goes on.

        Args:
            argv: Program and arguments; no shell is involved.
            cwd: Working directory; relative to ``cwd`` of this object.
            env: Variables to add to the environment that commands inherit.
            input: What the command reads on standard input; without it, standard input is empty.
            on_output: Called with ``"stdout"`` or ``"stderr"`` and each chunk as it comes.
            limit: Bytes to keep of each stream: its head and its tail.
            grace: Seconds between SIGTERM and SIGKILL when this is cancelled.

        Raises:
            ProcessError: The command could not be started, or its keeper was killed. What ``wrap``
                raises comes as it is.
        """
        self.alive += 1  # before it passes `wrap`, which may ask
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
        """Start a command and talk to it; leaving the block ends its whole tree.

        Args:
            argv: Program and arguments; no shell is involved.
            cwd: Working directory; relative to ``cwd`` of this object.
            env: Variables to add to the environment that commands inherit.
            stdin: Whether the command gets a pipe to read from; otherwise its standard input is
                empty.
            merge: Whether standard error goes where standard output goes.
            grace: Seconds between SIGTERM and SIGKILL when the block is left.
            hold: Whether what the command leaves running when it exits goes on, until it ends or is
                stopped. (Linux.)

        Raises:
            ProcessError: The command could not be started. What ``wrap`` raises comes as it is.
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
            raise self._warden.error("There is no command to run.", hint="Name a program.")
        folder = os.path.join(self._cwd, cwd) if cwd else self._cwd
        return await self._wrap(Command(tuple(argv), folder, {**self._environ, **(env or {})}))
