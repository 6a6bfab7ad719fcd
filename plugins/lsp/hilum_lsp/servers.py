"""The known language servers: for which files, how they are found and started."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Literal

import attrs
from hilum import environment, home_folder
from hilum_lint.checkers import Checker

_PYTHON = {".py": "python", ".pyi": "python"}
_SCRIPT = {
    ".js": "javascript",
    ".jsx": "javascriptreact",
    ".mjs": "javascript",
    ".cjs": "javascript",
    ".ts": "typescript",
    ".tsx": "typescriptreact",
    ".mts": "typescript",
    ".cts": "typescript",
}
_C = {
    ".c": "c",
    ".h": "c",
    ".cc": "cpp",
    ".cpp": "cpp",
    ".cxx": "cpp",
    ".hh": "cpp",
    ".hpp": "cpp",
    ".hxx": "cpp",
}
_PYTHON_CONFIGS = ("pyproject.toml", "ruff.toml", ".ruff.toml", "ty.toml", "pyrightconfig.json")
_SCRIPT_CONFIGS = ("tsconfig.json", "jsconfig.json", "package.json")

MAX_PACKAGE_BYTES = 1_000_000
"""Maximum size of a ``package.json`` that is read."""


@attrs.frozen
class LanguageServer:
    """A language server.

    Args:
        name: Its name, by which the settings switch it off.
        languages: The protocol's name of a language, by suffix of the files that it serves.
        program: Name of the program.
        arguments: Arguments of the program.
        configs: Evidence that a project uses the server, as for ``Checker``.
        requirement: Name of the requirement that installs it.
        installed_by: How it is installed: as a Python package, as a Node package or system-wide.
        runs_project_code: Whether it runs the project's code, so that it only runs in trusted
            folders.
        checker: The checker of ``hilum-lint`` whose diagnostics the server has; empty for none.
        navigates: Whether it finds definitions and references.
        checks_alone: Whether the diagnostics of a file depend on this file alone.
        indexes: Whether it reads the project in the background after its start, and reports that
            as progress. Before it is done, it knows only a part of the uses of a name.
        restart_files: Names of configuration files after whose change the server starts again.
        initialization_options: The ``initializationOptions`` of the protocol.
        env: Environment variables to set.
        package: The Node package that contains the program, if only some versions are servers.
        version: The first major version of this package that is a server.
        rustup_component: The component of rustup that contains the program. Without it, the program
            that rustup installs only prints an error.
    """

    name: str
    languages: Mapping[str, str] = attrs.field(eq=False)
    program: str
    arguments: tuple[str, ...] = ()
    configs: tuple[str, ...] = ()
    requirement: str = ""
    installed_by: Literal["python", "node", "system"] = "system"
    runs_project_code: bool = True
    checker: str = ""
    navigates: bool = True
    checks_alone: bool = False
    indexes: bool = False
    restart_files: tuple[str, ...] = ()
    initialization_options: Any = attrs.field(default=None, eq=False)
    env: Mapping[str, str] = attrs.field(factory=dict, eq=False)
    package: str = ""
    version: int = 0
    rustup_component: str = ""

    def as_checker(self, *, always: bool) -> Checker:
        """Return the server as ``hilum-lint`` describes a program, to find it in a project.

        Args:
            always: Whether projects without its configuration use it, too.
        """
        return Checker(
            self.name,
            tuple(self.languages),
            self.configs,
            lambda stdout, stderr: (),
            requirement=self.requirement,
            program=self.program,
            comes=self.installed_by,
            code=self.runs_project_code,
            always=always,
        )

    def find_problem(self, program: str) -> str:
        """Return why a program is not this server, or an empty string. Blocks.

        Args:
            program: Path of the program.
        """
        if self.rustup_component:
            return _find_missing_component(program, self.rustup_component)
        if not self.package:
            return ""
        # A package manager puts a link to the program, or a script, beside the packages.
        folders = [
            os.path.join(os.path.dirname(program), "..", self.package),
            os.path.join(os.path.dirname(os.path.realpath(program)), ".."),
        ]
        for folder in folders:
            version = _read_major_version(os.path.join(folder, "package.json"), self.package)
            if version is not None and version >= self.version:
                return ""
            if version is not None:
                return f"{self.package} {version} has no language server"
        return f"its version of {self.package} is unknown"


def _read_major_version(path: str, package: str) -> int | None:
    """Return the major version in a ``package.json``; ``None`` if it describes something else."""
    try:
        with open(path, "rb") as file:
            described = json.loads(file.read(MAX_PACKAGE_BYTES))
        if described["name"] != package:
            return None
        return int(described["version"].partition(".")[0])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _find_missing_component(program: str, component: str) -> str:
    """Return how to install a component of rustup that no toolchain has, or an empty string. Blocks.

    Args:
        program: Path of the program. One that was not installed by rustup needs no component.
        component: The name of the component and of its program.
    """
    if os.path.basename(os.path.realpath(program)) != "rustup":
        return ""
    home = environment().get("RUSTUP_HOME") or os.path.join(home_folder(), ".rustup")
    toolchains = os.path.join(home, "toolchains")
    try:
        names = os.listdir(toolchains)
    except OSError:
        return ""  # rustup keeps its toolchains elsewhere, and the server itself says what it lacks
    if any(os.path.exists(os.path.join(toolchains, name, "bin", component)) for name in names):
        return ""
    return f"rustup has not installed it, and the user may run `rustup component add {component}`"


# The order is that of preference: of the servers that a project configures, and then of those that
# are installed, the first one finds definitions.
SERVERS = (
    LanguageServer(
        "ruff",
        _PYTHON,
        "ruff",
        ("server",),
        ("ruff.toml", ".ruff.toml", "pyproject.toml[tool.ruff]"),
        requirement="ruff",
        installed_by="python",
        runs_project_code=False,
        checker="ruff",
        navigates=False,
        checks_alone=True,
        restart_files=("pyproject.toml", "ruff.toml", ".ruff.toml"),
    ),
    LanguageServer(
        "ty",
        _PYTHON,
        "ty",
        ("server",),
        ("ty.toml", "pyproject.toml[tool.ty]"),
        requirement="ty",
        installed_by="python",
        runs_project_code=False,
        checker="ty",
        restart_files=_PYTHON_CONFIGS,
    ),
    LanguageServer(
        "basedpyright",
        _PYTHON,
        "basedpyright-langserver",
        ("--stdio",),
        ("pyproject.toml[tool.basedpyright]",),
        requirement="basedpyright",
        installed_by="python",
        # It runs the project's own Python to learn where its packages are.
        checker="basedpyright",
        restart_files=_PYTHON_CONFIGS,
    ),
    LanguageServer(
        "pyright",
        _PYTHON,
        "pyright-langserver",
        ("--stdio",),
        ("pyrightconfig.json", "pyproject.toml[tool.pyright]"),
        requirement="pyright",
        installed_by="python",
        checker="pyright",
        restart_files=_PYTHON_CONFIGS,
    ),
    # Since version 7, TypeScript's compiler is a language server, and typescript-language-server
    # cannot use it.
    LanguageServer(
        "tsc",
        _SCRIPT,
        "tsc",
        ("--lsp", "--stdio"),
        ("tsconfig.json", "jsconfig.json"),
        requirement="typescript",
        installed_by="node",
        restart_files=_SCRIPT_CONFIGS,
        package="typescript",
        version=7,
    ),
    LanguageServer(
        "typescript-language-server",
        _SCRIPT,
        "typescript-language-server",
        ("--stdio",),
        ("tsconfig.json", "jsconfig.json"),
        installed_by="node",
        # It loads the project's own TypeScript, and its plugins.
        restart_files=_SCRIPT_CONFIGS,
        # By default, it would download types of packages, and a second server, which knows only the
        # open files, would answer while the first one reads the project.
        initialization_options={
            "disableAutomaticTypingAcquisition": True,
            "tsserver": {"useSyntaxServer": "never"},
        },
    ),
    LanguageServer(
        "gopls",
        {".go": "go"},
        "gopls",
        (),
        ("go.mod", "go.work"),
        indexes=True,
        restart_files=("go.mod", "go.work"),
        env={"GOFLAGS": "-mod=readonly", "GOPROXY": "off", "GOTOOLCHAIN": "local"},
    ),
    LanguageServer(
        "rust-analyzer",
        {".rs": "rust"},
        "rust-analyzer",
        (),
        ("Cargo.toml",),
        indexes=True,
        restart_files=("Cargo.toml",),
        env={"CARGO_NET_OFFLINE": "true"},
        rustup_component="rust-analyzer",
    ),
    LanguageServer(
        "clangd",
        _C,
        "clangd",
        (),
        ("compile_commands.json", "compile_flags.txt", ".clangd"),
        # It neither runs compilers (`--query-driver` is not passed) nor the project's code.
        runs_project_code=False,
        indexes=True,
        restart_files=("compile_commands.json", "compile_flags.txt", ".clangd"),
    ),
)
