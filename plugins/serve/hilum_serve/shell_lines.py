"""The shell lines of a session: commands that users run, and that the agent reads afterwards."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress

import attrs
import trio
from hilum import Session, StoreError
from hilum.errors import E_BUSY, E_UNKNOWN
from hilum.hooks import PLUGIN_EXCEPTIONS, describe_error
from hilum.shell_lines import ShellLine, attach_output, note_end, run_shell_line

from hilum_serve.problems import Problem

MAX_RUNNING = 5
"""Maximum number of shell lines of a session that run at the same time."""
SHOW_SECONDS = 0.1
"""Minimum number of seconds between two updates of the output that readers see."""


@attrs.define(eq=False)
class HostedLine:
    """A shell line of a session.

    Attributes:
        id: Id of the line.
        user: Name of the user who runs it.
        line: The command, its output and its outcome.
        seconds: Duration; 0 while it runs.
        ended: Set when it has ended.
        scope: Cancels it.
    """

    id: str
    user: str
    line: ShellLine
    seconds: float = 0.0
    ended: trio.Event = attrs.field(factory=trio.Event, init=False)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)


class ShellLines:
    """The shell lines of a session that run, or that the agent has not read.

    Args:
        session: The session.
        note_change: Function to call when readers must see a change.
    """

    def __init__(self, session: Session, note_change: Callable[[], None]) -> None:
        self._session = session
        self._note_change = note_change
        self._lines: dict[str, HostedLine] = {}
        self._nursery: trio.Nursery | None = None

    def open(self, nursery: trio.Nursery) -> None:
        """Let shell lines run in a nursery, which cancels them when the session is closed."""
        self._nursery = nursery

    @property
    def is_running(self) -> bool:
        """Whether a shell line is running."""
        return bool(self._list_running())

    def list_all(self) -> list[HostedLine]:
        """Return the lines that run or that the agent has not read, oldest first."""
        unread = self._session.unread_outputs
        lines = self._lines.values()
        self._lines = {
            each.id: each for each in lines if not each.ended.is_set() or each.id in unread
        }
        return list(self._lines.values())

    def _list_running(self) -> list[HostedLine]:
        return [each for each in self._lines.values() if not each.ended.is_set()]

    def start(self, command: str, user: str) -> HostedLine:
        """Start a command.

        Raises:
            Problem: Too many run already, or the session is being closed (409).
        """
        if self._nursery is None or self._nursery.cancel_scope.cancel_called:
            raise Problem(409, E_BUSY, "The session is being closed.", "Try again in a moment.")
        if len(self._list_running()) >= MAX_RUNNING:
            raise Problem(
                409,
                E_BUSY,
                f"At most {MAX_RUNNING} commands of users run at the same time.",
                "Stop one of them, or wait until it ends.",
            )
        identity = os.urandom(6).hex()
        hosted = HostedLine(identity, user, ShellLine(command, began=time.time()))
        self._lines[identity] = hosted
        self._nursery.start_soon(self._run, hosted)
        self._note_change()
        return hosted

    async def _run(self, hosted: HostedLine) -> None:
        """Run a command, and show its output while it arrives."""
        line = hosted.line
        has_output = trio.Event()

        def note_output() -> None:
            has_output.set()

        async def show_output() -> None:
            nonlocal has_output
            while True:
                await has_output.wait()
                has_output = trio.Event()
                self._note_change()
                await trio.sleep(SHOW_SECONDS)

        try:
            with hosted.scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(show_output)
                    await self._run_contained(line, note_output)
                    nursery.cancel_scope.cancel()
        finally:
            hosted.seconds = time.time() - line.began
            told = attach_output(self._session, hosted.id, line.attached)
            hosted.ended.set()
            self._note_change()
            note_end(self._session, line, hosted.user, "on the page")
            if told:
                # A session whose log cannot be written ends in any case.
                with suppress(StoreError):
                    self._session.note("shell_line.forgotten", say=told)

    async def _run_contained(self, line: ShellLine, changed: Callable[[], None]) -> None:
        """Run a command, and contain errors of plugins, which must not end the session."""
        try:
            await run_shell_line(self._session, line, changed)
        except PLUGIN_EXCEPTIONS as error:
            line.error = describe_error(error)

    def stop(self, identity: str) -> None:
        """Stop a command with all its child processes.

        Raises:
            Problem: There is no such line (404), or it has ended (409).
        """
        hosted = self._lines.get(identity)
        if hosted is None:
            raise Problem(404, E_UNKNOWN, "There is no such command in this session.")
        if hosted.ended.is_set():
            raise Problem(409, E_BUSY, "The command has already ended.")
        hosted.scope.cancel()
