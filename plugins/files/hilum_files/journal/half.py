"""The half of a session that sees to it that files are read before they are changed, and that every
change can be undone.

Around every command the tree is looked at: before the first one of those that run at a time, and
after each. Between the two looks somebody else may have a part in what changed; that cannot be told
apart, and is told.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import trio
from hilum import Block, HilumError, UsageError, errors, events, hookimpl

from hilum_files.journal import tree as trees
from hilum_files.journal.guard import Guarded, locked
from hilum_files.journal.journal import Journal, objects_folder
from hilum_files.journal.objects import DAY, Objects, hash_of
from hilum_files.journal.records import (
    CHANGED,
    CHANGING,
    COMMAND,
    SHOWN,
    Change,
    Record,
    Scope,
    spell,
    unspell,
)
from hilum_files.journal.sessions import SharedChanges, own_part
from hilum_files.reading import FilesSettings
from hilum_files.text import show

if TYPE_CHECKING:
    from hilum import Agent, Call, Command, Session, Tool, ToolCall, ToolResult, Workspace

    from hilum_files.journal.show import Shown
    from hilum_files.journal.undo import Plan

FRESH = 0.25
"""Seconds after which a look at the tree is too old for a command that had to wait."""
OWN = frozenset({"write_file", "edit_file", "multi_edit", "delete_file"})
UNSEEN = (trees.TooLarge, HilumError, OSError)


class Running(msgspec.Struct):
    """A command, or another call that may change files, on its way.

    Attributes:
        record: What is known of it.
        started: Whether it was let run.
        began: When the tree was last looked at before it, Unix time in seconds.
        at_once: Whether it begins as soon as it is let: it starts no process, before which the tree
            could be looked at again.
    """

    record: Record
    started: bool = False
    at_once: bool = False
    began: float = 0.0


class Changes:
    """What the session's agents have seen and changed. ``session.half(Changes)`` gives it.

    Args:
        session: The session.
        objects: Keeps contents; the kernel's sessions may share it.
    """

    def __init__(self, session: Session, objects: Objects) -> None:
        self._session = session
        self._objects = objects
        self._journal = Journal(session.workspace, objects, self._emit, session.id)
        self._settings = session.settings(FilesSettings)
        self._limits = trees.Limits(
            self._settings.snapshot_file_limit, self._settings.snapshot_limit
        )
        self._tree: trees.Tree | None = None
        self._running: dict[tuple[str, str], Running] = {}
        self._looked = 0.0
        self._launched = False
        self._why = ""
        self._saved = False
        self._noted = (
            0  # number of the last change by any session that the last look at the tree came after
        )
        if self._settings.snapshots:
            self._hopeless = ""
        else:
            self._hopeless = "Snapshots are off (files.snapshots): it cannot be undone."
        self._order = trio.Lock()

    # --- session operations -----------------------------------------------------------------------

    def records(self, scope: Scope = "session", name: str = "") -> list[Record]:
        """Return the changes of a call, turn, run or of the session that are not undone, oldest
        first.

        Args:
            scope: ``call``, ``turn``, ``run``, ``session``, or ``undo`` for an undo.
            name: Which; the last one that changed something without.

        Raises:
            UsageError: There is none.
        """
        return self._fold().ledger.select(scope, name)

    def recent(self, limit: int) -> list[tuple[str, float]]:
        """Return the paths that were changed last in this session, newest first, with the Unix time
        of the change in seconds.

        Args:
            limit: Most paths.

        Returns:
            Paths relative to the workspace; what is deleted or undone since is left out.
        """
        ledger = self._fold().ledger
        last: dict[str, float] = {}  # by path; 0 for what is gone
        for record in reversed(ledger.records.values()):
            for change in ledger.left(record) if record.tool != "undo" else ():
                is_file = change.after is not None and change.after.kind == "file"
                last.setdefault(change.path, record.at if is_file else 0.0)
            if len(last) >= 10 * limit:  # a long session is not read to its beginning
                break
        return [(unspell(path), at) for path, at in last.items() if at][:limit]

    async def diff(self, scope: Scope = "run", name: str = "") -> list[Shown]:
        """Return what a call, turn, run or the session changed, each path once, as unified diffs.

        Takes what ``records`` does.
        """
        from hilum_files.journal.show import shown  # with the first diff

        records = self.records(scope, name)
        return await trio.to_thread.run_sync(shown, self._journal, records)

    async def plan_undo(self, scope: Scope = "run", name: str = "") -> Plan:
        """Return what an undo would do. Takes and raises what ``undo`` does."""
        return await trio.to_thread.run_sync(self._fold().plan, scope, name)

    async def undo(self, scope: Scope = "run", name: str = "", *, keep_going: bool = False) -> Plan:
        """Undo a call, turn or run, or an undo: all of it or nothing.

        What is undone can be brought back.

        Args:
            scope: ``call``, ``turn``, ``run``, or ``undo`` to undo an undo.
            name: Which; the last one that changed something without.
            keep_going: Put back what can be, where a file was changed since and cannot be merged.

        Raises:
            UsageError: Nothing fits; commands are running (``E_BUSY``).
            ToolError: ``E_STALE``: a file was changed since and cannot be merged. Or it failed.
                Nothing is undone then.
        """
        async with self._order:  # no command begins meanwhile
            if self._running:
                hint = "Stop the run, or wait for it."
                raise UsageError(
                    "Commands are running, which may change files.", code=errors.E_BUSY, hint=hint
                )
            journal = self._fold()
            return await trio.to_thread.run_sync(
                lambda: journal.undo(scope, name, keep_going=keep_going)
            )

    # --- hooks ------------------------------------------------------------------------------------

    @hookimpl
    def on_tool_call(self, agent: Agent, call: ToolCall, tool: Tool) -> Awaitable[None] | None:
        """Look at the tree before a command, and before tools of others that write or change files;
        no opinion about them.

        A call that was approved is judged again: it is the same command, and looked at again where
        it starts a process.
        """
        if not tool.changes_files and (tool.risk not in ("execute", "write") or tool.name in OWN):
            return None  # and no task for it: most calls only read
        known = self._running.get((agent.name, call.id))
        if known and not known.started:
            if known.at_once:
                return self._look_after_approval(known)
            return None
        return self._before(agent, call, tool)

    async def _look_after_approval(self, running: Running) -> None:
        """Look again where a call waited for its approval: what the user changed meanwhile is not
        the call's doing.
        """
        async with self._order:
            others = any(other.at_once for other in self._running.values() if other is not running)
            if not self._launched and not others and time.monotonic() - self._looked > FRESH:
                await self._look_before()

    async def _before(self, agent: Agent, call: ToolCall, tool: Tool) -> None:
        async with self._order:
            if not self._running:
                await self._look_before()
            run = agent.conversation.run
            turn, name = (run.turn, run.id) if run else (0, "")
            record = Record(
                id=os.urandom(6).hex(),
                tool=tool.name,
                what=_words(call),
                call=call.id,
                turn=turn,
                unprotected=self._why,
                agent=agent.name,
                run=name,
            )
            self._running[agent.name, call.id] = Running(
                record, at_once=tool.changes_files, began=time.time()
            )
            self._session.emit(record.event(COMMAND))

    @hookimpl
    async def wrap_process(self, command: Command) -> None:
        """Look again where a command had to wait, for the user's approval perhaps: what happened
        meanwhile is not its doing.
        """
        if self._running and not self._launched:
            async with self._order:
                # Another call may be at work already: its changes must not be taken for what was
                # there before.
                alone = not any(running.at_once for running in self._running.values())
                if not self._launched and alone and time.monotonic() - self._looked > FRESH:
                    await self._look_before()
                self._launched = True

    @hookimpl
    def check_result(
        self, agent: Agent, call: ToolCall, result: ToolResult
    ) -> Awaitable[None] | None:
        """Look at what a command changed."""
        running = self._running.get((agent.name, call.id))
        return self._after(agent, call, running) if running else None

    async def _after(self, agent: Agent, call: ToolCall, running: Running) -> None:
        run = agent.conversation.run
        running.started = bool(run and call.id in run.calls and run.calls[call.id].started)
        async with self._order:
            await self._settle(running)

    @hookimpl
    def gather_context(self) -> list[Block] | None:
        """Tell the agent that the user undid changes since it last worked."""
        paths = sorted(
            {
                show(unspell(change.path))
                for record in self._fold().ledger.news
                for change in record.changes
            }
        )
        if not paths:
            return None
        more = f" and {len(paths) - 20} more" if len(paths) > 20 else ""
        text = (
            f"The user undid changes to: {', '.join(paths[:20])}{more}. Read them again before you"
            " rely on what is in them."
        )
        return [Block("undone", text, priority=10)]

    # --- commands ---------------------------------------------------------------------------------

    async def _look_before(self) -> None:
        self._why = self._hopeless
        self._launched = False
        if self._hopeless:
            return
        try:
            await trio.to_thread.run_sync(self._walk, trio.from_thread.check_cancelled, True)
        except UNSEEN as error:
            self._why = f"What it changes cannot be undone: {error}."
            if isinstance(error, trees.TooLarge):
                self._hopeless = self._why
        self._looked = time.monotonic()

    def _walk(
        self, alive: Callable[[], object] = lambda: None, save: bool = False
    ) -> list[trees.Difference]:
        """Look at the tree in a thread; gives what differs from the last look."""
        with (
            self._journal.alone,
            locked(self._session.workspace.root),
        ):  # no other session is in the middle of a change
            root = str(self._session.workspace.root)
            own = trees.find_own(root)
            before = own.without(self._load() if self._tree is None else self._tree)
            tree = trees.Walk(root, before, self._objects, self._limits, alive, own).run()
            found = trees.differences(before, tree)
            if save and (found or not self._saved):
                self._save(tree)
            self._tree = tree
            self._saved = save or (self._saved and not found)
            self._noted = self._journal.shared.last()
            return found

    async def _settle(self, running: Running) -> None:
        """Write down what a command changed, once. The caller holds the lock."""
        key = running.record.agent, running.record.call
        if self._running.get(key) is not running:
            return
        changes = list[Change]()
        why = running.record.unprotected
        if running.started and not why:
            try:
                changes = await trio.to_thread.run_sync(self._find_own, running.began)
            except UNSEEN as error:
                why = f"What it changed is not known: {error}."
        self._running.pop(key, None)
        others = tuple(other.record.call for other in self._running.values())
        record = msgspec.structs.replace(
            running.record, changes=tuple(changes), others=others, unprotected=why
        )
        self._session.emit(record.event(CHANGED))
        await trio.to_thread.run_sync(self._journal.note, record, running.began)

    def _find_own(self, began: float) -> list[Change]:
        """Look at the tree in a thread.

        Return what differs from the last look and is not by another session.

        Args:
            began: When the command began, Unix time in seconds.
        """
        noted = self._noted
        changes: list[Change] = []
        for path, before, after in self._walk():
            found = Change(spell(path), before, after)
            others = self._journal.shared.since(noted, found.path)
            # Of two commands that overlap, either may have made the change: then both sessions name
            # it. A command that ran wholly within this one, and a file tool, have made it
            # themselves.
            changes += own_part(found, [other for other in others if other.began >= began])
        return changes

    async def follow(self) -> None:
        """Look after commands that were cancelled: their results were never checked."""
        async for event in self._session.events(self._session.journal.last):
            if (
                isinstance(event, events.CallStarted)
                and (event.agent, event.call.id) in self._running
            ):
                self._running[event.agent, event.call.id].started = True
            if isinstance(event, events.CallDone):
                running = self._running.get((event.agent, event.result.call_id))
                if running is not None:
                    async with self._order:
                        await self._settle(running)

    async def close(self) -> None:
        """Look after what still runs."""
        async with self._order:
            for running in list(self._running.values()):
                await self._settle(running)

    # --- what is known of the tree ----------------------------------------------------------------

    @property
    def _folder(self) -> Path:
        return objects_folder() / "trees" / hash_of(os.fsencode(self._session.workspace.root))

    def _load(self) -> trees.Tree:
        """Read the last tree of this workspace that a session left, as far as its contents are
        still kept.
        """
        try:
            newest = max(
                self._folder.iterdir(), key=lambda path: path.stat().st_mtime_ns, default=None
            )
            tree = trees.decode(newest.read_bytes()) if newest is not None else {}
        except (OSError, msgspec.DecodeError):
            return {}
        kept = self._objects.touch(found.node.hash for found in tree.values() if found.node.hash)
        return {
            name: found
            for name, found in tree.items()
            if not found.node.hash or found.node.hash in kept
        }

    def _save(self, tree: trees.Tree) -> None:
        """Write the tree down, so that what a command changes is known even if hilum ends before
        it.
        """
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = self._folder / f".{self._session.id}.tmp"
        target = self._folder / self._session.id
        with open(temporary, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(trees.encode(tree))
        os.replace(temporary, target)

    def recover(self) -> None:
        """Write down what became of changes and commands in whose middle hilum ended.

        Blocks; called once.
        """
        journal = self._journal
        ledger = self._fold_in_thread().ledger
        if not ledger.open and not ledger.commands:
            return
        with journal.alone, locked(self._session.workspace.root):
            journal.settle()
        pending = sorted(ledger.commands.values(), key=lambda command: command.seq)
        changes = list[Change]()
        why = ""
        try:
            if any(not record.unprotected for record in pending):
                self._tree = trees.decode((self._folder / self._session.id).read_bytes())
                for record in ledger.records.values():
                    if record.seq > pending[0].seq:
                        self._apply(record.changes)
                changes = [Change(spell(p), before, after) for p, before, after in self._walk()]
        except (*UNSEEN, msgspec.DecodeError) as error:
            why = f"What it changed is not known: {error}."
        for command in reversed(pending):  # what they changed is counted for the last of them
            why = command.unprotected or why
            record = msgspec.structs.replace(
                command, changes=tuple(changes), unprotected=why, cut_off=True
            )
            self._emit(record.event(CHANGED))
            journal.note(record, command.at)
            changes = []

    def _apply(self, changes: tuple[Change, ...]) -> None:
        """Take changes that are written down into the tree, so that they are not a command's."""
        tree = {} if self._tree is None else self._tree
        for change in changes:
            name = unspell(change.path)
            if change.after is None:
                tree.pop(name, None)
            else:
                tree[name] = trees.Found(change.after, ())

    # --- changes by tools -------------------------------------------------------------------------

    def guarded(self, call: Call) -> Workspace:
        """Return the workspace as a call of a tool may change it."""
        ledger = self._fold().ledger
        seen: Mapping[str, str] = ledger.seen.get(ledger.who(call.agent.name), {})
        return Guarded.of(call.workspace, _Book(self, call), seen)

    @contextmanager
    def sharing(self, agent: str, name: str) -> Iterator[None]:
        """Count what an agent sees, while this lasts, as seen under a name that several share: they
        are hands of one.
        """
        names = self._journal.ledger.names
        names[agent] = name
        try:
            yield
        finally:
            self._fold()
            del names[agent]

    def shown(self, agent: Agent, files: Mapping[str, str]) -> None:
        """Note what comes whole with the prompt that the agent is about to begin on: it counts as
        read.

        Args:
            agent: Who gets it.
            files: ``content_hash`` of each file, by path relative to the workspace.
        """
        data = {"files": {spell(path): hashed for path, hashed in files.items()}}
        self._session.emit(events.PluginEvent(name=SHOWN, data=data), agent, agent.starting)

    def _fold(self) -> Journal:
        """Take in what was logged since the last time."""
        while page := self._session.journal.since(self._journal.ledger.last):
            self._journal.fold(page)
        return self._journal

    def _fold_in_thread(self) -> Journal:
        return trio.from_thread.run_sync(self._fold)

    def _emit(self, event: events.PluginEvent) -> None:
        """Write an event, from a thread."""

        def emit() -> None:
            self._session.emit(event)
            self._fold()

        trio.from_thread.run_sync(emit)


class _Book:
    """See ``Book``."""

    def __init__(self, changes: Changes, call: Call) -> None:
        self._changes = changes
        self.objects = changes._objects
        self.alone = changes._journal.alone
        run = call.agent.conversation.run
        turn, name = (run.turn, run.id) if run else (0, "")
        self._record = Record(
            id="", tool=call.name, call=call.id, turn=turn, agent=call.agent.name, run=name
        )

    def begin(self, changes: tuple[Change, ...]) -> str:
        self._record = msgspec.structs.replace(
            self._record, id=os.urandom(6).hex(), changes=changes
        )
        self._changes._emit(self._record.event(CHANGING))
        return self._record.id

    def end(self, name: str, changes: tuple[Change, ...]) -> None:
        self._record = msgspec.structs.replace(self._record, id=name, changes=changes)
        self._changes._emit(self._record.event(CHANGED))
        self._changes._journal.note(self._record)
        if self._changes._running:
            self._changes._apply(changes)

    def cause(self, path: str) -> str:
        ledger = self._changes._journal.ledger
        record = ledger.records.get(ledger.causes.get(path, ""))
        if record is None:
            return ""
        if record.tool == "undo":
            return "by an undo of the user's"
        if record.what:
            return f"by {record.what!r}"
        return f"by {record.tool} of the agent {record.agent}"


def guarded(call: Call) -> Workspace:
    """Return the workspace as a call may change it: what it changes was read, and is written
    down.
    """
    changes = call.session.half(Changes)
    if changes is None:
        raise UsageError(
            "The plugin hilum-files is not open in this session.", code=errors.E_PLUGIN
        )
    workspace: Workspace = changes.guarded(call)
    return workspace


def _words(call: ToolCall) -> str:
    """Return what a command is, in one short line."""
    try:
        arguments = msgspec.json.decode(call.arguments or "{}")
    except msgspec.DecodeError:
        arguments = {}
    text = arguments.get("command") if isinstance(arguments, dict) else None
    if isinstance(text, str) and text.strip():
        return " ".join(text.split())[:200]
    return call.name


@asynccontextmanager
async def live(session: Session) -> AsyncIterator[Changes]:
    """Open the half, look after what was cut off, and follow the session until it closes."""
    objects = Objects(objects_folder())
    changes = Changes(session, objects)
    try:
        await trio.to_thread.run_sync(changes.recover)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(changes.follow)
            nursery.start_soon(_sweep, session.settings(FilesSettings))
            yield changes
            nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 4):
            await changes.close()
    finally:
        objects.close()


async def _sweep(settings: FilesSettings) -> None:
    """Once a day, forget what was kept for long enough."""
    folder = objects_folder()

    def sweep() -> None:
        mark = folder / "swept"
        now = time.time()
        with suppress(OSError, HilumError):
            if not (folder / "objects.db").exists() or (
                mark.exists() and mark.stat().st_mtime > now - DAY
            ):
                return
            mark.touch(mode=0o600)
            objects = Objects(folder)
            try:
                objects.sweep(settings.keep_days, settings.keep_limit)
                SharedChanges(objects, "", folder).sweep(settings.keep_days)
            finally:
                objects.close()
            for tree in folder.glob("trees/*/*"):
                if tree.stat().st_mtime < now - settings.keep_days * DAY:
                    tree.unlink()

    await trio.to_thread.run_sync(sweep, abandon_on_cancel=True)
