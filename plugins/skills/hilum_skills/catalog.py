"""All skills there are for a session: where each comes from, and whether it holds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from hilum import UsageError, config_folder, home_folder

from hilum_skills.chosen import Chosen, chosen_file, read_chosen
from hilum_skills.clones import Clones
from hilum_skills.finding import Found, find_skills
from hilum_skills.settings import SkillsSettings
from hilum_skills.skill import Skill
from hilum_skills.source import Source, parse_source

FOLDERS = (".hilum/skills", ".agents/skills", ".claude/skills")
State = Literal["on", "off", "untrusted", "hidden", "broken"]


class Entry(msgspec.Struct, frozen=True):
    """A skill and whether the model gets it.

    Attributes:
        skill: The skill.
        source: Where it comes from, in words that stay the same.
        kind: ``project``, ``user`` or ``source``.
        state: ``on``; ``off`` (disabled), ``untrusted`` (of a project that the user does not
            trust), ``hidden`` (another of that name comes first), ``broken`` (does not load).
        reason: Why it is not on.
        same: It is hidden by one that says the same, as where one folder is a link to another:
            nothing to complain of.
    """

    skill: Skill
    source: str
    kind: Literal["project", "user", "source"]
    state: State = "on"
    reason: str = ""
    same: bool = False


class Catalog(msgspec.Struct, frozen=True):
    """What was found.

    Attributes:
        entries: All skills, the stronger ones first.
        missing: Repositories that were not fetched yet.
        complaints: What is wrong with sources and folders.
        stamp: What the disk looked like.
        watched: The files and folders that the stamp is made of.
        distrust: Why skills of the project are off, and what to do, where the user does not trust
            it.
    """

    entries: tuple[Entry, ...] = ()
    missing: tuple[Source, ...] = ()
    complaints: tuple[str, ...] = ()
    stamp: tuple[object, ...] = ()
    watched: tuple[Path, ...] = ()
    distrust: str = ""

    def on(self) -> list[Entry]:
        """The skills that hold."""
        return [entry for entry in self.entries if entry.state == "on"]

    def get(self, name: str) -> Entry | None:
        """Return the first entry of a name; one that is on comes first."""
        named = [entry for entry in self.entries if entry.skill.name == name]
        return next((entry for entry in named if entry.state == "on"), named[0] if named else None)

    @property
    def untrusted(self) -> list[Entry]:
        """The skills that are off because the user does not trust the project."""
        return [entry for entry in self.entries if entry.state == "untrusted"]


def look(settings: SkillsSettings, workspace: Path | None, clones: Clones) -> Catalog:
    """Find all skills. Blocks.

    Args:
        settings: As they hold for the workspace.
        workspace: The project; None for none.
        clones: What was fetched.
    """
    chosen = read_chosen()
    complaints = [chosen.mistake] if chosen.mistake else []
    missing: list[Source] = []
    watched = [chosen_file()]
    trusts = None
    places: list[tuple[str, Literal["project", "user", "source"], Found]] = []
    if settings.folders:
        places += _folders(workspace)
    for source in sources(settings, chosen, complaints):
        place, seen = _source(source, clones)
        watched += seen
        if place is None:
            missing.append(source)
        else:
            places.append((source.text, "source", place))
    entries: list[Entry] = []
    off = {*settings.disabled, *chosen.disabled}
    for name, kind, place in places:
        watched += place.watched
        complaints += place.complaints
        if kind == "project" and place.skills and trusts is None:
            trusts = _trusted(workspace)
        entries += [Entry(skill, name, kind) for skill in place.skills]
    judged = tuple(_judge(entries, off, bool(trusts)))
    paths = tuple(dict.fromkeys(watched))
    if any(entry.state == "untrusted" for entry in judged):
        why = _distrust(workspace)
    else:
        why = ""
    return Catalog(judged, tuple(missing), tuple(complaints), stamp(paths, trusts), paths, why)


def stamp(watched: Sequence[Path], trusts: bool | None) -> tuple[object, ...]:
    """Describe what the disk looks like; a change means: look again. Blocks."""
    return (trusts, *map(_stat, watched))


def changed(catalog: Catalog, workspace: Path | None) -> bool:
    """Return whether the disk looks other than when a catalog was made. Blocks."""
    before = catalog.stamp[0] if catalog.stamp else None
    trusts = None if before is None else _trusted(workspace)
    return stamp(catalog.watched, trusts) != catalog.stamp


def sources(settings: SkillsSettings, chosen: Chosen, complaints: list[str]) -> Iterator[Source]:
    """Yield the sources of the user, each once; what cannot be read becomes a complaint."""
    for text in dict.fromkeys((*chosen.sources, *settings.sources)):
        try:
            yield parse_source(text)
        except UsageError as error:
            complaints.append(error.message)


def _folders(
    workspace: Path | None,
) -> Iterator[tuple[str, Literal["project", "user", "source"], Found]]:
    home = home_folder()
    if workspace is not None:
        for name in FOLDERS:
            if (workspace / name).resolve() != (home / name).resolve():
                yield f"project {name}", "project", find_skills(workspace / name, workspace)
    yield "user skills", "user", find_skills(config_folder() / "skills", None)
    for name in FOLDERS[1:]:
        yield f"user ~/{name}", "user", find_skills(home / name, None)


def _source(source: Source, clones: Clones) -> tuple[Found | None, list[Path]]:
    """The skills of a source, None if it must be fetched first; and what tells of a change."""
    if source.kind == "folder":
        found = find_skills(Path(source.where), None, whole=True)
        if not os.path.lexists(source.where):
            found = msgspec.structs.replace(
                found, complaints=(f"There is no folder {source.where}.",)
            )
        return found, []
    clone = clones.find(source)
    watched = [clones.watched(source)]
    if clone is None:
        return None, watched
    found = find_skills(clone.folder / source.path, clone.folder, whole=True)
    complaints = [*found.complaints, *(f"{source.text}: {left}" for left in clone.left_out)]
    if not found.skills:
        complaints.append(
            f"{source.text} has no skill{f' in {source.path}' if source.path else ''}."
        )
    name = (source.path or source.where.removesuffix("/").removesuffix(".git")).rpartition("/")[2]
    skills = tuple(
        msgspec.structs.replace(skill, name=name)
        if skill.name == clone.folder.name
        else _forgiven(skill, clone.folder)
        for skill in found.skills
    )
    return msgspec.structs.replace(
        found, skills=skills, complaints=tuple(complaints), watched=()
    ), watched


def _forgiven(skill: Skill, root: Path) -> Skill:
    """A skill at the top of a repository lies in a folder that is called after a commit.

    That says nothing.
    """
    if skill.folder != root:
        return skill
    return msgspec.structs.replace(
        skill,
        problems=tuple(p for p in skill.problems if "differs from the folder's" not in p.message),
    )


def _judge(entries: Iterable[Entry], off: set[str], trusts: bool) -> Iterator[Entry]:
    taken: dict[str, Entry] = {}
    for entry in entries:
        name = entry.skill.name
        if entry.skill.error:
            yield msgspec.structs.replace(entry, state="broken", reason=entry.skill.error)
        elif name in off:
            yield msgspec.structs.replace(entry, state="off", reason="disabled")
        elif entry.kind == "project" and not trusts:
            yield msgspec.structs.replace(
                entry, state="untrusted", reason="the project is not trusted"
            )
        elif name in taken:
            first = taken[name].skill
            mine = entry.skill
            same = (first.description, first.body) == (mine.description, mine.body)
            reason = f"{name} of {taken[name].source} comes first"
            yield msgspec.structs.replace(entry, state="hidden", reason=reason, same=same)
        else:
            taken[name] = entry
            yield entry


def _trusted(workspace: Path | None) -> bool:
    from hilum_guard import trusted

    return workspace is not None and trusted(workspace)


def _distrust(workspace: Path | None) -> str:
    from hilum_guard import distrust

    return distrust(workspace) if workspace is not None else ""


def _stat(path: Path) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size
