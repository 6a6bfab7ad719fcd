"""Reports the commands that were written for other programs, for ``hilum import``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from hilum.foreign_files import PROGRAMS, ForeignFile

from hilum_commands.catalog import CommandCatalog, CommandEntry
from hilum_commands.sources import CommandSource, list_sources


def find_foreign_files(folder: Path) -> Iterator[ForeignFile]:
    """Yield the folders and files with commands of other programs. Blocks.

    Args:
        folder: The workspace.
    """
    catalog = CommandCatalog(folder)
    catalog.refresh()
    for source in list_sources(folder, True):
        entries = [entry for entry in catalog.entries if entry.file.source == source]
        complaints = [each for each in catalog.complaints if _is_about(each, source)]
        if source.dialect in PROGRAMS and (entries or complaints):
            yield _describe(source, entries, complaints)


def _is_about(complaint: str, source: CommandSource) -> bool:
    return complaint.startswith((f"{source.path}:", f"{source.path}{os.sep}"))


def _describe(
    source: CommandSource, entries: list[CommandEntry], complaints: list[str]
) -> ForeignFile:
    usable = [f"/{entry.name}" for entry in entries if entry.state == "on"]
    works = [f"{_count(usable)} can be used: {', '.join(usable)}"] if usable else []
    left = [f"/{entry.name}: {entry.reason}" for entry in entries if entry.state != "on"]
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


def _count(names: list[str]) -> str:
    return f"{len(names)} command" if len(names) == 1 else f"{len(names)} commands"
