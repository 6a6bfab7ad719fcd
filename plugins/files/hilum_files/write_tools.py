"""The tools ``write_file``, ``edit_file``, ``multi_edit`` and ``delete_file``.

Each tool runs in one thread, which always finishes, and reads the written file back to verify it. A
file that changed between reading and writing is not written.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from errno import EEXIST, ENOTEMPTY
from typing import TYPE_CHECKING, Annotated, Any

import attrs
import msgspec
import trio
from hilum import Call, Output, ToolError, errors, tool

from hilum_files import text as texts
from hilum_files.editor_texts import (
    check_editor_access,
    open_place_content,
    quiet_workspace,
    track_file,
)
from hilum_files.journal.tracked_workspace import TrackedWorkspace
from hilum_files.paths import open_place, read_status
from hilum_files.save import exists, read_file_for_change, write_verified
from hilum_files.text import BOM, quote, show

if TYPE_CHECKING:
    from hilum import Place

    from hilum_files.edits import Edit

MAX_EDIT_BYTES = 20_000_000
MAX_DIFF_CHARACTERS = 2_000_000
# POSIX allows either error for a folder that is not empty.
_NOT_EMPTY = (ENOTEMPTY, EEXIST)


@tool(
    risk="write",
    effect="idempotent",
    writes="path",
    timeout=60,
    precheck=lambda call: _precheck(call, _check_write),
)
async def write_file(call: Call, path: str, content: str) -> Output:
    """Create a file, with its folders, or replace a file that you have read.

    It keeps its mode and line endings.

    Args:
        path: Relative to the workspace.
        content: The whole text.
    """
    async with quiet_workspace(call):
        workspace = await track_file(call, path)
        return await trio.to_thread.run_sync(_write, workspace, path, content)


@tool(
    risk="write",
    effect="once",
    writes="path",
    timeout=60,
    precheck=lambda call: _precheck(call, _check_edit),
)
async def edit_file(
    call: Call, path: str, old_string: str, new_string: str, create_if_missing: bool = False
) -> Output:
    """Replace one piece of text in a file that you have read.

    Args:
        path: Relative to the workspace.
        old_string: The text to replace, copied exactly, without the line numbers of read_file. It
            must occur once: include lines around the change.
        new_string: The replacement text.
        create_if_missing: Create the file if it does not exist; old_string is empty then.
    """
    if _changes_nothing(old_string, new_string):
        return Output(
            "Nothing was changed: old_string and new_string are the same.",
            data={"path": show(path)},
            changed=False,
        )
    edits = [(old_string, new_string)]
    async with quiet_workspace(call):
        workspace = await track_file(call, path)
        return await trio.to_thread.run_sync(_edit, workspace, path, edits, create_if_missing)


class Replacement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One edit of a ``multi_edit`` call."""

    old_string: str
    new_string: str


# This tool is deferred, because `edit_file` is enough for most edits and a shorter tool list saves
# tokens.
@tool(
    risk="write",
    effect="once",
    writes="path",
    timeout=60,
    deferred=True,
    precheck=lambda call: _precheck(call, _check_multi_edit),
)
async def multi_edit(
    call: Call, path: str, edits: Annotated[list[Replacement], msgspec.Meta(min_length=1)]
) -> Output:
    """Make several edits in one file, as edit_file does: in order, all or none.

    Args:
        path: Relative to the workspace.
        edits: Each one applies to the result of the previous ones.
    """
    pairs = [(edit.old_string, edit.new_string) for edit in edits]
    async with quiet_workspace(call):
        workspace = await track_file(call, path)
        return await trio.to_thread.run_sync(_edit, workspace, path, pairs, False)


@tool(
    risk="write",
    effect="once",
    writes="path",
    timeout=60,
    precheck=lambda call: _precheck(call, _check_delete),
)
async def delete_file(call: Call, path: str) -> Output:
    """Delete a file that you have read, a link, or an empty folder.

    Args:
        path: Relative to the workspace.
    """
    workspace = await track_file(call, path)
    return await trio.to_thread.run_sync(_delete, workspace, path)


async def _precheck(
    call: Call, check: Callable[[TrackedWorkspace, Mapping[str, Any]], None]
) -> None:
    """Raise the error of a call that cannot succeed, before the user is asked to approve it.

    Nothing is written. The error must not quote a file that changed since the agent read it: the
    user may not want to show the new content.
    """
    arguments = call.arguments
    workspace = await track_file(call, arguments["path"])
    workspace = attrs.evolve(workspace, shows_differences=False)
    # The thread only reads, so it may be abandoned.
    await trio.to_thread.run_sync(check, workspace, arguments, abandon_on_cancel=True)


def _changes_nothing(old_string: str, new_string: str) -> bool:
    """Return whether an edit replaces a text with the same text."""
    is_same = texts.with_newlines(old_string, "\n") == texts.with_newlines(new_string, "\n")
    return bool(old_string) and is_same


# --- in the thread --------------------------------------------------------------------------------


def _write_text(
    workspace: TrackedWorkspace, path: str, text: str, parameter: str, before: os.stat_result | None
) -> str:
    """Write text to a file and return its path, for messages."""
    return write_verified(workspace, path, texts.encode(text, parameter), before)


def _make_diff(name: str, before: str | None, after: str) -> str:
    """Return a unified diff for faces, or an empty string if computing it would take too long."""
    if before is None or len(before) + len(after) > MAX_DIFF_CHARACTERS:
        return ""
    old = texts.with_newlines(before, "\n")
    return texts.unified_diff(name, old, texts.with_newlines(after, "\n"))


def _count_lines(text: str) -> str:
    lines = text.count("\n")
    if text and not text.endswith("\n"):
        lines += 1
    return "1 line" if lines == 1 else f"{lines:,} lines"


def _decode_or_none(data: bytes, path: str) -> str | None:
    """Return the text of a file, or ``None`` if it is too large or is not text."""
    if len(data) > MAX_EDIT_BYTES:
        return None
    try:
        return texts.decode(data, path)
    except ToolError:
        return None


def _check_is_no_folder(path: str) -> None:
    if path.endswith("/"):
        raise ToolError(
            f"{quote(path)} is a folder.",
            code=errors.E_BAD_ARGS,
            hint="Pass the path of a file in it.",
        )


def _write(workspace: TrackedWorkspace, path: str, content: str) -> Output:
    _check_is_no_folder(path)
    if not exists(workspace, path):
        return _create(workspace, path, content, "content")
    data, status = read_file_for_change(workspace, path, MAX_EDIT_BYTES + 1)
    before = _decode_or_none(data, path)
    after = content if before is None else _format_like(before, content)
    # Nothing is recorded, because undoing this call would have no effect.
    if before == after:
        return Output(
            f"{show(path)} already has exactly this content; nothing was written.",
            data={"path": show(path)},
            changed=False,
        )
    name = _write_text(workspace, path, after, "content", status)
    if before is not None:
        size = _count_lines(before)
    else:
        size = f"{status.st_size if status else len(data):,} bytes"
    return Output(
        f"Overwrote {name}: {_count_lines(content)} written; it had {size}.",
        data={"path": name, "diff": _make_diff(name, before, after), "created": False},
    )


def _format_like(before: str, content: str) -> str:
    """Return the new content with the line endings and byte order mark of the old one."""
    # Convert only if every line of the file ends with CRLF; in a mixed file, it is unclear which
    # new lines should end with it.
    if before.count("\r\n") == before.count("\n") > 0:
        content = texts.with_newlines(content, "\r\n")
    content = content.removeprefix(BOM)
    return BOM + content if before.startswith(BOM) else content


def _create(workspace: TrackedWorkspace, path: str, content: str, parameter: str) -> Output:
    name = _write_text(workspace, path, content, parameter, None)
    return Output(
        f"Created {name}: {_count_lines(content)} written.",
        data={"path": name, "diff": _make_diff(name, "", content), "created": True},
    )


def _edit(
    workspace: TrackedWorkspace, path: str, pairs: Sequence[tuple[str, str]], create: bool
) -> Output:
    if _creates_file(workspace, path, pairs, create):
        return _create(workspace, path, pairs[0][1], "new_string")
    before, edits, status = _find_edits(workspace, path, pairs)
    after = edits[-1].content
    if after == before:
        return Output(
            "Nothing was changed: the file already has these edits.",
            data={"path": show(path)},
            changed=False,
        )
    name = _write_text(workspace, path, after, "new_string", status)
    return _report_edits(name, edits, _make_diff(name, before, after))


def _creates_file(
    workspace: TrackedWorkspace, path: str, pairs: Sequence[tuple[str, str]], create: bool
) -> bool:
    """Return whether edits create a file.

    Raises:
        ToolError: They would create a file, which the model did not ask for.
    """
    if pairs[0][0] or exists(workspace, path):
        return False
    if not create:
        raise ToolError(
            f"There is no {quote(path)} in the workspace.",
            code=errors.E_FILE_NOT_FOUND,
            hint="Set create_if_missing to create it, or use write_file.",
        )
    return True


def _find_edits(
    workspace: TrackedWorkspace, path: str, pairs: Sequence[tuple[str, str]]
) -> tuple[str, Sequence[Edit], os.stat_result | None]:
    """Return a file's text, the edits in it, and the file's status.

    Raises:
        ToolError: The file cannot be edited, or a text to replace is not in it exactly once.
    """
    from hilum_files.edits import EditError, apply_edits  # the import takes 15 ms

    data, status = read_file_for_change(workspace, path, MAX_EDIT_BYTES + 1)
    if len(data) > MAX_EDIT_BYTES:
        raise ToolError(
            f"{show(path)} is larger than {MAX_EDIT_BYTES:,} bytes and cannot be edited."
        )
    before = texts.decode(data, path)
    try:
        edits = apply_edits(before, pairs)
    except EditError as error:
        error.message = f"{show(path)}: {error.message}"
        raise
    return before, edits, status


def _report_edits(name: str, edits: Sequence[Edit], diff: str) -> Output:
    changes: list[list[int]] = []
    for edit in edits:
        changes.append([edit.removed.start, len(edit.removed), len(edit.added)])
    data = {
        "path": name,
        "diff": diff,
        "match": "; ".join(dict.fromkeys(edit.match for edit in edits)),
        "created": False,
        "changes": changes,
    }
    separator = " " if len(edits) == 1 else "\n"
    described = "\n".join(map(_describe_edit, edits))
    return Output(f"Edited {name}{separator}{described}", data=data)


def _describe_edit(edit: Edit) -> str:
    """Describe how an edit's text was found, and what the edit changed.

    The description tells the model whether the match was inexact.
    """
    if edit.match == "identical":
        return "(old_string and new_string are the same): nothing changed."
    changed = f"{_describe_lines(edit.removed)} changed."
    if edit.removed != edit.added:
        changed = f"{_describe_lines(edit.removed)} became {_describe_lines(edit.added)}."
    if edit.match == "exact":
        return f"(exact match): {changed}"
    return (
        f"(not an exact match; old_string differed in: {edit.match}): {changed} Read it if in"
        " doubt."
    )


def _describe_lines(lines: range) -> str:
    if not lines:
        return "nothing"
    if len(lines) == 1:
        return f"line {lines[0]}"
    return f"lines {lines[0]}-{lines[-1]}"


def _check_deletable(workspace: TrackedWorkspace, place: Place) -> int:
    """Return the mode of an entry that may be deleted.

    Raises:
        ToolError: There is no such entry, it is the workspace, or the agent has not read it.
    """
    if place.path == workspace.root:
        raise ToolError("The workspace itself cannot be deleted.", code=errors.E_BAD_ARGS)
    mode = read_status(place).st_mode
    if stat.S_ISREG(mode):
        # A file must also be read before it is deleted.
        with open_place_content(workspace, place) as file:
            workspace.read_for_change(place.path, file, MAX_EDIT_BYTES + 1)
    return mode


def _delete(workspace: TrackedWorkspace, path: str) -> Output:
    # The link itself is deleted, not the file or folder that it points to.
    with open_place(workspace, path, follow=False) as place:
        name = show(workspace.relative(place.path))
        mode = _check_deletable(workspace, place)
        with workspace.recording_change(place.path, None):
            if stat.S_ISDIR(mode):
                _remove_folder(place, name)
            else:
                os.unlink(place.name, dir_fd=place.folder)
    return Output(
        f"Deleted the {_describe_kind(mode)} {name}.", data={"path": name, "deleted": True}
    )


# --- before the user is asked ---------------------------------------------------------------------


def _check_write(workspace: TrackedWorkspace, arguments: Mapping[str, Any]) -> None:
    path = arguments["path"]
    _check_is_no_folder(path)
    if exists(workspace, path):
        read_file_for_change(workspace, path, MAX_EDIT_BYTES + 1)
    check_editor_access(workspace, path)


def _check_edit(workspace: TrackedWorkspace, arguments: Mapping[str, Any]) -> None:
    old_string = arguments["old_string"]
    new_string = arguments["new_string"]
    if not _changes_nothing(old_string, new_string):
        pairs = [(old_string, new_string)]
        _check_edits(workspace, arguments["path"], pairs, arguments["create_if_missing"])


def _check_multi_edit(workspace: TrackedWorkspace, arguments: Mapping[str, Any]) -> None:
    pairs = [(edit.old_string, edit.new_string) for edit in arguments["edits"]]
    _check_edits(workspace, arguments["path"], pairs, False)


def _check_edits(
    workspace: TrackedWorkspace, path: str, pairs: Sequence[tuple[str, str]], create: bool
) -> None:
    if not _creates_file(workspace, path, pairs, create):
        _find_edits(workspace, path, pairs)
    check_editor_access(workspace, path)


def _check_delete(workspace: TrackedWorkspace, arguments: Mapping[str, Any]) -> None:
    with open_place(workspace, arguments["path"], follow=False) as place:
        _check_deletable(workspace, place)


def _describe_kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "file"


def _remove_folder(place: Place, name: str) -> None:
    try:
        os.rmdir(place.name, dir_fd=place.folder)
    except OSError as error:
        hint = "Delete its contents first." if error.errno in _NOT_EMPTY else ""
        raise ToolError(
            f"The folder {name} cannot be deleted: {error.strerror}.", hint=hint
        ) from None
