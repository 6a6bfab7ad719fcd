"""Exports skills: all programs read the same format, from different folders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hilum_skills import Skill
from hilum_skills.catalog import SKILL_FOLDERS
from hilum_skills.discovery import find_skills

from hilum_export.exported_file import ExportedFile, NotExported, Target, show_path

_FOLDERS: dict[Target, str] = {"claude": ".claude/skills", "codex": ".agents/skills"}
MAX_BYTES = 20_000_000


def export_skills(root: Path, target: Target) -> Iterator[ExportedFile | NotExported]:
    """Yield the files of the project's skills in the folder of another program. Blocks.

    Args:
        root: The project.
        target: The program.
    """
    taken: set[str] = set()
    own = _FOLDERS.get(target, "")
    folders = [name for name in SKILL_FOLDERS if name != own]
    # The target's own skills take precedence over those of the same name.
    for name in [own] if own else []:
        taken.update(skill.name for skill in find_skills(root / name, root).skills)
    for name in folders:
        for skill in find_skills(root / name, root).skills:
            source = show_path(root, skill.folder)
            if skill.error:
                yield NotExported(source, f"The skill cannot be loaded: {skill.error}")
            elif target == "agents-md":
                yield NotExported(source, "AGENTS.md has no skills.")
            elif skill.name not in taken:
                taken.add(skill.name)
                yield from _copy_skill(root, skill, own, source)


def _copy_skill(
    root: Path, skill: Skill, folder: str, source: str
) -> Iterator[ExportedFile | NotExported]:
    base = f"{folder}/{skill.folder.name}"
    names = [skill.file.name, *skill.resources()]
    sizes = [(skill.folder / name).stat().st_size for name in names]
    if sum(sizes) > MAX_BYTES:
        yield NotExported(source, f"The skill has more than {MAX_BYTES:,} bytes.")
        return
    for name in names:
        path = skill.folder / name
        yield ExportedFile(f"{base}/{name}", path.read_bytes(), show_path(root, path))
