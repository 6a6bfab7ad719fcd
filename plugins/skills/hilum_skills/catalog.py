"""The catalog of a session's skills, with their sources and states."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from hilum import UsageError, config_folder, home_folder
from hilum.trust import explain_distrust, is_trusted

from hilum_skills.clones import Clone, Clones
from hilum_skills.discovery import DiscoveredSkills, find_skills
from hilum_skills.settings import SkillsSettings
from hilum_skills.skill import Skill
from hilum_skills.source import SkillSource, parse_source
from hilum_skills.user_choices import UserChoices, choices_path, read_choices

# The skill folders: hilum's own, one shared by several coding agents, and those of other agents.
SKILL_FOLDERS = (
    ".hilum/skills",
    ".agents/skills",
    ".claude/skills",
    ".codex/skills",
    ".cursor/skills",
    ".gemini/skills",
    ".github/skills",
    ".opencode/skill",
    ".opencode/skills",
    ".windsurf/skills",
)
State = Literal["on", "off", "untrusted", "hidden", "broken"]
PlaceKind = Literal["project", "user", "source"]


class CatalogEntry(msgspec.Struct, frozen=True):
    """A skill in the catalog, with its state.

    Attributes:
        skill: The skill.
        source: Name of the skill's source.
        kind: ``project``, ``user`` or ``source``.
        state: ``on``; ``off`` (disabled), ``untrusted`` (in a project that the user does not
            trust), ``hidden`` (another skill with that name takes precedence), ``broken``
            (unusable).
        reason: The reason for any state except ``on``.
        same: Whether the skill is hidden by one with the same text, for example because one folder
            links to another. A skill that is hidden for this reason is not reported.
    """

    skill: Skill
    source: str
    kind: PlaceKind
    state: State = "on"
    reason: str = ""
    same: bool = False


class SkillCatalog(msgspec.Struct, frozen=True):
    """The skills that a scan has found.

    Attributes:
        entries: The skills; if two skills have the same name, the first one takes precedence.
        missing: Repositories that have not been fetched yet.
        complaints: Problems with sources and folders.
        stamp: The state of the watched files when the catalog was built.
        watched: The files and folders that the stamp describes.
        distrust: Why an untrusted project's skills are off, and what to do.
    """

    entries: tuple[CatalogEntry, ...] = ()
    missing: tuple[SkillSource, ...] = ()
    complaints: tuple[str, ...] = ()
    stamp: tuple[object, ...] = ()
    watched: tuple[Path, ...] = ()
    distrust: str = ""

    def enabled(self) -> list[CatalogEntry]:
        """Return the skills that the model may use."""
        return [entry for entry in self.entries if entry.state == "on"]

    def get(self, name: str) -> CatalogEntry | None:
        """Return the first skill with the given name; an enabled skill takes precedence."""
        named = [entry for entry in self.entries if entry.skill.name == name]
        # A disabled or untrusted skill may come before an enabled one with the same name.
        return min(named, key=lambda entry: entry.state != "on", default=None)

    @property
    def untrusted(self) -> list[CatalogEntry]:
        """The skills that are off because the user does not trust the project."""
        return [entry for entry in self.entries if entry.state == "untrusted"]


class _Search:
    """A search of all sources, with the skills and problems found so far.

    Attributes:
        entries: The skills found so far, whose states are not determined yet.
        missing: Repositories that have not been fetched yet.
        watched: Files and folders that the search has read.
        complaints: Problems with sources and folders.
    """

    def __init__(self) -> None:
        self.entries: list[CatalogEntry] = []
        self.missing: list[SkillSource] = []
        # The file is watched, so that ``hilum skills disable`` in another terminal also affects
        # running sessions.
        self.watched = [choices_path()]
        self.complaints: list[str] = []

    def add(self, source: str, kind: PlaceKind, found: DiscoveredSkills) -> None:
        """Add the skills from a source."""
        self.entries += [CatalogEntry(skill, source, kind) for skill in found.skills]
        self.watched += found.watched
        self.complaints += found.complaints

    def search_folders(self, workspace: Path | None) -> None:
        """Search the skill folders in the project and in the user's home folder."""
        home = home_folder()
        if workspace is not None:
            self._search_project(workspace, home)
        # The user's own links may lead anywhere, for example to a folder of dotfiles.
        self.add("user skills", "user", find_skills(config_folder() / "skills", None))
        # ``~/.hilum/skills`` is not searched: for the user's own skills, the settings folder takes
        # its place.
        for name in SKILL_FOLDERS[1:]:
            self.add(f"user ~/{name}", "user", find_skills(home / name, None))

    def _search_project(self, workspace: Path, home: Path) -> None:
        for name in SKILL_FOLDERS:
            folder = workspace / name
            # If the workspace is the home folder, these are the user's own skills, which need no
            # trust.
            if folder.resolve() != (home / name).resolve():
                # Links that lead out of the project are not followed, because the project may be
                # malicious.
                self.add(f"project {name}", "project", find_skills(folder, workspace))

    def search_source(self, source: SkillSource, clones: Clones) -> None:
        """Search a folder that the user named, or the fetched commit of a repository."""
        if source.kind == "folder":
            self.add(source.text, "source", _search_user_folder(source))
            return
        self.watched.append(clones.marker_path(source))
        clone = clones.find(source)
        if clone is None:
            self.missing.append(source)
        else:
            self.add(source.text, "source", _search_clone(source, clone))


def build_catalog(settings: SkillsSettings, workspace: Path | None, clones: Clones) -> SkillCatalog:
    """Find all skills. Blocks.

    Args:
        settings: The settings of the workspace.
        workspace: The project; ``None`` if there is none.
        clones: The fetched repositories.
    """
    choices = read_choices()
    found = _Search()
    if choices.mistake:
        found.complaints.append(choices.mistake)
    # Project and home folders come before sources, so their skills hide skills from sources that
    # have the same name.
    if settings.folders:
        found.search_folders(workspace)
    for source in list_sources(settings, choices, found.complaints):
        found.search_source(source, clones)
    # Trust is checked only if the project has skills, because the check reads the project's files.
    has_project_skills = any(entry.kind == "project" for entry in found.entries)
    # None means that trust was not checked, so ``has_changed`` does not check trust either.
    trusts = _is_trusted(workspace) if has_project_skills else None
    disabled = {*settings.disabled, *choices.disabled}
    judged = tuple(_judge(found.entries, disabled, bool(trusts)))
    is_untrusted = any(entry.state == "untrusted" for entry in judged)
    # Sources may overlap, but each file needs to be checked for changes only once per prompt.
    watched = tuple(dict.fromkeys(found.watched))
    return SkillCatalog(
        judged,
        tuple(found.missing),
        tuple(found.complaints),
        take_stamp(watched, trusts),
        watched,
        explain_distrust(workspace) if is_untrusted and workspace is not None else "",
    )


def take_stamp(watched: Sequence[Path], trusts: bool | None) -> tuple[object, ...]:
    """Return the state of the watched files, which changes when a file changes. Blocks."""
    # Only metadata is read: reading 200 skills again at each prompt would take 150 ms instead of 2
    # ms.
    return (trusts, *map(_stat, watched))


def has_changed(catalog: SkillCatalog, workspace: Path | None) -> bool:
    """Return whether watched files have changed since a catalog was built. Blocks."""
    # Without project skills, trust makes no difference and is not checked.
    before = catalog.stamp[0] if catalog.stamp else None
    trusts = None if before is None else _is_trusted(workspace)
    return take_stamp(catalog.watched, trusts) != catalog.stamp


def list_sources(
    settings: SkillsSettings,
    choices: UserChoices,
    complaints: list[str],
) -> Iterator[SkillSource]:
    """Yield the user's sources without duplicates. Invalid sources are added to the complaints."""
    for text in dict.fromkeys((*choices.sources, *settings.sources)):
        try:
            yield parse_source(text)
        except UsageError as error:
            complaints.append(error.message)


def _search_clone(source: SkillSource, clone: Clone) -> DiscoveredSkills:
    """Return the skills in a fetched commit."""
    # ``source.path`` must not lead out of the clone either, for example through a link.
    found = find_skills(clone.folder / source.path, clone.folder, whole=True)
    complaints = list(found.complaints)
    complaints += [f"{source.text}: {left}" for left in clone.left_out]
    if not found.skills:
        where = f" in {source.path}" if source.path else ""
        complaints.append(f"{source.text} has no skill{where}.")
    skills = tuple(_without_commit(skill, source, clone.folder) for skill in found.skills)
    # The files of a commit never change, so only the marker is watched.
    return DiscoveredSkills(skills, (), tuple(complaints))


def _search_user_folder(source: SkillSource) -> DiscoveredSkills:
    found = find_skills(Path(source.where), None, whole=True)
    # A folder that the user named must exist, unlike the folders in ``SKILL_FOLDERS``.
    if os.path.lexists(source.where):
        return found
    return msgspec.structs.replace(found, complaints=(f"There is no folder {source.where}.",))


def _without_commit(skill: Skill, source: SkillSource, root: Path) -> Skill:
    """Return a fetched skill without the problems that are caused by its folder's name.

    The folder of a skill at the top of a repository is named after the commit.
    """
    # As a skill's name, a commit id would be meaningless to the user and the model.
    if skill.name == root.name:
        where = source.path or source.where.removesuffix("/").removesuffix(".git")
        return msgspec.structs.replace(skill, name=where.rpartition("/")[2])
    if skill.folder != root:
        return skill
    problems = [each for each in skill.problems if "differs from the folder's" not in each.message]
    return msgspec.structs.replace(skill, problems=tuple(problems))


def _judge(
    entries: Iterable[CatalogEntry],
    disabled: set[str],
    trusts: bool,
) -> Iterator[CatalogEntry]:
    """Yield each skill with its state. If two skills share a name, only the first can be on."""
    taken: dict[str, CatalogEntry] = {}
    for entry in entries:
        name = entry.skill.name
        if entry.skill.error:
            yield msgspec.structs.replace(entry, state="broken", reason=entry.skill.error)
        elif name in disabled:
            yield msgspec.structs.replace(entry, state="off", reason="disabled")
        # The model follows a project's instructions with the user's authority, so the user must
        # trust a cloned project first.
        elif entry.kind == "project" and not trusts:
            yield msgspec.structs.replace(
                entry,
                state="untrusted",
                reason="the project is not trusted",
            )
        # This check comes last, so that an unusable skill never hides a usable skill with the same
        # name.
        elif name in taken:
            first = taken[name].skill
            mine = entry.skill
            same = (first.description, first.body) == (mine.description, mine.body)
            reason = f"{name} of {taken[name].source} takes precedence"
            yield msgspec.structs.replace(entry, state="hidden", reason=reason, same=same)
        else:
            taken[name] = entry
            yield entry


def _is_trusted(workspace: Path | None) -> bool:
    return workspace is not None and is_trusted(workspace)


def _stat(path: Path) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    # If an editor replaces the file, the inode changes even if the modification time does not.
    return status.st_mtime_ns, status.st_ino, status.st_size
