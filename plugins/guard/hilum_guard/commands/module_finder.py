"""Find the files of the modules that Python code imports, as far as the code shows.

What is known of a project is kept from one search to the next: between two runs of its tests, few of
its files change, and fewer appear.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import NamedTuple

from hilum_guard.command_paths import TEMPORARY, find_temporary, locate
from hilum_guard.commands.python_imports import Imports, find_imports
from hilum_guard.folder_listings import Listing, list_folder
from hilum_guard.small_files import read_small_file

MAX_OWN_BYTES = 5_000_000
"""Maximum size of a file of the project that is searched for what it imports, in bytes."""
MAX_PROJECTS = 8
"""Maximum number of projects whose imports are remembered."""
MAX_REMEMBERED = 20_000
"""Maximum number of files of a project whose imports are remembered."""


class _Project:
    """What the Python files of a project load, for as long as its folders do not change.

    Attributes:
        folders: The listings of all folders in which a module was searched.
        modules: The files of a module, and whether it may contain others, by its name and the
            folders in which it is searched.
        files: What a file loads, by its path and the folders in which it searches its modules.
    """

    def __init__(self) -> None:
        self.folders: dict[str, Listing] = {}
        self.modules: dict[tuple[str, tuple[str, ...], bool, bool], tuple[FoundFiles, bool]] = {}
        self.files: dict[tuple[str, tuple[str, ...]], _FileImports] = {}


# Files, each with the folders in which it searches its modules.
FoundFiles = tuple[tuple[str, tuple[str, ...]], ...]


class _FileImports(NamedTuple):
    """What a Python file loads.

    Attributes:
        stamp: The stamp of its content.
        words: The names that were searched in folders, without their ends.
        others: Paths outside the workspace on which it depends, and what they are.
        files: The files that it imports.
    """

    stamp: tuple[int, ...]
    words: frozenset[str]
    others: tuple[tuple[str, str], ...]
    files: FoundFiles


# What is known of each project. A search takes its entry out, so that no other thread changes it.
_projects: dict[tuple[str, ...], _Project] = {}


class ModuleFinder:
    """A search for the modules of a project, in its folders as they are now.

    Args:
        cwd: The folder in which the command runs.
        workspace: The root of the workspace, without links.
        given: The folders of ``PYTHONPATH``.
    """

    def __init__(self, cwd: str, workspace: str, given: Sequence[str]) -> None:
        self._cwd = cwd
        self._workspace = workspace
        self._more = (workspace, os.path.join(workspace, "src"), *given)
        self._key = (cwd, workspace, find_temporary(), *given)
        self._packages: dict[tuple[str, ...], frozenset[str]] = {}
        self._listings: dict[str, Listing] = {}
        self._bases_of: dict[str, tuple[str, ...]] = {}
        self._are_folders: dict[str, bool] = {}
        # What paths outside the workspace are, and those that the current file names.
        self._kinds: dict[str, str] = {}
        self._used: dict[str, str] = {}
        # The names that the current file has searched in folders.
        self._words: set[str] = set()
        self._is_lasting = True
        self._project = self._take_project()

    def find_bases(self, folder: str) -> tuple[str, ...]:
        """Return where the modules of a test are searched: pytest adds the folder of its package."""
        if folder not in self._bases_of:
            top = folder
            while "__init__.py" in self.list_names(top) and len(top) > len(self._workspace):
                top = os.path.dirname(top)
            self._bases_of[folder] = tuple(dict.fromkeys((folder, top, self._cwd)))
        return self._bases_of[folder]

    def find_imported(self, imports: Imports, folder: str, bases: tuple[str, ...]) -> FoundFiles:
        """Return the files that code imports.

        Args:
            imports: What the code imports.
            folder: The folder of the code.
            bases: Where its modules are searched.
        """
        found: dict[tuple[str, tuple[str, ...]], None] = {}
        if imports.extends:
            more = [os.path.normpath(os.path.join(folder, each)) for each in imports.texts]
            more += [self._find_absolute(each) for each in imports.texts]
            more.append(os.path.dirname(folder))
            bases = (*bases, *(each for each in dict.fromkeys(more) if self._is_folder(each)))
        for level, module, names in imports.modules:
            places = bases
            if level:
                place = folder
                for _ in range(level - 1):
                    place = os.path.dirname(place)
                places = (place,)
            if module:
                files, is_package = self.find_module(module, places, own=not level)
                found.update(dict.fromkeys(files))
                if not is_package:
                    continue
            for name in names:
                inner = f"{module}.{name}" if module else name
                found.update(dict.fromkeys(self.find_module(inner, places, own=not level)[0]))
        for text in imports.texts:
            if text.endswith(".py") or (imports.runs_files and "." in text):
                for start in (folder, self._cwd):
                    path = os.path.normpath(os.path.join(start, text))
                    if self._is_file(path):
                        found[path, bases] = None
            if "/" not in text and not text.endswith(".py"):
                found.update(dict.fromkeys(self.find_module(text, bases)[0]))
        return tuple(found)

    def _find_absolute(self, path: str) -> str:
        if path.startswith(f"{TEMPORARY}/"):
            # What commands see there may change at any time.
            self._is_lasting = False
        return find_absolute(path, self._cwd)

    def find_module(
        self, dotted: str, places: tuple[str, ...], *, is_main: bool = False, own: bool = True
    ) -> tuple[FoundFiles, bool]:
        """Return the files of a module, from the first place that has it.

        Returns:
            The files, and whether the module may be a package of the project, which may contain
            other modules.
        """
        searched = (*places, *self._more) if own else places
        self._words.update(dotted.split("."))
        first = dotted.partition(".")[0]
        # Most imports are of the standard library, or of installed packages.
        if first not in self._list_all(searched):
            return (), False
        key = (dotted, places, is_main, own)
        known = self._project.modules.get(key)
        if known is None:
            known = self._search_module(dotted, places, searched, is_main=is_main)
            self._project.modules[key] = known
        return known

    def _list_all(self, places: tuple[str, ...]) -> frozenset[str]:
        """Return the names of the packages and modules in some folders."""
        if places not in self._packages:
            names = {name for place in places for name in self.list_names(place)}
            self._packages[places] = frozenset(name.partition(".")[0] for name in names)
        return self._packages[places]

    def _search_module(
        self, dotted: str, places: tuple[str, ...], searched: tuple[str, ...], *, is_main: bool
    ) -> tuple[FoundFiles, bool]:
        parts = [part for part in dotted.split(".") if part]
        found: list[str] = []
        is_found = bool(parts) and any(
            self._search_place(place, parts, found, is_main=is_main)
            for place in dict.fromkeys(searched)
        )
        return tuple((path, places) for path in found), is_found

    def _search_place(
        self, place: str, parts: list[str], found: list[str], *, is_main: bool
    ) -> bool:
        """Add the files of a module in a folder to a list; return whether the folder has it."""
        folder = place
        for number, part in enumerate(parts):
            listing = self.read_listing(folder)
            if part in listing.names and part in listing.folders:
                folder = os.path.join(folder, part)
                if "__init__.py" in self.list_names(folder):
                    found.append(os.path.join(folder, "__init__.py"))
                continue
            for end in (".py", ".pyc"):
                if part + end in listing.names:
                    found.append(os.path.join(folder, part + end))
                    return True
            return number > 0
        if is_main and "__main__.py" in self.list_names(folder):
            found.append(os.path.join(folder, "__main__.py"))
        return True

    def _is_folder(self, path: str) -> bool:
        """Return whether a path that code names is a folder."""
        if not f"{path}/".startswith(f"{self._workspace}/"):
            return self._find_kind(path) == "folder"
        self._words.update(name.partition(".")[0] for name in path.split("/"))
        return self._is_inner_folder(path)

    def _is_inner_folder(self, path: str) -> bool:
        """Return whether a path in the workspace is a folder."""
        if path == self._workspace:
            return True
        if path not in self._are_folders:
            above, name = os.path.split(path)
            is_folder = self._is_inner_folder(above) and name in self.read_listing(above).folders
            self._are_folders[path] = is_folder
        return self._are_folders[path]

    def _is_file(self, path: str) -> bool:
        """Return whether a path that code names is a file."""
        if not path.endswith(".py"):
            return self._find_kind(path) == "file"
        above, name = os.path.split(path)
        self._words.add(name.partition(".")[0])
        return self._is_folder(above) and name in self.read_listing(above).files

    def _find_kind(self, path: str) -> str:
        above = path.rpartition("/")[0] or "/"
        # Most absolute paths in the code of tests do not exist, nor do their first folders.
        if above not in (path, "/") and self._find_kind(above) != "folder":
            return ""
        if path not in self._kinds:
            self._kinds[path] = _find_kind(path)
        self._used[path] = self._kinds[path]
        return self._kinds[path]

    def list_names(self, folder: str) -> Collection[str]:
        """Return the names in a folder; none if it cannot be read."""
        return self.read_listing(folder).names

    def read_listing(self, folder: str) -> Listing:
        """Return the names in a folder, as at its first use in this search."""
        listing = self._listings.get(folder)
        if listing is None:
            listing = list_folder(folder)
            self._listings[folder] = listing
        self._project.folders[folder] = listing
        return listing

    def read_file(self, path: str, stamp: tuple[int, ...], bases: tuple[str, ...]) -> FoundFiles:
        """Return the files that a Python file imports.

        Args:
            path: The file.
            stamp: The stamp of its content.
            bases: Where its modules are searched.
        """
        known = self._project.files.get((path, bases))
        is_current = known is not None and known.stamp == stamp
        if known is not None and is_current and self._are_unchanged(known.others):
            return known.files
        self._used = {}
        self._words = set()
        self._is_lasting = True
        folder = path.rpartition("/")[0]
        places = tuple(dict.fromkeys((*bases, folder)))
        files = self.find_imported(_read_imports(path, stamp), folder, places)
        if self._is_lasting:
            self._project.files[path, bases] = _FileImports(
                stamp, frozenset(self._words), tuple(self._used.items()), files
            )
        return files

    def _are_unchanged(self, others: Sequence[tuple[str, str]]) -> bool:
        """Return whether paths outside the workspace are what they were."""
        return not others or all(self._find_kind(path) == kind for path, kind in others)

    # --- what is known of the project -------------------------------------------------------------

    def _take_project(self) -> _Project:
        """Return what is known of the project, without what has changed since."""
        project = _projects.pop(self._key, _Project())
        changed: set[str] = set()
        for folder, listing in project.folders.items():
            current = list_folder(folder)
            self._listings[folder] = current
            if current is not listing:
                project.folders[folder] = current
                names = _select_modules(current) ^ _select_modules(listing)
                changed.update(name.partition(".")[0] for name in names)
        # Whether a folder is a package decides what its modules may be.
        if not changed.isdisjoint(("__init__", "__main__")):
            return _Project()
        if changed:
            project.modules.clear()
            project.files = {
                key: file for key, file in project.files.items() if changed.isdisjoint(file.words)
            }
        return project

    def close(self) -> None:
        """Keep what is known of the project for the next search."""
        while len(_projects) >= MAX_PROJECTS:
            _projects.pop(next(iter(_projects)), None)
        if len(self._project.files) < MAX_REMEMBERED:
            _projects[self._key] = self._project


def find_absolute(path: str, cwd: str) -> str:
    """Return where a file is that code or a command in a folder names. Reads the disk."""
    return locate(os.path.normpath(os.path.join(cwd, os.path.expanduser(path))))


def _find_kind(path: str) -> str:
    """Return whether a path is a "folder" or a "file"; empty if it is neither."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return ""
    if stat.S_ISDIR(mode):
        return "folder"
    return "file" if stat.S_ISREG(mode) else ""


def _select_modules(listing: Listing) -> frozenset[str]:
    """Return the names in a folder that may be modules of Python, or contain some."""
    files = [name for name in listing.files if name.endswith((".py", ".pyc"))]
    return frozenset((*files, *(f"{name}./" for name in listing.folders)))


# Between two runs of the tests of a project, few of its files change.
@lru_cache(16_384)
def _read_imports(path: str, stamp: tuple[int, ...]) -> Imports:
    return find_imports(_read_text(path))


def _read_text(path: str) -> str:
    data = read_small_file(path, MAX_OWN_BYTES)
    return "" if data is None or b"\0" in data else data.decode("utf-8", "replace")
