"""Keeps a session's workspace free of what commands leave for other programs to execute, and says
what was undone.

``watching`` looks, in threads. This module connects it with the session: when to look, which files
the user has agreed to, which running commands have to end, and what the model and the user read.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
import trio
from hilum import (
    Agent,
    Command,
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

from hilum_guard.names import printable
from hilum_guard.sandbox import BACKGROUND, Sandbox
from hilum_guard.watching import MAX_FOLDERS

if TYPE_CHECKING:
    from hilum_guard.gate import Call

GRACE = 0.15
"""Seconds between SIGTERM and SIGKILL for a command whose sandbox holds no more."""
_REFUSED = re.compile(
    r"Read-only file system|Device or resource busy|Permission denied|Operation not"
    r" permitted|EROFS|EBUSY"
)
MAX_NAMED = 3


class Keeper:
    """The guard's watch over a session's workspace.

    Args:
        session: The session.
        box: Its sandbox.
    """

    def __init__(self, session: Session, box: Sandbox) -> None:
        self._session = session
        self._box = box
        self._expected: dict[tuple[str, str], tuple[str, ...]] = {}
        self._follows = False
        self._unread: list[str] = []
        self._failures: set[str] = set()
        self._nursery: trio.Nursery | None = None
        self._token: trio.lowlevel.TrioToken | None = None

    def start(self, nursery: trio.Nursery) -> None:
        """Begin.

        Args:
            nursery: Holds the tasks that end commands.
        """
        self._nursery = nursery
        self._token = trio.lowlevel.current_trio_token()
        self._box.watch.alive = lambda: self._session.processes.alive
        self._box.watch.exempt = self._exempt
        self._box.on_made_inert, self._box.on_replaced = self._hear_made_inert, self._hear_replaced
        self._box.on_failed = self._hear_failed
        self._box.on_recovered, self._box.on_unmarked = self._hear_recovered, self._hear_unmarked
        self._box.on_truncated = self._hear_truncated

    def stop(self) -> None:
        """Start nothing more: the session closes, which ends its commands by itself."""
        self._nursery = None

    # --- what a killed session left ---------------------------------------------------------------

    async def recover(self) -> None:
        """Look at what commands of killed sessions left in the workspace, and tell the user what
        was undone.
        """
        await trio.to_thread.run_sync(self._box.recover)

    def _hear_recovered(self, said: list[str]) -> None:
        self._in_loop(self._tell_recovered, said)

    def _tell_recovered(self, said: list[str]) -> None:
        listed = "".join(f"\n  {line}" for line in said)
        say = (
            "hilum was killed while a command ran in this folder, and other programs would have"
            f" executed what was written since then, by the command or by you:{listed}"
        )
        with suppress(StoreError):
            self._session.note("guard.recovered", say=say, what=said)

    def _hear_unmarked(self, why: str) -> None:
        self._in_loop(self._tell_unmarked, why)

    def _tell_unmarked(self, why: str) -> None:
        """Say, once for each reason, what a kill would cost."""
        if why in self._failures:
            return
        self._failures.add(why)
        say = (
            f"hilum cannot remember that commands run ({why}). If it is killed, look at this folder"
            " before you use it: the next session will not undo what a command wrote last."
        )
        with suppress(StoreError):
            self._session.note("guard.unmarked", say=say, why=why)

    def _hear_truncated(self) -> None:
        self._in_loop(self._tell_truncated)

    def _tell_truncated(self) -> None:
        """Say, once, that a part of the workspace is not watched."""
        why = f"This folder has more than {MAX_FOLDERS} folders in it"
        if why in self._failures:
            return
        self._failures.add(why)
        say = (
            f"{why}. Those deepest in it are not watched for files that other programs execute, but"
            " for repositories that Git's index names. Look at what a command wrote there before"
            " you use it."
        )
        with suppress(StoreError):
            self._session.note("guard.truncated", say=say)

    # --- what a file tool writes with the user's consent ------------------------------------------

    async def expect(self, agent: Agent, call: ToolCall, tool: Tool) -> None:
        """Take the paths that a call writes for the user's while the call is open: the user is
        being asked about them.
        """
        from hilum_guard.gate import read_call

        with suppress(ToolError):
            read: Call = await trio.to_thread.run_sync(
                read_call, tool, call.arguments, self._session.workspace, abandon_on_cancel=True
            )
            self._expected[agent.name, call.id] = tuple(str(path) for path, _ in read.reached)
            if not self._follows and self._nursery is not None:
                self._follows = True
                self._nursery.start_soon(self._drop_done, self._session.journal.last)

    async def _drop_done(self, after: int) -> None:
        """Expect nothing more of calls that are over: of one that was refused or stopped there is
        no result to check.
        """
        async for event in self._session.events(after):
            if isinstance(event, CallDone):
                self._expected.pop((event.agent, event.result.call_id), None)

    def _exempt(self) -> tuple[str, ...]:
        return tuple(path for paths in list(self._expected.values()) for path in paths)

    # --- after a call -----------------------------------------------------------------------------

    async def check_result(
        self, agent: Agent, call: ToolCall, result: ToolResult
    ) -> ToolResult | None:
        """Look at the workspace after a call, and add to its result what was undone.

        Returns None where nothing was.
        """
        paths = self._expected.pop((agent.name, call.id), ())
        if not result.code:
            for path in paths:
                await trio.to_thread.run_sync(self._box.watch.accept, path)
        if self._box.watch.dirty:
            try:
                self._tell(await trio.to_thread.run_sync(self._box.watch.check))
            except (
                Exception
            ) as error:  # what a command left must not pass because looking for it failed
                self._tell_failed(error)
        said = self._unread
        self._unread = []
        if said:
            listed = "\n".join(f"- {line}" for line in said)
            text = (
                "E_DENIED: A command wrote what other programs execute outside the sandbox, and"
                f" that was undone:\n{listed}\nDo not try another way. If the user wants such a"
                " file, write it with write_file, which asks them."
            )
            code = result.code or "E_DENIED"
            return msgspec.structs.replace(
                result, parts=(*result.parts, Text(text, "guard")), code=code
            )
        hint = self._explain(result)
        if hint:
            return msgspec.structs.replace(result, parts=(*result.parts, Text(hint, "guard")))
        return None

    def _explain(self, result: ToolResult) -> str:
        """Return why a command failed that wanted to write a protected path.

        Empty where it did not.
        """
        if result.name != "run_terminal_cmd" or not _REFUSED.search(text := result.text):
            return ""
        root = os.path.join(os.path.realpath(self._session.workspace.root), "")
        lines = [line for line in text.splitlines() if _REFUSED.search(line)]
        named = []
        for path in self._box.protected:
            shown = path.removeprefix(root)
            if any(shown in line or f"/{os.path.basename(path)}" in line for line in lines):
                named.append(printable(shown))
        if not named:
            return ""
        listed = ", ".join(named[:MAX_NAMED])
        return (
            f"{listed}: read-only in the sandbox, as Git, editors, shells or agents execute what is"
            " in it. To change it, use write_file or edit_file, which ask the user, or tell the"
            " user what to run."
        )

    # --- while commands run -----------------------------------------------------------------------

    def _hear_made_inert(self, said: list[str]) -> None:
        self._in_loop(self._tell, said)

    def _hear_failed(self, error: Exception) -> None:
        self._in_loop(self._tell_failed, error)

    def _tell_failed(self, error: Exception) -> None:
        """Say, once for each reason, that the workspace could not be looked at."""
        reason = f"{type(error).__name__}: {printable(str(error))}"
        text = f"The workspace could not be checked for what other programs execute ({reason})."
        if text not in self._failures:
            self._failures.add(text)
            self._unread.append(text)
            with suppress(StoreError):
                self._session.note(
                    "guard.watch_failed", say=f"{text} Look at it before you use it.", why=text
                )

    def _hear_replaced(self, paths: list[str]) -> None:
        self._in_loop(self._end_commands, paths)

    def _in_loop(self, function: object, *arguments: object) -> None:
        if self._token is None:
            return
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(function, *arguments)  # type: ignore[arg-type]

    def _tell(self, said: list[str]) -> None:
        """Say what was undone: to the user now, to the model with the next result."""
        if not said:
            return
        self._unread += said
        listed = "".join(f"\n  {line}" for line in said)
        say = (
            "A command wrote what other programs execute outside the sandbox. It was undone; look"
            f" at it:{listed}"
        )
        with suppress(StoreError):
            self._session.note("guard.undone", say=say, what=said)
            self._box.watch.note_told(said)
            if self._nursery is not None:
                self._nursery.start_soon(trio.to_thread.run_sync, self._box.watch.settle)

    def _end_commands(self, paths: list[str]) -> None:
        """End the running commands that are no longer kept from writing a path, since another file
        has taken its place.
        """
        folders = [
            folder for root in self._box.watch.roots if (folder := self._box.watch.git_folder(root))
        ]
        in_git = all(any(path.startswith(f"{folder}/") for folder in folders) for path in paths)
        ended = []
        for process, command in list(self._session.processes.live.items()):
            if not (
                in_git and BACKGROUND in command.env
            ):  # to a service, the whole Git folder is read-only
                ended.append(command)
                if self._nursery is not None:
                    self._nursery.start_soon(_stop, process)
        if ended:
            shown = [printable(path) for path in paths]
            listed = ", ".join(shown[:MAX_NAMED])
            text = (
                f"{listed} was replaced while commands ran, so the sandbox kept them from writing"
                f" it no more, and they were ended ({len(ended)}). New commands are kept from it."
            )
            self._unread.append(text)
            with suppress(StoreError):
                self._session.note(
                    "guard.sandbox_lost",
                    say=text,
                    paths=shown,
                    ended=[_name(each) for each in ended],
                )


async def _stop(process: Process) -> None:
    with suppress(HilumError):
        await process.stop(GRACE)


def _name(command: Command) -> str:
    return printable(command.argv[-1][:200])
