"""Slash commands that users and projects define in files, in hilum's and other agents' formats.

Importing the package reads no file and imports no parser.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hilum import hookimpl

from hilum_commands.settings import CommandsSettings

if TYPE_CHECKING:
    from hilum import Session

    from hilum_commands.catalog import CommandCatalog
    from hilum_commands.command_file import CommandFile, load_command_file
    from hilum_commands.session_commands import Commands

__all__ = [
    "CommandCatalog",
    "CommandFile",
    "Commands",
    "CommandsSettings",
    "load_command_file",
    "open_session",
]

# A command's `allowed-tools` restricts the calls of its run.
gates = ("on_tool_call",)
_MODULES = {
    "CommandCatalog": "catalog",
    "CommandFile": "command_file",
    "Commands": "session_commands",
    "load_command_file": "command_file",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"hilum_commands.{_MODULES[name]}"), name)
    # Python does not call ``__getattr__`` again for a name that is in the module.
    globals()[name] = value
    return value


@hookimpl
def open_session(session: Session) -> Commands:
    """Return the commands of a session. Files are read when a command is listed or typed."""
    from hilum_commands.session_commands import Commands

    # The first call that changes something needs it.
    session.import_later("hilum_commands.restrictions")
    return Commands(session, session.settings(CommandsSettings))
