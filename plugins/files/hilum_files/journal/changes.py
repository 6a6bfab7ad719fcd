"""The session plugin that requires files to be read before a change and makes all changes undoable.

The tools record their own changes; ``command_tracker`` finds those that commands make.
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
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from typing import TYPE_CHECKING

import msgspec
import trio
from hilum import Block, EditorFiles, HilumError, UsageError, errors, events, hookimpl, make_id

from hilum_files.journal.command_tracker import CommandTracker, find_turn_and_run
from hilum_files.journal.content_store import DAY_SECONDS, ContentStore, hash_content
from hilum_files.journal.editor_log import ClosedEditor, EditorLog, LoggedEditor
from hilum_files.journal.journal import Journal, contents_folder
from hilum_files.journal.records import (
    CHANGED,
    CHANGING,
    SHOWN,
    Change,
    Record,
    Scope,
    spell_path,
    unspell_path,
)
from hilum_files.journal.shared_changes import SharedChanges
from hilum_files.journal.snapshots import Snapshots
from hilum_files.journal.tracked_workspace import TrackedWorkspace
from hilum_files.journal.tree import SnapshotLimits
from hilum_files.settings import FilesSettings
from hilum_files.text import show

if TYPE_CHECKING:
    from hilum import Agent, Call, Command, Session, Tool, ToolCall, ToolResult

    from hilum_files.journal.file_diffs import FileDiff
    from hilum_files.journal.undo_plan import Plan
    from hilum_files.journal.undo_preview import CallChanges, RunChanges, UndoPreview

CLOSE_TIMEOUT = 4.0
AHEAD_DELAY = 0.25
"""Seconds after the first request until a snapshot is taken. Imports, which the first call needs in any
case, would take turns with it."""
MAX_UNDONE_SHOWN = 20
FILE_TOOLS = frozenset({"write_file", "edit_file", "multi_edit", "delete_file"})
"""This plugin's tools, which record their own changes."""


class Changes:
    """The file changes made in a session, and the contents that agents have seen.

    ``session.plugin(Changes)`` returns it.

    Args:
        session: The session.
        store: The store of contents.

    Attributes:
        commands: The commands that are running, and the changes that they make.
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
        problem = ""
        if not settings.snapshots:
            problem = "Snapshots are off (files.snapshots), so its changes cannot be undone."
        self.commands = CommandTracker(session, self._journal, self._snapshots, problem)
        self._editor_log = EditorLog(store)

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
        async with self.commands.keep_from_starting():
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
        if not _is_command(tool):
            return None  # no task is started, because most calls only read
        run = agent.conversation.run
        if run is None or call.id not in run.calls:
            # A face only checks a call against the rules, such as a command that the user typed. No
            # event will report its end.
            return None
        return self.commands.begin(agent, call, tool)

    def recording(
        self, agent: Agent, what: str, own_calls: Collection[str] = ()
    ) -> AbstractAsyncContextManager[None]:
        """Record as the agent's own what any program changes in the workspace during the block.

        Changes that calls make in this time are recorded as the changes of these calls.

        Args:
            agent: The agent for which a program runs.
            what: The program, as the journal shows it.
            own_calls: Names of tools whose calls the program itself carries out.
        """
        return self.commands.recording(agent, what, own_calls)

    @hookimpl
    def wrap_process(self, command: Command) -> Awaitable[None] | None:
        """Take another snapshot if a command had to wait, for example until it was approved.

        Changes made while the command waited must not be attributed to it.
        """
        return self.commands.begin_process()

    @hookimpl
    def check_result(
        self, agent: Agent, call: ToolCall, result: ToolResult
    ) -> Awaitable[None] | None:
        """Find the changes that a command made."""
        return self.commands.end(agent, call)

    @hookimpl
    def gather_context(self) -> list[Block] | None:
        """Inform the agent of the changes that the user undid since its last run.

        After a slow snapshot, the commands of this run try again.
        """
        self.commands.note_prompt()
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

    async def confirm(self) -> None:
        """Find the changes of earlier commands that inotify did not report, if none is running."""
        await self.commands.confirm()

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
        if self.commands.running:
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
        turn, run = find_turn_and_run(call.agent)
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


def _is_command(tool: Tool) -> bool:
    """Return whether a tool may change files of which it does not tell."""
    return tool.changes_files or (tool.risk in ("execute", "write") and tool.name not in FILE_TOOLS)


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


@asynccontextmanager
async def open_changes(session: Session) -> AsyncIterator[Changes]:
    """Open the session plugin, recover interrupted changes, and follow the session's events."""
    store = ContentStore(contents_folder())
    changes = Changes(session, store)
    try:
        await trio.to_thread.run_sync(changes.recover)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(changes.commands.follow_events)
            nursery.start_soon(changes.commands.confirm_when_idle)
            nursery.start_soon(_take_snapshot_ahead, session, changes.commands)
            nursery.start_soon(_sweep_if_due, session.settings(FilesSettings))
            yield changes
            nursery.cancel_scope.cancel()
        # A cancelled session also records its last commands, but must not hang.
        with trio.CancelScope(shield=True, deadline=trio.current_time() + CLOSE_TIMEOUT):
            await changes.commands.close()
    finally:
        changes.close_watch()
        store.close()


async def _take_snapshot_ahead(session: Session, commands: CommandTracker) -> None:
    """Take a snapshot while the model works on the first request, if it may answer by a command."""
    await session.wait_for_request()
    await trio.sleep(AHEAD_DELAY)
    if any(map(_is_command, session.agents["main"].tools())):
        await commands.take_snapshot_ahead()


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
