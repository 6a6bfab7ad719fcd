"""Finds the checkers that a project uses and their programs, without running anything.

All functions in this module read a few files and therefore block.
"""

from __future__ import annotations

import configparser
import functools
import os
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import attrs
import msgspec
from hilum import HilumError, Workspace, environment

from hilum_lint.checkers import Checker

# Maximum depth of the search for a configuration in subfolders, if no parent folder has one.
MAX_DEPTH = 2
# Maximum number of folders to search: a monorepo may have thousands, and each check searches
# them again.
MAX_FOLDERS = 200
_SKIPPED = {"node_modules", "target", "build", "dist", "__pycache__"}
# The command by which a project installs its tools; empty if the file does not tell.
_LOCKS = {
    "python": {
        "uv.lock": "uv sync",
        "poetry.lock": "poetry install",
        "pdm.lock": "pdm install",
        "Pipfile.lock": "pipenv install --dev",
        "requirements-dev.txt": "pip install -r requirements-dev.txt",
        "pyproject.toml": "",
    },
    "node": {
        "pnpm-lock.yaml": "pnpm install",
        "yarn.lock": "yarn install",
        "bun.lock": "bun install",
        "bun.lockb": "bun install",
        "package-lock.json": "npm ci",
        "package.json": "npm install",
    },
    "system": {},
}


@attrs.frozen
class CheckerUse:
    """A checker that a project uses, and the folder in which it is used.

    Args:
        checker: The checker.
        folder: The folder that contains the configuration and in which the checker runs.
        config: The configuration's displayed path.
        program: Path of the program; empty if the program must not or cannot run.
        problem: Why the checker does not run, as a sentence.
        whole: Arguments for checking everything named in the configuration; empty if this is not
            supported.
    """

    checker: Checker
    folder: Path
    config: str
    program: str = ""
    problem: str = ""
    whole: tuple[str, ...] = ()


@attrs.define(eq=False)
class LintProject:
    """A workspace's configuration files, each read only once. Create an instance for each check.

    Args:
        workspace: The workspace.
        checkers: The known checkers.
        trusted: Whether checkers may run the project's code.
    """

    workspace: Workspace
    checkers: Sequence[Checker]
    trusted: bool
    _names: dict[Path, frozenset[str]] = attrs.Factory(dict)
    _tables: dict[Path, Mapping[str, Any]] = attrs.Factory(dict)
    _above: dict[Path, tuple[Path, ...]] = attrs.Factory(dict)

    def plan(
        self, targets: Iterable[Path], *, quick: bool | None = None
    ) -> dict[CheckerUse, list[Path]]:
        """Return the checkers for files and folders, each with its targets.

        Args:
            targets: Resolved paths of files and folders; deleted ones are skipped.
            quick: ``True`` for quick checkers only, ``False`` for slow checkers only.
        """
        plan: dict[CheckerUse, list[Path]] = {}
        for target in targets:
            for use, part in self._find_uses(target):
                if quick in (None, use.checker.quick):
                    plan.setdefault(use, []).append(part)
        return plan

    def _find_uses(self, target: Path) -> list[tuple[CheckerUse, Path]]:
        """Return the checkers for a file or folder, each with its part of the target."""
        if not target.exists():
            return []
        is_folder = target.is_dir()
        uses = []
        for checker in self.checkers:
            if checker.folders if is_folder else target.name.endswith(checker.suffixes):
                uses += self._find_checker_uses(checker, target, is_folder)
        # ruff and flake8 also report syntax errors, for the version of Python that the project
        # supports.
        running = {use.checker.name for use, _ in uses if use.program}
        if running & {"ruff", "flake8"}:
            uses = [(use, part) for use, part in uses if use.checker.name != "syntax"]
        return uses

    # --- use --------------------------------------------------------------------------------------

    def _find_checker_uses(
        self, checker: Checker, target: Path, is_folder: bool
    ) -> list[tuple[CheckerUse, Path]]:
        """Return the uses of a checker for a target, each with its part of the target.

        The configuration in the folder itself or its nearest parent applies; if there is none,
        those in subfolders apply.
        """
        start = target if is_folder else target.parent
        above = self._upwards(start)
        for folder in above:
            found = self._find_config(checker, folder)
            if found:
                return [(self._make_use(checker, folder, found), target)]
        if checker.always:
            return [(self._make_use(checker, above[-1], ""), target)]
        below = self._downwards(target) if is_folder else ()
        uses = []
        for folder in below:
            found = self._find_config(checker, folder)
            if found:
                uses.append((self._make_use(checker, folder, found), folder))
        return uses

    def _upwards(self, folder: Path) -> tuple[Path, ...]:
        """Return a folder and its parents, up to its root."""
        if folder not in self._above:
            above = [folder]
            while above[-1] not in self.workspace.roots and above[-1] != above[-1].parent:
                above.append(above[-1].parent)
            self._above[folder] = tuple(above)
        return self._above[folder]

    def _downwards(self, folder: Path) -> Iterator[Path]:
        """Yield the folders below a folder, breadth first and within limits."""
        level = [folder]
        for _ in range(MAX_DEPTH):
            level = list(chain.from_iterable(map(self._subfolders, level[:MAX_FOLDERS])))
            yield from level[:MAX_FOLDERS]

    def _subfolders(self, folder: Path) -> Iterator[Path]:
        for name in sorted(self._list_names(folder)):
            path = folder / name
            if name.startswith(".") or name in _SKIPPED or path.is_symlink():
                continue
            # A virtual environment contains the configurations of installed packages.
            if path.is_dir() and "pyvenv.cfg" not in self._list_names(path):
                yield path

    def _find_config(self, checker: Checker, folder: Path) -> str:
        """Return the file that shows that a folder uses a checker, or an empty string."""
        names = self._list_names(folder)
        for config in checker.configs:
            file, _, table = config.partition("[")
            if file not in names:
                continue
            if not table or self._entry(folder / file, table[:-1]) is not None:
                return config
        for file in ("pyproject.toml", ".pre-commit-config.yaml"):
            if file in names and self._requires(folder / file, checker.requirement):
                return file
        return ""

    def _make_use(self, checker: Checker, folder: Path, config: str) -> CheckerUse:
        shown = self.workspace.relative(folder / config).removeprefix("./") if config else ""
        program, problem = self._find_program(checker, folder)
        if checker.name == "syntax":
            too_old = self._explain_old_python(folder)
            if too_old:
                program = ""
                problem = too_old
        whole = self._find_whole_arguments(checker, folder, config)
        return CheckerUse(checker, folder, shown, program, problem, whole)

    def _explain_old_python(self, folder: Path) -> str:
        """Return why this Python version cannot check a project's syntax; empty if it can."""
        needed = self._find_oldest_python(folder)
        running = sys.version_info[:2]
        if needed <= running:
            return ""
        version = ".".join(map(str, running))
        return f"the project needs Python {needed[0]}.{needed[1]}, and hilum runs on {version}"

    def _find_whole_arguments(self, checker: Checker, folder: Path, config: str) -> tuple[str, ...]:
        """Return the arguments for checking everything named in a configuration."""
        file, _, table = config.partition("[")
        # The file is JSON with comments, which no available parser supports.
        if checker.parts and '"references"' in self._text(folder / file):
            return checker.parts
        if not checker.scope:
            return checker.whole
        entry = self._entry(folder / file, table[:-1]) if table else None
        has_scope = any(key in (entry or {}) for key in checker.scope)
        return checker.whole if has_scope else ()

    def _find_oldest_python(self, folder: Path) -> tuple[int, int]:
        """Return the oldest Python version that a project claims to support."""
        for above in self._upwards(folder):
            if "pyproject.toml" in self._list_names(above):
                wanted = self._entry(above / "pyproject.toml", "project.requires-python")
                found = re.search(r">=\s*(\d+)\.(\d+)", str(wanted))
                return (int(found[1]), int(found[2])) if found else (3, 0)
        return (3, 0)

    # --- programs ---------------------------------------------------------------------------------

    def _find_program(self, checker: Checker, folder: Path) -> tuple[str, str]:
        """Return the path of a checker's program, or why it cannot run."""
        if checker.code and not self.trusted:
            return "", "it runs the project's code, and this folder is not trusted"
        name = os.path.expanduser(checker.executable)
        found = self._find_executables(name, folder)
        if not found:
            return "", f"it is not installed{self._explain_installation(checker, folder)}"
        for path in found:
            # A program that is part of the project could do anything.
            if self.trusted or name == sys.executable or self._is_outside(path):
                return path, ""
        return "", "its program is part of the project, and this folder is not trusted"

    def _find_executables(self, name: str, folder: Path) -> list[str]:
        if os.path.isabs(name):
            paths = [name]
        else:
            paths = [os.path.join(place, name) for place in self._find_program_folders(folder)]
        return [path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)]

    def _find_program_folders(self, folder: Path) -> Iterator[str]:
        """Yield the folders to search: the project's environments, the active environment, PATH."""
        for above in self._upwards(folder):
            for inside in (".venv/bin", "venv/bin", "node_modules/.bin"):
                yield str(above / inside)
        environ = environment()
        active = environ.get("VIRTUAL_ENV")
        if active:
            yield os.path.join(active, "bin")
        # A relative PATH entry would refer to a folder in the project.
        yield from (place for place in os.get_exec_path(environ) if os.path.isabs(place))

    def _is_outside(self, path: str) -> bool:
        """Return whether a program and its folder are outside the workspace.

        Both the real paths and the path at which the program was found are checked.
        """
        # A path outside the project may be a link into it, and a path inside may be a link that the
        # project could change.
        places = (
            os.path.realpath(path),
            os.path.realpath(os.path.dirname(path)),
            os.path.abspath(path),
        )
        return not any(self._is_in_workspace(Path(place)) for place in places)

    def _is_in_workspace(self, path: Path) -> bool:
        return any(path.is_relative_to(root) for root in self.workspace.roots)

    def _explain_installation(self, checker: Checker, folder: Path) -> str:
        """Return a hint that names the command which installs a checker."""
        for above in self._upwards(folder):
            for file, way in _LOCKS[checker.comes].items():
                if file not in self._list_names(above):
                    continue
                if way:
                    return f"; the project installs it with: {way}"
                return f"; install it in the project's environment: pip install {checker.name}"
        return ""

    # --- files ------------------------------------------------------------------------------------

    def _list_names(self, folder: Path) -> frozenset[str]:
        if folder not in self._names:
            try:
                self._names[folder] = frozenset(os.listdir(folder))
            except OSError:
                self._names[folder] = frozenset()
        return self._names[folder]

    def _text(self, path: Path) -> str:
        with suppress(HilumError, OSError), self.workspace.at(path) as place, place.open() as file:
            return file.read(1_000_000).decode(errors="replace")
        return ""

    def _table(self, path: Path) -> Mapping[str, Any]:
        """Return a parsed file as a table, which is empty if the file is invalid."""
        if path not in self._tables:
            self._tables[path] = {}
            with suppress(ValueError, RecursionError, configparser.Error):
                self._tables[path] = _read(path.suffix, self._text(path))
        return self._tables[path]

    def _entry(self, path: Path, key: str) -> Any:
        found: Any = self._table(path)
        # Section names in INI files and keys in JSON files may contain dots.
        parts = key.split(".") if path.suffix == ".toml" else [key]
        for part in parts:
            found = found.get(part) if isinstance(found, Mapping) else None
        return found

    def _requires(self, path: Path, name: str) -> bool:
        if not name:
            return False
        if path.suffix == ".toml":
            parts = ("dependency-groups", "project", "tool")
            return any(_names_requirement(self._table(path).get(part), name) for part in parts)
        hook = re.escape(name.removesuffix("-py"))
        return re.search(rf"\bid:\s*['\"]?{hook}\b", self._text(path)) is not None


# Each edit reads the project's few configuration files again, and they hardly ever change.
@functools.lru_cache(maxsize=32)
def _read(suffix: str, text: str) -> Mapping[str, Any]:
    if suffix == ".toml":
        return tomllib.loads(text)
    if suffix == ".json":
        found = msgspec.json.decode(text)
        return found if isinstance(found, dict) else {}
    # Use the raw parser, because `%` is an ordinary character in these files and not an
    # interpolation.
    ini = configparser.RawConfigParser(strict=False)
    ini.read_string(text)
    return {name: dict(ini[name]) for name in ini.sections()}


def _names_requirement(value: Any, name: str) -> bool:
    """Return whether requirement lists or Poetry tables contain a requirement."""
    if isinstance(value, str):
        return re.match(rf"{re.escape(name)}(?![\w.-])", value, re.IGNORECASE) is not None
    if isinstance(value, list):
        return any(_names_requirement(each, name) for each in value if isinstance(each, str))
    if isinstance(value, dict):
        return any(_is_named_in_entry(key, inner, name) for key, inner in value.items())
    return False


def _is_named_in_entry(key: str, value: Any, name: str) -> bool:
    if not isinstance(value, dict | list):
        return False
    is_poetry_table = key.endswith("dependencies") and isinstance(value, dict)
    return (is_poetry_table and name in value) or _names_requirement(value, name)
