"""Where rules stand: the files of every agent, in the order in which later ones win.

No tree is walked: only the folders from the repository's root down to the one at hand are looked
into, and of those only the names that mean something.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec
from hilum import Workspace, environment, home_folder

from hilum_rules.hidden import reveal
from hilum_rules.rule import Problem

MOST_FILES = 500
"""Files of one folder of rules that are read."""
MOST_DEPTH = 8
_AGENTS = ("AGENTS.md", "Agents.md", "agents.md", "AGENT.md")
OVERRIDE = "AGENTS.override.md"
_CLAUDE = ("CLAUDE.md", "Claude.md", "claude.md")
_GEMINI = ("GEMINI.md", "Gemini.md", "gemini.md")
_ENDINGS = {
    ".mdc": "mdc",
    ".instructions.md": "instructions",
    ".cursorrules": "cursorrules",
    "agents.md": "agents",
    "agents.override.md": "agents",
    "claude.md": "claude",
    "claude.local.md": "claude",
    "gemini.md": "gemini",
    "copilot-instructions.md": "copilot",
}


class Found(NamedTuple):
    """A file that is there under a name that means rules.

    ``path`` is where it was found, ``shown`` how it is written for people; ``folder`` is the folder
    it governs, relative to the workspace, ``base`` the same on disk; ``fence`` is where it may
    lead.
    """

    path: Path
    shown: str
    dialect: str
    fence: Workspace
    origin: str = "project"
    folder: PurePosixPath = PurePosixPath(".")
    name: str = ""
    base: Path | None = None


class Where(msgspec.Struct, frozen=True):
    """The places of a workspace.

    Attributes:
        workspace: The folder the session works in, resolved.
        top: The root of the repository it is in, else the workspace itself.
        config: The user's configuration of hilum.
        home: The user's home folder.
    """

    workspace: Path
    top: Path
    config: Path
    home: Path

    def shown(self, path: Path) -> str:
        """Write a path in one line for people: relative to the workspace, with ``~`` for the home
        folder.
        """
        if path.is_relative_to(self.workspace):
            name = path.relative_to(self.workspace).as_posix()
        elif path.is_relative_to(self.top):
            name = PurePosixPath(os.path.relpath(path, self.workspace)).as_posix()
        else:
            if path.is_relative_to(self.home):
                name = f"~/{path.relative_to(self.home).as_posix()}"
            else:
                name = str(path)
        return in_one_line(name)


def in_one_line(name: str) -> str:
    """Write the name of a file, which may have any characters and bytes in it, so that it can be
    shown and sent.
    """
    return reveal(name.replace("\n", "\x0b").replace("\t", "\x0b"))[0]


def where(workspace: Path, config: Path) -> Where:
    """Find the places of a workspace. Blocks."""
    real = Path(os.path.realpath(workspace))
    home = Path(os.path.realpath(home_folder()))
    return Where(real, _top(real, home), config, home)


def _top(workspace: Path, home: Path) -> Path:
    """The root of the repository: the nearest folder upwards with a ``.git``.

    A folder of somebody else ends the search.
    """
    try:
        owner = os.stat(workspace).st_uid
        for folder in (workspace, *workspace.parents):
            if os.stat(folder).st_uid != owner or folder == home != workspace:
                break
            if os.path.lexists(folder / ".git"):
                return folder
    except OSError:
        pass
    return workspace


class Looking:
    """Looks for files of rules. Blocks.

    Attributes:
        problems: What stands in a place of rules and is not read.
        watched: The folders in which a new file would be found; the names in them are all that must
            not change.
    """

    def __init__(self, where: Where) -> None:
        self.where = where
        self.problems: list[Problem] = []
        self.watched: list[Path] = []
        self._project = Workspace(where.top)
        self._anywhere = Workspace("/")

    def user(self, homes: bool) -> Iterator[Found]:
        """Yield the user's own files. They may be links to anywhere: they are the user's."""
        config = self.where.config
        home = self.where.home
        yield from self._plain(config, _AGENTS, "agents", origin="user")
        yield from self._tree(config / "rules", "claude-rules", (".md",), origin="user")
        if not homes:
            return
        codex = Path(environment().get("CODEX_HOME") or home / ".codex")
        yield from self._first(codex, origin="user")
        yield from self._plain(home / ".config" / "opencode", _AGENTS, "agents", origin="user")
        yield from self._plain(home / ".claude", _CLAUDE, "claude", origin="user")
        yield from self._tree(home / ".claude" / "rules", "claude-rules", (".md",), origin="user")
        yield from self._plain(home / ".gemini", _GEMINI, "gemini", origin="user")
        yield from self._tree(home / ".cursor" / "rules", "mdc", (".mdc",), origin="user")

    def folders(self, folders: Iterable[Path]) -> Iterator[Found]:
        """Yield the files of folders of the project, as far as they are there."""
        for folder in folders:
            yield from self.folder(folder)

    def folder(self, folder: Path) -> Iterator[Found]:
        """Yield the files of one folder of the project, in order: later ones win."""
        self.watched.append(folder)
        yield from self._first(folder)
        yield from self._plain(folder, _CLAUDE, "claude")
        yield from self._plain(folder / ".claude", _CLAUDE, "claude", governs=folder)
        yield from self._tree(
            folder / ".claude" / "rules", "claude-rules", (".md",), governs=folder
        )
        yield from self._plain(folder, _GEMINI, "gemini")
        yield from self._plain(folder, (".cursorrules",), "cursorrules")
        yield from self._tree(
            folder / ".cursor" / "rules", "mdc", (".mdc", "RULE.md"), governs=folder
        )
        yield from self._plain(
            folder / ".github", ("copilot-instructions.md",), "copilot", governs=folder
        )
        yield from self._tree(
            folder / ".github" / "instructions",
            "instructions",
            (".instructions.md",),
            governs=folder,
        )
        yield from self._plain(folder, ("CLAUDE.local.md",), "claude")

    def _first(self, folder: Path, origin: str = "project") -> Iterator[Found]:
        """``AGENTS.override.md``, or else ``AGENTS.md``."""
        override = list(self._plain(folder, (OVERRIDE,), "agents", origin=origin))
        plain = list(self._plain(folder, _AGENTS, "agents", origin=origin))
        yield from override or plain
        for found in plain if override else ():
            self.problems.append(
                Problem(
                    found.shown, 0, "Not read: AGENTS.override.md stands in its place.", fatal=True
                )
            )

    def _plain(
        self,
        folder: Path,
        names: Iterable[str],
        dialect: str,
        *,
        origin: str = "project",
        governs: Path | None = None,
    ) -> Iterator[Found]:
        """The files of these names.

        On a disk that does not tell case apart, one file has several.
        """
        if governs is not None and os.path.isdir(folder):
            self.watched.append(folder)
        seen = set()
        for name in names:
            try:
                status = os.lstat(folder / name)
            except (OSError, ValueError):
                continue
            same = (status.st_dev, status.st_ino)
            if same not in seen:
                seen.add(same)
                yield self._found(folder / name, dialect, origin, governs or folder)

    def _tree(
        self,
        root: Path,
        dialect: str,
        endings: tuple[str, ...],
        *,
        origin: str = "project",
        governs: Path | None = None,
    ) -> Iterator[Found]:
        """All files with these endings in and below a folder, in order of their names."""
        if not os.path.isdir(root):
            return
        count = 0
        real_top = self.where.top
        if origin == "project" and not Path(os.path.realpath(root)).is_relative_to(real_top):
            self.problems.append(
                Problem(
                    self.where.shown(root),
                    0,
                    "Not read: it is a link that leads out of the project.",
                    True,
                )
            )
            return
        for path, regular in self._walk(root, 0):
            if not path.name.endswith(endings):
                if regular and path.suffix in (".md", ".mdc", ".txt"):
                    read = " and ".join(f"{ending}" for ending in endings)
                    self.problems.append(
                        Problem(
                            self.where.shown(path),
                            0,
                            f"Not read: here only {read} files are.",
                            True,
                        )
                    )
                continue
            count += 1
            if count > MOST_FILES:
                why = (
                    f"Not read, nor what follows it: there are more than {MOST_FILES} files of"
                    " rules in this folder."
                )
                self.problems.append(Problem(self.where.shown(path), 0, why, True))
                return
            inside = path.relative_to(root)
            if path.name == "RULE.md":
                name = inside.parent
            else:
                name = inside.with_name(path.name.removesuffix(endings[0]))
            found = self._found(path, dialect, origin, governs or root)
            yield found._replace(name=in_one_line(name.as_posix()))

    def _walk(self, folder: Path, depth: int) -> Iterator[tuple[Path, bool]]:
        """Yield what is below a folder and whether it is a plain file.

        Links to folders are not followed.
        """
        self.watched.append(folder)
        try:
            with os.scandir(folder) as entries:
                inner = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            why = f"Not read: the folder cannot be listed: {error.strerror or error}."
            self.problems.append(Problem(self.where.shown(folder), 0, why, True))
            return
        for entry in inner:
            path = folder / entry.name
            if entry.is_dir(follow_symlinks=False):
                if depth < MOST_DEPTH:
                    yield from self._walk(path, depth + 1)
                else:
                    self.problems.append(
                        Problem(self.where.shown(path), 0, "Not read: it is nested too deep.", True)
                    )
            elif os.path.isdir(path):  # False, not an error, where links lead in a circle
                self.problems.append(
                    Problem(self.where.shown(path), 0, "Not read: it is a link to a folder.", True)
                )
            else:
                yield path, os.path.isfile(path)

    def _found(self, path: Path, dialect: str, origin: str, governs: Path) -> Found:
        own = origin != "project"
        inside = not own and governs.is_relative_to(self.where.workspace)
        if inside:
            folder = PurePosixPath(governs.relative_to(self.where.workspace).as_posix())
        else:
            folder = PurePosixPath(".")
        fence = self._anywhere if own else self._project
        base = self.where.workspace if own else governs
        return Found(path, self.where.shown(path), dialect, fence, origin, folder, base=base)


def dialect_of(path: Path) -> str:
    """Tell by its name whose format a file has."""
    name = path.name.lower()
    for ending, dialect in _ENDINGS.items():
        if name.endswith(ending):
            return dialect
    if name == "rule.md" or ".cursor/rules" in path.as_posix():
        return "mdc"
    if ".claude/rules" in path.as_posix():
        return "claude-rules"
    return "markdown"


def chain(top: Path, folder: Path) -> list[Path]:
    """Return the folders from one down to another, both included."""
    if not folder.is_relative_to(top):
        return [folder]
    inner = folder.relative_to(top).parts
    return [top.joinpath(*inner[:depth]) for depth in range(len(inner) + 1)]


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder, links not followed."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False
