"""Undo what a session's commands leave in the workspace for other programs to execute.

``workspace_watcher`` checks the workspace, in threads. This module connects the watcher to the
session. The module decides when to check, which files the user has approved, which running commands
must end, and what to report to the model and the user.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVarTuple

import msgspec
import trio
from hilum import (
    Agent,
    HilumError,
    Process,
    Session,
    StoreError,
    Text,
    Tool,
    ToolCall,
    ToolError,
    ToolResult,
)
from hilum.events import CallDone
from hilum.store import spell_folder

from hilum_guard.file_names import is_below, printable
from hilum_guard.sandbox.process_limit import explain_limit
from hilum_guard.sandbox.session_sandbox import BACKGROUND, Sandbox
from hilum_guard.sandbox.shared_work import SharedWork
from hilum_guard.watching.folder_scan import MAX_FOLDERS
from hilum_guard.watching.quarantine import UNATTRIBUTED
from hilum_guard.watching.sandbox_observer import SandboxObserver

if TYPE_CHECKING:
    from hilum_guard.call_reader import CheckedCall

Arguments = TypeVarTuple("Arguments")
GRACE = 0.15
"""Seconds between SIGTERM and SIGKILL for a command that its sandbox no longer confines."""
MAX_REPORTS = 5
"""Maximum number of reports about undone changes that the user sees until the next call ends.

A command may write such a file again and again, and the workspace is checked ten times a second. The
log has all of them.
"""
MAX_LISTED = 20
"""Maximum number of undone changes listed for the model in one result."""
MAX_NAMED = 3
"""Maximum number of paths and settings named in a message."""
# The system's message for a write to a path that is mounted read-only.
_READ_ONLY = "Read-only file system"
_REFUSED = (
    r"Read-only file system|Device or resource busy|Permission denied|Operation not"
    r" permitted|EROFS|EBUSY"
)
# The system's message for a rename from one mount to another. A folder above a protected path is a
# mount, so that it cannot be moved away.
_CROSSES_MOUNTS = re.compile(r"Invalid cross-device link|EXDEV")
_UNDONE_FOR_MODEL = (
    "E_DENIED: A command wrote files that other programs execute outside the sandbox. The changes"
    " were undone:\n{listed}\nDo not try to bypass this. If the user wants such a file, write it with"
    " write_file, which asks the user."
)
_UNDONE_ELSEWHERE = (
    "This call did not do it, but a command wrote files that other programs execute outside the"
    " sandbox. The changes were undone:\n{listed}"
)
_UNATTRIBUTED_FOR_MODEL = (
    "Note: a service or the user wrote files that other programs execute outside the sandbox. hilum"
    " cannot tell who, and made them inert:\n{listed}\nDo not try to bypass this. The user knows how"
    " to get them back."
)


class WorkspaceGuard(SandboxObserver):
    """The checker of a session's workspace, which reports what was undone.

    Args:
        session: The session.
        box: The session's sandbox.
    """

    def __init__(self, session: Session, box: Sandbox) -> None:
        self._session = session
        self._box = box
        # Paths that a file tool writes if the user approves, by agent and call.
        self._expected: dict[tuple[str, str], tuple[str, ...]] = {}
        self._follows = False
        self._checking = SharedWork[list[str]](box.turns)
        # Sentences that the model reads with the next result. Threads append to it.
        self._unread: deque[str] = deque()
        self._unread_losses: list[str] = []
        self._reported: set[str] = set()
        # How many reports about undone changes the user has seen since the last call, and how many
        # changes were undone after that.
        self._report_count = 0
        self._hidden_count = 0
        self._nursery: trio.Nursery | None = None
        self._token: trio.lowlevel.TrioToken | None = None

    def start(self, nursery: trio.Nursery) -> None:
        """Start reporting.

        Args:
            nursery: Runs the tasks that end commands.
        """
        self._nursery = nursery
        self._token = trio.lowlevel.current_trio_token()
        self._box.watch.alive = self._count_running
        self._box.watch.exempt = self._exempt
        self._box.watch.commands = self._count_commands
        self._box.watch.unclosed = self._count_unclosed
        self._box.observer = self

    def _count_running(self) -> int:
        """Return the number of processes that may write to the workspace.

        In a sandbox, a process that only looks cannot, and may run for the whole session.
        """
        processes = self._session.processes
        if self._box.describe_kind():
            return processes.count("command", "service", "check")
        return processes.alive

    def _count_commands(self) -> int:
        """Return the number of processes that may write to the workspace and are no services."""
        return self._count_running() - self._session.processes.count("service")

    def _count_unclosed(self) -> int:
        """Return the number of services whose sandbox does not close the Git folder."""
        # A thread calls this method while the event loop adds and removes processes.
        live = self._session.processes.live.copy().values()
        closed = sum(BACKGROUND in command.env for command in live)
        return self._session.processes.count("service") - closed

    def stop(self) -> None:
        """Stop starting tasks because the session is closing and ends its commands."""
        self._report_hidden()
        self._nursery = None

    # --- reports from threads ---------------------------------------------------------------------

    def report_undone(self, sentences: list[str]) -> None:
        """Inform the user and the model of what was undone."""
        # The event loop may take the result of the command before it runs a function of a thread.
        self._unread.extend(sentences)
        self._run_in_loop(self._report_undone, sentences)

    def report_replaced(self, paths: list[str]) -> None:
        """End the commands that can again write to a protected path."""
        self._run_in_loop(self._end_commands, paths)

    def report_failure(self, error: Exception) -> None:
        """Inform the user and the model that the workspace could not be checked."""
        self._run_in_loop(self._report_failure, error)

    def report_recovered(self, sentences: list[str]) -> None:
        """Inform the user of what a killed session's commands left."""
        listed = "".join(f"\n  {line}" for line in sentences)
        say = (
            "hilum was killed while a command ran in this folder. Since then, the command or you"
            f" wrote files that other programs would have executed:{listed}"
        )
        self._run_in_loop(self._note_recovered, say, sentences)

    def report_unmarked(self, reason: str) -> None:
        """Warn the user about the consequences if hilum is killed."""
        say = (
            f"hilum cannot record that commands are running ({reason}). If it is killed, check this"
            " folder before you use it: the next session will not undo a command's last changes."
        )
        self._run_in_loop(self._note_once, reason, "guard.unmarked", say, reason)

    def report_truncated(self) -> None:
        """Inform the user that a part of the workspace is not watched."""
        why = f"This folder contains more than {MAX_FOLDERS} folders"
        say = (
            f"{why}. The deepest ones are not watched for files that other programs execute, only"
            " for repositories that Git's index names. Check what a command wrote there before"
            " you use it."
        )
        self._run_in_loop(self._note_once, why, "guard.truncated", say, why)

    def _run_in_loop(
        self, function: Callable[[*Arguments], object], *arguments: *Arguments
    ) -> None:
        """Call a function in the event loop, from any thread."""
        if self._token is None:
            return
        # The event loop may end while a thread is still reporting.
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(function, *arguments)

    def _note_recovered(self, say: str, sentences: list[str]) -> None:
        with suppress(StoreError):
            self._session.note("guard.recovered", say=say, what=sentences)

    def _note_once(self, key: str, name: str, say: str, why: str) -> None:
        """Write an event, only once per key."""
        if key in self._reported:
            return
        self._reported.add(key)
        with suppress(StoreError):
            self._session.note(name, say=say, why=why)

    async def recover(self) -> None:
        """Undo what killed sessions' commands left, and inform the user."""
        await trio.to_thread.run_sync(self._box.recover)

    # --- what a file tool writes with the user's consent ------------------------------------------

    async def expect(self, agent: Agent, call: ToolCall, tool: Tool) -> None:
        """Attribute a call's paths to the user while the call is in flight.

        hilum is asking the user to approve these paths.
        """
        from hilum_guard.call_reader import read_call  # with the first call

        with suppress(ToolError):
            read: CheckedCall = await trio.to_thread.run_sync(
                read_call, tool, call.arguments, self._session.workspace, abandon_on_cancel=True
            )
            paths = tuple(str(path) for path, _ in read.paths)
            self._expected[agent.name, call.id] = paths
            if not self._follows and self._nursery is not None:
                self._follows = True
                self._nursery.start_soon(self._drop_done, self._session.journal.last)

    async def _drop_done(self, after: int) -> None:
        """Forget the paths of calls that ended, because a denied or stopped call has no result."""
        async for event in self._session.events(after):
            if isinstance(event, CallDone):
                self._expected.pop((event.agent, event.result.call_id), None)

    def _exempt(self) -> tuple[str, ...]:
        return tuple(path for paths in list(self._expected.values()) for path in paths)

    # --- after a call -----------------------------------------------------------------------------

    def needs_check(self, agent: Agent, call: ToolCall, result: ToolResult) -> bool:
        """Return whether ``check_result`` may have anything to do after a call."""
        is_expected = (agent.name, call.id) in self._expected
        is_unread = bool(self._unread or self._unread_losses)
        is_command = result.name == "run_terminal_cmd"
        return is_expected or is_unread or is_command or self._box.watch.dirty

    async def check_result(
        self, agent: Agent, call: ToolCall, result: ToolResult
    ) -> ToolResult | None:
        """Check the workspace after a call.

        Returns:
            The result with a note on what was undone, or None if nothing was undone.
        """
        paths = self._expected.pop((agent.name, call.id), ())
        if not result.code:
            for path in paths:
                # Only a successful call counts: a failed call must not attribute a command's file
                # to the user.
                await trio.to_thread.run_sync(self._box.watch.accept, path)
        if self._box.watch.dirty:
            try:
                # Commands that end while a check runs share the next one.
                await self._checking.run("check", self._box.watch.check)
            except Exception as error:
                # The model must not mistake an unchecked workspace for a clean workspace.
                self._report_failure(error)
        losses = self._unread_losses
        self._unread_losses = []
        if losses:
            text = Text("\n".join(losses), "guard")
            result = msgspec.structs.replace(result, parts=(*result.parts, text))
        unread: list[str] = []
        while self._unread:
            unread.append(self._unread.popleft())
        self._report_hidden()
        if unread:
            return self._add_undone(agent, result, unread)
        if losses:
            return result
        hint = self._explain_limit(result) or self._explain_refusal(result)
        if hint:
            return msgspec.structs.replace(result, parts=(*result.parts, Text(hint, "guard")))
        return None

    def _add_undone(self, agent: Agent, result: ToolResult, sentences: Sequence[str]) -> ToolResult:
        """Return a result with notes on what was undone; a call that may have done it fails."""
        unattributed = [line for line in sentences if line.endswith(UNATTRIBUTED)]
        by_command = [line for line in sentences if line not in unattributed]
        notes: list[str] = []
        code = result.code
        if by_command:
            listed = _list_sentences(by_command)
            if _may_have_written(agent, result):
                code = code or "E_DENIED"
                notes.append(_UNDONE_FOR_MODEL.format(listed=listed))
            else:
                notes.append(_UNDONE_ELSEWHERE.format(listed=listed))
        if unattributed:
            listed = _list_sentences(unattributed)
            notes.append(_UNATTRIBUTED_FOR_MODEL.format(listed=listed))
        parts = (*result.parts, *(Text(note, "guard") for note in notes))
        return msgspec.structs.replace(result, parts=parts, code=code)

    def _explain_limit(self, result: ToolResult) -> str:
        """Return how a call reached the limit on processes; empty for other results."""
        if not result.code or not self._box.describe_kind():
            return ""
        return explain_limit(self._session, self._box.settings.processes, result.text)

    def _explain_refusal(self, result: ToolResult) -> str:
        """Return why a command could not write; empty for other results."""
        if result.name != "run_terminal_cmd":
            return ""
        denied = self._find_denied(result.text)
        if denied:
            return (
                f"The sandbox denies this because of a rule of the user: {denied}. Do not try to"
                " bypass it. If the task needs the path, tell the user."
            )
        crossed = self._find_crossed(result.text) if result.code else ""
        if crossed:
            return (
                f"In the sandbox, a file cannot be renamed into or out of the folder of {crossed}."
                " Move it with `mv`, which copies it, and stage both paths with `git add` instead of"
                " `git mv`."
            )
        named = self._find_refused(result.text)
        if not named and result.code and _READ_ONLY in result.text:
            return (
                "The sandbox lets commands write only to the workspace and to $TMPDIR. If it is"
                " needed, ask the user to add the folder to the setting guard.writable."
            )
        if not named:
            return ""
        return (
            f"{named}: read-only in the sandbox, because Git, editors, shells or agents execute"
            " its contents. To change it, use write_file or edit_file, which ask the user, or tell"
            " the user which command to run."
        )

    def explain_refusal(self, output: str) -> str:
        """Return why a command of the user could not write; empty if the output shows no such case.

        Args:
            output: The output of the command.
        """
        if self._box.describe_kind():
            limit = self._box.settings.processes
            reached = explain_limit(self._session, limit, output, for_user=True)
            if reached:
                return reached
        denied = self._find_denied(output)
        if denied:
            return (
                f"The sandbox denies this because of a rule: {denied}. Run the command in another"
                " terminal, or change the rule."
            )
        crossed = self._find_crossed(output)
        if crossed:
            return (
                f"In the sandbox, a file cannot be renamed into or out of the folder of {crossed}. Use"
                " `mv`, which copies it, or another terminal."
            )
        named = self._find_refused(output)
        if named:
            return (
                f"The sandbox protects {named} from commands, because Git, editors, shells or agents"
                " execute its contents. Change it in your editor or in another terminal, or let the"
                " agent write it, which needs your approval."
            )
        if _READ_ONLY in output:
            return (
                "The sandbox lets commands write only to this project and to $TMPDIR. Run the command"
                " in another terminal, or add the folder to the setting guard.writable."
            )
        return ""

    def _find_denied(self, output: str) -> str:
        """Return the paths that rules denied to a command, each with its rule, in words."""
        lines = [line for line in output.splitlines() if re.search(_REFUSED, line)]
        if not lines:
            return ""
        root = os.path.join(os.path.realpath(self._session.workspace.root), "")
        named = []
        for path, rule in self._box.denied.items():
            shown = path.removeprefix(root)
            name = re.compile(rf"(?<![\w.-]){re.escape(shown)}(?![\w.-])")
            if any(name.search(line) for line in lines):
                named.append(f"{printable(shown)} ({printable(rule)})")
        return ", ".join(named[:MAX_NAMED])

    def _find_crossed(self, output: str) -> str:
        """Return the protected paths beside which a rename failed, each with its rule, in words."""
        if not _CROSSES_MOUNTS.search(output):
            return ""
        root = os.path.join(os.path.realpath(self._session.workspace.root), "")
        rules = dict.fromkeys(self._box.protected, "") | dict(self._box.denied)
        folders = {
            path: f"{os.path.dirname(path).removeprefix(root)}/"
            for path in rules
            if "/" in path.removeprefix(root) and path.startswith(root)
        }
        # The message names only one of the two paths.
        beside = [path for path, folder in folders.items() if folder in output]
        named = []
        for path in beside or [path for path in folders if rules[path]] or folders:
            rule = f" ({printable(rules[path])})" if rules[path] else ""
            named.append(f"{printable(path.removeprefix(root))}{rule}")
        return ", ".join(named[:MAX_NAMED])

    def _find_refused(self, output: str) -> str:
        """Return the protected paths to which a command could not write, as a list in words."""
        lines = [line for line in output.splitlines() if re.search(_REFUSED, line)]
        if not lines:
            return ""
        root = os.path.join(os.path.realpath(self._session.workspace.root), "")
        named = []
        for path in self._box.protected:
            shown = path.removeprefix(root)
            name = f"/{os.path.basename(path)}"
            if any(shown in line or name in line for line in lines):
                named.append(printable(shown))
        return ", ".join(named[:MAX_NAMED])

    def _report_undone(self, sentences: list[str]) -> None:
        """Inform the user of what was undone."""
        listed = "".join(f"\n  {line}" for line in sentences)
        if all(line.endswith(UNATTRIBUTED) for line in sentences):
            say = (
                "A service or you wrote files that other programs execute outside the sandbox. hilum"
                f" cannot tell who, and made them inert; nothing is deleted:{listed}\n  If a file is"
                " yours, stop the services (/stop), and give it its name again."
            )
        else:
            say = (
                "A command wrote files that other programs execute outside the sandbox. The changes"
                f" were undone; check them:{listed}"
            )
        pairs = self._box.watch.pop_renamed()
        # The history of files needs the new names to undo what the command did.
        renamed = [[spell_folder(old), spell_folder(new)] for old, new in pairs]
        data: dict[str, object] = {"what": sentences, "renamed": renamed}
        if self._report_count < MAX_REPORTS:
            self._report_count += 1
            data["say"] = say
        else:
            self._hidden_count += len(sentences)
        with suppress(StoreError):
            self._session.note("guard.undone", **data)
            # Only logged sentences may be removed from the marker on disk.
            self._box.watch.note_reported(sentences)
            if self._nursery is not None:
                # Writing the marker blocks, so it is done in a thread.
                self._nursery.start_soon(trio.to_thread.run_sync, self._box.watch.settle)

    def _report_hidden(self) -> None:
        """Inform the user of the number of undone changes that were not shown one by one."""
        count = self._hidden_count
        self._report_count = 0
        self._hidden_count = 0
        if not count:
            return
        times = "once more" if count == 1 else f"{count} times more"
        say = f"Changes of this kind were undone {times}. The session's log names each of them."
        with suppress(StoreError):
            self._session.note("guard.undone_more", say=say, count=count)

    def _report_failure(self, error: Exception) -> None:
        """Inform the user and the model, once per reason, that the workspace check failed."""
        reason = f"{type(error).__name__}: {printable(str(error))}"
        text = f"The workspace could not be checked for files that others execute ({reason})."
        if text in self._reported:
            return
        self._unread.append(text)
        say = f"{text} Check it before you use it."
        self._note_once(text, "guard.watch_failed", say, text)

    def _end_commands(self, paths: list[str]) -> None:
        """End the running commands that can write to a path because another file replaced it."""
        folders = list(filter(None, map(self._box.watch.git_folder, self._box.watch.roots)))
        # Git replaces files when it writes them: `git push -u` replaces the configuration.
        in_git = all(is_below(path, folders) for path in paths)
        ended = []
        for process, command in list(self._session.processes.live.items()):
            # For a service, the whole Git folder is read-only.
            if in_git and BACKGROUND in command.env:
                continue
            ended.append(command)
            if self._nursery is not None:
                self._nursery.start_soon(_stop, process)
        if not ended:
            return
        shown = [printable(path) for path in paths]
        listed = ", ".join(shown[:MAX_NAMED])
        text = (
            f"Another program replaced {listed} while commands ran, so their sandbox no longer"
            f" protected this path. hilum ended these commands ({len(ended)}); they can be run again."
        )
        self._unread_losses.append(text)
        names = [printable(command.argv[-1][:200]) for command in ended]
        with suppress(StoreError):
            self._session.note("guard.sandbox_lost", say=text, paths=shown, ended=names)


def _list_sentences(sentences: Sequence[str]) -> str:
    """Return a list for the model, one sentence on each line."""
    lines = [f"- {line}" for line in sentences[:MAX_LISTED]]
    if len(sentences) > MAX_LISTED:
        lines.append(f"- and {len(sentences) - MAX_LISTED} more")
    return "\n".join(lines)


def _may_have_written(agent: Agent, result: ToolResult) -> bool:
    """Return whether a call has run, and not only read; a denied call has not run."""
    run = agent.conversation.run
    state = run.calls.get(result.call_id) if run else None
    if state is None:
        return True
    return state.started is not None and state.started.risk != "read"


async def _stop(process: Process) -> None:
    with suppress(HilumError):
        await process.stop(GRACE)
