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

from hilum_files.journal.changes import track_workspace
from hilum_files.journal.tracked_workspace import TrackedWorkspace
from hilum_files.paths import check_replaceable, find_status, open_file, open_place, replace_file
from hilum_files.text import BOM, show, with_newlines

if TYPE_CHECKING:
    import os

    from hilum import Place, Processes

CHECK_SECONDS = 10.0
"""Seconds that a change waits for checks; they are ended then, because they become obsolete."""
MAX_COMPARED_BYTES = 20_000_000
"""Larger files are not compared with the editor's text."""


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
    editor = call.session.plugin(EditorFiles)
    if editor is None:
        return None
    workspace = call.workspace
    return await _find_unsaved(editor, workspace, workspace.resolve(path))


async def track_file(call: Call, path: str) -> TrackedWorkspace:
    """Return the workspace for a call that changes one file, with the file's unsaved text.

    Within ``quiet_workspace``, what runs now is all that can run until the file is written.

    Raises:
        ToolError: The path leads out of the workspace, or the editor does not respond.
    """
    workspace = track_workspace(call)
    editor = call.session.plugin(EditorFiles)
    if editor is None:
        return workspace
    real = workspace.resolve(path)
    unsaved = await _find_unsaved(editor, workspace, real)
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
    if editor.can_write_in_editor and not running:
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
    now = trio.from_thread.run(_find_unsaved, editor, workspace, real)
    if now != unsaved:
        raise ToolError(
            f"{name} changed in the editor in the meantime; it was not written.",
            code=errors.E_STALE,
            hint="Read it.",
        )
    text = _decode(data)
    check_editor_access(workspace, str(real))
    if text is None or not editor.can_write_in_editor or workspace.running:
        replace_file(workspace, real, data, expected=before)
        return
    with open_place(workspace, real, make=True) as place:
        check_replaceable(place, real, before)
    with workspace.unlocked():
        try:
            written = trio.from_thread.run(editor.write_in_editor, real, text)
        except ToolError:
            # The editor may have written the file without saying so; undo must know the change.
            if _read_disk(workspace, real) != data:
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
    found = _read_disk(workspace, real)
    if found == data:
        return
    is_same_text = found is not None and _normalize(found) == _normalize(data)
    editor = workspace.editor
    assert editor is not None
    shown = trio.from_thread.run(editor.read_in_editor, real)
    is_only_shown = shown is not None and _is_same_text(shown, data)
    if not was_written or is_same_text or is_only_shown:
        replace_file(workspace, real, data)


async def _find_unsaved(editor: EditorFiles, workspace: Workspace, real: Path) -> bytes | None:
    # An editor would load a large file only to answer.
    if await trio.to_thread.run_sync(_measure, workspace, real) > MAX_COMPARED_BYTES:
        return None
    text = await editor.read_in_editor(real)
    if text is None:
        return None
    saved = await trio.to_thread.run_sync(_read_disk, workspace, real)
    if saved is None:
        # A new file that was never saved; an empty text may be the editor's answer for no file.
        return text.encode("utf-8", "replace") if text else None
    if _decode(saved) is None or _is_same_text(text, saved):
        return None
    return _encode_like(saved, text)


def _measure(workspace: Workspace, real: Path) -> int:
    """Return the size of a file in bytes; 0 if there is none."""
    try:
        with workspace.at(real) as place:
            status = find_status(place)
    except ToolError:
        return 0
    return status.st_size if status is not None else 0


def _read_disk(workspace: Workspace, real: Path) -> bytes | None:
    """Return the beginning of a file; ``None`` if there is none, or it cannot be read as one."""
    try:
        with workspace.at(real) as place:
            if find_status(place) is None:
                return None
            with place.open() as file:
                return file.read(MAX_COMPARED_BYTES + 1)
    except ToolError:
        return None


def _decode(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _normalize(data: bytes) -> bytes:
    return data.removeprefix(BOM.encode()).replace(b"\r\n", b"\n")


def _is_same_text(text: str, saved: bytes) -> bool:
    """Return whether an editor's text is what a file contains.

    Editors normalize newlines, and some leave out the one at the end.
    """
    shown = _normalize(text.encode("utf-8", "replace"))
    content = _normalize(saved)
    return shown in (content, content.removesuffix(b"\n"))


def _encode_like(saved: bytes, text: str) -> bytes:
    """Encode a text with the newlines and the byte order mark of a file."""
    plain = with_newlines(text.removeprefix(BOM), "\n")
    if saved.count(b"\r\n") == saved.count(b"\n") > 0:
        plain = with_newlines(plain, "\r\n")
    if saved.startswith(BOM.encode()):
        plain = BOM + plain
    return plain.encode("utf-8", "replace")
