"""Tools that read, write, edit, list and delete files in the workspace.

Every change can be shown and undone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from hilum import Tool, hookimpl

from hilum_files.journal.changes import Changes, open_changes
from hilum_files.journal.content_store import hash_content as content_hash
from hilum_files.read_tools import list_directory, read_file
from hilum_files.save import check_save, replace_files, save_file
from hilum_files.settings import FilesSettings
from hilum_files.write_tools import delete_file, edit_file, multi_edit, write_file

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
    "replace_files",
    "save_file",
    "write_file",
]

# No call runs unless the session plugin provides these hooks.
gates = ("check_result", "on_tool_call", "wrap_process")


def __getattr__(name: str) -> Any:
    """Return a public name from ``hilum_files.edits``, which is imported at the first edit."""
    if name in ("Edit", "EditError", "apply_edit", "apply_edits"):
        from hilum_files import edits  # the import takes 15 ms

        return getattr(edits, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@hookimpl
def provide_tools() -> Sequence[Tool]:
    """Return the six tools, whose state is in the session plugin ``Changes``."""
    return (read_file, write_file, edit_file, multi_edit, list_directory, delete_file)


@hookimpl
async def open_session(session: Session) -> AsyncIterator[Changes]:
    """Open the session plugin, which tracks reads by agents and journals all changes."""
    # What the first edit needs.
    session.import_later("hilum_files.edits", "difflib")
    async with open_changes(session) as changes:
        yield changes
