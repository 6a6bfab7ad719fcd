"""Writes bytes to files in the workspace, for this plugin's tools and those of other plugins."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from io import BytesIO

import trio
from hilum import Call, ToolError, Workspace, errors

from hilum_files.editor_texts import quiet_workspace, track_file, write_file
from hilum_files.journal.tracked_workspace import TrackedWorkspace
from hilum_files.paths import find_status, open_file
from hilum_files.text import quote, show


async def save_file(call: Call, path: str, data: bytes, *, overwrite: bool = False) -> str:
    """Save a tool's result, such as an image, as a file in the workspace.

    The user can view and undo the change. The tool must name its path parameter in ``writes``, so
    that the guard checks the path.

    Args:
        call: The tool's call.
        path: The path, relative to the workspace; missing folders are created.
        data: The content.
        overwrite: Whether an existing file may be replaced.

    Returns:
        The path, for messages.

    Raises:
        ToolError: An existing file may not be replaced (``E_BAD_ARGS``), or the path is outside the
            workspace, cannot be written, or has changed in the meantime.
    """
    workspace = await track_file(call, path)
    return await trio.to_thread.run_sync(_save, workspace, path, data, overwrite)


async def check_save(call: Call, path: str, *, overwrite: bool = False) -> None:
    """Check that a file can be saved before producing its content, which may be expensive.

    The arguments are those of ``save_file``.

    Raises:
        ToolError: See ``save_file``.
    """
    workspace = await track_file(call, path)
    await trio.to_thread.run_sync(_check, workspace, path, overwrite)


async def replace_files(call: Call, contents: Mapping[str, tuple[bytes, bytes]]) -> None:
    """Replace the contents of several files, all or none, as one step for undo.

    The tool must name its parameter with the paths in ``writes``, so that the guard checks them.
    The agent need not have read the files, because the old contents are compared.

    Args:
        call: The tool's call.
        contents: The old and the new content of each file, by path relative to the workspace.

    Raises:
        ToolError: A file does not have the old content (``E_STALE``), is outside the workspace or
            cannot be written. The files that were already written have their old content again.
    """
    async with quiet_workspace(call):
        workspace: TrackedWorkspace | None = None
        for path in contents:
            workspace = await track_file(call, path)
            if workspace.unsaved:
                raise ToolError(
                    f"{quote(path)} has changes in the editor that are not saved; nothing was"
                    " written.",
                    code=errors.E_STALE,
                    hint="Ask the user to save the file.",
                )
        if workspace is not None:
            await trio.to_thread.run_sync(_replace_all, workspace, contents)


def _replace_all(workspace: TrackedWorkspace, contents: Mapping[str, tuple[bytes, bytes]]) -> None:
    for path, (before, _) in contents.items():
        _expect_content(workspace, path, before)
    written: list[str] = []
    try:
        for path, (before, after) in contents.items():
            status = _expect_content(workspace, path, before)
            write_verified(workspace, path, after, status)
            written.append(path)
    except ToolError:
        for path in reversed(written):
            before, after = contents[path]
            # A file that somebody else has changed since is left alone.
            with suppress(ToolError):
                write_verified(workspace, path, before, _expect_content(workspace, path, after))
        raise


def _expect_content(workspace: TrackedWorkspace, path: str, content: bytes) -> os.stat_result:
    """Return the status of a file that has a certain content and may be replaced unread.

    Raises:
        ToolError: ``E_STALE`` if it has another content.
    """
    with open_file(workspace, path) as file:
        if file.read(len(content) + 1) != content:
            raise ToolError(
                f"{quote(path)} changed in the meantime; nothing was changed.",
                code=errors.E_STALE,
                hint="Try again.",
            )
        workspace.expect(workspace.resolve(path), file)
        return os.fstat(file.fileno())


def _save(workspace: TrackedWorkspace, path: str, data: bytes, overwrite: bool) -> str:
    before = _check(workspace, path, overwrite)
    return write_verified(workspace, path, data, before)


def _check(workspace: TrackedWorkspace, path: str, overwrite: bool) -> os.stat_result | None:
    """Return the status of the file that would be replaced, if there is one."""
    if workspace.resolve(path) in workspace.unsaved:
        raise ToolError(
            f"{quote(path)} has changes in the editor that are not saved; nothing was written.",
            code=errors.E_STALE,
            hint="Choose another name, or ask the user to save the file.",
        )
    if find_file(workspace, path) is None:
        return None
    if not overwrite:
        raise ToolError(
            f"{quote(path)} already exists; nothing was written.",
            code=errors.E_BAD_ARGS,
            hint="Choose another name, or allow overwriting.",
        )
    with open_file(workspace, path) as file:
        workspace.expect(workspace.resolve(path), file)
        # Return the status of the open file, even if another file has replaced it in the meantime.
        return os.fstat(file.fileno())


def exists(workspace: TrackedWorkspace, path: str) -> bool:
    """Return whether there is an entry at a path, on the disk or only in the editor."""
    found = find_file(workspace, path)  # raises for a path outside the workspace
    return found is not None or workspace.resolve(path) in workspace.unsaved


def find_file(workspace: Workspace, path: str) -> os.stat_result | None:
    """Return the status of the entry at a path, or ``None`` if there is none."""
    try:
        with workspace.at(path) as place:
            return find_status(place)
    except ToolError as error:
        if error.code == errors.E_FILE_NOT_FOUND:
            return None
        raise


def read_file_for_change(
    workspace: TrackedWorkspace, path: str, limit: int
) -> tuple[bytes, os.stat_result | None]:
    """Return at most ``limit`` bytes of a file that will be changed, and its status.

    The status is ``None`` for a file that only the editor has.
    """
    real = workspace.resolve(path)
    unsaved = workspace.unsaved.get(real)
    if unsaved is not None:
        return workspace.read_for_change(real, BytesIO(unsaved), limit), find_file(workspace, path)
    with open_file(workspace, path) as file:
        data = workspace.read_for_change(workspace.resolve(path), file, limit)
        return data, os.fstat(file.fileno())


def write_verified(
    workspace: TrackedWorkspace, path: str, data: bytes, before: os.stat_result | None
) -> str:
    """Write a file, read it back, and compare the contents.

    Args:
        workspace: The workspace.
        path: The path of the file.
        data: The new content of the file.
        before: The file's status when it was read; ``None`` for a new file.

    Returns:
        The path that was written, for messages.

    Raises:
        ToolError: See ``replace_file``; also ``E_READBACK_FAIL`` if the content read back differs.
    """
    real = workspace.resolve(path)
    name = show(workspace.relative(real))
    with workspace.recording_change(real, data):
        write_file(workspace, real, data, before)
        with open_file(workspace, real) as file:
            # Reading one byte more than was written shows whether another program appended
            # something.
            written = file.read(len(data) + 1)
        if written != data:
            raise ToolError(
                f"{name} was changed by another program immediately after it was written.",
                code=errors.E_READBACK_FAIL,
                hint="Read it before you continue.",
            )
    return name
