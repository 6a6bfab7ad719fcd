"""Finds the workspace files that a server executes, whose content an approval also covers.

The files are found from the command line: the command, scripts among its arguments, modules that
these scripts import, and `package.json`, `pyproject.toml` and `Makefile` with the files that they
name. If a script has its own folder, all code in that folder is included, because such code may be
loaded in ways that no search can find.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import PurePath
from typing import Any

import msgspec
from hilum import UsageError, environment, errors, walk_folders

from hilum_mcp.server_config import ServerConfig

# A server that exceeds these limits is refused, because an approval of only some of its files would
# be worthless.
MAX_FILES = 2_000
MAX_BYTES = 20_000_000
MAX_WORD = 4_096
_PYTHON = (".py", ".pyi")
_JAVASCRIPT = (".js", ".mjs", ".cjs", ".ts", ".mts", ".jsx", ".tsx")
_CODE = tuple(
    ".py .pyi .pyx .so .js .mjs .cjs .jsx .ts .mts .cts .tsx .wasm .node .sh .bash .rb .pl .php"
    " .lua .go .rs .java .jar .class .exe .dll .ps1 .bat .cmd .pth".split()
)
_PROJECT_FILES = (
    "package.json",
    "pyproject.toml",
    "Makefile",
    "makefile",
    "GNUmakefile",
    "justfile",
    "Justfile",
    "deno.json",
    "setup.py",
    "setup.cfg",
    ".npmrc",
    ".yarnrc.yml",
    "Dockerfile",
    "compose.yaml",
    "docker-compose.yml",
)
# Installed or generated content, usually too large to hash.
_SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", ".git", ".venv", "venv"})
# Programs that run a project rather than a script. The project's files define what is executed.
_RUNNERS = frozenset(
    "npm npx pnpm yarn bun bunx deno uv uvx poetry pdm hatch pipenv pipx make gmake just docker"
    " podman cargo go node".split()
)
_MODULE_OPTIONS = ("-m", "-p", "--module", "--package")
_IMPORTS = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<base>\.*[\w.]*)[ \t]+import[ \t]+(?P<inner>[\w, \t]+)|import["
    r" \t]+(?P<names>[\w., \t]+))",
    re.M,
)
_REQUIRES = re.compile(
    r"""(?:\bfrom\s*|\bimport\s*\(?\s*|\brequire\s*\(\s*)['"](\.{1,2}/[^'"]+)['"]"""
)
_SCRIPTS = re.compile(r'^\s*"?[\w.-]+"?\s*=\s*"([\w.]+):[\w.]+"', re.M)
_ENDINGS = (
    "",
    ".py",
    ".js",
    ".mjs",
    ".cjs",
    ".ts",
    ".json",
    "/__init__.py",
    "/__main__.py",
    "/index.js",
    "/index.ts",
)


def executed_files(server: ServerConfig, workspace: str) -> dict[str, str]:
    """Return the hashes of the workspace files that a server executes, by relative path. Blocks.

    Args:
        server: The server's configuration; variables are not expanded.
        workspace: The real path of the project.

    Raises:
        UsageError: The server executes too many files, or the files are too large.
    """
    if server.kind != "stdio":
        return {}
    hashes: dict[str, str] = {}
    size = 0
    for path in sorted(_FileSearch(workspace, server).search()):
        try:
            with open(path, "rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError:
            continue
        size += len(data)
        if len(hashes) >= MAX_FILES or size > MAX_BYTES:
            limit = f"{MAX_FILES:,} files or {MAX_BYTES // 1_000_000} MB"
            raise UsageError(
                f"{server.name} executes more than {limit} of this project.",
                code=errors.E_FAILED,
                hint="Start the server from a separate folder.",
            )
        hashes[os.path.relpath(path, workspace)] = hashlib.sha256(data).hexdigest()
    return hashes


def approval_digest(server: ServerConfig, files: dict[str, str]) -> str:
    """Return the hash of a configuration and the executed files, to which approvals are bound."""
    total = hashlib.sha256(server.digest.encode())
    total.update(msgspec.json.encode(sorted(files.items())))
    return f"sha256:{total.hexdigest()}"


def describe_changes(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Return a short description of each file that was added, changed or removed."""
    changes = [f"gone {name}" for name in before.keys() - now.keys()]
    for name, digest in now.items():
        if name not in before:
            changes.append(f"new {name}")
        elif before[name] != digest:
            changes.append(f"changed {name}")
    return sorted(changes)


class _FileSearch:
    """A search for the files that one server executes.

    Args:
        workspace: The real path of the project.
        server: The server.
    """

    def __init__(self, workspace: str, server: ServerConfig) -> None:
        self._root = workspace
        self._server = server
        cwd = os.path.expanduser(server.cwd.replace("${workspaceFolder}", workspace))
        self._cwd = os.path.realpath(os.path.join(workspace, cwd))
        self._found: set[str] = set()
        python_path = server.env.get("PYTHONPATH", "").split(os.pathsep)
        self._bases = [self._cwd, f"{self._cwd}/src"]
        self._bases += [os.path.join(self._cwd, path) for path in python_path if path]

    def search(self) -> set[str]:
        """Return the absolute paths of all files."""
        server = self._server
        words = [server.command, *server.args]
        # PATH may contain a folder of the project, such as `.venv/bin`.
        program = None
        if "/" not in server.command:
            path = environment().get("PATH", os.defpath)
            program = shutil.which(server.command, path=path)
        if program:
            self._add_word(program)
        if server.env_file:
            self._add_word(server.env_file)
        # Variables such as `PYTHONSTARTUP` and `LD_PRELOAD` name files that programs load.
        for value in server.env.values():
            for word in value.split(os.pathsep):
                self._add_word(word)
        self._add_words(words)
        names = {PurePath(word).name for word in words}
        # The argument `.` means the project in the working folder, as in `python .`.
        if names & _RUNNERS or "." in server.args:
            self._add_project()
        return self._found

    def _add_words(self, words: list[str]) -> None:
        """Add the files to which the words of a command line refer."""
        for option, word in pairwise(["", *words]):
            if option in _MODULE_OPTIONS:
                self._add_module(word, self._bases)
            # Python accepts the module's name without a space: `-mNAME`.
            if word.startswith("-m") and len(word) > 2:
                self._add_module(word[2:], self._bases)
            # An argument may contain paths: `--config=PATH`, `PATH:target`, `sh -c "python PATH"`.
            value = word.rpartition("=")[2]
            path = word.partition(":")[0]
            for part in (word, *_split_words(word), value, path):
                self._add_word(part)

    def _add_project(self) -> None:
        """Add the files that describe a project, and the files that they name."""
        for name in _PROJECT_FILES:
            path = f"{self._cwd}/{name}"
            if os.path.isfile(path):
                self._add_file(path)
        package = _read_json(f"{self._cwd}/package.json")
        named: list[Any] = [package.get("main"), package.get("module")]
        for key in ("scripts", "bin", "exports"):
            value = package.get(key)
            named += value.values() if isinstance(value, dict) else [value]
        for text in named:
            if isinstance(text, str):
                self._add_words(_split_words(text))
        project = _read_text(f"{self._cwd}/pyproject.toml")
        for module in _SCRIPTS.findall(project):
            self._add_module(module, self._bases)

    def _add_word(self, word: str) -> None:
        """Add the file or package to which a word refers, and the code in a script's folder."""
        for variable in ("${workspaceFolder}", "${workspaceRoot}"):
            word = word.replace(variable, self._root)
        # A longer word cannot be a path (PATH_MAX on Linux).
        if not word or "\0" in word or len(word) > MAX_WORD:
            return
        path = os.path.join(self._cwd, os.path.expanduser(word))
        if os.path.isfile(path):
            self._add_file(path)
            folder = os.path.dirname(os.path.realpath(path))
            if self._is_inside(folder) and path.endswith(_CODE):
                self._add_folder(folder)
        elif os.path.isfile(f"{path}/__main__.py"):
            self._add_folder(os.path.realpath(path))

    def _add_module(self, name: str, bases: Iterable[str]) -> None:
        """Add a Python module or a whole package, if it is in the workspace."""
        top = name.split(".")[0]
        if not top:
            return
        for base in bases:
            real = os.path.realpath(base)
            if real != self._root and not self._is_inside(real):
                continue
            if os.path.isdir(f"{base}/{top}"):
                self._add_folder(os.path.realpath(f"{base}/{top}"))
            if os.path.isfile(f"{base}/{top}.py"):
                self._add_file(f"{base}/{top}.py")

    def _add_folder(self, folder: str) -> None:
        """Add all code in a folder."""
        if not self._is_inside(folder):
            return
        for path, folders, names in walk_folders(folder):
            folders[:] = [name for name in folders if name not in _SKIPPED_FOLDERS]
            for name in names:
                if name.endswith(_CODE) or name in _PROJECT_FILES:
                    self._add_file(f"{path}/{name}")
            # The search may stop here, because `executed_files` refuses the server anyway.
            if len(self._found) > MAX_FILES:
                return

    def _add_file(self, path: str) -> None:
        """Add a file and the files that it imports by name or by relative path."""
        real = os.path.realpath(path)
        if real in self._found or not self._is_inside(real):
            return
        if len(self._found) > MAX_FILES:
            return
        self._found.add(real)
        # A link is included as well, because its target may be changed later.
        if path != real and self._is_inside(os.path.abspath(path)):
            self._found.add(os.path.abspath(path))
        folder = os.path.dirname(real)
        if real.endswith(_PYTHON):
            for name in _imported_modules(_read_text(real)):
                self._add_module(name, [folder, *self._bases])
        elif real.endswith(_JAVASCRIPT):
            for name in _REQUIRES.findall(_read_text(real)):
                self._add_relative(f"{folder}/{name}")

    def _add_relative(self, path: str) -> None:
        for ending in _ENDINGS:
            if os.path.isfile(path + ending):
                self._add_file(path + ending)

    def _is_inside(self, path: str) -> bool:
        return path.startswith(f"{self._root}/")


def _imported_modules(text: str) -> Iterator[str]:
    for match in _IMPORTS.finditer(text):
        base = (match["base"] or "").lstrip(".")
        if base:
            yield base
            continue
        for name in (match["names"] or match["inner"]).split(","):
            if name.split():
                yield name.split()[0]


def _split_words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        # The quotes are unbalanced. Splitting the text at whitespace still finds most files.
        return text.split()


def _read_text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(MAX_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _read_json(path: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(_read_text(path) or "{}")
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}
