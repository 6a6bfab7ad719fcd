"""Reports the skill folders of other agents, for ``hilum import``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from hilum import home_folder
from hilum.foreign_files import ForeignFile
from hilum.settings import load

from hilum_skills.catalog import SKILL_FOLDERS, CatalogEntry, build_catalog
from hilum_skills.clones import Clones
from hilum_skills.settings import SkillsSettings

_AGENTS = {
    ".agents": "several agents",
    ".claude": "Claude Code",
    ".codex": "Codex",
    ".cursor": "Cursor",
    ".gemini": "Gemini CLI",
    ".github": "Copilot",
    ".opencode": "opencode",
    ".windsurf": "Windsurf",
}


def find_foreign_files(folder: Path) -> Iterator[ForeignFile]:
    """Yield the skill folders of other agents. Blocks.

    Args:
        folder: The workspace.
    """
    settings = load([SkillsSettings], workspace=folder, strict=False).get(SkillsSettings)
    catalog = build_catalog(settings, folder, Clones())
    for name in SKILL_FOLDERS[1:]:
        for base, source in ((folder, f"project {name}"), (home_folder(), f"user ~/{name}")):
            path = base / name
            is_user = source.startswith("user")
            if not path.is_dir():
                continue
            entries = [entry for entry in catalog.entries if entry.source == source]
            complaints = [each for each in catalog.complaints if each.startswith(str(path))]
            if not entries and not complaints:
                continue
            yield _describe(path, name, is_user, entries, complaints)


def _describe(
    path: Path, name: str, is_user: bool, entries: list[CatalogEntry], complaints: list[str]
) -> ForeignFile:
    on = [entry.skill.name for entry in entries if entry.state == "on"]
    works = [f"{_count(on)} can be used: {', '.join(on)}"] if on else []
    untrusted = [entry.skill.name for entry in entries if entry.state == "untrusted"]
    left = []
    if untrusted:
        left.append(f"off until you trust the project (hilum trust): {', '.join(untrusted)}")
    for entry in entries:
        if entry.state not in ("on", "untrusted"):
            place = os.path.relpath(entry.skill.file, path)
            left.append(f"{entry.skill.name} ({place}) is {entry.state}: {entry.reason}")
    return ForeignFile(
        path,
        _AGENTS[name.partition("/")[0]],
        "skills",
        user=is_user,
        works=tuple(works),
        left=tuple(left),
        problems=tuple(complaints),
    )


def _count(names: list[str]) -> str:
    return "1 skill" if len(names) == 1 else f"{len(names)} skills"
