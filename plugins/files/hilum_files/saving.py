"""Putting bytes into a file of the workspace, whole or not at all, read back and compared.

Also for other plugins' tools.
"""

from __future__ import annotations

import os

import trio
from hilum import Call, ToolError, Workspace, errors

from hilum_files.journal.guard import Guarded, changing, held_file
from hilum_files.journal.half import guarded
from hilum_files.places import opened, replace
from hilum_files.text import show


async def save_file(call: Call, path: str, data: bytes, *, overwrite: bool = False) -> str:
    """Save what a tool made (an image, a download) as a file of the workspace, so that it can be
    shown and undone.

    The tool must name the parameter that the path comes from in ``writes``, so that the guard sees
    it.

    Args:
        call: The tool's call.
        path: Where, relative to the workspace; missing folders are made.
        data: The content.
        overwrite: Whether a file that is there may be replaced.

    Returns:
        The path as it is shown.

    Raises:
        ToolError: ``E_BAD_ARGS``, there is a file and it may not be replaced; or the path leads
            out, cannot be written, changed meanwhile.
    """
    return await trio.to_thread.run_sync(_save, guarded(call), path, data, overwrite)


async def check_save(call: Call, path: str, *, overwrite: bool = False) -> None:
    """Say before a file is made at some cost why it could not be saved: as ``save_file``, without
    the data.

    Raises:
        ToolError: See ``save_file``.
    """
    await trio.to_thread.run_sync(_look, guarded(call), path, overwrite)


def _save(workspace: Workspace, path: str, data: bytes, overwrite: bool) -> str:
    return put(workspace, path, data, _look(workspace, path, overwrite))


def _look(workspace: Workspace, path: str, overwrite: bool) -> os.stat_result | None:
    before = found(workspace, path)
    if before is None:
        return None
    if not overwrite:
        message = f"{path!r} exists already; nothing was written."
        raise ToolError(
            message,
            code=errors.E_BAD_ARGS,
            hint="Choose another name, or say that it may be overwritten.",
        )
    with opened(workspace, path) as file:
        real = workspace.resolve(path)
        if isinstance(workspace, Guarded):
            workspace.hold(real, file)
        return os.fstat(file.fileno())


def found(workspace: Workspace, path: str) -> os.stat_result | None:
    """Return what is at a path; ``None`` for nothing."""
    try:
        with workspace.at(path) as place:
            return os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except ToolError as error:
        if error.code == errors.E_FILE_NOT_FOUND:
            return None
        raise


def read(workspace: Workspace, path: str, limit: int) -> tuple[bytes, os.stat_result]:
    """Read a file that is to be changed, at most ``limit`` bytes of it."""
    with opened(workspace, path) as file:
        return held_file(workspace, workspace.resolve(path), file, limit), os.fstat(file.fileno())


def put(workspace: Workspace, path: str, data: bytes, before: os.stat_result | None) -> str:
    """Write, read back and compare; see ``hilum_files.places.replace``.

    Args:
        workspace: Where.
        path: Which file.
        data: Its new content.
        before: What was read of it before; ``None`` for a new file.

    Returns:
        The path that was written, as it is shown.
    """
    real = workspace.resolve(path)
    name = show(workspace.relative(real))
    with changing(workspace, real, data):
        replace(workspace, real, data, expected=before)
        with opened(workspace, real) as file:
            written = file.read(len(data) + 1)
        if written != data:
            raise ToolError(
                f"{name} does not hold what was written: another program changed it at once.",
                code=errors.E_READBACK_FAIL,
                hint="Read it before you go on.",
            )
    return name
