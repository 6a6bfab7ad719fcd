"""All agents there are for a workspace: where each comes from, and whether it holds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import attrs

from hilum_agents.definitions.definition import Definition, Dialect
from hilum_agents.definitions.loading import load_definition
from hilum_agents.places import places

MOST_FILES = 500
DEEPEST = 3
State = Literal["on", "untrusted", "hidden", "broken"]


@attrs.frozen
class Entry:
    """An agent and whether it can be called.

    Attributes:
        definition: The agent.
        source: Where it comes from, in words.
        state: ``on``, ``untrusted`` (of a project that the user does not trust), ``hidden``
            (another of that name comes first), ``broken`` (does not load).
        reason: Why it is not on.
        hides: What it takes the place of: sources of others with its name.
    """

    definition: Definition
    source: str
    state: State = "on"
    reason: str = ""
    hides: tuple[str, ...] = ()


@attrs.frozen
class Catalog:
    """What was found.

    Attributes:
        entries: All agents, the stronger ones first.
        complaints: What was left out, and why.
        stamp: What the disk looked like.
        watched: The files and folders that the stamp is made of.
        trusts: Whether the user trusts the project; ``None`` where it has no agents.
        distrust: Why agents of the project are off, and what to do, where the user does not trust
            it.
    """

    entries: tuple[Entry, ...] = ()
    complaints: tuple[str, ...] = ()
    stamp: tuple[object, ...] = ()
    watched: tuple[Path, ...] = ()
    trusts: bool | None = None
    distrust: str = ""

    def on(self) -> list[Entry]:
        """The agents that can be called."""
        return [entry for entry in self.entries if entry.state == "on"]

    def get(self, name: str, scope: str = "") -> Entry | None:
        """Return the entry of a name, case ignored; one that is on comes first.

        Args:
            name: The name.
            scope: Only of this scope.
        """
        named = [
            entry
            for entry in self.entries
            if entry.definition.name == name.casefold() and scope in ("", entry.definition.scope)
        ]
        return next((entry for entry in named if entry.state == "on"), named[0] if named else None)

    @property
    def names(self) -> list[str]:
        """The names that can be called."""
        return [entry.definition.name for entry in self.on()]


def look(workspace: Path | None, *, folders: bool = True) -> Catalog:
    """Find all agents. Blocks.

    Args:
        workspace: The project; ``None`` for none.
        folders: Whether the folders of other programs count, too.
    """
    watched: list[Path] = []
    complaints: list[str] = []
    entries: list[Entry] = []
    for root, source, scope, dialect, inside in places(workspace, folders):
        watched.append(root)
        ending = ".toml" if dialect == "codex" else ".md"
        for path in _files(root, inside, ending, watched, complaints):
            entries.append(
                Entry(load_definition(path, scope=scope, dialect=_dialect(dialect)), source)
            )
            watched.append(path)
    if any(entry.definition.scope == "project" for entry in entries):
        trusts = _trusted(workspace)
    else:
        trusts = None
    paths = tuple(dict.fromkeys(watched))
    why = _distrust(workspace) if trusts is False else ""
    return Catalog(
        tuple(_judge(entries, bool(trusts))),
        tuple(complaints),
        _stamp(paths, trusts),
        paths,
        trusts,
        why,
    )


def changed(catalog: Catalog, workspace: Path | None) -> bool:
    """Return whether the disk looks other than when a catalog was made. Blocks."""
    trusts = None if catalog.trusts is None else _trusted(workspace)
    return _stamp(catalog.watched, trusts) != catalog.stamp


def _dialect(of_place: Dialect) -> Dialect | None:
    """In hilum's own folders a file may be of any dialect; its keys tell."""
    return None if of_place == "hilum" else of_place


def _files(
    root: Path, inside: Path | None, ending: str, watched: list[Path], complaints: list[str]
) -> Iterator[Path]:
    """Yield the files of an ending below a folder, in order."""
    count = 0
    waiting = [(root, 0)]
    while waiting:
        folder, depth = waiting.pop(0)
        if not os.path.isdir(folder):
            continue
        if not _may(folder, inside):
            complaints.append(f"{folder} leads out of {inside}; it is left out.")
            continue
        watched.append(folder)
        try:
            listed = sorted(os.scandir(folder), key=lambda each: each.name)
        except OSError as error:
            complaints.append(f"{folder} cannot be read: {error.strerror or error}.")
            continue
        for entry in listed:
            path = Path(entry.path)
            if entry.is_dir():
                if depth < DEEPEST and not entry.name.startswith(".") and not entry.is_symlink():
                    waiting.append((path, depth + 1))
            elif entry.name.casefold().endswith(ending) and entry.name.casefold() != "readme.md":
                count += 1
                if count > MOST_FILES:
                    complaints.append(
                        f"{root} has more than {MOST_FILES} agents; the first ones are read."
                    )
                    return
                if _may(path, inside):
                    yield path
                else:
                    complaints.append(f"{path} leads out of {inside}; it is left out.")


def _may(path: Path, inside: Path | None) -> bool:
    return inside is None or Path(os.path.realpath(path)).is_relative_to(os.path.realpath(inside))


def _judge(entries: Iterable[Entry], trusts: bool) -> Iterator[Entry]:
    """Say of each entry whether it holds."""
    taken: dict[str, Entry] = {}
    judged: list[Entry] = []
    for entry in entries:
        name = entry.definition.name
        if entry.definition.error:
            judged.append(attrs.evolve(entry, state="broken", reason=entry.definition.error))
        elif entry.definition.scope == "project" and not trusts:
            judged.append(
                attrs.evolve(
                    entry, state="untrusted", reason="the project is not trusted (hilum trust)"
                )
            )
        elif name in taken:
            reason = f"{name} of {taken[name].source} comes first"
            judged.append(attrs.evolve(entry, state="hidden", reason=reason))
        else:
            taken[name] = entry
            judged.append(entry)
    for entry in judged:
        hidden = tuple(
            other.source
            for other in judged
            if entry.state == "on"
            and other.state == "hidden"
            and other.definition.name == entry.definition.name
        )
        yield attrs.evolve(entry, hides=hidden)


def _trusted(workspace: Path | None) -> bool:
    from hilum_guard import trusted

    return workspace is not None and trusted(workspace)


def _distrust(workspace: Path | None) -> str:
    from hilum_guard import distrust

    return distrust(workspace) if workspace is not None else ""


def _stamp(watched: Iterable[Path], trusts: bool | None) -> tuple[object, ...]:
    return (trusts, *map(_stat, watched))


def _stat(path: Path) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size
