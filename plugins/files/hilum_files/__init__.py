"""Tools that read, write, edit, list and delete files, inside the workspace only.

Every change can be shown and undone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from hilum import Tool, hookimpl

from hilum_files.changing import delete_file, edit_file, multi_edit, write_file
from hilum_files.journal.half import Changes, live
from hilum_files.journal.objects import hash_of as content_hash
from hilum_files.reading import FilesSettings, list_directory, read_file
from hilum_files.saving import check_save, save_file

if TYPE_CHECKING:
    from hilum import Session

    from hilum_files.edits import Edit, EditError, apply_edit, apply_edits

__all__ = [
    "Changes",
    "Edit",
    "EditError",
    "FilesSettings",
    "apply_edit",
    "apply_edits",
    "check_save",
    "content_hash",
    "delete_file",
    "edit_file",
    "list_directory",
    "multi_edit",
    "open_session",
    "provide_tools",
    "read_file",
    "save_file",
    "write_file",
]

# What the instance of a session implements: without it no call runs.
gates = ("check_result", "on_tool_call", "wrap_process")


def __getattr__(name: str) -> Any:
    """Return what is public in ``hilum_files.edits``, which is loaded with the first edit."""
    if name in ("Edit", "EditError", "apply_edit", "apply_edits"):
        from hilum_files import edits

        return getattr(edits, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@hookimpl
def provide_tools() -> Sequence[Tool]:
    """Return the six tools.

    They keep no state: what they must know of the session its half ``Changes`` knows.
    """
    return (read_file, write_file, edit_file, multi_edit, list_directory, delete_file)


@hookimpl
async def open_session(session: Session) -> AsyncIterator[Changes]:
    """Yield the half that knows what agents have read, and keeps the journal of changes."""
    async with live(session) as changes:
        yield changes
