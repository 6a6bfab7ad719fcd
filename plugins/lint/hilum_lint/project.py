"""What a project uses and where it is installed: found from its files, without running anything.

All of it blocks a little.
"""

from __future__ import annotations

import configparser
import os
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import msgspec
from hilum import HilumError, Workspace

from hilum_lint.checkers import Checker

DEEP = 2
"""How many folders below a folder are searched for configurations, where none stands in it or
above.
"""
MOST_FOLDERS = 200
_PASSED_OVER = {"node_modules", "target", "build", "dist", "__pycache__"}
_LOCKS = {
    "python": {
        "uv.lock": "uv sync",
        "poetry.lock": "poetry install",
        "pdm.lock": "pdm install",
        "Pipfile.lock": "pipenv install --dev",
        "requirements-dev.txt": "pip install -r requirements-dev.txt",
        "pyproject.toml": "pip install in its environment",
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
class Use:
    """A checker that a project uses, and the folder it is used in.

    Args:
        checker: The checker.
        folder: The folder that its configuration stands in; it runs there.
        config: What shows the use, as it is told.
        program: Path of the program; empty if it must not or cannot run.
        problem: Why it does not run, one sentence.
        whole: Arguments to check all that its configuration names; empty if that is not possible.
    """

    checker: Checker
    folder: Path
    config: str
    program: str = ""
    problem: str = ""
    whole: tuple[str, ...] = ()


@attrs.define(eq=False)
class Project:
    """The files of a workspace as they are now: what is read once is not read again, so make a new
    one for each look.

    Args:
        workspace: The workspace.
        checkers: The checkers to look for.
        trusted: Whether code of the project may run.
    """

    workspace: Workspace
    checkers: Sequence[Checker]
    trusted: bool
    _names: dict[Path, frozenset[str]] = attrs.Factory(dict)
    _tables: dict[Path, Mapping[str, Any]] = attrs.Factory(dict)

    def plan(self, targets: Iterable[Path], *, quick: bool | None = None) -> dict[Use, list[Path]]:
        """Return which checkers look at what.

        Args:
            targets: Files and folders, resolved; what is gone is left out.
            quick: Only quick checkers, or only the others.
        """
        plan: dict[Use, list[Path]] = {}
        for target in targets:
            is_folder = target.is_dir()
            fits = [
                each
                for each in self.checkers
                if (each.folders if is_folder else target.name.endswith(each.suffixes))
            ]
            wanted = fits if target.exists() else []
            used = [each for checker in wanted for each in self._uses(checker, target, is_folder)]
            # Others that run say more of a file's syntax, for the version of Python that the
            # project is for.
            better = any(use.program and use.checker.name in ("ruff", "flake8") for use, _ in used)
            for use, part in used:
                if quick in (None, use.checker.quick) and not (
                    use.checker.name == "syntax" and better
                ):
                    plan.setdefault(use, []).append(part)
        return plan

    # --- use --------------------------------------------------------------------------------------

    def _uses(self, checker: Checker, target: Path, is_folder: bool) -> list[tuple[Use, Path]]:
        """Return where a checker is used for a target: in its folder or above, else below, each for
        its part of the target.
        """
        above = list(self._upwards(target if is_folder else target.parent))
        for folder in above:
            found = self._shown(checker, folder)
            if found:
                return [(self._use(checker, folder, found), target)]
        if checker.always:
            return [(self._use(checker, above[-1], ""), target)]
        below = self._downwards(target) if is_folder else ()
        return [
            (self._use(checker, folder, found), folder)
            for folder in below
            if (found := self._shown(checker, folder))
        ]

    def _upwards(self, folder: Path) -> Iterator[Path]:
        """Yield a folder and those above it, up to the root it is in."""
        yield folder
        while folder not in self.workspace.roots and folder != folder.parent:
            folder = folder.parent
            yield folder

    def _downwards(self, folder: Path) -> Iterator[Path]:
        level = [folder]
        for _ in range(DEEP):
            level = [
                path
                for above in level[:MOST_FOLDERS]
                for name in sorted(self._listed(above))
                if not name.startswith(".") and name not in _PASSED_OVER
                for path in (above / name,)
                if path.is_dir()
                and not path.is_symlink()
                and "pyvenv.cfg" not in self._listed(path)
            ]
            yield from level[:MOST_FOLDERS]

    def _shown(self, checker: Checker, folder: Path) -> str:
        """Return what in a folder shows that a checker is used; nothing if nothing does."""
        names = self._listed(folder)
        for config in checker.configs:
            file, _, table = config.partition("[")
            if file in names and (not table or self._entry(folder / file, table[:-1]) is not None):
                return config
        if checker.requirement:
            for file in ("pyproject.toml", ".pre-commit-config.yaml"):
                if file in names and self._requires(folder / file, checker.requirement):
                    return file
        return ""

    def _use(self, checker: Checker, folder: Path, config: str) -> Use:
        told = self.workspace.relative(folder / config).removeprefix("./") if config else ""
        program, problem = self._program(checker, folder)
        if checker.name == "syntax" and (needed := self._python(folder)) > sys.version_info[:2]:
            version = ".".join(map(str, sys.version_info[:2]))
            program = ""
            problem = (
                f"the project needs Python {needed[0]}.{needed[1]}, and hilum runs on {version}"
            )
        return Use(checker, folder, told, program, problem, self._whole(checker, folder, config))

    def _whole(self, checker: Checker, folder: Path, config: str) -> tuple[str, ...]:
        """Return the arguments to check all that a configuration names."""
        file, _, table = config.partition("[")
        if checker.parts and '"references"' in self._text(
            folder / file
        ):  # JSON with comments, which no parser here reads
            return checker.parts
        entry = self._entry(folder / file, table[:-1]) if table else None
        named = not checker.scope or any(key in (entry or {}) for key in checker.scope)
        return checker.whole if named else ()

    def _python(self, folder: Path) -> tuple[int, int]:
        """Return the oldest Python that a project says it runs on."""
        for above in self._upwards(folder):
            if "pyproject.toml" in self._listed(above):
                wanted = self._entry(above / "pyproject.toml", "project.requires-python")
                found = re.search(r">=\s*(\d+)\.(\d+)", str(wanted))
                return (int(found[1]), int(found[2])) if found else (3, 0)
        return (3, 0)

    # --- programs ---------------------------------------------------------------------------------

    def _program(self, checker: Checker, folder: Path) -> tuple[str, str]:
        """Return the path of a checker's program, or why there is none to run."""
        if checker.code and not self.trusted:
            return "", "it runs code of the project, and this folder is not trusted"
        name = os.path.expanduser(checker.executable)
        held_back = ""
        if os.path.isabs(name):
            paths = [name]
        else:
            paths = [os.path.join(place, name) for place in self._places(folder)]
        for path in paths:
            if os.path.isfile(path) and os.access(path, os.X_OK):
                if self.trusted or name == sys.executable or self._is_outside(path):
                    return path, ""
                held_back = path
        if held_back:
            return "", "its program is part of the project, and this folder is not trusted"
        return "", f"it is not installed{self._way(checker, folder)}"

    def _places(self, folder: Path) -> Iterator[str]:
        """Yield the folders of programs: the project's environments, the one that is active, then
        the PATH.
        """
        for above in self._upwards(folder):
            yield from (str(above / name / "bin") for name in (".venv", "venv"))
            yield str(above / "node_modules" / ".bin")
        active = os.environ.get("VIRTUAL_ENV")
        if active:
            yield os.path.join(active, "bin")
        yield from (place for place in os.get_exec_path() if os.path.isabs(place))

    def _is_outside(self, path: str) -> bool:
        """Return whether neither the program nor the folder it is found in stands in the workspace,
        or in one that it names.
        """
        stands = [Path(os.path.realpath(each)) for each in (path, os.path.dirname(path))]
        named = Path(os.path.abspath(path))
        return not any(
            each.is_relative_to(root) for root in self.workspace.roots for each in (*stands, named)
        )

    def _way(self, checker: Checker, folder: Path) -> str:
        """Return how a project installs what it uses."""
        for above in self._upwards(folder):
            for file, way in _LOCKS[checker.comes].items():
                if file in self._listed(above):
                    return f"; the project's way is: {way}"
        return ""

    # --- files ------------------------------------------------------------------------------------

    def _listed(self, folder: Path) -> frozenset[str]:
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
        """Read a file as a table, an empty one if it is not what its name says."""
        if path not in self._tables:
            self._tables[path] = {}
            with suppress(ValueError, RecursionError, configparser.Error):
                self._tables[path] = _read(path.suffix, self._text(path))
        return self._tables[path]

    def _entry(self, path: Path, key: str) -> Any:
        found: Any = self._table(path)
        for part in key.split(".") if path.suffix == ".toml" else [key]:
            found = found.get(part) if isinstance(found, Mapping) else None
        return found

    def _requires(self, path: Path, name: str) -> bool:
        if path.suffix == ".toml":
            parts = ("dependency-groups", "project", "tool")
            return any(_names_requirement(self._table(path).get(part), name) for part in parts)
        return (
            re.search(rf"\bid:\s*['\"]?{re.escape(name.removesuffix('-py'))}\b", self._text(path))
            is not None
        )


def _read(suffix: str, text: str) -> Mapping[str, Any]:
    if suffix == ".toml":
        return tomllib.loads(text)
    if suffix == ".json":
        found = msgspec.json.decode(text)
        return found if isinstance(found, dict) else {}
    ini = configparser.RawConfigParser(strict=False)
    ini.read_string(text)
    return {name: dict(ini[name]) for name in ini.sections()}


def _names_requirement(value: Any, name: str) -> bool:
    """Return whether a requirement of that name stands in lists of them, or in tables as Poetry has
    them.
    """
    if isinstance(value, str):
        return re.match(rf"{re.escape(name)}(?![\w.-])", value, re.IGNORECASE) is not None
    if isinstance(value, list):
        return any(_names_requirement(each, name) for each in value if isinstance(each, str))
    if not isinstance(value, dict):
        return False
    return any(
        (key.endswith("dependencies") and isinstance(inner, dict) and name in inner)
        or (isinstance(inner, dict | list) and _names_requirement(inner, name))
        for key, inner in value.items()
    )
