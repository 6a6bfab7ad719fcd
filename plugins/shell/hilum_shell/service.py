"""Runs a command, in the foreground or in the background."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Literal

import attrs
import trio
from hilum import HilumError, Process

from hilum_shell.output import OutputBuffer, Spool, strip_escapes

CHUNK_BYTES = 65536
State = Literal["running", "exited", "stopped", "lost"]
MAX_TITLE = 80
DRAIN_TIMEOUT = 2.0
"""Maximum time to read the remaining output of an ended command, in seconds."""


@attrs.define(eq=False)
class Service:
    """A command that runs in the foreground or in the background.

    Args:
        command: The command line.
        agent: Name of the agent that started the command.
        runs: Ids of the current runs of the command's agent and of the agent's parents.
        spool: The output, with both streams in the order of arrival.
        buffers: Head and tail of each stream, while the command is in the foreground.
        show: A function that receives the output while the command is in the foreground.
        id: The id that the command gets when it becomes a service.
        state: The command's state; ``lost`` means that it ended with hilum before this session was
            resumed.
        reason: Why the command was stopped.
        code: The exit code; a negative code is the negated number of the signal that ended
            the command.
        failure: The error if it is unknown how the command ended, because the warden was killed.
        left: Whether the command left processes running that were then ended.
        late: Whether the command was ended because of its time limit.
        remains: Whether the command left processes that keep running.
        move_requested: Set when the user wants the command to continue in the background.
        exited: Set when the command itself has exited, although its child processes may still run.
        ended: Set when none of the command's processes is left.
        informed: Names of the agents that were informed of the start, but not yet of the end.
        failure_reported: Names of the agents to which the command's failure was reported.
        cursors: The offset up to which each agent has read the output.
        searched: The offset from which each agent waits for a pattern; it precedes the output shown
            when the service started.
    """

    command: str
    agent: str
    runs: frozenset[str]
    spool: Spool
    buffers: dict[str, OutputBuffer] | None = None
    show: Callable[[str], None] | None = None
    id: str = ""
    state: State = "running"
    reason: str = ""
    code: int | None = None
    failure: HilumError | None = None
    left: bool = False
    late: bool = False
    remains: bool = False
    move_requested: trio.Event = attrs.Factory(trio.Event)
    exited: trio.Event = attrs.Factory(trio.Event)
    ended: trio.Event = attrs.Factory(trio.Event)
    informed: set[str] = attrs.Factory(set)
    failure_reported: set[str] = attrs.Factory(set)
    cursors: dict[str, int] = attrs.Factory(dict)
    searched: dict[str, int] = attrs.Factory(dict)
    began: float = attrs.Factory(trio.current_time)
    last_output: float = attrs.Factory(trio.current_time)
    seconds: float = 0.0
    input: trio.Lock = attrs.Factory(trio.Lock)
    _process: Process | None = None
    # Set together with `exited` or `move_requested`: to wait for both events would take two tasks.
    _exited_or_moved: trio.Event = attrs.Factory(trio.Event)
    _news: trio.Event = attrs.Factory(trio.Event)

    async def run(
        self, opened: AbstractAsyncContextManager[Process], task_status: trio.TaskStatus[None]
    ) -> None:
        """Run the command until none of its processes is left.

        Raises:
            ToolError: The command could not be started, or was rejected.
        """
        try:
            async with opened as self._process:
                streams = {"stdout": self._process.stdout, "stderr": self._process.stderr}
                async with trio.open_nursery() as nursery:
                    task_status.started()
                    for name, stream in streams.items():
                        if stream is not None:
                            nursery.start_soon(self._pump, name, stream)
                    try:
                        self.code = await self._process.wait_exit()
                        self.seconds = trio.current_time() - self.began
                        if self._process.remains:
                            self.remains = True
                            self._note_exit()
                            await self._process.wait()
                    except HilumError as error:
                        self.failure = error
                    self.left = self._process.left
                    if not self.remains:
                        self.seconds = trio.current_time() - self.began
                    # All of the command's processes have ended, but one may have passed its pipe to
                    # another program.
                    nursery.cancel_scope.deadline = self._process.drain_deadline(DRAIN_TIMEOUT)
                for name, stream in streams.items():
                    if stream is not None:
                        for chunk in self._process.read_rest(stream):
                            self._take(name, chunk)
        finally:
            self.state = "stopped" if self.reason else "exited"
            self._note_exit()
            self.ended.set()
            self._news.set()

    async def _pump(self, name: str, stream: trio.lowlevel.FdStream) -> None:
        while chunk := bytes(await stream.receive_some(CHUNK_BYTES)):
            self._take(name, chunk)

    def _take(self, name: str, chunk: bytes) -> None:
        """Add a piece of output."""
        self.spool.add(chunk)
        self.last_output = trio.current_time()
        if self.buffers is not None:
            text = self.buffers[name].add(chunk)
            if text and self.show is not None:
                self.show(text)
        self._news.set()
        # A trio event cannot be reset, so each piece of output gets a new one.
        self._news = trio.Event()

    async def wait_for_output(self) -> None:
        """Wait for more output or for the end of the command."""
        await (self.ended if self.ended.is_set() else self._news).wait()

    async def wait_for_exit_or_move(self) -> None:
        """Wait until the command has exited, or the user wants it to continue in the background."""
        await self._exited_or_moved.wait()

    def request_move(self) -> None:
        """Have the command continue in the background."""
        self.move_requested.set()
        self._exited_or_moved.set()

    def _note_exit(self) -> None:
        self.exited.set()
        self._exited_or_moved.set()

    def read_output_end(self, limit: int) -> str:
        """Return the end of the output so far, of both streams, without escape sequences.

        Args:
            limit: Maximum number of bytes.
        """
        data = self.spool.read(max(self.spool.start, self.spool.end - limit))
        # The first character may have been cut.
        return strip_escapes(data.decode(errors="ignore"))

    async def stop(self, reason: str, grace: float) -> None:
        """End the command with all its child processes, and wait until none is left.

        Args:
            reason: Why the command is stopped, for later reports.
            grace: Seconds between SIGTERM and SIGKILL.
        """
        if not self.ended.is_set() and self._process is not None:
            # Keep the first reason: if the session closes later, that is not why the command ended.
            self.reason = self.reason or reason
            try:
                await self._process.stop(grace)
            except HilumError:  # the command's own task raises the same error
                pass
            await self.ended.wait()

    @property
    def takes_input(self) -> bool:
        """Whether the command accepts input."""
        return (
            self._process is not None
            and self._process.stdin is not None
            and not self.ended.is_set()
        )

    async def write(self, data: bytes, close: bool) -> None:
        """Write to the command's standard input, one writer at a time.

        Args:
            data: The bytes to write.
            close: Whether to close the input afterwards.

        Raises:
            trio.BrokenResourceError: The command no longer reads its input.
            trio.ClosedResourceError: The input was closed.
        """
        assert self._process is not None
        assert self._process.stdin is not None
        # Lines from two writers must not be mixed.
        async with self.input:
            await self._process.stdin.send_all(data)
            if close:
                self._process.stdin.close()

    def describe(self) -> str:
        """Describe the command's state, for example ``running for 12 s, quiet for 3 s``."""
        if self.state == "lost":
            return (
                "gone: it ended with hilum, when this session was closed or interrupted. Start it"
                " again if it is needed"
            )
        how = "" if self.code is None else f" ({describe_exit(self.code)})"
        if self.state == "running":
            now = trio.current_time()
            quiet = f"quiet for {now - self.last_output:.0f} s"
            if self.remains:
                return (
                    f"its command has ended{how}; the processes that it started continue, {quiet}"
                )
            return f"running for {now - self.began:.0f} s, {quiet}"
        if self.failure is not None:
            return "ended in an unknown way: the process that watches it was killed"
        if self.state == "stopped":
            return f"stopped after {self.seconds:.1f} s{how}: {self.reason}"
        return f"ended after {self.seconds:.1f} s{how}"

    @property
    def title(self) -> str:
        """The id and the shortened command line, on one line."""
        line = " ".join(self.command.split())
        if len(line) > MAX_TITLE:
            line = f"{line[: MAX_TITLE - 3]}…"
        return f"{self.id} ({line})"


def describe_exit(code: int) -> str:
    """Describe how a command ended."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"ended by signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"ended by signal {-code}"
