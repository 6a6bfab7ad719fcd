"""The catalog of all agents for a workspace, with their sources and states."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import attrs
from hilum.trust import explain_distrust, is_trusted

from hilum_agents.definitions.definition import Definition
from hilum_agents.definitions.loading import load_definition
from hilum_agents.folders import AgentFolder, list_folders

# A cloned project's folders may contain anything.
MAX_FILES = 500
MAX_DEPTH = 3
State = Literal["on", "untrusted", "hidden", "broken"]


@attrs.frozen
class CatalogEntry:
    """An agent in the catalog, with its state.

    Attributes:
        definition: The agent.
        source: Description of the folder that contains the agent's file.
        state: ``on``, ``untrusted`` (its project is not trusted), ``hidden`` (another agent with
            this name takes precedence), ``broken`` (the file cannot be loaded).
        reason: The reason for any state except ``on``.
        hides: Sources of other agents with the same name, which this agent hides.
    """

    definition: Definition
    source: str
    state: State = "on"
    reason: str = ""
    hides: tuple[str, ...] = ()


@attrs.frozen
class Catalog:
    """All agents for a workspace.

    Attributes:
        entries: The agents in order of precedence.
        complaints: Files and folders that were ignored, and why.
        stamp: The state of the watched files and folders when the catalog was built.
        watched: Files and folders whose state the stamp records.
        trusts: Whether the user trusts the project; ``None`` if it has no agents.
        distrust: For an untrusted project: why its agents are off, and what to do.
    """

    entries: tuple[CatalogEntry, ...] = ()
    complaints: tuple[str, ...] = ()
    stamp: tuple[object, ...] = ()
    watched: tuple[Path, ...] = ()
    trusts: bool | None = None
    distrust: str = ""

    def on(self) -> list[CatalogEntry]:
        """Return the agents that can be called."""
        return [entry for entry in self.entries if entry.state == "on"]

    def in_scope(self, scope: str) -> list[CatalogEntry]:
        """Return the agents with the given scope, or all agents if the scope is empty."""
        return [entry for entry in self.entries if scope in ("", entry.definition.scope)]

    def get(self, name: str, scope: str = "") -> CatalogEntry | None:
        """Return the agent with the given name, preferably one that can be called.

        Args:
            name: The name; case is ignored.
            scope: The scope of the agents to consider; empty for all agents.
        """
        entries = self.in_scope(scope)
        wanted = name.casefold()
        named = [entry for entry in entries if entry.definition.name == wanted]
        if not named:
            named = [entry for entry in entries if wanted in entry.definition.written_names]
        return min(named, key=lambda entry: entry.state != "on", default=None)

    @property
    def names(self) -> list[str]:
        """The names of the agents that can be called."""
        return [entry.definition.name for entry in self.on()]


def find_agents(workspace: Path | None, *, folders: bool = True) -> Catalog:
    """Find and load all agents. Blocks.

    Args:
        workspace: The project; ``None`` if there is none.
        folders: Whether to include the folders of other programs.
    """
    search = _Search()
    entries: list[CatalogEntry] = []
    for folder in list_folders(workspace, folders):
        # hilum's own folders may contain files in any dialect.
        dialect = None if folder.dialect == "hilum" else folder.dialect
        for path in search.files(folder):
            definition = load_definition(path, scope=folder.scope, dialect=dialect)
            entries.append(CatalogEntry(definition, folder.source))
    # Trust in a project is checked only if needed, because the check reads files.
    trusts: bool | None = None
    if any(entry.definition.scope == "project" for entry in entries):
        trusts = _is_trusted(workspace)
    watched = tuple(dict.fromkeys(search.watched))
    return Catalog(
        entries=tuple(_judge(entries, bool(trusts))),
        complaints=tuple(search.complaints),
        stamp=_stamp(watched, trusts),
        watched=watched,
        trusts=trusts,
        distrust=explain_distrust(workspace) if workspace is not None and trusts is False else "",
    )


def has_changed(catalog: Catalog, workspace: Path | None) -> bool:
    """Return whether any watched file has changed since a catalog was built. Blocks."""
    trusts = None if catalog.trusts is None else _is_trusted(workspace)
    return _stamp(catalog.watched, trusts) != catalog.stamp


def _is_trusted(workspace: Path | None) -> bool:
    return workspace is not None and is_trusted(workspace)


class _Search:
    """A search for agent files.

    Attributes:
        watched: All files and folders that the search looked for, including those that do not
            exist.
        complaints: Files and folders that were ignored, and why.
    """

    def __init__(self) -> None:
        self.watched: list[Path] = []
        self.complaints: list[str] = []

    def files(self, folder: AgentFolder) -> Iterator[Path]:
        """Yield the agent files in a folder and its subfolders, in order."""
        self.watched.append(folder.path)
        ending = ".toml" if folder.dialect == "codex" else ".md"
        count = 0
        for path in self._walk(folder):
            name = path.name.casefold()
            if not name.endswith(ending) or name == "readme.md":
                continue
            count += 1
            if count > MAX_FILES:
                self.complaints.append(
                    f"{folder.path} has more than {MAX_FILES} agents; only the first ones are"
                    " loaded."
                )
                return
            if self._is_inside(path, folder):
                self.watched.append(path)
                yield path

    def _walk(self, folder: AgentFolder) -> Iterator[Path]:
        """Yield all files in a folder and its subfolders, breadth first."""
        waiting = [(folder.path, 0)]
        while waiting:
            current, depth = waiting.pop(0)
            for entry in self._list(current, folder):
                path = Path(entry.path)
                if not _is_folder(entry):
                    yield path
                # Links to folders are not followed, because they may form a loop.
                elif (
                    depth < MAX_DEPTH and not entry.name.startswith(".") and not entry.is_symlink()
                ):
                    waiting.append((path, depth + 1))

    def _list(self, path: Path, folder: AgentFolder) -> list[os.DirEntry[str]]:
        if not os.path.isdir(path) or not self._is_inside(path, folder):
            return []
        self.watched.append(path)
        try:
            # The order is fixed, because the first of several agents with the same name takes
            # precedence.
            return sorted(os.scandir(path), key=lambda entry: entry.name)
        except OSError as error:
            self.complaints.append(f"{path} cannot be read: {error.strerror or error}.")
            return []

    def _is_inside(self, path: Path, folder: AgentFolder) -> bool:
        """Return whether a path is inside the folder's project; if not, record a complaint."""
        inside = folder.inside
        if inside is None:
            return True
        # Trust in a project covers only its own files, not the targets of its symbolic links.
        if Path(os.path.realpath(path)).is_relative_to(os.path.realpath(inside)):
            return True
        self.complaints.append(f"{path} is a link that leads out of {inside}; it is ignored.")
        return False


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        # The entry is a symbolic link to itself. Loading the link as a file reports the problem.
        return False


def _judge(entries: Iterable[CatalogEntry], trusts: bool) -> Iterator[CatalogEntry]:
    """Yield the catalog entries with their states."""
    first: dict[str, CatalogEntry] = {}
    judged: list[CatalogEntry] = []
    for entry in entries:
        definition = entry.definition
        # The order matters: a broken or untrusted file must not hide a user's agent.
        if definition.error:
            entry = attrs.evolve(entry, state="broken", reason=definition.error)
        elif definition.scope == "project" and not trusts:
            reason = "the project is not trusted (run `hilum trust` to trust it)"
            entry = attrs.evolve(entry, state="untrusted", reason=reason)
        elif definition.name in first:
            source = first[definition.name].source
            reason = f"{definition.name} of {source} takes precedence"
            entry = attrs.evolve(entry, state="hidden", reason=reason)
        else:
            first[definition.name] = entry
        judged.append(entry)
    hidden: dict[str, list[str]] = {}
    for entry in judged:
        if entry.state == "hidden":
            hidden.setdefault(entry.definition.name, []).append(entry.source)
    for entry in judged:
        hides = hidden.get(entry.definition.name, []) if entry.state == "on" else []
        yield attrs.evolve(entry, hides=tuple(hides))


def _stamp(watched: Sequence[Path], trusts: bool | None) -> tuple[object, ...]:
    return (trusts, *map(_status, watched))


def _status(path: Path) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    # A change may leave the modification time the same, but most editors replace the file, which
    # changes the inode.
    return status.st_mtime_ns, status.st_ino, status.st_size
