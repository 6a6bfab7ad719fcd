"""Finds the file changes that commands make, by snapshots of the workspace.

A snapshot is taken before the first of several concurrent commands, and after each command. Usually,
inotify names what has changed since the previous snapshot; what it misses is found by a walk of the
workspace while no command runs.

Changes that others make between two snapshots cannot be distinguished from the commands' own
changes, and hilum reports this.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import attrs
import msgspec
import trio
from hilum import UsageError, errors, events, make_id

from hilum_files.journal.journal import Journal
from hilum_files.journal.records import CHANGED, COMMAND, Change, Record
from hilum_files.journal.snapshots import SNAPSHOT_ERRORS, Snapshots
from hilum_files.journal.tree import SnapshotTooSlow

if TYPE_CHECKING:
    from hilum import Agent, Session, Tool, ToolCall

MAX_SNAPSHOT_AGE = 0.25
"""Maximum age, in seconds, of a snapshot for a command that had to wait."""
CONFIRM_DELAY = 0.25
"""Seconds without a command after which the workspace is walked."""
MAX_SLOW_SNAPSHOTS = 2
"""Number of snapshots in a row that took too long after which no further one is taken."""
MAX_DESCRIPTION = 200


class _CommandBegan(Exception):
    """Raised in a scan in the background when a command begins."""


class RunningCommand(msgspec.Struct):
    """An unfinished command, or another unfinished call that may change files.

    Attributes:
        record: The record of the call.
        started: Whether the call was allowed to run.
        began: When the last snapshot before the command was taken, as Unix time in seconds.
        starts_no_process: Whether the call begins as soon as it is allowed, because it starts no
            process before which another snapshot could be taken.
        own_calls: Names of tools whose calls the command itself carries out.
    """

    record: Record
    started: bool = False
    starts_no_process: bool = False
    began: float = 0.0
    own_calls: frozenset[str] = frozenset()


@attrs.define(eq=False)
class CommandTracker:
    """The commands of a session that are running, and the changes that they make.

    Args:
        session: The session.
        journal: The session's journal.
        snapshots: The snapshots of the workspace.
        lasting_problem: Why the changes of further commands cannot be undone; empty if they can.

    Attributes:
        running: The unfinished commands, by agent and call.
    """

    _session: Session
    _journal: Journal
    snapshots: Snapshots
    _lasting_problem: str = ""
    running: dict[tuple[str, str], RunningCommand] = attrs.Factory(dict)
    # Why changes made by the running commands cannot be undone.
    _problem: str = ""
    _slow_snapshots: int = 0  # number of snapshots in a row that took too long
    # The commands since the last walk of the whole workspace.
    _unconfirmed: list[RunningCommand] = attrs.Factory(list)
    _begun: int = 0  # number of commands that have begun
    _command_ended: trio.Event = attrs.Factory(trio.Event)
    _confirming: trio.Lock = attrs.Factory(trio.Lock)
    _snapshot_taken: float = 0.0
    _has_process: bool = False
    # This lock is held while a snapshot is taken and during an undo.
    _lock: trio.Lock = attrs.Factory(trio.Lock)
    # Cancelled to end the snapshot that is taken ahead of the first command.
    _ahead: trio.CancelScope = attrs.Factory(trio.CancelScope)

    # --- begin and end of commands ----------------------------------------------------------------

    def begin(self, agent: Agent, call: ToolCall, tool: Tool) -> Awaitable[None] | None:
        """Take a snapshot before a call that may change files, or that waited for approval.

        Args:
            agent: The agent.
            call: The call, which its run knows.
            tool: The tool.

        Returns:
            What to wait for; ``None`` if no snapshot is needed.
        """
        for running in self.running.values():
            if running.record.agent == agent.name and tool.name in running.own_calls:
                return None
        known = self.running.get((agent.name, call.id))
        if known is None or known.started:
            self._begun += 1
            # A task would cost more than the rest if nothing has to be waited for.
            if not self._lock.locked() and (self.running or self._reuse_snapshot()):
                self._add_command(agent, call, tool)
                return None
            return self._begin_command(agent, call, tool)
        if known.starts_no_process:
            return self._refresh_snapshot(known)
        return None

    async def _refresh_snapshot(self, waiting: RunningCommand) -> None:
        """Take another snapshot for a call that waited for approval.

        Changes that the user made while the call waited must not be attributed to it.
        """
        async with self._lock:
            if not self._has_process and self._is_outdated(waiting):
                await self._take_snapshot()

    def _is_outdated(self, waiting: RunningCommand | None = None) -> bool:
        """Return whether a command that had to wait needs another snapshot.

        If another call is already running, its changes must not appear to precede the snapshot.
        """
        for other in self.running.values():
            if other.starts_no_process and other is not waiting:
                return False
        return time.monotonic() - self._snapshot_taken > MAX_SNAPSHOT_AGE

    async def _begin_command(self, agent: Agent, call: ToolCall, tool: Tool) -> None:
        async with self._lock:
            if not self.running:
                await self._take_snapshot()
            self._add_command(agent, call, tool)

    def _add_command(self, agent: Agent, call: ToolCall, tool: Tool) -> None:
        """Log that a command begins, before which a snapshot was taken.

        The command is logged before it runs, so that recovery after a crash knows which command was
        running.
        """
        turn, run = find_turn_and_run(agent)
        record = Record(
            id=make_id("command"),
            tool=tool.name,
            what=_describe_call(call),
            call=call.id,
            turn=turn,
            unprotected=self._problem,
            agent=agent.name,
            run=run,
        )
        self.running[agent.name, call.id] = RunningCommand(
            record, starts_no_process=tool.changes_files, began=time.time()
        )
        self._session.emit(record.to_event(COMMAND))

    def begin_process(self) -> Awaitable[None] | None:
        """Take another snapshot if the process's command had to wait; see ``wrap_process``.

        Returns:
            What to wait for; ``None`` if no snapshot is needed.
        """
        if not self.running or self._has_process:
            return None
        if not self._lock.locked() and not self._is_outdated():
            self._has_process = True
            return None
        return self._begin_process()

    async def _begin_process(self) -> None:
        async with self._lock:
            # The state is checked again, because another command may have started while this
            # command waited for the lock.
            if not self._has_process and self._is_outdated():
                await self._take_snapshot()
            self._has_process = True

    def end(self, agent: Agent, call: ToolCall) -> Awaitable[None] | None:
        """Find the changes that a command made.

        Returns:
            What to wait for; ``None`` if the call is no command, or has changed nothing.
        """
        running = self.running.get((agent.name, call.id))
        if running is None:
            return None
        run = agent.conversation.run
        state = run.calls.get(call.id) if run else None
        running.started = bool(state and state.started)
        # A task would cost more than the rest if nothing has to be waited for.
        if not self._lock.locked() and self._has_no_changes(running):
            self._log_changes(running, [], running.record.unprotected)
            return None
        return self._end_command(running)

    async def _end_command(self, running: RunningCommand) -> None:
        async with self._lock:
            await self._record_changes(running)

    @asynccontextmanager
    async def recording(
        self, agent: Agent, what: str, own_calls: Collection[str] = ()
    ) -> AsyncIterator[None]:
        """Record as the agent's own what any program changes in the workspace during the block.

        Changes that calls make in this time are recorded as the changes of these calls.

        Args:
            agent: The agent for which a program runs.
            what: The program, as the journal shows it.
            own_calls: Names of tools whose calls the program itself carries out.
        """
        self._begun += 1
        async with self._lock:
            if not self.running:
                await self._take_snapshot()
            turn, run = find_turn_and_run(agent)
            identity = make_id("program")
            record = Record(
                id=identity,
                tool="",
                what=what[:MAX_DESCRIPTION],
                # There is no call, but the changes can be undone like those of a call.
                call=f"program-{identity}",
                turn=turn,
                unprotected=self._problem,
                agent=agent.name,
                run=run,
            )
            running = RunningCommand(
                record, started=True, began=time.time(), own_calls=frozenset(own_calls)
            )
            self.running[agent.name, record.call] = running
            self._session.emit(record.to_event(COMMAND))
        try:
            await self._session.journal.flush()
            yield
        finally:
            # The changes must be recorded even if the session is being closed.
            with trio.CancelScope(shield=True):
                async with self._lock:
                    await self._record_changes(running)

    @asynccontextmanager
    async def keep_from_starting(self) -> AsyncIterator[None]:
        """Keep commands from starting in the ``async with`` block, as an undo does.

        Raises:
            UsageError: Commands are running (``E_BUSY``).
        """
        self._ahead.cancel()
        async with self._lock:  # no command can begin while the lock is held
            if self.running:
                raise UsageError(
                    "Commands that may change files are running.",
                    code=errors.E_BUSY,
                    hint="Stop the run, or wait for it to finish.",
                )
            await self._confirm()
            yield

    def note_prompt(self) -> None:
        """Allow snapshots again in the next run, after a slow one."""
        if 0 < self._slow_snapshots < MAX_SLOW_SNAPSHOTS:
            self._lasting_problem = ""

    async def take_snapshot_ahead(self) -> None:
        """Take a snapshot while the model works on the first request, before any command.

        In 20,000 files that hilum has not seen before, the first command would wait 1.6 seconds for
        it. If the command begins earlier, it waits for the rest. An undo does not wait.
        """
        with self._ahead:
            async with self._lock:
                if not self._begun:
                    await self._take_snapshot(is_ahead=True)

    # --- commands ---------------------------------------------------------------------------------

    async def _take_snapshot(self, *, is_ahead: bool = False) -> None:
        """Take a snapshot before commands. The caller holds the lock.

        Args:
            is_ahead: Whether no command is about to begin, so that others may change files
                meanwhile.
        """
        if self._reuse_snapshot():
            return
        check_cancelled = trio.from_thread.check_cancelled
        try:
            if is_ahead:
                await trio.to_thread.run_sync(self.snapshots.take_ahead, check_cancelled)
            else:
                await trio.to_thread.run_sync(
                    lambda: self.snapshots.take(check_cancelled, save=True)
                )
        except SNAPSHOT_ERRORS as error:
            self._problem = errors.end_once(f"Its changes cannot be undone: {error}.")
            if isinstance(error, SnapshotTooSlow):
                self._note_slow_snapshot(self._problem)
        else:
            self._slow_snapshots = 0
        self._snapshot_taken = time.monotonic()
        missed = self.snapshots.pop_missed()
        if missed and self._unconfirmed and not self.running:
            await self._record_missed_changes(self._unconfirmed, missed)
        if not self.snapshots.is_unconfirmed:
            self._unconfirmed.clear()

    def _reuse_snapshot(self) -> bool:
        """Begin with the most recent snapshot, or with none; return whether no new one is needed.

        The lock is not held by another task.
        """
        self._problem = self._lasting_problem
        self._has_process = False
        if self._lasting_problem:
            return True
        if not self.snapshots.is_unchanged():
            return False
        self._snapshot_taken = time.monotonic()
        return True

    def _note_slow_snapshot(self, problem: str) -> None:
        """Take no further snapshots for some time, and report that once.

        The machine may only have been busy, so the next prompt tries again. The workspace of a
        second snapshot that takes too long is too large, and no further command waits for one.

        Args:
            problem: Why the changes of further commands cannot be undone.
        """
        self._lasting_problem = problem
        self._slow_snapshots += 1
        say = (
            "A snapshot of the workspace took too long, so what commands change until your next"
            " prompt cannot be undone. hilum then tries again."
        )
        if self._slow_snapshots >= MAX_SLOW_SNAPSHOTS:
            say = (
                "Snapshots of the workspace take too long, so what commands change in this session"
                " cannot be undone. Put a file CACHEDIR.TAG into large folders that need no undo."
            )
        self._session.note("files.slow_snapshot", say=say)

    async def _record_changes(self, running: RunningCommand) -> None:
        """Record the changes made by a command, but only once. The caller holds the lock."""
        key = running.record.agent, running.record.call
        # A cancelled command is reported twice: by its event and when the session closes.
        if self.running.get(key) is not running:
            return
        changes: list[Change] = []
        problem = running.record.unprotected
        if not self._has_no_changes(running):
            try:
                changes = await trio.to_thread.run_sync(self.snapshots.find_changes, running.began)
            except SNAPSHOT_ERRORS as error:
                problem = errors.end_once(f"Its changes are unknown: {error}.")
                if isinstance(error, SnapshotTooSlow):
                    self._note_slow_snapshot(problem)
        record = self._log_changes(running, changes, problem)
        if record.changes:
            await trio.to_thread.run_sync(self._journal.share, record, running.began)

    def _has_no_changes(self, running: RunningCommand) -> bool:
        """Return whether there is nothing to look for after a command; this takes no time."""
        if not running.started or running.record.unprotected:
            return True
        return self.snapshots.is_unchanged()

    def _log_changes(
        self, running: RunningCommand, changes: Sequence[Change], problem: str
    ) -> Record:
        """Log the end of a command, and return its record.

        Args:
            running: The command.
            changes: What it changed.
            problem: Why its changes cannot be undone; empty if they can.
        """
        self.running.pop((running.record.agent, running.record.call), None)
        others = tuple(other.record.call for other in self.running.values())
        record = msgspec.structs.replace(
            running.record, changes=tuple(changes), others=others, unprotected=problem
        )
        self._session.emit(record.to_event(CHANGED))
        if running.started and not problem:
            self._unconfirmed.append(running)
            self._command_ended.set()
        return record

    # --- what inotify does not report -------------------------------------------------------------

    async def confirm(self) -> None:
        """Walk the workspace if commands have run since the last walk, and none is running.

        Changes that inotify did not report are attributed to these commands.
        """
        self._ahead.cancel()
        async with self._lock:
            await self._confirm()

    async def _confirm(self, check_cancelled: Callable[[], object] = lambda: None) -> None:
        """Confirm what commands changed; see ``confirm``.

        Args:
            check_cancelled: Raises an exception if a command has begun. Without it, the caller
                holds the lock, so that no command begins.
        """
        async with self._confirming:
            commands = list(self._unconfirmed)
            if self.running or not commands:
                return
            changes: list[Change] = []
            if self.snapshots.is_unconfirmed:
                # If the walk fails, only what inotify reported is known.
                with suppress(*SNAPSHOT_ERRORS):
                    changes = await trio.to_thread.run_sync(
                        self.snapshots.find_missed_changes, check_cancelled
                    )
            self._unconfirmed = [each for each in self._unconfirmed if each not in commands]
            if changes:
                await self._record_missed_changes(commands, changes)

    async def _record_missed_changes(
        self, commands: Sequence[RunningCommand], changes: Sequence[Change]
    ) -> None:
        last = commands[-1].record
        calls = [command.record.call for command in commands]
        others = dict.fromkeys(call for call in calls if call != last.call)
        record = msgspec.structs.replace(
            last,
            id=make_id("command"),
            changes=tuple(changes),
            others=tuple(others),
            found_late=True,
        )
        self._session.emit(record.to_event(CHANGED))
        await trio.to_thread.run_sync(self._journal.share, record, commands[0].began)

    async def confirm_when_idle(self) -> None:
        """Confirm what commands changed whenever no command has run for a while.

        That is mostly while the model thinks.
        """
        while True:
            await self._command_ended.wait()
            self._command_ended = trio.Event()
            begun = self._begun
            await trio.sleep(CONFIRM_DELAY)

            def check_cancelled(begun: int = begun) -> None:
                trio.from_thread.check_cancelled()
                if self._begun != begun:
                    raise _CommandBegan

            if begun == self._begun:
                # The end of the command that has begun triggers the next walk.
                with suppress(_CommandBegan):
                    await self._confirm(check_cancelled)

    async def follow_events(self) -> None:
        """Record the changes made by cancelled commands, whose results are never checked."""
        kinds = (events.CallStarted, events.CallDone)
        async for event in self._session.events(self._session.journal.last, kinds=kinds):
            if isinstance(event, events.CallStarted):
                running = self.running.get((event.agent, event.call.id))
                if running is not None:
                    running.started = True
            elif isinstance(event, events.CallDone):
                running = self.running.get((event.agent, event.result.call_id))
                if running is not None:
                    async with self._lock:
                        await self._record_changes(running)

    async def close(self) -> None:
        """Record the changes made by commands that are still running."""
        async with self._lock:
            for running in list(self.running.values()):
                await self._record_changes(running)
            await self._confirm()


def find_turn_and_run(agent: Agent) -> tuple[int, str]:
    """Return the turn and the id of the run that an agent is in; 0 and "" if it is in none."""
    run = agent.conversation.run
    return (run.turn, run.id) if run else (0, "")


def _describe_call(call: ToolCall) -> str:
    """Return a call's command as one short line, or the tool's name if there is no command."""
    try:
        arguments = msgspec.json.decode(call.arguments or "{}")
    except msgspec.DecodeError:
        return call.name
    command = arguments.get("command") if isinstance(arguments, dict) else None
    if isinstance(command, str) and command.strip():
        return " ".join(command.split())[:MAX_DESCRIPTION]
    return call.name
