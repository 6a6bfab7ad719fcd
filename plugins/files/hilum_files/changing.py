"""``write_file``, ``edit_file``, ``multi_edit``, ``delete_file``.

Each does its work in one thread, to the end.

What is written is read back and compared. A file that changed between reading and writing is left
alone.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from errno import EEXIST, ENOTEMPTY
from typing import TYPE_CHECKING, Annotated

import msgspec
import trio
from hilum import Call, Output, ToolError, Workspace, errors, tool

from hilum_files import text as texts
from hilum_files.journal.guard import changing, held_file
from hilum_files.journal.half import guarded
from hilum_files.places import at
from hilum_files.saving import found, put, read
from hilum_files.text import BOM, show

if TYPE_CHECKING:
    from hilum import Place

    from hilum_files.edits import Edit

EDIT_LIMIT = 20_000_000
DIFF_LIMIT = 2_000_000
_NOT_EMPTY = (ENOTEMPTY, EEXIST)


@tool(risk="write", effect="idempotent", writes="path", timeout=60)
async def write_file(call: Call, path: str, content: str) -> Output:
    """Create a file, with its folders, or replace a file that you have read.

    It keeps its mode and line endings.

    Args:
        path: Relative to the workspace.
        content: The whole text.
    """
    return await trio.to_thread.run_sync(_write, guarded(call), path, content)


@tool(risk="write", effect="once", writes="path", timeout=60)
async def edit_file(
    call: Call, path: str, old_string: str, new_string: str, create_if_missing: bool = False
) -> Output:
    """Replace one piece of text in a file that you have read.

    Args:
        path: Relative to the workspace.
        old_string: The text to replace, copied exactly, without the line numbers of read_file. It
            must occur once: include lines around the change.
        new_string: The text to put in its place.
        create_if_missing: Create the file if it does not exist; old_string is empty then.
    """
    if old_string and old_string.replace("\r\n", "\n") == new_string.replace("\r\n", "\n"):
        return Output(
            "Nothing was changed: old_string and new_string are the same.",
            data={"path": show(path)},
        )
    edits = [(old_string, new_string)]
    return await trio.to_thread.run_sync(_edit, guarded(call), path, edits, create_if_missing)


class Replacement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An edit."""

    old_string: str
    new_string: str


@tool(risk="write", effect="once", writes="path", timeout=60, deferred=True)
async def multi_edit(
    call: Call, path: str, edits: Annotated[list[Replacement], msgspec.Meta(min_length=1)]
) -> Output:
    """Make several edits in one file, as edit_file does: one after another, all or none.

    Args:
        path: Relative to the workspace.
        edits: Each applies to the text that the ones before it left.
    """
    pairs = [(edit.old_string, edit.new_string) for edit in edits]
    return await trio.to_thread.run_sync(_edit, guarded(call), path, pairs, False)


@tool(risk="write", effect="once", writes="path", timeout=60)
async def delete_file(call: Call, path: str) -> Output:
    """Delete a file that you have read, a link, or an empty folder.

    Args:
        path: Relative to the workspace.
    """
    return await trio.to_thread.run_sync(_delete, guarded(call), path)


# --- in the thread --------------------------------------------------------------------------------


def _put(
    workspace: Workspace, path: str, text: str, parameter: str, before: os.stat_result | None
) -> str:
    """Write a text; gives the path that was written, as it is shown."""
    return put(workspace, path, texts.encode(text, parameter), before)


def _diff(name: str, before: str | None, after: str) -> str:
    """Return a unified diff for faces, or none where it would cost too much."""
    if before is None or len(before) + len(after) > DIFF_LIMIT:
        return ""
    return texts.unified_diff(name, before.replace("\r\n", "\n"), after.replace("\r\n", "\n"))


def _count(text: str) -> str:
    lines = text.count("\n") + (not text.endswith("\n") and bool(text))
    return "1 line" if lines == 1 else f"{lines:,} lines"


def _text_or_none(data: bytes, path: str) -> str | None:
    try:
        if len(data) <= EDIT_LIMIT:
            return texts.decode(data, path)
        return None
    except ToolError:
        return None


def _write(workspace: Workspace, path: str, content: str) -> Output:
    if path.endswith("/"):
        raise ToolError(
            f"{path!r} names a folder.", code=errors.E_BAD_ARGS, hint="Name a file in it."
        )
    if found(workspace, path) is None:
        return _create(workspace, path, content, "content")
    data, status = read(workspace, path, EDIT_LIMIT + 1)
    before = _text_or_none(data, path)
    after = content
    if before is not None:
        if before.count("\r\n") == before.count("\n") > 0:
            after = texts.with_newlines(content, "\r\n")
        after = (BOM if before.startswith(BOM) else "") + after.removeprefix(BOM)
    if before == after:
        return Output(
            f"{show(path)} holds exactly this already; nothing was written.",
            data={"path": show(path)},
        )
    name = _put(workspace, path, after, "content", status)
    was = f"{status.st_size:,} bytes" if before is None else _count(before)
    return Output(
        f"Overwrote {name}: {_count(content)} written; it had {was}.",
        data={"path": name, "diff": _diff(name, before, after), "created": False},
    )


def _create(workspace: Workspace, path: str, content: str, parameter: str) -> Output:
    name = _put(workspace, path, content, parameter, None)
    return Output(
        f"Created {name}: {_count(content)} written.",
        data={"path": name, "diff": _diff(name, "", content), "created": True},
    )


def _edit(
    workspace: Workspace, path: str, pairs: Sequence[tuple[str, str]], create: bool
) -> Output:
    if not pairs[0][0] and found(workspace, path) is None:
        if create:
            return _create(workspace, path, pairs[0][1], "new_string")
        raise ToolError(
            f"There is no {path!r} in the workspace.",
            code=errors.E_FILE_NOT_FOUND,
            hint="Set create_if_missing to make it, or use write_file.",
        )
    from hilum_files.edits import EditError, apply_edits  # 15 ms, with the first edit

    data, status = read(workspace, path, EDIT_LIMIT + 1)
    if len(data) > EDIT_LIMIT:
        raise ToolError(f"{show(path)} has more than {EDIT_LIMIT:,} bytes, too many to edit.")
    text = texts.decode(data, path)
    try:
        edits = apply_edits(text, pairs)
    except EditError as error:
        error.message = f"{show(path)}: {error.message}"
        raise
    after = edits[-1].content
    match = "; ".join(dict.fromkeys(edit.match for edit in edits))
    if after == text:
        return Output(
            "Nothing was changed: the file is as the edits want it.", data={"path": show(path)}
        )
    name = _put(workspace, path, after, "new_string", status)
    return Output(
        f"Edited {name}{' ' if len(edits) == 1 else chr(10)}" + "\n".join(map(_told, edits)),
        data={
            "path": name,
            "diff": _diff(name, text, after),
            "match": match,
            "created": False,
            "changes": [[edit.removed.start, len(edit.removed), len(edit.added)] for edit in edits],
        },
    )


def _told(edit: Edit) -> str:
    """Return how one edit was found and what it changed.

    Where it was not exact, the model must know.
    """
    if edit.match == "identical":
        return "(old_string and new_string are the same): nothing changed."
    changed = f"{_span(edit.removed)} became {_span(edit.added)}."
    if edit.match == "exact":
        return f"(exact match): {changed}"
    return (
        f"(not an exact match; old_string differed in: {edit.match}): {changed} Read them if in"
        " doubt."
    )


def _span(lines: range) -> str:
    if not lines:
        return "nothing"
    if len(lines) == 1:
        return f"line {lines[0]}"
    return f"lines {lines[0]}-{lines[-1]}"


def _delete(workspace: Workspace, path: str) -> Output:
    with at(workspace, path, follow=False) as place:
        name = show(workspace.relative(place.path))
        if place.path == workspace.root:
            raise ToolError("The workspace itself cannot be deleted.", code=errors.E_BAD_ARGS)
        mode = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False).st_mode
        if stat.S_ISREG(mode):
            with place.open() as file:
                held_file(workspace, place.path, file, EDIT_LIMIT + 1)
        with changing(workspace, place.path, None):
            _remove(place, name, folder=stat.S_ISDIR(mode))
    kind = "folder" if stat.S_ISDIR(mode) else "link" if stat.S_ISLNK(mode) else "file"
    return Output(f"Deleted the {kind} {name}.", data={"path": name, "deleted": True})


def _remove(place: Place, name: str, *, folder: bool) -> None:
    if not folder:
        os.unlink(place.name, dir_fd=place.folder)
        return
    try:
        os.rmdir(place.name, dir_fd=place.folder)
    except OSError as error:
        hint = "Delete what is in it first." if error.errno in _NOT_EMPTY else ""
        raise ToolError(
            f"The folder {name} cannot be deleted: {error.strerror}.", hint=hint
        ) from None
