"""Plays the user's editor of a recorded session: it shows and writes what it did then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import trio
from hilum import Agent, Session, ToolError, hookimpl
from hilum.events import PluginEvent
from hilum_files.journal.editor_log import current_access
from hilum_files.journal.records import EDITOR

from hilum_replay.sessions.contained_files import ContainedFiles
from hilum_replay.sessions.recorded_calls import RecordedCalls, apply_edit
from hilum_replay.sessions.recorded_editor import EditorEvent
from hilum_replay.sessions.recorded_log import RecordedCall
from hilum_replay.sessions.recording import FileEdit


class PlayedEditor:
    """The plugin of a replay that plays the user's editor. Implements ``hilum.EditorFiles``.

    A text changes at the same access of the same call as in the recording. Without a recorded
    change, the editor shows the files, and writes and saves what it is asked to.

    Args:
        calls: The recorded calls.
        wait: A function that waits until everything has happened that the user did before an event
            of the recorded log.
        root: The workspace of the replay.
        objects: The contents of texts and files, by name.
        edits: Changes of files that were found when the editor was asked.
    """

    name = "played_editor"

    def __init__(
        self,
        calls: RecordedCalls,
        wait: Callable[[int], Awaitable[None]],
        root: Path,
        objects: Mapping[str, bytes],
        edits: Sequence[FileEdit],
    ) -> None:
        self._calls = calls
        self._wait = wait
        self._root = root
        self._files = ContainedFiles(root)
        self._objects = objects
        self._edits = list(edits)
        self._texts: dict[str, str] = {}
        self._passed: set[int] = set()
        self.can_write_in_editor = True
        calls.on_answered = self._pass_answered_call

    @hookimpl
    def open_session(self, session: Session) -> PlayedEditor:
        """Return the editor."""
        return self

    async def read_in_editor(self, path: Path) -> str | None:
        """Return the text of a file that is not saved; ``None`` if the editor shows the file.

        Raises:
            ToolError: The editor failed in the recorded session.
        """
        name = self._find_name(path)
        event = await self._pass_events(name)
        if event is not None:
            _raise_failure(event)
        return self._texts.get(name)

    async def write_in_editor(self, path: Path, text: str) -> bool:
        """Write a text as the recorded editor did; return whether it was written.

        Raises:
            ToolError: The editor failed in the recorded session.
        """
        name = self._find_name(path)
        event = await self._pass_events(name)
        if not name:
            return False  # outside of the workspace, where a replay writes nothing
        if event is None:
            self._texts.pop(name, None)
            await trio.to_thread.run_sync(self._files.write, name, text.encode())
            return True
        await trio.to_thread.run_sync(self._repeat_write, name, event)
        _raise_failure(event)
        if event.record.refused:
            return False
        self._texts.pop(name, None)
        return True

    def _repeat_write(self, name: str, event: EditorEvent) -> None:
        """Leave a file as the editor left it, for example with the text that it had before."""
        saved = event.record.saved
        if saved == event.record.before:
            return
        if saved is None:
            self._files.remove(name)
        elif saved.hash in self._objects:
            self._files.write(name, self._objects[saved.hash], mode=saved.mode)

    def _find_name(self, path: Path) -> str:
        """Return a path relative to the workspace; empty if it is outside."""
        return path.relative_to(self._root).as_posix() if path.is_relative_to(self._root) else ""

    async def _pass_events(self, name: str) -> EditorEvent | None:
        """Change the text of a file as the user had changed it before the present access.

        Returns:
            The event of this access; ``None`` if the log has none.
        """
        access = current_access.get()
        # Linters read without a call; they see the text that the last call saw.
        recorded = self._calls.find(access.agent, access.call) if access is not None else None
        if access is None or recorded is None:
            return None
        found = None
        for event in recorded.editor:
            is_due = event.record.access <= access.number and event.path == name
            if not is_due or event.seq in self._passed:
                continue
            self._passed.add(event.seq)
            await self._pass_event(event)
            if event.record.access == access.number:
                found = event
        return found

    async def _pass_event(self, event: EditorEvent) -> None:
        await self._wait(event.seq)
        self.can_write_in_editor = event.record.can_write
        while self._edits and self._edits[0].seq <= event.seq:
            edit = self._edits.pop(0)
            await trio.to_thread.run_sync(apply_edit, edit, self._files, self._objects)
        self._change_text(event)

    def _pass_answered_call(self, agent: Agent, recorded: RecordedCall) -> None:
        """Change the texts as during a call that does not run again, and log it."""
        for event in recorded.editor:
            if event.seq not in self._passed:
                self._passed.add(event.seq)
                self._change_text(event)
                agent.emit(PluginEvent(name=EDITOR, data=msgspec.to_builtins(event.record)))

    def _change_text(self, event: EditorEvent) -> None:
        """Change the text of a file to the one that a read showed."""
        if event.record.does == "write" or event.record.failure is not None:
            return  # the text is still the one that the last read showed
        unsaved = event.record.unsaved
        if unsaved is not None and unsaved in self._objects:
            self._texts[event.path] = self._objects[unsaved].decode(errors="replace")
        else:
            self._texts.pop(event.path, None)


def _raise_failure(event: EditorEvent) -> None:
    """Raise the error of an editor that failed in the recorded session."""
    failure = event.record.failure
    if failure is not None:
        raise ToolError(failure.message, code=failure.code, hint=failure.hint)
