"""Finds the skills in a folder with a bounded walk that does not follow links out of the folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from hilum_skills.skill import SKILL_FILE, Skill, find_skill_file, load_skill

# Limits on a search, because a source may be any folder, even the root of a disk.
MAX_DEPTH = 6
MAX_FOLDERS = 2_000
MAX_SKILLS = 500
# Folders that contain thousands of files but no skills.
_SKIPPED = {".git", "node_modules", "__pycache__", ".venv"}
_MARKDOWN = (".md", ".markdown")
_README = ("readme.md", "readme.markdown", "readme.txt", "readme")


class DiscoveredSkills(msgspec.Struct, frozen=True):
    """The skills that were found in a folder.

    Attributes:
        skills: The skills in the order of their paths, unusable ones included.
        watched: The folders and files that were read; a change to any of them requires a new
            search.
        complaints: Skipped files and folders, with the reasons.
    """

    skills: tuple[Skill, ...] = ()
    watched: tuple[Path, ...] = ()
    complaints: tuple[str, ...] = ()


class _Visit(NamedTuple):
    """A visited folder, the skill file in it, and a complaint about the folder."""

    folder: Path
    file: Path | None = None
    complaint: str = ""


def find_skills(root: Path, inside: Path | None, *, whole: bool = False) -> DiscoveredSkills:
    """Return the skills in a folder. Blocks.

    Args:
        root: The folder, or a single file.
        inside: The folder that links must not lead out of; ``None`` for no restriction.
        whole: Whether to treat the file itself, or the README of a folder without skills, as a
            skill.
    """
    if not os.path.lexists(root):
        # A missing folder is also watched, so that skills are found as soon as the folder is
        # created.
        return DiscoveredSkills(watched=(root,))
    if not _is_allowed(root, inside):
        return DiscoveredSkills(watched=(root,), complaints=(f"{root} leads out of {inside}.",))
    if root.is_file():
        return _read_single_file(root)
    found = _find_in_folder(root, inside)
    readme = _find_readme(root) if whole and not found.skills else None
    if readme is None or not _is_allowed(readme, inside):
        return found
    skill = _named(load_skill(readme, described=False), root)
    return DiscoveredSkills((skill,), (*found.watched, readme), found.complaints)


def _read_single_file(path: Path) -> DiscoveredSkills:
    if path.suffix.casefold() not in _MARKDOWN:
        complaint = f"{path} is not a skill: it is not a Markdown file (.md)."
        return DiscoveredSkills(watched=(path,), complaints=(complaint,))
    skill = load_skill(path, described=path.name.casefold() == SKILL_FILE.casefold())
    return DiscoveredSkills((skill,), (path,))


def _find_in_folder(root: Path, inside: Path | None) -> DiscoveredSkills:
    skills: list[Skill] = []
    watched: list[Path] = [root]
    complaints: list[str] = []
    for folder, file, complaint in _walk(root, inside):
        watched.append(folder)
        if complaint:
            complaints.append(complaint)
        if file is not None:
            watched.append(file)
            skills.append(load_skill(file))
        if len(skills) == MAX_SKILLS:
            complaints.append(f"{root} has more than {MAX_SKILLS} skills; the first ones are used.")
            break
    return DiscoveredSkills(tuple(skills), tuple(watched), tuple(complaints))


def _walk(root: Path, inside: Path | None) -> Iterator[_Visit]:
    """Visit the folders breadth first. Folders below a skill belong to that skill."""
    waiting = [(root, 0)]
    seen = set[str]()
    while waiting:
        # The search is breadth first: if there are too many folders, it covers the top ones, which
        # usually contain the skills.
        folder, depth = waiting.pop(0)
        # Links may form a loop.
        real = os.path.realpath(folder)
        if real in seen:
            continue
        seen.add(real)
        if len(seen) > MAX_FOLDERS:
            message = f"{root} has more than {MAX_FOLDERS:,} folders; not all were searched."
            yield _Visit(root, complaint=message)
            return
        try:
            # Entries are sorted, because their order differs between disks and would change the
            # cached prefix of the prompt.
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            message = f"{folder} cannot be read: {error.strerror or error}."
            yield _Visit(folder, complaint=message)
            continue
        visit = _visit(folder, inside)
        yield visit
        # Folders below a skill contain the skill's files, so a SKILL.md in them is an example or a
        # template.
        if visit.file is None and depth < MAX_DEPTH:
            for path in _find_subfolders(entries):
                if _is_allowed(path, inside):
                    waiting.append((path, depth + 1))
                else:
                    yield _Visit(folder, complaint=f"{path} leads out of {inside}.")


def _visit(folder: Path, inside: Path | None) -> _Visit:
    file = find_skill_file(folder)
    if file is None or _is_allowed(file, inside):
        return _Visit(folder, file)
    return _Visit(folder, complaint=f"{file} leads out of {inside}.")


def _find_subfolders(entries: list[os.DirEntry[str]]) -> list[Path]:
    return [
        Path(entry.path)
        for entry in entries
        if entry.name not in _SKIPPED and os.path.isdir(entry.path)
    ]


def _is_allowed(path: Path, inside: Path | None) -> bool:
    if inside is None:
        return True
    # Without this check, a project could expose any of the user's files as a skill.
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(inside))


def _find_readme(root: Path) -> Path | None:
    try:
        # Names are processed in reverse order, so that if two differ only in case, the first one is
        # kept.
        names = {name.casefold(): name for name in sorted(os.listdir(root), reverse=True)}
    except OSError:
        return None
    found = [names[wanted] for wanted in _README if wanted in names]
    return root / found[0] if found else None


def _named(skill: Skill, root: Path) -> Skill:
    """Return a README skill under its folder's name, unless its front matter has a name.

    A fetched commit's folder is named after the commit; the caller replaces that name.
    """
    if not skill.fields.get("name"):
        return msgspec.structs.replace(skill, name=root.name)
    return skill
