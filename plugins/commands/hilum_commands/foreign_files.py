"""Reports the commands that were written for other programs, for ``hilum import``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from hilum.foreign_files import PROGRAMS, ForeignFile
from hilum.trust import explain_distrust

from hilum_commands.catalog import CommandCatalog, CommandEntry
from hilum_commands.session_commands import list_fixed_names
from hilum_commands.sources import CommandSource, list_sources
from hilum_commands.template import ShellInsert


def find_foreign_files(folder: Path) -> Iterator[ForeignFile]:
    """Yield the folders and files with commands of other programs. Blocks.

    Args:
        folder: The workspace.
    """
    catalog = CommandCatalog(folder)
    catalog.refresh(list_fixed_names())
    distrust = explain_distrust(folder)
    for source in list_sources(folder, True):
        entries = [entry for entry in catalog.entries if entry.file.source == source]
        complaints = [each for each in catalog.complaints if _is_about(each, source)]
        others = [] if source.is_file else catalog.list_other_files(source)
        if source.dialect not in PROGRAMS or not (entries or complaints or others):
            continue
        is_trusted = source.scope == "user" or not distrust
        yield _describe(source, entries, complaints, others, is_trusted)


def _is_about(complaint: str, source: CommandSource) -> bool:
    return complaint.startswith((f"{source.path}:", f"{source.path}{os.sep}"))


def _describe(
    source: CommandSource,
    entries: list[CommandEntry],
    complaints: list[str],
    others: list[Path],
    is_trusted: bool,
) -> ForeignFile:
    usable = [entry for entry in entries if entry.state == "on"]
    waiting = [entry for entry in usable if _has_inserts(entry) and not is_trusted]
    works = []
    if len(usable) > len(waiting):
        ready = [entry for entry in usable if entry not in waiting]
        works.append(f"{_count(ready)} can be used: {_list_names(ready)}")
    left = []
    if waiting:
        left.append(f"shell inserts are off until you trust the project: {_list_names(waiting)}")
    left += [f"/{entry.name}: {entry.reason}" for entry in entries if entry.state != "on"]
    left += [f"{path.relative_to(source.path)}: {_explain(path, source)}" for path in others]
    problems = list(complaints)
    for entry in entries:
        problems += entry.file.describe_problems()
    return ForeignFile(
        source.path,
        PROGRAMS[source.dialect],
        "commands",
        source.scope == "user",
        works=tuple(works),
        left=tuple(left),
        problems=tuple(problems),
    )


def _has_inserts(entry: CommandEntry) -> bool:
    return any(isinstance(piece, ShellInsert) for piece in entry.file.pieces)


def _explain(path: Path, source: CommandSource) -> str:
    """Return why a file in a folder of commands is no command."""
    folder = os.path.join(os.path.realpath(source.path), "")
    if path.is_symlink() and not os.path.realpath(path).startswith(folder):
        return "it is a link that leads out of the folder"
    if path.name.casefold().endswith(source.endings):
        return "it describes the folder, or the folder has too many commands"
    return f"it is no command, because its name does not end in {' or '.join(source.endings)}"


def _list_names(entries: list[CommandEntry]) -> str:
    return ", ".join(f"/{entry.name}" for entry in entries)


def _count(entries: list[CommandEntry]) -> str:
    return "1 command" if len(entries) == 1 else f"{len(entries)} commands"
