"""The files that other agents left, for ``hilum import``: what works, and what could be taken over.

A plugin reports the files of other agents that it understands with an entry point of the group
``hilum.foreign_files``. The entry point names a function that takes the workspace and returns
``ForeignFile`` objects. The function is called outside a session, may block, and must not change
anything; only ``Offer.take`` changes files.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import cast

import msgspec

from hilum.discovery import EntryPoint, entry_points
from hilum.hooks import describe_error

FOREIGN_FILES_GROUP = "hilum.foreign_files"
"""The group of entry points that name functions that return the files of other agents."""
PROGRAMS = {
    "claude": "Claude Code",
    "codex": "Codex",
    "copilot": "Copilot",
    "cursor": "Cursor",
    "gemini": "Gemini CLI",
    "opencode": "opencode",
}
"""The names of other agents, by the short names that plugins use."""
MAX_FILES = 2_000
"""Maximum number of files that one plugin can report."""


class Offer(msgspec.Struct, frozen=True):
    """Something in a file that hilum could take over, but does not use yet.

    Attributes:
        text: The entry as written in the file.
        becomes: What hilum would store, for example ``allow run_terminal_cmd(make *)``.
        take: A function that stores it: for all folders if its argument is true, otherwise for the
            workspace only. It returns where it was stored, for the user; it is called in a thread,
            and raises ``UsageError`` if it cannot store it.
        danger: Why the entry must be accepted alone and not together with others; empty if it may.
        line: The line number of the entry; 0 if unknown.
        details: All that is stored, which is shown before a dangerous entry is accepted. It may
            contain keys.
    """

    text: str
    becomes: str
    take: Callable[[bool], str]
    danger: str = ""
    line: int = 0
    details: tuple[str, ...] = ()


class ForeignFile(msgspec.Struct, frozen=True):
    """A file or folder of another agent.

    Attributes:
        path: The file or folder.
        agent: The program that it was written for, for example ``Claude Code``.
        kind: What it contains, in the plural: ``permissions``, ``rules``, ``skills``, ``agents``,
            ``MCP servers``, ``commands``, ``hooks``.
        user: Whether it belongs to the user (in the home folder) and not to the project.
        works: What hilum uses already, one sentence fragment each.
        offers: What could be taken over.
        left: What hilum does not use, each with the reason.
        problems: Mistakes in the file, each with its line.
    """

    path: Path
    agent: str
    kind: str
    user: bool = False
    works: tuple[str, ...] = ()
    offers: tuple[Offer, ...] = ()
    left: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


FindForeignFiles = Callable[[Path], Iterable[ForeignFile]]


def find_foreign_files(folder: Path) -> Iterator[ForeignFile]:
    """Yield the files of other agents that all installed plugins report. Blocks.

    A plugin whose function fails is reported as a file with a problem, and the files of other
    plugins are still found.

    Args:
        folder: The workspace.
    """
    for point in entry_points(FOREIGN_FILES_GROUP).values():
        with redirect_stdout(sys.stderr):
            found = _find_of_plugin(point, folder)
        yield from found


def _find_of_plugin(point: EntryPoint, folder: Path) -> list[ForeignFile]:
    found: list[ForeignFile] = []
    try:
        find = cast(FindForeignFiles, point.load())
        for file in find(folder):
            if not isinstance(file, ForeignFile):
                raise TypeError(f"it returned {type(file).__name__}, not a ForeignFile")
            # An endless generator would exhaust the memory.
            if len(found) == MAX_FILES:
                raise ValueError(f"it returned more than {MAX_FILES:,} files")
            found.append(file)
    except Exception as error:  # any exception here is the plugin's failure
        reason = f"{point.distribution} could not look for files: {describe_error(error)}"
        found.append(ForeignFile(folder, point.name, "plugin", problems=(reason,)))
    return found
