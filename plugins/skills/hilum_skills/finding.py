"""Skills in a folder: a bounded walk that follows no link out of where it may look."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from hilum_skills.skill import FILE, Skill, find_file, load_skill

DEEPEST = 6
MOST_FOLDERS = 2_000
MOST_SKILLS = 500
_SKIPPED = {".git", "node_modules", "__pycache__", ".venv"}
_MARKDOWN = (".md", ".markdown")
_README = ("readme.md", "readme.markdown", "readme.txt", "readme")


class Found(msgspec.Struct, frozen=True):
    """The skills of a folder.

    Attributes:
        skills: In the order of their paths; those that do not load are among them.
        watched: The folders and files that were looked at: when one of them changes, look again.
        complaints: What was left out, and why.
    """

    skills: tuple[Skill, ...] = ()
    watched: tuple[Path, ...] = ()
    complaints: tuple[str, ...] = ()


def find_skills(root: Path, inside: Path | None, *, whole: bool = False) -> Found:
    """Look for skills. Blocks.

    Args:
        root: Where to look: a folder, or one file.
        inside: Links are followed only to places in this folder; with None, anywhere.
        whole: Where there is no skill, the file itself, or the folder's README, counts as one.
    """
    if not os.path.lexists(root):
        return Found(watched=(root,))
    if not _may(root, inside):
        return Found(watched=(root,), complaints=(f"{root} leads out of {inside}.",))
    if root.is_file() and root.suffix.casefold() not in _MARKDOWN:
        return Found(
            watched=(root,), complaints=(f"{root} is no skill: it is no Markdown file (.md).",)
        )
    if root.is_file():
        skill = load_skill(root, described=root.name.casefold() == FILE.casefold())
        return Found((skill,), (root,))
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
            if len(skills) == MOST_SKILLS:
                complaints.append(
                    f"{root} has more than {MOST_SKILLS} skills; the first ones are used."
                )
                break
    if not skills and whole and (readme := _readme(root)) is not None and _may(readme, inside):
        skills = [_named(load_skill(readme, described=False), root)]
        watched = [*watched, readme]
    return Found(tuple(skills), tuple(watched), tuple(complaints))


def _walk(root: Path, inside: Path | None) -> Iterator[tuple[Path, Path | None, str]]:
    """Yield each folder, the skill's file in it if there is one, and what is wrong."""
    waiting = [(root, 0)]
    seen = set[str]()
    count = 0
    while waiting:
        folder, depth = waiting.pop(0)
        real = os.path.realpath(folder)
        if real in seen:
            continue
        seen.add(real)
        count += 1
        if count > MOST_FOLDERS or len(seen) > MOST_FOLDERS:
            yield (
                root,
                None,
                f"{root} has more than {MOST_FOLDERS:,} folders; not all were looked at.",
            )
            return
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            yield folder, None, f"{folder} cannot be read: {error.strerror or error}."
            continue
        file = find_file(folder)
        if file is not None:
            allowed = _may(file, inside)
            yield (
                folder,
                file if allowed else None,
                "" if allowed else f"{file} leads out of {inside}.",
            )
            if allowed:
                continue  # what is below belongs to the skill
        else:
            yield folder, None, ""
        for entry in entries:
            path = Path(entry.path)
            if entry.name in _SKIPPED or not os.path.isdir(path) or depth >= DEEPEST:
                continue
            if entry.is_symlink() and not _may(path, inside):
                yield folder, None, f"{path} leads out of {inside}."
                continue
            waiting.append((path, depth + 1))


def _may(path: Path, inside: Path | None) -> bool:
    return inside is None or Path(os.path.realpath(path)).is_relative_to(os.path.realpath(inside))


def _readme(root: Path) -> Path | None:
    try:
        names = sorted(os.listdir(root))
    except OSError:
        return None
    return next(
        (root / name for wanted in _README for name in names if name.casefold() == wanted), None
    )


def _named(skill: Skill, root: Path) -> Skill:
    """A README is called like its folder.

    That of a fetched commit, like nothing: the caller names it.
    """
    if not skill.fields.get("name"):
        return msgspec.structs.replace(skill, name=root.name)
    return skill
