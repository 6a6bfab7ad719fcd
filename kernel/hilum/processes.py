"""Child processes: the only way any plugin starts one. Here the hooks meet ``hilum_warden``, which does the work."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import hilum_warden
from hilum_warden import Command, Completed, Process, ProcessError

from hilum.errors import ToolError

__all__ = ["Command", "CommandError", "Completed", "Process", "Processes", "Warden"]


class CommandError(ToolError, ProcessError):
    """A command could not be started, or what watches over it was killed."""

    code = "E_CMD_FAIL"


class Warden(hilum_warden.Warden):
    """The process that holds all child processes of a kernel."""

    error = CommandError


class Processes:
    """The child processes of one session (``session.processes``).

    Args:
        warden: The kernel's warden.
        wrap: What every command passes before it starts (the hook ``wrap_process``); may raise ``ToolDenied``.
        cwd: The working directory where a caller names none, and the one that relative ones are relative to.
    """

    def __init__(self, warden: Warden, wrap: Callable[[Command], Awaitable[Command]], cwd: str) -> None:
        self._warden, self._wrap, self._cwd = warden, wrap, cwd

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        input: bytes = b"",
        on_output: Callable[[str, bytes], None] | None = None,
        limit: int = 1_000_000,
        grace: float = hilum_warden.GRACE,
    ) -> Completed:
        """Run a command to its end. If this is cancelled, the whole tree is ended before the cancellation goes on.

        Args:
            argv: Program and arguments; no shell is involved.
            cwd: Working directory; relative to the session's.
            env: Variables to add to hilum's own environment.
            input: What the command reads on standard input; without it, standard input is empty.
            on_output: Called with ``"stdout"`` or ``"stderr"`` and each chunk as it comes.
            limit: Bytes to keep of each stream: its head and its tail.
            grace: Seconds between SIGTERM and SIGKILL when this is cancelled.

        Raises:
            ToolError: The command could not be started, or its keeper was killed.
            ToolDenied: ``wrap_process`` refused it.
        """
        command = await self._wrapped(argv, cwd, env)
        return await self._warden.run(command, input=input, on_output=on_output, limit=limit, grace=grace)

    @asynccontextmanager
    async def open(
        self,
        argv: Sequence[str],
        *,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bool = False,
        merge: bool = False,
        grace: float = hilum_warden.GRACE,
    ) -> AsyncIterator[Process]:
        """Start a command and talk to it; leaving the block ends its whole tree.

        Args:
            argv: Program and arguments; no shell is involved.
            cwd: Working directory; relative to the session's.
            env: Variables to add to hilum's own environment.
            stdin: Whether the command gets a pipe to read from; otherwise its standard input is empty.
            merge: Whether standard error goes where standard output goes.
            grace: Seconds between SIGTERM and SIGKILL when the block is left.

        Raises:
            ToolError: The command could not be started.
            ToolDenied: ``wrap_process`` refused it.
        """
        command = await self._wrapped(argv, cwd, env)
        async with self._warden.open(command, stdin=stdin, merge=merge, grace=grace) as process:
            yield process

    async def _wrapped(self, argv: Sequence[str], cwd: str | Path | None, env: Mapping[str, str] | None) -> Command:
        if not argv:
            raise CommandError("There is no command to run.", hint="Name a program.")
        folder = os.path.join(self._cwd, cwd) if cwd else self._cwd
        return await self._wrap(Command(tuple(argv), folder, {**os.environ, **(env or {})}))
