"""Reads and changes files through the user's editor, if the session has one.

The editor is asked before a file is read or changed. If it shows another text than the file has,
that unsaved text is what the agent reads and what a change begins with; an undo then restores the
unsaved text.

A change goes through the editor, so that the editor shows it at once. The editor follows links,
however, which hilum never does: while a command of the session runs, which could put a link in
place of a folder, hilum writes files itself.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
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

    from hilum import Place

MAX_COMPARED_BYTES = 20_000_000
"""Larger files are not compared with the editor's text."""
LINTER_SECONDS = 20.0
"""How long a change waits for the linters that hilum itself has started."""
LATE_LINTER_SECONDS = 2.0
"""The same for linters that begin while the change is made."""


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


async def track_change(call: Call, path: str) -> TrackedWorkspace:
    """Return the workspace for a call that now changes one file, once no linter runs.

    Raises:
        ToolError: See ``track_file``.
    """
    if call.session.plugin(EditorFiles) is not None:
        with trio.move_on_after(LINTER_SECONDS):
            await call.session.processes.wait_for_brief()
    return await track_file(call, path)


async def track_file(call: Call, path: str) -> TrackedWorkspace:
    """Return the workspace for a call that changes one file, with the file's unsaved text.

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
        processes=call.session.processes,
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
    trio.from_thread.run(_wait_for_late_linters, workspace)
    # The user may have typed since the file was read.
    now = trio.from_thread.run(_find_unsaved, editor, workspace, real)
    if now != unsaved:
        raise ToolError(
            f"{name} changed in the editor in the meantime; it was not written.",
            code=errors.E_STALE,
            hint="Read it.",
        )
    text = _decode(data)
    processes = workspace.processes
    is_quiet = processes is None or not processes.alive
    can_write = text is not None and editor.can_write_in_editor and is_quiet
    if not can_write and unsaved is not None:
        raise _make_unsaved_error(name, editor)
    if not can_write or text is None:
        replace_file(workspace, real, data, expected=before)
        return
    with open_place(workspace, real, make=True) as place:
        check_replaceable(place, real, before)
    with workspace.unlocked():
        written = trio.from_thread.run(editor.write_in_editor, real, text)
    if not written and unsaved is not None:
        raise ToolError(
            f"The editor did not write {name}, which has changes that are not saved.",
            code=errors.E_STALE,
            hint="Ask the user to save the file.",
        )
    _complete_write(workspace, real, data, was_written=written)


def check_unsaved(workspace: TrackedWorkspace, path: str) -> None:
    """Check, before the user is asked about a change, that it need not replace unsaved text.

    Linters do not matter, because a change waits for them.

    Raises:
        ToolError: The file has unsaved text, and hilum cannot change it in the editor now
            (``E_STALE``).
    """
    editor, processes = workspace.editor, workspace.processes
    real = workspace.resolve(path)
    if editor is None or processes is None or real not in workspace.unsaved:
        return
    has_commands = processes.alive > processes.brief
    if has_commands or not editor.can_write_in_editor:
        raise _make_unsaved_error(show(workspace.relative(real)), editor)


def _make_unsaved_error(name: str, editor: EditorFiles) -> ToolError:
    hint = "Ask the user to save the file."
    if editor.can_write_in_editor:
        hint = "Wait until no command runs, or ask the user to save the file."
    return ToolError(
        f"{name} has changes in the editor that are not saved, and hilum cannot change it there"
        " now; nothing was written.",
        code=errors.E_STALE,
        hint=hint,
    )


async def _wait_for_late_linters(workspace: TrackedWorkspace) -> None:
    """Wait for linters that have begun since the change began, for example after another edit.

    The wait is short, because such a linter may itself wait for the lock of this change.
    """
    if workspace.processes is not None:
        with trio.move_on_after(LATE_LINTER_SECONDS):
            await workspace.processes.wait_for_brief()


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
