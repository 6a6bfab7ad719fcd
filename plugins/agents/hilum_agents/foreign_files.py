"""Reports the agents that were defined for other programs, for ``hilum import``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hilum.foreign_files import PROGRAMS, ForeignFile

from hilum_agents.definitions.catalog import CatalogEntry, find_agents
from hilum_agents.folders import list_folders


def find_foreign_files(folder: Path) -> Iterator[ForeignFile]:
    """Yield the folders with agents of other programs. Blocks.

    Args:
        folder: The workspace.
    """
    catalog = find_agents(folder)
    for place in list_folders(folder, True):
        entries = [entry for entry in catalog.entries if entry.source == place.source]
        if place.dialect in PROGRAMS and entries:
            is_user = place.scope == "user"
            yield _describe(place.path, PROGRAMS[place.dialect], is_user, entries)


def _describe(path: Path, program: str, is_user: bool, entries: list[CatalogEntry]) -> ForeignFile:
    on = [entry.definition.name for entry in entries if entry.state == "on"]
    works = [f"{_count(on)} can be called: {', '.join(on)}"] if on else []
    untrusted = [entry.definition.name for entry in entries if entry.state == "untrusted"]
    left = []
    if untrusted:
        left.append(f"off until you trust the project (hilum trust): {', '.join(untrusted)}")
    left += [
        f"{entry.definition.name} is {entry.state}: {entry.reason}"
        for entry in entries
        if entry.state not in ("on", "untrusted")
    ]
    return ForeignFile(path, program, "agents", user=is_user, works=tuple(works), left=tuple(left))


def _count(names: list[str]) -> str:
    return "1 agent" if len(names) == 1 else f"{len(names)} agents"
