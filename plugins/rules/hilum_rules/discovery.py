"""Finds the rules files of all agents, in order of precedence: later files win.

No tree is searched: only the folders from the repository root to the current folder are examined,
and only for known names.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec
from hilum import Workspace, environment, home_folder
from hilum_checks import WORKSPACE

from hilum_rules.hidden_characters import escape_name
from hilum_rules.rule import Problem
from hilum_rules.source import follow_links

MAX_FILES = 500
"""Maximum number of files to read in one rules folder."""
MAX_DEPTH = 8
OVERRIDE = "AGENTS.override.md"
LOCK = "rules.lock"
"""The file of the user's signed checks, next to the user's settings."""
PROJECT_LOCK = f".hilum/{LOCK}"
"""The file of a project's signed checks, at the top of its repository."""
_AGENTS = ("AGENTS.md", "Agents.md", "agents.md", "AGENT.md")
_CLAUDE = ("CLAUDE.md", "Claude.md", "claude.md")
_GEMINI = ("GEMINI.md", "Gemini.md", "gemini.md")


class _Place(NamedTuple):
    """A location for rules files within a base folder, which belongs to a project or the user.

    Attributes:
        folder: The folder that contains the files, relative to the base folder; empty for the base
            folder itself.
        names: The file names; for a tree, the endings of the file names.
        dialect: The format of the files.
        is_tree: Whether subfolders are searched as well.
        skipped: For a tree, the subfolders that contain something else.
    """

    folder: str
    names: tuple[str, ...]
    dialect: str
    is_tree: bool = False
    skipped: tuple[str, ...] = ()


_OVERRIDE_PLACE = _Place("", (OVERRIDE,), "agents")
_AGENTS_PLACE = _Place("", _AGENTS, "agents")
# Locations in the user's hilum configuration folder.
_CONFIG_PLACES = (
    _AGENTS_PLACE,
    _Place("rules", (".md",), "claude-rules", is_tree=True),
    _Place("", ("rules.toml",), "table"),
)
# Claude Code reads the same folder in a project and in the user's home folder.
_CLAUDE_FOLDER = (
    _Place(".claude", _CLAUDE, "claude"),
    _Place(".claude/rules", (".md",), "claude-rules", is_tree=True),
)
# Locations of rules for other agents in the user's home folder.
_HOME_PLACES = (
    _Place(".config/opencode", _AGENTS, "agents"),
    *_CLAUDE_FOLDER,
    _Place(".gemini", _GEMINI, "gemini"),
    _Place(".cursor/rules", (".mdc",), "mdc", is_tree=True),
)
# Locations in a project folder.
_PROJECT_PLACES = (
    _Place("", _CLAUDE, "claude"),
    *_CLAUDE_FOLDER,
    _Place("", _GEMINI, "gemini"),
    _Place("", (".cursorrules",), "cursorrules"),
    _Place(".cursor/rules", (".mdc", "RULE.md"), "mdc", is_tree=True),
    _Place(".github", ("copilot-instructions.md",), "copilot"),
    _Place(".junie", ("guidelines.md",), "plain-rules"),
    _Place(".github/instructions", (".instructions.md",), "instructions", is_tree=True),
    _Place(".hilum", ("rules.toml",), "table"),
    _Place("", (".windsurfrules", ".roorules"), "plain-rules"),
    _Place(".windsurf/rules", (".md",), "windsurf", is_tree=True),
    _Place("", (".clinerules",), "plain-rules"),
    # The other subfolders contain commands and programs.
    _Place(".clinerules", (".md", ".txt"), "claude-rules", True, ("workflows", "hooks", "skills")),
    _Place(".roo/rules", (".md", ".txt"), "plain-rules", is_tree=True),
    _Place(".kiro/steering", (".md",), "kiro", is_tree=True),
    # CLAUDE.local.md comes last, because it contains the user's own rules and is not committed.
    _Place("", ("CLAUDE.local.md",), "claude"),
)

# All locations in a project folder.
_FOLDER_PLACES = (_OVERRIDE_PLACE, _AGENTS_PLACE, *_PROJECT_PLACES)

NESTED_NAMES = frozenset(
    name
    for place in _FOLDER_PLACES
    for name in ([place.folder.partition("/")[0]] if place.folder else place.names)
)
"""The names of files and folders by which a folder may have rules of its own."""


def list_patterns() -> list[str]:
    """Return the patterns, as in ``.gitignore``, of all files that would be a project's rules."""
    patterns = [PROJECT_LOCK]
    for place in _FOLDER_PLACES:
        for name in place.names:
            if place.is_tree:
                patterns.append(f"**/{place.folder}/**/*{name}")
            else:
                patterns.append(f"**/{place.folder}/{name}" if place.folder else name)
    return patterns


class FoundFile(NamedTuple):
    """A file that is recognized as a rules file by its name.

    Attributes:
        path: The path at which the file was found.
        shown: The readable path.
        dialect: The format of the file.
        fence: The folder that the file's links must not leave.
        origin: ``user``, ``project`` or ``settings``.
        folder: The folder that the file governs, relative to the workspace.
        name: The name that a user writes after ``@`` to activate the file.
        base: The folder to which the file's globs are relative.
    """

    path: Path
    shown: str
    dialect: str
    fence: Workspace
    origin: str = "project"
    folder: PurePosixPath = WORKSPACE
    name: str = ""
    base: Path = Path()


class WorkspacePaths(msgspec.Struct, frozen=True):
    """The folders in which to search for rules.

    Attributes:
        workspace: The folder of the session, resolved.
        top: The root of its repository, or else the workspace itself.
        config: The user's hilum configuration folder.
        home: The user's home folder.
    """

    workspace: Path
    top: Path
    config: Path
    home: Path

    @property
    def locks(self) -> tuple[Path, Path]:
        """The files of signed checks: the project's, and the user's own."""
        return self.top / PROJECT_LOCK, self.config / LOCK

    def display(self, path: Path) -> str:
        """Return a readable path: on one line, relative to the workspace or to ``~``."""
        name = str(path)
        if path.is_relative_to(self.top):
            name = os.path.relpath(path, self.workspace)
        elif path.is_relative_to(self.home):
            name = f"~/{path.relative_to(self.home).as_posix()}"
        return escape_name(name)


def find_paths(workspace: Path, config: Path) -> WorkspacePaths:
    """Find the folders in which to search for a workspace's rules. Blocks."""
    real = follow_links(workspace)
    home = follow_links(home_folder())
    return WorkspacePaths(real, _find_repository(real, home), config, home)


def _find_repository(workspace: Path, home: Path) -> Path:
    """Return the workspace or its nearest parent that contains ``.git``; else the workspace.

    A folder that has another owner ends the search, because its rules are not the user's.
    """
    try:
        owner = os.stat(workspace).st_uid
        for folder in (workspace, *workspace.parents):
            # The home folder also ends the search; otherwise, a home folder that is a repository of
            # dotfiles would be the top of every project in it.
            if os.stat(folder).st_uid != owner or folder == home != workspace:
                break
            if os.path.lexists(folder / ".git"):
                return folder
    except OSError:
        pass
    return workspace


class RulesFinder:
    """Finds rules files. Blocks.

    Attributes:
        problems: Problems with rules files that are not read.
        watched: The folders in which new rules files could appear. Only the names of their entries
            matter.
    """

    def __init__(self, paths: WorkspacePaths) -> None:
        self.problems: list[Problem] = []
        self.watched: list[Path] = []
        self._paths = paths
        self._project = Workspace(paths.top)
        self._anywhere = Workspace("/")

    def find_user_files(self, homes: bool) -> Iterator[FoundFile]:
        """Yield the user's own files. The user's files may be links to any location.

        Args:
            homes: Whether to also read the files for other agents.
        """
        home = self._paths.home
        yield from self._find_in_places(self._paths.config, _CONFIG_PLACES, "user")
        if homes:
            codex = environment().get("CODEX_HOME") or home / ".codex"
            yield from self._find_agents(Path(codex), "user")
            yield from self._find_in_places(home, _HOME_PLACES, "user")

    def find_folder_files(self, folder: Path) -> Iterator[FoundFile]:
        """Yield the rules files in one project folder; later files win."""
        self.watched.append(folder)
        yield from self._find_agents(folder, "project")
        yield from self._find_in_places(folder, _PROJECT_PLACES, "project")

    def add_problem(self, path: str, reason: str) -> None:
        """Add a problem about a file that is not read."""
        self.problems.append(Problem(path, 0, f"Not read: {reason}.", fatal=True))

    def _skip(self, path: Path, reason: str) -> None:
        self.add_problem(self._paths.display(path), reason)

    def _find_agents(self, folder: Path, origin: str) -> Iterator[FoundFile]:
        """Yield ``AGENTS.override.md``, or else ``AGENTS.md``."""
        # Like Codex, hilum reads the override instead of the plain file.
        override = list(self._find_named(folder, _OVERRIDE_PLACE, origin))
        plain = list(self._find_named(folder, _AGENTS_PLACE, origin))
        yield from override or plain
        if override:
            for found in plain:
                self.add_problem(found.shown, f"{OVERRIDE} replaces it")

    def _find_in_places(
        self, base: Path, places: Iterable[_Place], origin: str
    ) -> Iterator[FoundFile]:
        """Yield the files at the given locations in a folder, in order."""
        for place in places:
            if place.is_tree:
                yield from self._find_below(base, place, origin)
            else:
                yield from self._find_named(base, place, origin)

    def _find_named(self, base: Path, place: _Place, origin: str) -> Iterator[FoundFile]:
        """Yield the files in a folder that have one of a location's names."""
        # Most of these files do not exist. Joining strings takes a fifth of the time that joining
        # paths takes, and the files are searched again after each edit.
        folder = os.path.join(base, place.folder)
        if place.folder:
            if not os.path.isdir(folder):
                return
            # The project folder itself is already watched, and the user's folders are not watched.
            if origin == "project":
                self.watched.append(Path(folder))
        seen = set()
        for name in place.names:
            try:
                status = os.lstat(os.path.join(folder, name))
            except (OSError, ValueError):
                continue
            # `.clinerules` may be a file or a folder of files.
            if name == ".clinerules" and stat.S_ISDIR(status.st_mode):
                continue
            # On a case-insensitive file system, one file may have several names.
            identity = (status.st_dev, status.st_ino)
            if identity not in seen:
                seen.add(identity)
                yield self.describe(Path(folder, name), place.dialect, origin, base)

    def _find_below(self, base: Path, place: _Place, origin: str) -> Iterator[FoundFile]:
        """Yield the files with a location's endings in and below its folder, ordered by name."""
        if not os.path.isdir(os.path.join(base, place.folder)):
            return
        root = base / place.folder
        real = follow_links(root)
        # A repository must not make hilum read the user's files through a link.
        if origin == "project" and not real.is_relative_to(self._paths.top):
            self._skip(root, "it is a link that points outside the project")
            return
        count = 0
        for path in self._walk(root, 0):
            inner = path.relative_to(root)
            if inner.parts[0] in place.skipped:
                continue
            if not path.name.endswith(place.names):
                if path.suffix in (".md", ".mdc", ".txt") and os.path.isfile(path):
                    self._skip(path, f"here only {' and '.join(place.names)} files are")
                continue
            count += 1
            if count > MAX_FILES:
                self._skip(
                    path,
                    f"nor the files after it: there are more than {MAX_FILES} rules files in this"
                    " folder",
                )
                return
            found = self.describe(path, place.dialect, origin, base)
            yield found._replace(name=_rule_name(inner, place.names[0]))

    def _walk(self, folder: Path, depth: int) -> Iterator[Path]:
        """Yield the paths below a folder that are no folders. Skip links to folders."""
        self.watched.append(folder)
        try:
            with os.scandir(folder) as scanned:
                # Sorted, because later files win, and the order in a folder differs between file
                # systems.
                entries = sorted(scanned, key=lambda entry: entry.name)
        except OSError as error:
            self._skip(folder, f"the folder cannot be listed: {error.strerror or error}")
            return
        for entry in entries:
            path = folder / entry.name
            if entry.is_dir(follow_symlinks=False):
                if depth < MAX_DEPTH:
                    yield from self._walk(path, depth + 1)
                else:
                    self._skip(path, "it is nested too deeply")
            elif os.path.isdir(path):  # `isdir` returns False if links form a loop
                self._skip(path, "it is a link to a folder")
            else:
                yield path

    def describe(self, path: Path, dialect: str, origin: str, governs: Path) -> FoundFile:
        """Return the description of a rules file.

        Args:
            path: The file.
            dialect: Its format.
            origin: ``user`` or ``project``.
            governs: The folder that a project's file governs.
        """
        shown = self._paths.display(path)
        workspace = self._paths.workspace
        # The user's own files may be links to any location, such as a folder of dotfiles.
        if origin != "project":
            return FoundFile(path, shown, dialect, self._anywhere, origin, base=workspace)
        folder = WORKSPACE
        if governs.is_relative_to(workspace):
            folder = PurePosixPath(governs.relative_to(workspace).as_posix())
        return FoundFile(path, shown, dialect, self._project, origin, folder, base=governs)


def _rule_name(path: Path, ending: str) -> str:
    """Return the rule name for a file such as ``NAME.mdc`` or ``NAME/RULE.md``."""
    if path.name == "RULE.md":
        return escape_name(path.parent.as_posix())
    return escape_name(path.with_name(path.name.removesuffix(ending)).as_posix())


def guess_dialect(path: Path) -> str:
    """Return the format that a file's name and folders indicate."""
    name = path.name.lower()
    for place in _FOLDER_PLACES:
        endings = [each.lower() for each in place.names]
        if place.is_tree and place.folder not in path.as_posix():
            # Outside of their folders, only files with endings of their own are recognized.
            endings = [each for each in endings if each not in (".md", ".txt")]
        if name.endswith(tuple(endings)):
            return place.dialect
    return "markdown"


def folders_between(top: Path, folder: Path) -> list[Path]:
    """Return all folders from ``top`` down to ``folder``, including both."""
    above = [each for each in reversed(folder.parents) if each.is_relative_to(top)]
    return [*above, folder]
