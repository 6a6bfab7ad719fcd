"""Reads and changes files through the user's editor, if the session has one.

The editor is asked before a file is read or changed. If it shows another text than the file has,
that unsaved text is what the agent reads and what a change begins with; an undo then restores the
unsaved text.

A change goes through the editor, so that the editor shows it at once. The editor follows links,
however, which hilum never does: while a command of the session runs, which could put a link in
place of a folder, hilum writes files itself. What hilum starts itself to look at files is no such
command: it cannot write to the workspace, or hilum waits for its end.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import attrs
import trio
from hilum import Call, EditorFiles, ToolError, Workspace, errors

from hilum_files.journal.changes import open_editor, track_workspace
from hilum_files.journal.tracked_workspace import TrackedWorkspace
from hilum_files.paths import check_replaceable, open_file, open_place, replace_file
from hilum_files.text import show
from hilum_files.unsaved_text import decode_text, is_same_text, normalize_text, read_saved

if TYPE_CHECKING:
    import os

    from hilum import Place, Processes

CHECK_SECONDS = 10.0
"""Seconds that a change waits for checks; they are ended then, because they become obsolete."""


async def find_unsaved(call: Call, path: str) -> bytes | None:
    """Return the unsaved text of a file, encoded like the file.

    Args:
        call: The call that reads the file.
        path: Its path, as the call names it.

    Returns:
        The text; ``None`` if the session has no editor, or the editor shows what the file contains.

    Raises:
        ToolError: The path leads out of the workspace, or the editor does not respond.
    """
    editor = open_editor(call)
    if editor is None:
        return None
    return await editor.read_unsaved(call.workspace.resolve(path))


async def track_file(call: Call, path: str) -> TrackedWorkspace:
    """Return the workspace for a call that changes one file, with the file's unsaved text.

    Within ``quiet_workspace``, what runs now is all that can run until the file is written.

    Raises:
        ToolError: The path leads out of the workspace, or the editor does not respond.
    """
    workspace = track_workspace(call)
    editor = open_editor(call)
    if editor is None:
        return workspace
    real = workspace.resolve(path)
    unsaved = await editor.read_unsaved(real)
    texts = {} if unsaved is None else {real: unsaved}
    return attrs.evolve(
        workspace,
        editor=editor,
        unsaved=texts,
        running=_find_running(call.session.processes),
    )


def _find_running(processes: Processes) -> str:
    """Return what may put a link in place of a folder now; empty if nothing runs that may."""
    if processes.count("service"):
        return "a service, a server or another agent"
    return "a command" if processes.count("command") else ""


@asynccontextmanager
async def quiet_workspace(call: Call) -> AsyncIterator[None]:
    """Keep processes from starting while a call may change a file through the editor.

    If nothing else runs, checks have ended when the block begins.
    """
    if call.session.plugin(EditorFiles) is None:
        yield
        return
    async with call.session.processes.quiet(CHECK_SECONDS):
        yield


def check_editor_access(workspace: TrackedWorkspace, path: str) -> None:
    """Check that hilum may change a file with unsaved text in the editor.

    Raises:
        ToolError: ``E_STALE`` if a process may follow links meanwhile, or the editor writes no files.
    """
    real = workspace.resolve(path)
    editor = workspace.editor
    if editor is None or real not in workspace.unsaved:
        return
    running = workspace.running
    if editor.can_write and not running:
        return
    reason = f" while {running} of the session runs" if running else ""
    hint = "Ask the user to save the file."
    if running == "a command":
        hint = "Wait until no command runs, or ask the user to save the file."
    raise ToolError(
        f"{show(workspace.relative(real))} has changes in the editor that are not saved, and hilum"
        f" cannot change it there{reason}; nothing was written.",
        code=errors.E_STALE,
        hint=hint,
    )


@contextmanager
def open_content(workspace: Workspace, path: str, unsaved: bytes | None) -> Iterator[BinaryIO]:
    """Open a file or, if there is one, its unsaved text, to read its bytes. Blocks."""
    if unsaved is None:
        with open_file(workspace, path) as file:
            yield file
        return
    # A real file, because the reader needs a descriptor.
    with tempfile.TemporaryFile() as file:
        file.write(unsaved)
        file.seek(0)
        yield file


@contextmanager
def open_place_content(workspace: TrackedWorkspace, place: Place) -> Iterator[BinaryIO]:
    """Open the file at an opened location or, if there is one, its unsaved text. Blocks."""
    unsaved = workspace.unsaved.get(place.path)
    with BytesIO(unsaved) if unsaved is not None else place.open() as file:
        yield file


def write_file(
    workspace: TrackedWorkspace, real: Path, data: bytes, before: os.stat_result | None
) -> None:
    """Write a file, through the editor if possible. Blocks; the caller runs in a thread of trio.

    Args:
        workspace: The workspace.
        real: The resolved path.
        data: The new content.
        before: The file's status when it was read; ``None`` for a new file.

    Raises:
        ToolError: The file changed since it was read, in the editor (``E_STALE``) or on the disk,
            or cannot be written.
    """
    editor = workspace.editor
    if editor is None:
        replace_file(workspace, real, data, expected=before)
        return
    name = show(workspace.relative(real))
    unsaved = workspace.unsaved.get(real)
    # The user may have typed since the file was read.
    now = trio.from_thread.run(editor.read_unsaved, real)
    if now != unsaved:
        raise ToolError(
            f"{name} changed in the editor in the meantime; it was not written.",
            code=errors.E_STALE,
            hint="Read it.",
        )
    text = decode_text(data)
    check_editor_access(workspace, str(real))
    if text is None or not editor.can_write or workspace.running:
        replace_file(workspace, real, data, expected=before)
        return
    with open_place(workspace, real, make=True) as place:
        check_replaceable(place, real, before)
    with workspace.unlocked():
        try:
            written = trio.from_thread.run(editor.write, real, text)
        except ToolError:
            # The editor may have written the file without saying so; undo must know the change.
            if read_saved(workspace, real) != data:
                raise
            written = True
    if not written and unsaved is not None:
        raise ToolError(
            f"The editor did not write {name}, which has changes that are not saved.",
            code=errors.E_STALE,
            hint="Ask the user to save the file.",
        )
    _complete_write(workspace, real, data, was_written=written)


def _complete_write(
    workspace: TrackedWorkspace, real: Path, data: bytes, *, was_written: bool
) -> None:
    """Give the file exactly the content that the editor was to write.

    An editor may have other newlines, or change its text without saving it. A file that somebody
    else has changed meanwhile is left alone; the caller then finds that it differs.
    """
    found = read_saved(workspace, real)
    if found == data:
        return
    has_same_text = found is not None and normalize_text(found) == normalize_text(data)
    editor = workspace.editor
    assert editor is not None
    shown = trio.from_thread.run(editor.read_shown, real)
    is_only_shown = shown is not None and is_same_text(shown, data)
    if not was_written or has_same_text or is_only_shown:
        replace_file(workspace, real, data)
