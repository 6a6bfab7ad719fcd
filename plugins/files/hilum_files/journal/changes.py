"""The session plugin that requires files to be read before a change and makes all changes undoable.

The plugin takes a snapshot of the workspace before the first of several concurrent commands, and
after each command. Usually, inotify names what has changed since the previous snapshot; what it
misses is found by a walk of the workspace while no command runs.

Changes that others make between two snapshots cannot be distinguished from the
commands' own changes, and the plugin reports this.
"""

from __future__ import annotations

import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

import msgspec
import trio
from hilum import Block, EditorFiles, HilumError, UsageError, errors, events, hookimpl, make_id

from hilum_files.journal.content_store import DAY_SECONDS, ContentStore, hash_content
from hilum_files.journal.editor_log import ClosedEditor, EditorLog, LoggedEditor
from hilum_files.journal.journal import Journal, contents_folder
from hilum_files.journal.records import (
    CHANGED,
    CHANGING,
    COMMAND,
    SHOWN,
    Change,
    Record,
    Scope,
    spell_path,
    unspell_path,
)
from hilum_files.journal.shared_changes import SharedChanges
from hilum_files.journal.snapshots import SNAPSHOT_ERRORS, Snapshots
from hilum_files.journal.tracked_workspace import TrackedWorkspace
from hilum_files.journal.tree import SnapshotLimits, TreeTooLarge
from hilum_files.settings import FilesSettings
from hilum_files.text import show

if TYPE_CHECKING:
    from hilum import Agent, Call, Command, Session, Tool, ToolCall, ToolResult

    from hilum_files.journal.file_diffs import FileDiff
    from hilum_files.journal.undo_plan import Plan
    from hilum_files.journal.undo_preview import CallChanges, RunChanges, UndoPreview

MAX_SNAPSHOT_AGE = 0.25
"""Maximum age, in seconds, of a snapshot for a command that had to wait."""
CONFIRM_DELAY = 0.25
"""Seconds without a command after which the workspace is walked."""
CLOSE_TIMEOUT = 4.0
MAX_SLOW_SNAPSHOTS = 2
"""Number of snapshots in a row that took too long after which no further one is taken."""
MAX_UNDONE_SHOWN = 20
MAX_DESCRIPTION = 200
FILE_TOOLS = frozenset({"write_file", "edit_file", "multi_edit", "delete_file"})
"""This plugin's tools, which record their own changes."""


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


class Changes:
    """The file changes made in a session, and the contents that agents have seen.

    ``session.plugin(Changes)`` returns it.

    Args:
        session: The session.
        store: The store of contents.
    """

    def __init__(self, session: Session, store: ContentStore) -> None:
        self._session = session
        self._store = store
        self._journal = Journal(
            session.workspace, store, self._emit_from_thread, session.id, self._flush_from_thread
        )
        settings = session.settings(FilesSettings)
        limits = SnapshotLimits(settings.snapshot_file_limit, settings.snapshot_limit)
        self._snapshots = Snapshots(
            self._journal,
            session.id,
            limits,
            incremental=settings.incremental_snapshots and session.processes.contained,
            may_miss=lambda: session.processes.count("service") > 0,
        )
        # The commands since the last walk of the whole workspace.
        self._unconfirmed: list[RunningCommand] = []
        self._begun = 0  # number of commands that have begun
        self._command_ended = trio.Event()
        self._confirming = trio.Lock()
        self._editor_log = EditorLog(store)
        self._running: dict[tuple[str, str], RunningCommand] = {}
        self._snapshot_taken = 0.0
        self._has_process = False
        self._problem = ""  # why changes made by the running commands cannot be undone
        self._lasting_problem = ""
        self._slow_snapshots = 0  # number of snapshots in a row that took too long
        if not settings.snapshots:
            self._lasting_problem = (
                "Snapshots are off (files.snapshots), so its changes cannot be undone."
            )
        # This lock is held while a snapshot is taken and during an undo.
        self._lock = trio.Lock()

    # --- session operations -----------------------------------------------------------------------

    def records(self, scope: Scope = "session", name: str = "") -> list[Record]:
        """Return the changes that a call, turn, run or session made and that are still in effect.

        Args:
            scope: The kind of unit: ``call``, ``turn``, ``run``, ``session``, or ``undo``.
            name: The id of the call, turn, run or undo; by default, the last unit that changed
                something.

        Returns:
            Records, oldest first.

        Raises:
            UsageError: No call, turn or run matches.
        """
        return self._update().ledger.select(scope, name)

    def recent(self, limit: int) -> list[tuple[str, float]]:
        """Return the most recently changed paths in this session, newest first.

        Args:
            limit: Maximum number of paths.

        Returns:
            Paths relative to the workspace, each with the time of the change as Unix time in
            seconds. The result omits files that were deleted later and changes that were undone
            later.
        """
        ledger = self._update().ledger
        last: dict[str, float] = {}  # time of the last change by path; 0 for a deleted file
        for record in reversed(ledger.records.values()):
            if not record.is_undo:
                for change in ledger.changes_in_effect(record):
                    is_file = change.after is not None and change.after.kind == "file"
                    last.setdefault(change.path, record.at if is_file else 0.0)
            if len(last) >= 10 * limit:  # avoid reading the whole log of a long session
                break
        return [(unspell_path(path), at) for path, at in last.items() if at][:limit]

    async def diff(self, scope: Scope = "run", name: str = "") -> list[FileDiff]:
        """Return the changes made by a call, turn, run or session as one unified diff per path.

        The arguments are those of ``records``.
        """
        from hilum_files.journal.file_diffs import diff_records  # imported at the first diff

        await self.confirm()
        records = self.records(scope, name)
        return await trio.to_thread.run_sync(diff_records, self._journal, records)

    async def summarize_runs(self, runs: Sequence[str]) -> dict[str, RunChanges]:
        """Return what each of several runs changed, including changes by sub-agents.

        Args:
            runs: Ids of runs that the user prompted; the result omits runs without changes.
        """
        from hilum_files.journal.undo_preview import summarize_runs  # imported at the first use

        return await trio.to_thread.run_sync(summarize_runs, self._update(), runs)

    async def list_calls(self, limit: int = 50) -> list[CallChanges]:
        """Return the last calls whose changes are still in effect, newest first.

        Args:
            limit: Maximum number of calls.
        """
        from hilum_files.journal.undo_preview import list_calls  # imported at the first use

        return await trio.to_thread.run_sync(list_calls, self._update(), limit)

    async def preview_undo(
        self, scope: Scope = "run", name: str = "", *, merge: bool = True
    ) -> UndoPreview:
        """Return what ``undo`` would do with these arguments and ``keep_going``, as diffs."""
        from hilum_files.journal.undo_preview import preview_undo  # imported at the first use

        await self.confirm()
        journal = self._update()
        return await trio.to_thread.run_sync(lambda: preview_undo(journal, scope, name, merge))

    async def undo(
        self,
        scope: Scope = "run",
        name: str = "",
        *,
        keep_going: bool = False,
        shared: bool = False,
        merge: bool = True,
    ) -> Plan:
        """Undo a call, turn, run or undo, either completely or not at all.

        An undo can be undone.

        Args:
            scope: The kind of unit: ``call``, ``turn``, ``run``, ``since`` for everything after an
                event, or ``undo`` to undo an undo.
            name: The id of the call, turn, run or undo, or the number of the event; by default, the
                last unit that changed something.
            keep_going: Whether to restore the other files if a file changed later and cannot be
                merged.
            shared: Whether to also undo changes that another session may have made at the same
                time.
            merge: Whether to merge changes that others made later; if not, files with such changes
                are not restored.

        Raises:
            UsageError: Nothing matches, or commands are running (``E_BUSY``).
            ToolError: A file changed later and cannot be merged (``E_STALE``), or the undo failed;
                nothing is undone in either case.
        """
        async with self._lock:  # no command can begin while the lock is held
            if self._running:
                raise UsageError(
                    "Commands that may change files are running.",
                    code=errors.E_BUSY,
                    hint="Stop the run, or wait for it to finish.",
                )
            await self._confirm()
            journal = self._update()
            return await trio.to_thread.run_sync(
                lambda: journal.undo(scope, name, keep_going=keep_going, shared=shared, merge=merge)
            )

    # --- hooks ------------------------------------------------------------------------------------

    @hookimpl
    def on_tool_call(self, agent: Agent, call: ToolCall, tool: Tool) -> Awaitable[None] | None:
        """Take a snapshot before a command, and before other plugins' tools that change files.

        The hook runs again after a call is approved. A call that starts no process then needs
        another snapshot; for a command, ``wrap_process`` takes it later.
        """
        is_command = tool.risk in ("execute", "write") and tool.name not in FILE_TOOLS
        if not tool.changes_files and not is_command:
            return None  # no task is started, because most calls only read
        run = agent.conversation.run
        if run is None or call.id not in run.calls:
            # A face only checks a call against the rules, such as a command that the user typed. No
            # event will report its end.
            return None
        if any(
            running.record.agent == agent.name and tool.name in running.own_calls
            for running in self._running.values()
        ):
            return None
        known = self._running.get((agent.name, call.id))
        if known is None or known.started:
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
        for other in self._running.values():
            if other.starts_no_process and other is not waiting:
                return False
        return time.monotonic() - self._snapshot_taken > MAX_SNAPSHOT_AGE

    async def _begin_command(self, agent: Agent, call: ToolCall, tool: Tool) -> None:
        self._begun += 1
        async with self._lock:
            if not self._running:
                await self._take_snapshot()
            # The command is logged before it runs, so that recovery after a crash knows which
            # command was running.
            turn, run = _turn_and_run(agent)
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
            self._running[agent.name, call.id] = RunningCommand(
                record, starts_no_process=tool.changes_files, began=time.time()
            )
            self._session.emit(record.to_event(COMMAND))

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
            if not self._running:
                await self._take_snapshot()
            turn, run = _turn_and_run(agent)
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
            self._running[agent.name, record.call] = running
            self._session.emit(record.to_event(COMMAND))
        try:
            await self._session.journal.flush()
            yield
        finally:
            # The changes must be recorded even if the session is being closed.
            with trio.CancelScope(shield=True):
                async with self._lock:
                    await self._record_changes(running)

    @hookimpl
    async def wrap_process(self, command: Command) -> None:
        """Take another snapshot if a command had to wait, for example until it was approved.

        Changes made while the command waited must not be attributed to it.
        """
        if self._running and not self._has_process:
            async with self._lock:
                # The state is checked again, because another command may have started while this
                # command waited for the lock.
                if not self._has_process and self._is_outdated():
                    await self._take_snapshot()
                self._has_process = True

    @hookimpl
    def check_result(
        self, agent: Agent, call: ToolCall, result: ToolResult
    ) -> Awaitable[None] | None:
        """Find the changes that a command made."""
        running = self._running.get((agent.name, call.id))
        return self._end_command(agent, call, running) if running else None

    async def _end_command(self, agent: Agent, call: ToolCall, running: RunningCommand) -> None:
        run = agent.conversation.run
        state = run.calls.get(call.id) if run else None
        running.started = bool(state and state.started)
        async with self._lock:
            await self._record_changes(running)

    @hookimpl
    def gather_context(self) -> list[Block] | None:
        """Inform the agent of the changes that the user undid since its last run.

        After a slow snapshot, the commands of this run try again.
        """
        if 0 < self._slow_snapshots < MAX_SLOW_SNAPSHOTS:
            self._lasting_problem = ""
        undone: set[str] = set()
        for record in self._update().ledger.news:
            undone.update(show(unspell_path(change.path)) for change in record.changes)
        if not undone:
            return None
        shown = ", ".join(sorted(undone)[:MAX_UNDONE_SHOWN])
        if len(undone) > MAX_UNDONE_SHOWN:
            shown += f" and {len(undone) - MAX_UNDONE_SHOWN} more"
        text = (
            f"The user undid changes to: {shown}. Read them again before you rely on their content."
        )
        return [Block("undone", text, priority=10)]

    # --- commands ---------------------------------------------------------------------------------

    async def _take_snapshot(self) -> None:
        """Take a snapshot before commands. The caller holds the lock."""
        self._problem = self._lasting_problem
        self._has_process = False
        if self._lasting_problem:
            return
        if self._snapshots.is_unchanged():
            self._snapshot_taken = time.monotonic()
            return
        try:
            await trio.to_thread.run_sync(
                lambda: self._snapshots.take(trio.from_thread.check_cancelled, save=True)
            )
        except SNAPSHOT_ERRORS as error:
            self._problem = errors.end_once(f"Its changes cannot be undone: {error}.")
            if isinstance(error, TreeTooLarge):
                self._note_slow_snapshot(self._problem)
        else:
            self._slow_snapshots = 0
        self._snapshot_taken = time.monotonic()
        missed = self._snapshots.pop_missed()
        if missed and self._unconfirmed and not self._running:
            await self._record_missed_changes(self._unconfirmed, missed)
        if not self._snapshots.is_unconfirmed:
            self._unconfirmed.clear()

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
        if self._running.get(key) is not running:
            return
        changes: list[Change] = []
        problem = running.record.unprotected
        if running.started and not problem and not self._snapshots.is_unchanged():
            try:
                changes = await trio.to_thread.run_sync(self._snapshots.find_changes, running.began)
            except SNAPSHOT_ERRORS as error:
                problem = errors.end_once(f"Its changes are unknown: {error}.")
                if isinstance(error, TreeTooLarge):
                    self._note_slow_snapshot(problem)
        self._running.pop(key, None)
        others = tuple(other.record.call for other in self._running.values())
        record = msgspec.structs.replace(
            running.record, changes=tuple(changes), others=others, unprotected=problem
        )
        self._session.emit(record.to_event(CHANGED))
        if running.started and not problem:
            self._unconfirmed.append(running)
            self._command_ended.set()
        if record.changes:
            await trio.to_thread.run_sync(self._journal.share, record, running.began)

    # --- what inotify does not report -------------------------------------------------------------

    async def confirm(self) -> None:
        """Walk the workspace if commands have run since the last walk, and none is running.

        Changes that inotify did not report are attributed to these commands.
        """
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
            if self._running or not commands:
                return
            changes: list[Change] = []
            if self._snapshots.is_unconfirmed:
                # If the walk fails, only what inotify reported is known.
                with suppress(*SNAPSHOT_ERRORS):
                    changes = await trio.to_thread.run_sync(
                        self._snapshots.find_missed_changes, check_cancelled
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
        async for event in self._session.events(self._session.journal.last):
            if isinstance(event, events.CallStarted):
                running = self._running.get((event.agent, event.call.id))
                if running is not None:
                    running.started = True
            elif isinstance(event, events.CallDone):
                running = self._running.get((event.agent, event.result.call_id))
                if running is not None:
                    async with self._lock:
                        await self._record_changes(running)

    async def close(self) -> None:
        """Record the changes made by commands that are still running."""
        async with self._lock:
            for running in list(self._running.values()):
                await self._record_changes(running)
            await self._confirm()

    def close_watch(self) -> None:
        """Stop watching the workspace."""
        self._snapshots.close()

    def recover(self) -> None:
        """Record the outcome of changes and commands that were interrupted when hilum ended.

        This method blocks; it is called once, in a thread.
        """
        trio.from_thread.run_sync(self._update)
        self._snapshots.recover()

    # --- changes by tools -------------------------------------------------------------------------

    def track_workspace(self, call: Call) -> TrackedWorkspace:
        """Return the workspace for a call that changes files."""
        seen = self._update().ledger.seen_by(call.agent.name)
        recorder = CallRecorder(call, self._journal, self._note_own_changes)
        return TrackedWorkspace.wrap(call.workspace, recorder, seen)

    def open_editor(self, call: Call) -> LoggedEditor | None:
        """Return the user's editor for a call, if the session has one."""
        self._update()
        editor = self._session.plugin(EditorFiles)
        if editor is None and self._editor_log.has_texts:
            editor = ClosedEditor()
        if editor is None:
            return None
        return LoggedEditor(editor, call, call.workspace, self._editor_log)

    def _note_own_changes(self, changes: tuple[Change, ...]) -> None:
        """Prevent a tool's changes from being attributed to a running command."""
        if self._running:
            self._snapshots.apply(changes)

    @contextmanager
    def sharing(self, agent: str, name: str) -> Iterator[None]:
        """Let several agents share a record of seen contents inside the ``with`` block.

        Args:
            agent: One of the agents.
            name: The name under which the shared record is kept.
        """
        names = self._journal.ledger.names
        names[agent] = name
        try:
            yield
        finally:
            self._update()
            del names[agent]

    def content_hash(self, data: bytes) -> str:
        """Return the hash with which the journal identifies a file's content."""
        return hash_content(data)

    def mark_as_read(self, agent: Agent, files: Mapping[str, str]) -> None:
        """Record that files count as read because the agent's next prompt contains them in full.

        Args:
            agent: The agent.
            files: The ``content_hash`` of each file, keyed by path relative to the workspace.
        """
        data = {"files": {spell_path(path): hashed for path, hashed in files.items()}}
        self._session.emit(events.PluginEvent(name=SHOWN, data=data), agent, agent.starting)

    # --- events -----------------------------------------------------------------------------------

    def _update(self) -> Journal:
        """Apply the events logged since the previous call to this method."""
        while page := self._session.journal.since(self._journal.ledger.last):
            self._journal.apply_events(page)
            for event in page:
                self._editor_log.apply(event)
        return self._journal

    def _emit_from_thread(self, event: events.PluginEvent) -> None:
        """Write an event from a thread."""

        def emit() -> None:
            self._session.emit(event)
            self._update()

        trio.from_thread.run_sync(emit)

    def _flush_from_thread(self) -> None:
        """Wait in a thread until the log is durable, which it usually is already."""
        journal = self._session.journal
        if journal.durable < journal.last:
            trio.from_thread.run(journal.flush)


class CallRecorder:
    """Records the changes of one call, in the thread that makes them.

    Args:
        call: The call.
        journal: The session's journal.
        note_changes: A function that receives the changes made by the call.

    Attributes:
        store: The store of contents.
        tree_lock: The lock held during each change and each walk over the whole tree.
    """

    def __init__(
        self,
        call: Call,
        journal: Journal,
        note_changes: Callable[[tuple[Change, ...]], None],
    ) -> None:
        self._journal = journal
        self._note_changes = note_changes
        self.store = journal.store
        self.tree_lock = journal.tree_lock
        turn, run = _turn_and_run(call.agent)
        self._record = Record(
            id="", tool=call.name, call=call.id, turn=turn, agent=call.agent.name, run=run
        )

    def begin(self, changes: tuple[Change, ...]) -> None:
        """Record that changes begin."""
        name = make_id("change")
        self._record = msgspec.structs.replace(self._record, id=name, changes=changes)
        self._journal.emit(self._record.to_event(CHANGING))
        try:
            self._journal.flush()
        except BaseException:  # the call was stopped while it waited
            self.end(())
            raise

    def end(self, changes: tuple[Change, ...]) -> None:
        """Record the changes that were made, if any."""
        self._record = msgspec.structs.replace(self._record, changes=changes)
        self._journal.emit(self._record.to_event(CHANGED))
        self._journal.share(self._record)
        self._note_changes(changes)

    def describe_cause(self, path: str, hashed: str) -> str:
        """Describe what gave a file its content, or return an empty string if that is unknown.

        Args:
            path: The spelled path.
            hashed: The hash of the content.
        """
        ledger = self._journal.ledger
        record = ledger.records.get(ledger.causes.get(path, ""))
        if record is None:
            return ""
        made = [change.after for change in record.changes if change.path == path]
        # The hash is empty if the content was not kept.
        if not any(node is not None and node.hash in ("", hashed) for node in made):
            return ""
        if record.is_undo:
            return "by an undo that the user requested"
        if record.what:
            return f"by {record.what!r}"
        return f"by {record.tool} of the agent {record.agent}"


def track_workspace(call: Call) -> TrackedWorkspace:
    """Return the workspace for a call that changes files.

    Files must be read before they are changed, and every change is recorded.
    """
    return _find_changes(call).track_workspace(call)


def open_editor(call: Call) -> LoggedEditor | None:
    """Return the user's editor for a call, if the session has one; its texts are logged."""
    return _find_changes(call).open_editor(call)


def _find_changes(call: Call) -> Changes:
    changes = call.session.plugin(Changes)
    if changes is None:
        raise UsageError(
            "The plugin hilum-files is not open in this session.", code=errors.E_PLUGIN
        )
    return changes


def _turn_and_run(agent: Agent) -> tuple[int, str]:
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


@asynccontextmanager
async def open_changes(session: Session) -> AsyncIterator[Changes]:
    """Open the session plugin, recover interrupted changes, and follow the session's events."""
    store = ContentStore(contents_folder())
    changes = Changes(session, store)
    try:
        await trio.to_thread.run_sync(changes.recover)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(changes.follow_events)
            nursery.start_soon(changes.confirm_when_idle)
            nursery.start_soon(_sweep_if_due, session.settings(FilesSettings))
            yield changes
            nursery.cancel_scope.cancel()
        # A cancelled session also records its last commands, but must not hang.
        with trio.CancelScope(shield=True, deadline=trio.current_time() + CLOSE_TIMEOUT):
            await changes.close()
    finally:
        changes.close_watch()
        store.close()


async def _sweep_if_due(settings: FilesSettings) -> None:
    """Delete expired contents and changes, unless that was done within the last day."""
    # Deleting expired contents may take a long time, so closing a session does not wait for it.
    await trio.to_thread.run_sync(_sweep, settings, abandon_on_cancel=True)


def _sweep(settings: FilesSettings) -> None:
    folder = contents_folder()
    mark = folder / "swept"
    now = time.time()
    with suppress(OSError, HilumError):
        if not (folder / "objects.db").exists():
            return
        if mark.exists() and mark.stat().st_mtime > now - DAY_SECONDS:
            return
        # The time is recorded before the deletion begins, so that several processes do not delete
        # at the same time.
        mark.touch(mode=0o600)
        store = ContentStore(folder)
        try:
            store.sweep(settings.keep_days, settings.keep_limit)
            SharedChanges(store, "", folder).sweep(settings.keep_days)
        finally:
            store.close()
        for tree in folder.glob("trees/*/*"):
            if tree.stat().st_mtime < now - settings.keep_days * DAY_SECONDS:
                tree.unlink()
