"""Records in the log what the user's editor shows, where it is not what the file contains.

A replay of the session plays an editor that shows the same texts. The log needs only what the disk
does not show: an event is written when a text in the editor is no longer saved, has changed or is
saved again, and when the editor does not write a file as hilum asked it to.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import attrs
import msgspec
import trio
from hilum import EditorFiles, StoreError, ToolError, Workspace, events

from hilum_files.journal.content_store import ContentStore, hash_content
from hilum_files.journal.records import CHANGED, EDITOR, read_record, spell_path
from hilum_files.journal.tree import node_at
from hilum_files.journal.tree_entries import Node
from hilum_files.unsaved_text import (
    MAX_COMPARED_BYTES,
    find_unsaved_text,
    measure_file,
    read_saved,
)

if TYPE_CHECKING:
    from hilum import Agent, Call


class EditorAccess(NamedTuple):
    """A request to the editor.

    Attributes:
        agent: The agent whose call accesses the editor.
        call: Id of the call.
        number: The number of the access within the call, from 1.
    """

    agent: Agent
    call: str
    number: int


current_access: ContextVar[EditorAccess | None] = ContextVar("current_access", default=None)
"""The access of a call for which the editor is asked; a played editor finds its recorded text by it."""


class EditorFailure(msgspec.Struct, frozen=True, omit_defaults=True):
    """An editor's failure to respond."""

    message: str
    code: str
    hint: str = ""


class EditorRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an editor showed or did with a file, at one access.

    Attributes:
        call: Id of the call.
        path: The path, as ``spell_path`` returns it.
        access: The number of the access within the call, from 1.
        does: Whether the editor was to show or to write the text.
        unsaved: The hash of the text that the editor showed and that was not saved; ``None`` if it
            showed what the file contained.
        saved: The file; after a write, as the editor left it.
        before: The file before a write.
        refused: Whether the editor did not write.
        failure: The failure of the editor.
        can_write: Whether the editor also writes files.
    """

    call: str
    path: str
    access: int
    does: Literal["read", "write"] = "read"
    unsaved: str | None = None
    saved: Node | None = None
    before: Node | None = None
    refused: bool = False
    failure: EditorFailure | None = None
    can_write: bool = True


def read_editor_record(event: events.PluginEvent) -> EditorRecord | None:
    """Return an event's record, or ``None`` if it is another event or of a later version."""
    if event.name != EDITOR:
        return None
    try:
        return msgspec.convert(event.data, EditorRecord)
    except msgspec.ValidationError:
        return None


# The text of a file in the editor is not known after a write that was not confirmed.
_UNKNOWN = "?"


class EditorLog:
    """What a session's log contains about the texts in the editor.

    The log continues in another process, perhaps without an editor.

    Args:
        store: The store of contents.
    """

    def __init__(self, store: ContentStore) -> None:
        self.store = store
        self._accesses: dict[tuple[str, str], int] = {}
        self._unsaved: dict[str, str] = {}

    @property
    def has_texts(self) -> bool:
        """Whether the editor showed a text that was not saved, as far as the log has it."""
        return bool(self._unsaved)

    def apply(self, event: events.AnyEvent) -> None:
        """Update the state with an event of the log."""
        if not isinstance(event, events.PluginEvent):
            return
        record = read_editor_record(event)
        if record is not None:
            self._apply_record(record)
            return
        change = read_record(event) if event.name == CHANGED else None
        # What a tool has written is saved, unless the editor did not confirm it. A command does not
        # change the text in the editor.
        if change is not None and not change.is_undo and not change.what:
            for each in change.changes:
                if self.find_text(each.path) != _UNKNOWN:
                    self.set_text(each.path, None)

    def _apply_record(self, record: EditorRecord) -> None:
        if record.does == "read":
            if record.failure is None:
                self.set_text(record.path, record.unsaved)
        elif record.failure is not None:
            self.forget_text(record.path)
        elif not record.refused:
            self.set_text(record.path, None)

    def count_access(self, call: Call) -> EditorAccess:
        """Return the next access of a call."""
        key = (call.agent.name, call.id)
        self._accesses[key] = self._accesses.get(key, 0) + 1
        return EditorAccess(call.agent, call.id, self._accesses[key])

    def find_text(self, path: str) -> str | None:
        """Return the hash of the unsaved text of a file, as the log has it."""
        return self._unsaved.get(path)

    def set_text(self, path: str, unsaved: str | None) -> None:
        """Remember the unsaved text of a file."""
        if unsaved is None:
            self._unsaved.pop(path, None)
        else:
            self._unsaved[path] = unsaved

    def forget_text(self, path: str) -> None:
        """Remove the known text of a file, so that its next text is logged in any case."""
        self._unsaved[path] = _UNKNOWN


class ClosedEditor:
    """Stands for an editor that a session no longer has. Implements ``hilum.EditorFiles``."""

    can_write_in_editor = False

    async def read_in_editor(self, path: Path) -> str | None:
        """Return no text: what was not saved is gone."""
        return None

    async def write_in_editor(self, path: Path, text: str) -> bool:
        """Write nothing."""
        return False


@attrs.frozen
class LoggedEditor:
    """The editor of a session for one call, whose texts and failures are logged.

    Args:
        editor: The editor.
        call: The call.
        workspace: The workspace.
        log: What the log contains.
    """

    editor: EditorFiles
    call: Call
    workspace: Workspace
    log: EditorLog

    @property
    def can_write(self) -> bool:
        """Whether the editor also writes files."""
        return self.editor.can_write_in_editor

    async def read_unsaved(self, real: Path) -> bytes | None:
        """Return the unsaved text of a file, encoded like the file; ``None`` if there is none.

        Raises:
            ToolError: The editor does not respond.
        """
        # An editor would load a large file only to answer.
        size = await trio.to_thread.run_sync(measure_file, self.workspace, real)
        if size > MAX_COMPARED_BYTES:
            return None
        _, unsaved = await self._read(real)
        return unsaved

    async def read_shown(self, real: Path) -> str | None:
        """Return the text that the editor shows.

        Raises:
            ToolError: The editor does not respond.
        """
        shown, _ = await self._read(real)
        return shown

    async def write(self, real: Path, text: str) -> bool:
        """Write a text to a file through the editor, which saves it; return whether it did.

        Raises:
            ToolError: The editor does not respond.
        """
        access = self.log.count_access(self.call)
        contents: list[bytes] = []
        before = await trio.to_thread.run_sync(_find_node, real, contents)
        path = self._spell(real)
        unsaved = self.log.find_text(path)
        # If the call is cancelled, the editor may still write the file.
        self.log.forget_text(path)
        record = self._make_record(access, real)
        record = msgspec.structs.replace(record, does="write", before=before)
        try:
            with _use_access(access):
                was_written = await self.editor.write_in_editor(real, text)
        except ToolError as error:
            failure = EditorFailure(error.message, error.code, error.hint)
            await self._emit(msgspec.structs.replace(record, failure=failure), real, contents)
            raise
        saved = await trio.to_thread.run_sync(_find_node, real, [])
        if was_written and saved is not None and saved.hash == hash_content(text.encode()):
            self.log.set_text(path, None)
            return True
        await self._emit(msgspec.structs.replace(record, refused=not was_written), real, contents)
        self.log.set_text(path, None if was_written else unsaved)
        return was_written

    async def _read(self, real: Path) -> tuple[str | None, bytes | None]:
        """Return the text that the editor shows, and the same encoded if it is not saved."""
        access = self.log.count_access(self.call)
        record = self._make_record(access, real)
        try:
            with _use_access(access):
                text = await self.editor.read_in_editor(real)
        except ToolError as error:
            failure = EditorFailure(error.message, error.code, error.hint)
            await self._emit(msgspec.structs.replace(record, failure=failure), real, [])
            raise
        saved = await trio.to_thread.run_sync(read_saved, self.workspace, real)
        unsaved = find_unsaved_text(text, saved)
        hashed = None if unsaved is None else hash_content(unsaved)
        path = self._spell(real)
        if hashed != self.log.find_text(path):
            contents = [] if unsaved is None else [unsaved]
            await self._emit(msgspec.structs.replace(record, unsaved=hashed), real, contents)
            # If the call was cancelled meanwhile, the next read logs the text.
            self.log.set_text(path, hashed)
        return text, unsaved

    def _spell(self, real: Path) -> str:
        return spell_path(self.workspace.relative(real))

    def _make_record(self, access: EditorAccess, real: Path) -> EditorRecord:
        return EditorRecord(
            call=self.call.id,
            path=self._spell(real),
            access=access.number,
        )

    async def _emit(self, record: EditorRecord, real: Path, contents: list[bytes]) -> None:
        """Write a record with what the file contains now, and keep the contents."""

        def keep() -> EditorRecord:
            saved = _find_node(real, contents)
            self.log.store.put(contents)
            return msgspec.structs.replace(record, saved=saved, can_write=self.can_write)

        try:
            complete = await trio.to_thread.run_sync(keep)
        except StoreError:
            return  # without the contents, the call goes on, but a replay would lack them
        data = msgspec.to_builtins(complete)
        self.call.agent.emit(events.PluginEvent(name=EDITOR, data=data))


@contextmanager
def _use_access(access: EditorAccess) -> Iterator[None]:
    token = current_access.set(access)
    try:
        yield
    finally:
        current_access.reset(token)


def _find_node(real: Path, contents: list[bytes]) -> Node | None:
    """Return what is at a path, and add its content to a list. Blocks."""

    def keep(data: bytes) -> str:
        contents.append(data)
        return hash_content(data)

    try:
        return node_at(real, keep)
    except OSError:
        return None
