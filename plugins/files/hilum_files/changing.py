"""``write_file``, ``edit_file`` and ``delete_file``. Each does its work in one thread, to the end: half of it is worse.

What is written is read back and compared. A file that changed between reading and writing is left alone.
"""

from __future__ import annotations

import os
import stat
from errno import EEXIST, ENOTEMPTY

import trio
from hilum import Call, Output, ToolError, Workspace, errors, tool

from hilum_files import text as texts
from hilum_files.places import at, opened, replace
from hilum_files.text import BOM, show

EDIT_LIMIT = 20_000_000
DIFF_LIMIT = 2_000_000
PLACES_SHOWN = 10
_NOT_EMPTY = (ENOTEMPTY, EEXIST)


@tool(risk="write", effect="idempotent", writes="path", timeout=60)
async def write_file(call: Call, path: str, content: str) -> Output:
    """Write a whole file: make it, with its folders, or replace all it holds. To change a part, use edit_file.

    An existing file keeps its mode, its line ends (CRLF) and its byte order mark.

    Args:
        path: File to write, relative to the workspace.
        content: All the text of the file.
    """
    return await trio.to_thread.run_sync(_write, call.workspace, path, content)


@tool(risk="write", effect="once", writes="path", timeout=60)
async def edit_file(call: Call, path: str, old_string: str, new_string: str, create_if_missing: bool = False) -> Output:
    """Replace one piece of text in a file. The text must be in the file exactly once, with the same white space.

    Give enough lines around the change to name one place. Line numbers as read_file shows them are no part of the text.

    Args:
        path: File to edit, relative to the workspace.
        old_string: Text to replace, exactly as it is in the file; empty only to make a new file.
        new_string: Text to put in its place.
        create_if_missing: Make the file when there is none; old_string must be empty then.
    """
    if old_string.replace("\r\n", "\n") == new_string.replace("\r\n", "\n") and old_string:
        return Output("Nothing was changed: old_string and new_string are the same.", data={"path": show(path)})
    return await trio.to_thread.run_sync(_edit, call.workspace, path, old_string, new_string, create_if_missing)


@tool(risk="write", effect="once", writes="path", timeout=60)
async def delete_file(call: Call, path: str) -> Output:
    """Delete a file, a link (not what it points to), or an empty folder.

    Args:
        path: What to delete, relative to the workspace.
    """
    return await trio.to_thread.run_sync(_delete, call.workspace, path)


# --- in the thread ---------------------------------------------------------------------------------------------------


def _status(workspace: Workspace, path: str, *, make: bool = False) -> os.stat_result | None:
    """Say what is there; make the folders on the way if asked to."""
    with at(workspace, path, make=make) as place:
        try:
            return os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None


def _read(workspace: Workspace, path: str) -> tuple[bytes, os.stat_result]:
    with opened(workspace, path) as file:
        return file.read(EDIT_LIMIT + 1), os.fstat(file.fileno())


def _put(workspace: Workspace, path: str, text: str, parameter: str, before: os.stat_result | None) -> str:
    """Write, read back and compare. Gives the path that was written, as it is shown."""
    data = texts.encode(text, parameter)
    real = replace(workspace, path, data, expected=before)
    with opened(workspace, real) as file:
        written = file.read(len(data) + 1)
    name = show(workspace.relative(real))
    if written != data:
        raise ToolError(
            f"{name} does not hold what was written: another program changed it at once.",
            code=errors.E_READBACK_FAIL,
            hint="Read it before you go on.",
        )
    return name


def _diff(name: str, before: str | None, after: str) -> str:
    """Give a unified diff for faces, or none where it would cost too much."""
    if before is None or len(before) + len(after) > DIFF_LIMIT:
        return ""
    return texts.unified_diff(name, before.replace("\r\n", "\n"), after.replace("\r\n", "\n"))


def _count(text: str) -> str:
    lines = text.count("\n") + (not text.endswith("\n") and bool(text))
    return "1 line" if lines == 1 else f"{lines:,} lines"


def _text_or_none(data: bytes, path: str) -> str | None:
    try:
        return texts.decode(data, path) if len(data) <= EDIT_LIMIT else None
    except ToolError:
        return None


def _write(workspace: Workspace, path: str, content: str) -> Output:
    if path.endswith("/"):
        raise ToolError(f"{path!r} names a folder.", code=errors.E_BAD_ARGS, hint="Name a file in it.")
    if _status(workspace, path, make=True) is None:
        return _create(workspace, path, content, "content")
    data, status = _read(workspace, path)
    before, after = _text_or_none(data, path), content
    if before is not None:
        if before.count("\r\n") == before.count("\n") > 0:
            after = texts.with_newlines(content, "\r\n")
        after = (BOM if before.startswith(BOM) else "") + after.removeprefix(BOM)
    if before == after:
        return Output(f"{show(path)} holds exactly this already; nothing was written.", data={"path": show(path)})
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


def _edit(workspace: Workspace, path: str, old: str, new: str, create: bool) -> Output:
    if not old and _status(workspace, path, make=create) is None:
        if create:
            return _create(workspace, path, new, "new_string")
        raise ToolError(
            f"There is no {path!r} in the workspace.",
            code=errors.E_FILE_NOT_FOUND,
            hint="Set create_if_missing to make it, or use write_file.",
        )
    data, status = _read(workspace, path)
    if len(data) > EDIT_LIMIT:
        raise ToolError(f"{show(path)} has more than {EDIT_LIMIT:,} bytes, too many to edit.")
    text = texts.decode(data, path)
    if not old and text:
        raise ToolError(
            f"{show(path)} exists and is not empty, so old_string must not be empty.",
            code=errors.E_BAD_ARGS,
            hint="Give the text to replace, or use write_file to replace everything.",
        )
    plain, wanted = text.replace("\r\n", "\n"), old.replace("\r\n", "\n")
    at = _only_place(plain, wanted, path) if old else 0
    begin, end = texts.offset_in(text, at), texts.offset_in(text, at + len(wanted))
    put = texts.with_newlines(new, texts.newline_of(text)) if "\n" in text else new
    after = text[:begin] + put + text[end:]
    name = _put(workspace, path, after, "new_string", status)
    return Output(
        f"Edited {name} (exact match): {_lines_changed(plain, at, wanted, put)}.",
        data={"path": name, "diff": _diff(name, text, after), "match": "exact", "created": False},
    )


def _only_place(text: str, wanted: str, path: str) -> int:
    found = texts.places(text, wanted, PLACES_SHOWN)
    if len(found) == 1:
        return found[0]
    if not found:
        raise _not_found(text, wanted, path)
    count = text.count(wanted) if len(found) == PLACES_SHOWN else len(found)
    lines = ", ".join(str(text.count("\n", 0, at) + 1) for at in found) + (", …" if count > len(found) else "")
    raise ToolError(
        f"old_string is in {show(path)} {count} times, at lines {lines}; nothing was changed.",
        code=errors.E_MULTIPLE_MATCHES,
        hint="Add lines before or after it so that it names one place.",
    )


def _not_found(text: str, wanted: str, path: str) -> ToolError:
    near, only_space = texts.nearest(text.removeprefix(BOM), wanted)
    hint = f"Read {show(path)} again and copy the text exactly."
    if texts.is_numbered(wanted):
        hint = "Leave the line numbers (N | ) out: they are not in the file."
    elif only_space:
        hint = "They differ from old_string in white space only; copy it exactly, at both ends of each line."
    if near:
        hint = "The nearest lines are:\n" + "\n".join(near) + "\n" + hint
    message = f"old_string is not in {show(path)}; nothing was changed."
    return ToolError(message, code=errors.E_NOT_FOUND, hint=hint)


def _lines_changed(text: str, at: int, old: str, new: str) -> str:
    first = text.count("\n", 0, at) + 1

    def span(piece: str) -> str:
        last = first + piece.removesuffix("\n").count("\n")
        return "nothing" if not piece else f"line {first}" if last == first else f"lines {first}-{last}"

    return f"{span(old)} became {span(new)}"


def _delete(workspace: Workspace, path: str) -> Output:
    with at(workspace, path, follow=False) as place:
        name = show(workspace.relative(place.path))
        if place.path == workspace.root:
            raise ToolError("The workspace itself cannot be deleted.", code=errors.E_BAD_ARGS)
        mode = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            try:
                os.rmdir(place.name, dir_fd=place.folder)
            except OSError as error:
                hint = "Delete what is in it first." if error.errno in _NOT_EMPTY else ""
                raise ToolError(f"The folder {name} cannot be deleted: {error.strerror}.", hint=hint) from None
        else:
            os.unlink(place.name, dir_fd=place.folder)
    kind = "folder" if stat.S_ISDIR(mode) else "link" if stat.S_ISLNK(mode) else "file"
    return Output(f"Deleted the {kind} {name}.", data={"path": name, "deleted": True})
