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
# The purposes of scripts, targets and tasks with common names.
_BY_NAME = {
    "install": "Install",
    "setup": "Install",
    "bootstrap": "Install",
    "deps": "Install",
    "build": "Build",
    "compile": "Build",
    "all": "Build",
    "run": "Run",
    "start": "Run",
    "dev": "Run",
    "serve": "Run",
    "test": "Test",
    "tests": "Test",
    "unit": "Test",
    "test:unit": "Test",
    "test:e2e": "Test",
    "e2e": "Test",
    "lint": "Lint",
    "typecheck": "Types",
    "type-check": "Types",
    "types": "Types",
    "mypy": "Types",
    "format": "Format",
    "fmt": "Format",
    "check": "All checks",
    "ci": "All checks",
    "verify": "All checks",
    "docs": "Documentation",
    "doc": "Documentation",
}
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
    found: dict[str, Command] = {}
    for finder in _FINDERS:
        # A project's files may contain anything, so commands from a file that cannot be parsed are
        # left out.
        with suppress(OSError, ValueError, RecursionError, TypeError, AttributeError):
            for command in finder(root):
                found.setdefault(command.line, command)
    return sorted(found.values(), key=lambda command: PURPOSES.index(command.purpose))


def read_text(path: Path) -> str:
    """Return the beginning of a text file; empty if the file is missing or not a regular file.

    Links that lead out of the project are not followed.
    """
    try:
        if not path.is_file() or (path.is_symlink() and not _is_beside(path)):
            return ""
        with path.open("rb") as file:
            return file.read(MAX_READ).decode("utf-8", "replace")
    except OSError:
        return ""


def _is_beside(path: Path) -> bool:
    """Return whether a link's target is in the link's folder or below it."""
    return path.resolve().is_relative_to(path.parent.resolve())


def read_toml(path: Path) -> dict[str, Any]:
    """Return the data in a TOML file; empty if the file is missing or invalid."""
    text = read_text(path)
    try:
        return tomllib.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; empty if the file is missing or invalid."""
    text = read_text(path)
    try:
        data = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _has(root: Path, *names: str) -> str:
    """Return the first name that exists, or an empty string if none does."""
    return next((name for name in names if (root / name).exists()), "")


def _by_names(names: Iterable[object], call: str, source: str) -> Iterator[Command]:
    """Yield the commands for scripts or targets with common names."""
    for name in names:
        if isinstance(name, str) and name in _BY_NAME:
            yield Command(_BY_NAME[name], f"{call} {name}", source)


# --- Python ---------------------------------------------------------------------------------------


def find_python_runner(root: Path, project: dict[str, Any]) -> str:
    """Return the prefix for running programs in a Python project, such as ``uv run ``."""
    tools = project.get("tool", {})
    if _has(root, "uv.lock") or "uv" in tools:
        return "uv run "
    if _has(root, "poetry.lock") or "poetry" in tools:
        return "poetry run "
    if _has(root, "pdm.lock") or "pdm" in tools:
        return "pdm run "
    if _has(root, "Pipfile"):
        return "pipenv run "
    return ""


def _find_python(root: Path) -> Iterator[Command]:
    project = read_toml(root / "pyproject.toml")
    manifest = _has(root, "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile")
    if not manifest:
        return
    run = find_python_runner(root, project)
    yield from _find_python_install(root, project, run, manifest)
    scripts = project.get("project", {}).get("scripts", {})
    for name in list(scripts)[:2]:
        if _SAFE_NAME.fullmatch(name):
            yield Command("Run", f"{run}{name}", "pyproject.toml")
    yield from _find_python_tests(root, project, run)
    yield from _find_python_checks(root, project, run)


def _find_python_install(
    root: Path, project: dict[str, Any], run: str, manifest: str
) -> Iterator[Command]:
    managers = {"uv": "uv sync", "poetry": "poetry install", "pdm": "pdm install"}
    managers["pipenv"] = "pipenv install --dev"
    manager = run.partition(" ")[0]
    if manager:
        yield Command("Install", managers[manager], manifest)
        return
    extras = project.get("project", {}).get("optional-dependencies", {})
    extra = next((name for name in ("dev", "test", "tests") if name in extras), "")
    if extra:
        yield Command("Install", f"pip install -e '.[{extra}]'", "pyproject.toml")
    elif "project" in project or _has(root, "setup.py"):
        yield Command("Install", "pip install -e .", manifest)
    for name in ("requirements.txt", "requirements-dev.txt", "dev-requirements.txt"):
        if _has(root, name):
            yield Command("Install", f"pip install -r {name}", name)


def _find_python_tests(root: Path, project: dict[str, Any], run: str) -> Iterator[Command]:
    tools = project.get("tool", {})
    setup = read_text(root / "setup.cfg")
    source = _has(root, "pytest.ini", "conftest.py", "tests/conftest.py")
    if "pytest" in tools:
        source = "pyproject.toml"
    elif "[tool:pytest]" in setup:
        source = "setup.cfg"
    test = _find_test_file(root)
    text = read_text(root / test) if test else ""
    if _has(root, "manage.py"):
        yield Command("Test", f"{run or ''}python manage.py test", "manage.py")
    elif source or (test and "unittest" not in text):
        yield Command("Test", f"{run}pytest", source or test)
        name = re.search(r"^(?:async )?def (test_\w+)", text, re.MULTILINE)
        if test and name and _SAFE_NAME.fullmatch(test):
            yield Command("One test", f"{run}pytest {test}::{name[1]}", test)
    elif test:
        yield Command("Test", f"{run}python -m unittest discover", test)
    if _has(root, "tox.ini") or "tox" in tools:
        yield Command("All checks", "tox", _has(root, "tox.ini") or "pyproject.toml")
    if _has(root, "noxfile.py"):
        yield Command("All checks", "nox", "noxfile.py")


def _find_test_file(root: Path) -> str:
    """Return a Python test file, relative to the project, or an empty string if there is none."""
    for folder in ("tests", "test", "."):
        found = sorted((root / folder).glob("test_*.py"))
        found += sorted((root / folder).glob("*/test_*.py"))
        if found:
            return found[0].relative_to(root).as_posix()
    return ""


def _find_python_checks(root: Path, project: dict[str, Any], run: str) -> Iterator[Command]:
    tools = project.get("tool", {})
    main = "pyproject.toml"
    ruff = "pyproject.toml" if "ruff" in tools else _has(root, "ruff.toml", ".ruff.toml")
    if ruff:
        yield Command("Lint", f"{run}ruff check .", ruff)
        yield Command("Format", f"{run}ruff format .", ruff)
    elif _has(root, ".flake8"):
        yield Command("Lint", f"{run}flake8", ".flake8")
    if "black" in tools:
        yield Command("Format", f"{run}black .", main)
    mypy = main if "mypy" in tools else _has(root, "mypy.ini", ".mypy.ini")
    if mypy:
        target = "" if tools.get("mypy", {}).get("files") else " ."
        yield Command("Types", f"{run}mypy{target}", mypy)
    pyright = main if "pyright" in tools else _has(root, "pyrightconfig.json")
    if pyright:
        yield Command("Types", f"{run}pyright", pyright)
    if _has(root, ".pre-commit-config.yaml"):
        yield Command("All checks", "pre-commit run --all-files", ".pre-commit-config.yaml")


# --- JavaScript -----------------------------------------------------------------------------------


def find_package_manager(root: Path, package: dict[str, Any]) -> str:
    """Return the package manager of a JavaScript project."""
    named = str(package.get("packageManager", "")).partition("@")[0]
    if named in ("npm", "pnpm", "yarn", "bun"):
        return named
    locks = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lockb": "bun", "bun.lock": "bun"}
    return next((manager for lock, manager in locks.items() if (root / lock).exists()), "npm")


def _find_node(root: Path) -> Iterator[Command]:
    package = read_json(root / "package.json")
    if package:
        manager = find_package_manager(root, package)
        yield Command("Install", f"{manager} install", "package.json")
        scripts = package.get("scripts", {})
        # The placeholder that `npm init` writes tests nothing.
        real = [name for name, line in scripts.items() if "no test specified" not in str(line)]
        call = "yarn" if manager == "yarn" else f"{manager} run"
        for command in _by_names(real, call, "package.json"):
            short = command.line.replace("npm run test", "npm test", 1)
            line = short if short == "npm test" else command.line
            yield msgspec.structs.replace(command, line=line)
    deno = _has(root, "deno.json", "deno.jsonc")
    if deno:
        yield from _by_names(read_json(root / deno).get("tasks", {}), "deno task", deno)


# --- other languages ------------------------------------------------------------------------------

# Files, each with the purposes and commands that its presence implies.
_FIXED: tuple[tuple[tuple[str, ...], tuple[tuple[str, str], ...]], ...] = (
    (
        ("Cargo.toml",),
        (
            ("Build", "cargo build"),
            ("Test", "cargo test"),
            ("One test", "cargo test NAME"),
            ("Lint", "cargo clippy --all-targets"),
            ("Format", "cargo fmt"),
        ),
    ),
    (
        ("go.mod",),
        (
            ("Build", "go build ./..."),
            ("Test", "go test ./..."),
            ("One test", "go test ./PACKAGE -run TestName"),
            ("Lint", "go vet ./..."),
            ("Format", "gofmt -w ."),
        ),
    ),
    (
        ("CMakeLists.txt",),
        (
            ("Build", "cmake -B build && cmake --build build"),
            ("Test", "ctest --test-dir build --output-on-failure"),
        ),
    ),
    (("gradlew",), (("Build", "./gradlew build"), ("Test", "./gradlew test"))),
    (("mvnw",), (("Build", "./mvnw package"), ("Test", "./mvnw test"))),
    (("Gemfile",), (("Install", "bundle install"),)),
    ((".rspec", "spec/spec_helper.rb"), (("Test", "bundle exec rspec"),)),
    (("Rakefile",), (("All checks", "bundle exec rake"),)),
    (
        ("mix.exs",),
        (("Install", "mix deps.get"), ("Test", "mix test"), ("Format", "mix format")),
    ),
    (("Package.swift",), (("Build", "swift build"), ("Test", "swift test"))),
    (("meson.build",), (("Build", "meson setup build && ninja -C build"),)),
    (("phpunit.xml", "phpunit.xml.dist"), (("Test", "vendor/bin/phpunit"),)),
)


def _find_fixed(root: Path) -> Iterator[Command]:
    for names, commands in _FIXED:
        source = _has(root, *names)
        if source:
            for purpose, line in commands:
                yield Command(purpose, line, source)
    if not _has(root, "gradlew"):
        source = _has(root, "build.gradle", "build.gradle.kts")
        if source:
            yield Command("Build", "gradle build", source)
            yield Command("Test", "gradle test", source)
    if not _has(root, "mvnw") and _has(root, "pom.xml"):
        yield Command("Build", "mvn package", "pom.xml")
        yield Command("Test", "mvn test", "pom.xml")
    solutions = [*root.glob("*.sln"), *root.glob("*.csproj"), *root.glob("*.fsproj")]
    if solutions:
        yield Command("Build", "dotnet build", solutions[0].name)
        yield Command("Test", "dotnet test", solutions[0].name)
    composer = read_json(root / "composer.json")
    if composer:
        yield Command("Install", "composer install", "composer.json")
        yield from _by_names(composer.get("scripts", {}), "composer", "composer.json")


# --- task runners and CI --------------------------------------------------------------------------


def list_targets(root: Path) -> set[str]:
    """Return the names of all targets in a project's Makefile."""
    file = _has(root, "GNUmakefile", "makefile", "Makefile")
    return set(_TARGET.findall(read_text(root / file))) if file else set()


def _find_tasks(root: Path) -> Iterator[Command]:
    makefile = _has(root, "GNUmakefile", "makefile", "Makefile")
    if makefile:
        targets = dict.fromkeys(_TARGET.findall(read_text(root / makefile)))
        yield from _by_names(targets, "make", makefile)
    justfile = _has(root, "justfile", "Justfile", ".justfile")
    if justfile:
        recipes = dict.fromkeys(_RECIPE.findall(read_text(root / justfile)))
        yield from _by_names(recipes, "just", justfile)


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


_FINDERS: tuple[Callable[[Path], Iterator[Command]], ...] = (
    _find_tasks,
    _find_python,
    _find_node,
    _find_fixed,
)
