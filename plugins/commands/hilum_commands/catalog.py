"""All commands of a user and a project: which can be used, and why the others cannot."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Literal

import attrs
from hilum import walk_folders

from hilum_commands.command_file import CommandFile, load_command_file, load_config_file
from hilum_commands.sources import CommandSource, list_sources

MAX_DEPTH = 5
MAX_FILES = 500
# Folders in which an editor or a tool keeps other files.
_SKIPPED = frozenset({".git", "node_modules", "__pycache__"})
State = Literal["on", "hidden", "broken"]
# Identifies a version of a file: device, inode, size, and time of the last change.
Stamp = tuple[int, int, int, int]


@attrs.frozen
class CommandEntry:
    """A command that was found.

    Attributes:
        file: The command.
        name: The name to type, without the slash.
        state: Whether the command can be used, another command has its name, or its file is wrong.
        reason: Why the command cannot be used.
    """

    file: CommandFile
    name: str
    state: State = "on"
    reason: str = ""

    def describe_problems(self) -> list[str]:
        """Return what is wrong with the command, each problem with its file and line."""
        found = self.file.describe_problems()
        if self.state == "hidden":
            found.append(f"{self.file.path}: {self.reason}")
        return found


class CommandCatalog:
    """The commands of a user and a project, read again when their files change.

    Args:
        workspace: The project.
        others: Whether to read the commands of other programs, too.

    Attributes:
        entries: The commands, those that take precedence first.
        complaints: Files and folders that were skipped, with the reasons.
    """

    def __init__(self, workspace: Path, *, others: bool = True) -> None:
        self._workspace = workspace
        self._others = others
        self._parsed: dict[Path, tuple[Stamp, list[CommandFile]]] = {}
        self.entries: list[CommandEntry] = []
        self.complaints: list[str] = []

    def refresh(self, reserved: Collection[str] = ()) -> None:
        """Find all commands again; only files that changed are read. Blocks.

        Args:
            reserved: Names of hilum's own commands, which no file can take.
        """
        self.complaints = []
        parsed: dict[Path, tuple[Stamp, list[CommandFile]]] = {}
        found: list[CommandEntry] = []
        for source in list_sources(self._workspace, self._others):
            commands: list[CommandFile] = []
            for path in self._list_files(source):
                stamp = _make_stamp(path)
                known = self._parsed.get(path)
                if known is None or known[0] != stamp or _has_includes(known[1]):
                    known = (stamp, _load(path, source))
                parsed[path] = known
                commands += known[1]
            found += _name_commands(commands)
        self._parsed = parsed
        self.entries = list(_judge(found, frozenset(reserved)))

    def find(self, name: str) -> CommandEntry | None:
        """Return the command of a name; a broken one only if no other has the name."""
        matching = [entry for entry in self.entries if entry.name == name]
        # The name with its folders is accepted, too.
        matching += [entry for entry in self.entries if entry.file.qualified == name]
        usable = [entry for entry in matching if entry.state == "on"]
        others = [entry for entry in matching if entry.state == "broken"]
        return next(iter([*usable, *others]), None)

    def usable(self) -> list[CommandEntry]:
        """Return the commands that can be used."""
        return [entry for entry in self.entries if entry.state == "on"]

    def describe_problems(self) -> list[str]:
        """Return what is wrong, each with its file and line."""
        found = list(self.complaints)
        for entry in self.entries:
            found += entry.describe_problems()
        return found

    def list_other_files(self, source: CommandSource) -> list[Path]:
        """Return the files in a folder of commands that are no commands. Blocks."""
        known = {entry.file.path for entry in self.entries if entry.file.source == source}
        if not source.path.is_dir() or not _is_inside(source.path, source.inside):
            return []
        found: list[Path] = []
        for folder, folders, names in walk_folders(source.path):
            folders[:] = sorted(name for name in folders if name not in _SKIPPED)
            found += [
                path
                for path in (Path(folder) / name for name in sorted(names))
                if path not in known
            ]
            if len(found) > MAX_FILES:
                break
        return found[:MAX_FILES]

    def _list_files(self, source: CommandSource) -> Iterator[Path]:
        """Yield the command files of a source, in the order of their names."""
        if not os.path.lexists(source.path):
            return
        if not _is_inside(source.path, source.inside):
            self.complaints.append(f"{source.path}: The link leads out of the project.")
        elif source.is_file:
            yield source.path
        else:
            yield from self._walk(source)

    def _walk(self, source: CommandSource) -> Iterator[Path]:
        waiting = [(source.path, 1)]
        seen: set[str] = set()
        count = 0
        while waiting:
            folder, depth = waiting.pop(0)
            real = os.path.realpath(folder)
            if real in seen:  # links may form a loop
                continue
            seen.add(real)
            try:
                listed = sorted(os.scandir(folder), key=lambda entry: entry.name)
            except NotADirectoryError:
                self.complaints.append(f"{folder}: It is not a folder.")
                continue
            except OSError as error:
                self.complaints.append(f"{folder}: It cannot be read: {error.strerror}.")
                continue
            for entry in listed:
                path = Path(entry.path)
                if not _is_inside(path, source.inside):
                    self.complaints.append(f"{path}: The link leads out of the project.")
                elif entry.is_dir():
                    if entry.name not in _SKIPPED and depth < MAX_DEPTH:
                        waiting.append((path, depth + 1))
                elif entry.name.casefold().endswith(source.endings) and not _is_readme(entry.name):
                    count += 1
                    if count > MAX_FILES:
                        self.complaints.append(
                            f"{source.path}: It has more than {MAX_FILES} commands; the first ones"
                            " are used."
                        )
                        return
                    yield path


def _is_readme(name: str) -> bool:
    """Return whether a file describes the folder, as in many repositories."""
    return name.casefold() in ("readme.md", "readme.markdown")


def _has_includes(commands: list[CommandFile]) -> bool:
    """Return whether other files, which may have changed, are parts of commands."""
    return any(command.includes or command.error for command in commands)


def _load(path: Path, source: CommandSource) -> list[CommandFile]:
    return load_config_file(source) if source.is_file else [load_command_file(path, source)]


def _make_stamp(path: Path) -> Stamp:
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0, 0, 0)
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _is_inside(path: Path, folder: Path | None) -> bool:
    if folder is None:
        return True
    real = os.path.realpath(path)
    return real.startswith(os.path.join(os.path.realpath(folder), ""))


def _name_commands(commands: list[CommandFile]) -> list[CommandEntry]:
    """Return the commands of one source under their names.

    If two files in different folders have the same name, the folders are part of their names.
    """
    counts = Counter(command.name for command in commands)
    return [
        CommandEntry(command, command.name if counts[command.name] == 1 else command.qualified)
        for command in commands
    ]


def _judge(entries: list[CommandEntry], reserved: frozenset[str]) -> Iterator[CommandEntry]:
    """Yield the entries with their states. The first usable command of a name is used."""
    taken: dict[str, CommandEntry] = {}
    for entry in entries:
        if entry.file.error:
            yield attrs.evolve(entry, state="broken", reason=entry.file.error)
        elif entry.name in reserved:
            reason = (
                f"It is not used, because /{entry.name} is a command of hilum. Rename it to use it."
            )
            yield attrs.evolve(entry, state="hidden", reason=reason)
        elif entry.name in taken:
            winner = taken[entry.name].file.path
            reason = f"It is not used, because {winner} also defines /{entry.name}."
            yield attrs.evolve(entry, state="hidden", reason=reason)
        else:
            taken[entry.name] = entry
            yield entry
