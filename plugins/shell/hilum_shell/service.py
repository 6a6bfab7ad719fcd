"""One command while it runs, in the foreground or as a service: its process, its output, its
end.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Literal

import attrs
import trio
from hilum import HilumError, Process

from hilum_shell.output import Kept, Spool

State = Literal["running", "exited", "stopped", "lost"]
DRAIN = 2.0
"""Seconds to read what an ended command has left in its pipes."""


@attrs.define(eq=False)
class Service:
    """A command.

    Args:
        command: The command line.
        agent: Name of the agent that started it.
        runs: Ids of the runs it was started in: the agent's, and those of the agents above it.
        spool: Its output, both streams as they came.
        kept: Head and tail of each stream, while it is in the foreground.
        show: Where its output is shown, while it is in the foreground.
        id: Its name, once it is in the background.
        state: ``lost`` is one that ended with hilum, before this session was resumed.
        reason: Why it was stopped.
        code: Its exit code; below zero, the number of the signal that ended it.
        failure: Why its end is not known: what watched over it was killed.
        left: Whether it exited and left something running, which was ended.
        late: Whether it was ended because its time was over.
        remains: Whether it exited and left something running, which goes on.
        exited: Set when the command itself has exited; what it left may still run.
        over: Set when nothing of it is left.
        knowing: Names of the agents that were told of it, and not yet of its end.
        told: Names of the agents that were told whether it failed.
        cursors: Up to where each agent was shown its output.
        searched: From where each agent waits for a pattern: what the answer to the start showed is
            searched as well.
    """

    command: str
    agent: str
    runs: frozenset[str]
    spool: Spool
    kept: dict[str, Kept] | None = None
    show: Callable[[str], None] | None = None
    id: str = ""
    state: State = "running"
    reason: str = ""
    code: int | None = None
    failure: HilumError | None = None
    left: bool = False
    late: bool = False
    remains: bool = False
    exited: trio.Event = attrs.Factory(trio.Event)
    over: trio.Event = attrs.Factory(trio.Event)
    knowing: set[str] = attrs.Factory(set)
    told: set[str] = attrs.Factory(set)
    cursors: dict[str, int] = attrs.Factory(dict)
    searched: dict[str, int] = attrs.Factory(dict)
    began: float = attrs.Factory(trio.current_time)
    heard: float = attrs.Factory(trio.current_time)
    seconds: float = 0.0
    input: trio.Lock = attrs.Factory(trio.Lock)
    _process: Process | None = None
    _news: trio.Event = attrs.Factory(trio.Event)

    async def live(
        self, opened: AbstractAsyncContextManager[Process], task_status: trio.TaskStatus[None]
    ) -> None:
        """Be the task of this command, from its start until nothing of it is left.

        Raises:
            ToolError: It could not be started, or was refused.
        """
        try:
            async with opened as self._process, trio.open_nursery() as nursery:
                task_status.started()
                for name, stream in (
                    ("stdout", self._process.stdout),
                    ("stderr", self._process.stderr),
                ):
                    if stream is not None:
                        nursery.start_soon(self._pump, name, stream)
                try:
                    self.code = await self._process.wait_exit()
                    self.seconds = trio.current_time() - self.began
                    if self._process.remains:
                        self.remains = True
                        self.exited.set()
                        await self._process.wait()
                except HilumError as error:
                    self.failure = error
                self.left = self._process.left
                if not self.remains:
                    self.seconds = trio.current_time() - self.began
                # Nobody is left to write, unless a descriptor was given away to a process from
                # elsewhere.
                nursery.cancel_scope.deadline = trio.current_time() + DRAIN
        finally:
            self.state = "stopped" if self.reason else "exited"
            self.exited.set()
            self.over.set()
            self._news.set()

    async def _pump(self, name: str, stream: trio.lowlevel.FdStream) -> None:
        while chunk := bytes(await stream.receive_some(65536)):
            self.spool.add(chunk)
            self.heard = trio.current_time()
            if (
                self.kept is not None
                and (text := self.kept[name].add(chunk))
                and self.show is not None
            ):
                self.show(text)
            self._news.set()
            self._news = trio.Event()

    async def news(self) -> None:
        """Wait for more output, or the end."""
        await (self.over if self.over.is_set() else self._news).wait()

    async def stop(self, reason: str, grace: float) -> None:
        """End it with all it started, and wait until nothing is left.

        Nothing happens if it has ended already.

        Args:
            reason: Why, for who asks later.
            grace: Seconds between SIGTERM and SIGKILL.
        """
        if not self.over.is_set() and self._process is not None:
            self.reason = self.reason or reason
            try:
                await self._process.stop(grace)
            except HilumError:  # its own task is told the same
                pass
            await self.over.wait()

    @property
    def takes_input(self) -> bool:
        """Whether it can be written to."""
        return (
            self._process is not None and self._process.stdin is not None and not self.over.is_set()
        )

    async def write(self, data: bytes, close: bool) -> None:
        """Write to its standard input, one writer after another.

        Args:
            data: What to write.
            close: Whether that was all: the command sees the end of its input.

        Raises:
            trio.BrokenResourceError: It reads no more.
            trio.ClosedResourceError: Its input was closed.
        """
        assert self._process is not None
        assert self._process.stdin is not None
        async with self.input:
            await self._process.stdin.send_all(data)
            if close:
                self._process.stdin.close()

    def describe(self) -> str:
        """Return how it is, for example ``running for 12 s, quiet for 3 s``."""
        now = trio.current_time()
        if self.state == "lost":
            return (
                "gone: it ended with hilum, when this session was closed or cut off. Start it again"
                " if it is needed"
            )
        if self.state == "running" and self.remains:
            how = "" if self.code is None else f" ({ending(self.code)})"
            return (
                f"its command has ended{how}; what that started runs on, quiet for"
                f" {now - self.heard:.0f} s"
            )
        if self.state == "running":
            return f"running for {now - self.began:.0f} s, quiet for {now - self.heard:.0f} s"
        if self.failure is not None:
            return "ended, and it is not known how: what watches over it was ended from outside"
        how = "" if self.code is None else f" ({ending(self.code)})"
        if self.state == "stopped":
            return f"stopped after {self.seconds:.1f} s{how}: {self.reason}"
        return f"ended by itself after {self.seconds:.1f} s{how}"

    @property
    def title(self) -> str:
        """Its id and its command line, short and on one line."""
        line = " ".join(self.command.split())
        return f"{self.id} ({line if len(line) <= 80 else line[:77] + '…'})"


def ending(code: int) -> str:
    """Say in words how a command ended."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"ended by signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"ended by signal {-code}"
