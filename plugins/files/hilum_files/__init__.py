"""Tools that read, write, edit, list and delete files, inside the workspace only."""

from collections.abc import Sequence

from hilum import Tool, hookimpl

from hilum_files.changing import delete_file, edit_file, write_file
from hilum_files.reading import FilesSettings, list_directory, read_file

__all__ = ["FilesSettings", "delete_file", "edit_file", "list_directory", "provide_tools", "read_file", "write_file"]


@hookimpl
def provide_tools() -> Sequence[Tool]:
    """Give the five tools. They keep no state: everything they know is in the call."""
    return (read_file, write_file, edit_file, list_directory, delete_file)
