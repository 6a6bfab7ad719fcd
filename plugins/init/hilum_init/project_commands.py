"""Finds the commands to build, test and check a project, from its own files. Nothing is run.

Each finder reads the files of one kind of tool. The results are shown to the user and written into
a file, so names from a project's files are used only if they consist of harmless characters.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from hilum.config_files import read_regular_file

MAX_READ = 1_000_000  # bytes of a file
MAX_CI_COMMANDS = 8
MAX_COMMAND = 120  # characters
# The purposes, in the order in which they are listed.
PURPOSES = (
    "Install",
    "Build",
    "Run",
    "Test",
    "One test",
    "Lint",
    "Types",
    "Format",
    "All checks",
    "Documentation",
)
# The common names of scripts, targets and tasks for a purpose.
_NAMES = {
    "Install": "install setup bootstrap deps",
    "Build": "build compile all",
    "Run": "run start dev serve",
    "Test": "test tests unit test:unit test:e2e e2e",
    "Lint": "lint",
    "Types": "typecheck type-check types mypy",
    "Format": "format fmt",
    "All checks": "check ci verify",
    "Documentation": "docs doc",
}
_BY_NAME: dict[str, str] = {}
for _purpose, _names in _NAMES.items():
    _BY_NAME |= dict.fromkeys(_names.split(), _purpose)
# A purpose, a command, and the signs of which the project must have one: files, patterns of files,
# or ``[NAME]``, the table of a tool in pyproject.toml. It must have no sign that begins with ``!``.
# ``{run}`` starts a program of a Python project.
_COMMANDS = """
Lint | {run}ruff check . | [ruff] ruff.toml .ruff.toml
Format | {run}ruff format . | [ruff] ruff.toml .ruff.toml
Lint | {run}flake8 | .flake8 ![ruff] !ruff.toml !.ruff.toml
Format | {run}black . | [black]
Types | {run}mypy | [mypy.files]
Types | {run}mypy . | [mypy] mypy.ini .mypy.ini ![mypy.files]
Types | {run}pyright | [pyright] pyrightconfig.json
Test | {run}python manage.py test | manage.py
All checks | pre-commit run --all-files | .pre-commit-config.yaml
All checks | tox | tox.ini [tox]
All checks | nox | noxfile.py
Build | cargo build | Cargo.toml
Test | cargo test | Cargo.toml
One test | cargo test NAME | Cargo.toml
Lint | cargo clippy --all-targets | Cargo.toml
Format | cargo fmt | Cargo.toml
Build | go build ./... | go.mod
Test | go test ./... | go.mod
One test | go test ./PACKAGE -run TestName | go.mod
Lint | go vet ./... | go.mod
Format | gofmt -w . | go.mod
Build | cmake -B build && cmake --build build | CMakeLists.txt
Test | ctest --test-dir build --output-on-failure | CMakeLists.txt
Build | ./gradlew build | gradlew
Test | ./gradlew test | gradlew
Build | gradle build | build.gradle build.gradle.kts !gradlew
Test | gradle test | build.gradle build.gradle.kts !gradlew
Build | ./mvnw package | mvnw
Test | ./mvnw test | mvnw
Build | mvn package | pom.xml !mvnw
Test | mvn test | pom.xml !mvnw
Build | dotnet build | *.sln *.csproj *.fsproj
Test | dotnet test | *.sln *.csproj *.fsproj
Install | bundle install | Gemfile
Test | bundle exec rspec | .rspec spec/spec_helper.rb
All checks | bundle exec rake | Rakefile
Install | mix deps.get | mix.exs
Test | mix test | mix.exs
Format | mix format | mix.exs
Build | swift build | Package.swift
Test | swift test | Package.swift
Build | meson setup build && ninja -C build | meson.build
Test | vendor/bin/phpunit | phpunit.xml phpunit.xml.dist
Install | composer install | composer.json
"""
# How programs of a Python project are started, how the project is installed, and the signs.
_PYTHON_MANAGERS = """
uv run | uv sync | uv.lock [uv]
poetry run | poetry install | poetry.lock [poetry]
pdm run | pdm install | pdm.lock [pdm]
pipenv run | pipenv install --dev | Pipfile
"""
_PYTHON = "pyproject.toml setup.py setup.cfg requirements.txt Pipfile"
_MAKEFILES = "GNUmakefile makefile Makefile"
_SAFE_NAME = re.compile(r"[\w][\w:.@/+-]{0,60}")
_TARGET = re.compile(r"^([A-Za-z][\w.-]*)[^\S\n]*:(?![=:])", re.MULTILINE)
_RECIPE = re.compile(r"^@?([A-Za-z][\w-]*)(?: [^:=\n]*)?:(?!=)", re.MULTILINE)
_RUN_LINE = re.compile(r"^(\s*)(?:- )?run:[^\S\n]*(.*)$")
_LIST_LINE = re.compile(r"^\s+- (\S.*)$")
# Beginnings of CI commands that prepare the machine or are irrelevant to developers.
_CI_NOISE = re.compile(
    r"(sudo|apt|apt-get|brew|echo|cd|export|set|if|fi|for|done|then|else|mkdir|cp|mv|rm|cat|curl"
    r"|wget|git|pip|python -m pip|python3 -m pip|pipx|npm (ci|install|i)|yarn install|pnpm install"
    r"|corepack|source|\.|exit|env|true|gh|docker (login|push|build)|name|uses|tar|unzip|chmod)\b"
)
_CI_PLAIN = re.compile(r"[\w ./:=,@+*'\"\[\]-]+")


class Command(msgspec.Struct, frozen=True):
    """A command for working on a project.

    Attributes:
        purpose: One of ``PURPOSES``, or ``CI``.
        line: The command.
        source: The file that defines the command.
    """

    purpose: str
    line: str
    source: str


def find_commands(root: Path) -> list[Command]:
    """Return a project's commands without duplicates, ordered by purpose. Blocks."""
    project = _Project(root)
    found: dict[str, Command] = {}
    for finder in _FINDERS:
        # A project's files may contain anything, so commands from a file that cannot be parsed are
        # left out.
        with suppress(OSError, ValueError, RecursionError, TypeError, AttributeError):
            for command in finder(project):
                found.setdefault(command.line, command)
    return sorted(found.values(), key=lambda command: PURPOSES.index(command.purpose))


class _Project:
    """A project whose files show which tools it uses.

    Attributes:
        root: The folder.
        pyproject: The data in pyproject.toml.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.pyproject = read_toml(root / "pyproject.toml")

    def find(self, signs: str) -> str:
        """Return the first file that shows one of the signs; empty if the project has none."""
        found = ""
        for sign in signs.split():
            source = self._find_sign(sign.removeprefix("!"))
            if source and sign.startswith("!"):
                return ""
            found = found or source
        return found

    def _find_sign(self, sign: str) -> str:
        if sign.startswith("["):
            return "pyproject.toml" if self._has_setting(sign.strip("[]")) else ""
        paths = sorted(self.root.glob(sign))
        return paths[0].relative_to(self.root).as_posix() if paths else ""

    def _has_setting(self, name: str) -> bool:
        """Return whether pyproject.toml has a setting of a tool, such as ``mypy.files``."""
        found = self.pyproject.get("tool")
        for part in name.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        return found is not None

    def find_row(self, table: str) -> tuple[str, str, str]:
        """Return the first row of a table of which the project has a sign, and the file."""
        for first, second, signs in _rows(table):
            source = self.find(signs)
            if source:
                return first, second, source
        return "", "", ""


def _rows(table: str) -> Iterator[tuple[str, str, str]]:
    for line in table.strip().splitlines():
        first, second, signs = line.split(" | ")
        yield first, second, signs


def read_text(path: Path) -> str:
    """Return the text of a file; empty if there is none that can be read.

    Links that lead out of the project are not followed.
    """
    try:
        if path.is_symlink() and not path.resolve().is_relative_to(path.parent.resolve()):
            return ""
        return read_regular_file(path, MAX_READ).decode("utf-8", "replace")
    except (OSError, ValueError, RuntimeError):
        return ""


def read_toml(path: Path) -> dict[str, Any]:
    """Return the data in a TOML file; empty if the file is missing or invalid."""
    return _parse(tomllib.loads, path)


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; empty if the file is missing or invalid."""
    return _parse(json.loads, path)


def _parse(parse: Callable[[str], Any], path: Path) -> dict[str, Any]:
    try:
        data = parse(read_text(path))
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _by_names(names: Iterable[object], call: str, source: str) -> Iterator[Command]:
    """Yield the commands for scripts or targets with common names."""
    for name in names:
        if isinstance(name, str) and name in _BY_NAME:
            yield Command(_BY_NAME[name], f"{call} {name}", source)


def _find_by_signs(project: _Project) -> Iterator[Command]:
    run, _, _ = project.find_row(_PYTHON_MANAGERS)
    for purpose, line, signs in _rows(_COMMANDS):
        source = project.find(signs)
        if source:
            yield Command(purpose, line.format(run=f"{run} " if run else ""), source)


# --- Python ---------------------------------------------------------------------------------------


def _find_python(project: _Project) -> Iterator[Command]:
    manifest = project.find(_PYTHON)
    if not manifest:
        return
    run, install, _ = project.find_row(_PYTHON_MANAGERS)
    metadata = project.pyproject.get("project", {})
    if install:
        yield Command("Install", install, manifest)
    else:
        yield from _find_pip_install(project, metadata, manifest)
    prefix = f"{run} " if run else ""
    for name in list(metadata.get("scripts", {}))[:2]:
        if _SAFE_NAME.fullmatch(name):
            yield Command("Run", f"{prefix}{name}", "pyproject.toml")
    yield from _find_python_tests(project, prefix)


def _find_pip_install(
    project: _Project, metadata: dict[str, Any], manifest: str
) -> Iterator[Command]:
    extras = metadata.get("optional-dependencies", {})
    extra = next((name for name in ("dev", "test", "tests") if name in extras), "")
    if extra:
        yield Command("Install", f"pip install -e '.[{extra}]'", "pyproject.toml")
    elif metadata or project.find("setup.py"):
        yield Command("Install", "pip install -e .", manifest)
    for name in ("requirements.txt", "requirements-dev.txt", "dev-requirements.txt"):
        if project.find(name):
            yield Command("Install", f"pip install -r {name}", name)


def _find_python_tests(project: _Project, run: str) -> Iterator[Command]:
    if project.find("manage.py"):
        return
    source = project.find("[pytest] pytest.ini conftest.py tests/conftest.py")
    if "[tool:pytest]" in read_text(project.root / "setup.cfg"):
        source = source or "setup.cfg"
    test = project.find(
        "tests/test_*.py tests/*/test_*.py test/test_*.py test/*/test_*.py test_*.py */test_*.py"
    )
    text = read_text(project.root / test) if test else ""
    if source or (test and "unittest" not in text):
        yield Command("Test", f"{run}pytest", source or test)
        name = re.search(r"^(?:async )?def (test_\w+)", text, re.MULTILINE)
        if name and _SAFE_NAME.fullmatch(test):
            yield Command("One test", f"{run}pytest {test}::{name[1]}", test)
    elif test:
        yield Command("Test", f"{run}python -m unittest discover", test)


# --- JavaScript -----------------------------------------------------------------------------------


def _find_package_manager(project: _Project, package: dict[str, Any]) -> str:
    """Return the package manager of a JavaScript project."""
    named = str(package.get("packageManager", "")).partition("@")[0]
    if named in ("npm", "pnpm", "yarn", "bun"):
        return named
    locks = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lockb": "bun", "bun.lock": "bun"}
    return next((manager for lock, manager in locks.items() if project.find(lock)), "npm")


def _find_node(project: _Project) -> Iterator[Command]:
    package = read_json(project.root / "package.json")
    if package:
        manager = _find_package_manager(project, package)
        yield Command("Install", f"{manager} install", "package.json")
        scripts = package.get("scripts", {})
        # The placeholder that `npm init` writes tests nothing.
        real = [name for name, line in scripts.items() if "no test specified" not in str(line)]
        call = "yarn" if manager == "yarn" else f"{manager} run"
        yield from _by_names(real, call, "package.json")
    deno = project.find("deno.json deno.jsonc")
    if deno:
        tasks = read_json(project.root / deno).get("tasks", {})
        yield from _by_names(tasks, "deno task", deno)
    composer = read_json(project.root / "composer.json")
    yield from _by_names(composer.get("scripts", {}), "composer", "composer.json")


# --- task runners and CI --------------------------------------------------------------------------


def list_targets(root: Path) -> set[str]:
    """Return the names of all targets in a project's Makefile."""
    file = _Project(root).find(_MAKEFILES)
    return set(_TARGET.findall(read_text(root / file))) if file else set()


def _find_tasks(project: _Project) -> Iterator[Command]:
    for program, files, pattern in (
        ("make", _MAKEFILES, _TARGET),
        ("just", "justfile Justfile .justfile", _RECIPE),
    ):
        file = project.find(files)
        if file:
            names = dict.fromkeys(pattern.findall(read_text(project.root / file)))
            yield from _by_names(names, program, file)


def find_ci_commands(root: Path) -> list[Command]:
    """Return the commands in a project's CI configuration that a developer could also run."""
    files = [*root.glob(".github/workflows/*.yml"), *root.glob(".github/workflows/*.yaml")]
    files.append(root / ".gitlab-ci.yml")
    found: dict[str, Command] = {}
    for file in sorted(files):
        source = file.relative_to(root).as_posix()
        for line in _read_ci_lines(read_text(file), is_gitlab=file.name == ".gitlab-ci.yml"):
            is_plain = len(line) <= MAX_COMMAND and _CI_PLAIN.fullmatch(line)
            if is_plain and not _CI_NOISE.match(line):
                found.setdefault(line, Command("CI", line, source))
    return list(found.values())[:MAX_CI_COMMANDS]


def _read_ci_lines(text: str, *, is_gitlab: bool) -> Iterator[str]:
    """Yield the shell lines in a CI file, found by their indentation, without a YAML parser."""
    block = -1
    for raw in text.splitlines():
        line = raw.strip()
        indent = len(raw) - len(raw.lstrip())
        if block >= 0 and line and indent <= block:
            block = -1
        if block >= 0:
            if line and not line.startswith("#") and not line.endswith("\\"):
                yield line
            continue
        run = _RUN_LINE.match(raw)
        if run:
            value = run[2].strip()
            if value[:1] in ("|", ">"):
                block = len(run[1])
            elif value:
                yield value.strip("\"'")
        elif is_gitlab:
            item = _LIST_LINE.match(raw)
            if item:
                yield item[1].strip("\"'")


_FINDERS: tuple[Callable[[_Project], Iterator[Command]], ...] = (
    _find_tasks,
    _find_python,
    _find_node,
    _find_by_signs,
)
