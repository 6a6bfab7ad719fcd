"""The files of a workspace that a server's program executes: an approval is bound to their content,
too.

Read off the command line as far as that goes: the command, scripts among its arguments, modules and
packages that they import, `package.json`, `pyproject.toml` and `Makefile` with what they name.
Where a script has a folder of its own, all code in that folder counts, as it may be loaded by ways
that cannot be read.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import msgspec
from hilum import UsageError, errors

from hilum_mcp.server import Server

MAX_FILES = 2_000
MAX_BYTES = 20_000_000
_CODE = (
    ".py .pyi .pyx .so .js .mjs .cjs .jsx .ts .mts .cts .tsx .wasm .node .sh .bash .rb .pl .php"
    " .lua .go .rs .java .jar .class .exe .dll .ps1 .bat .cmd .pth"
).split()
_PROJECTS = (
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
_SKIPPED = frozenset({"node_modules", "__pycache__", ".git", ".venv", "venv"})
# What runs a project rather than a script: then the project's description says what is executed.
_RUNNERS = frozenset(
    "npm npx pnpm yarn bun bunx deno uv uvx poetry pdm hatch pipenv pipx make gmake just docker"
    " podman cargo go node".split()
)
_IMPORTS = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<base>\.*[\w.]*)[ \t]+import[ \t]+(?P<inner>[\w, \t]+)|import["
    r" \t]+(?P<names>[\w., \t]+))",
    re.M,
)
_REQUIRES = re.compile(
    r"""(?:\bfrom\s*|\bimport\s*\(?\s*|\brequire\s*\(\s*)['"](\.{1,2}/[^'"]+)['"]"""
)
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


def executed_files(server: Server, workspace: str) -> dict[str, str]:
    """Return the files of the workspace that a server executes, by path relative to it, each with a
    digest. Blocks.

    Args:
        server: As it is described; variables are not filled in.
        workspace: The project, resolved.

    Raises:
        UsageError: They are too many to vouch for.
    """
    if server.kind != "stdio":
        return {}
    search = _Search(workspace, server)
    search.add_command()
    found: dict[str, str] = {}
    size = 0
    for path in sorted(search.found):
        try:
            with open(path, "rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError:
            continue
        size += len(data)
        if len(found) >= MAX_FILES or size > MAX_BYTES:
            text = (
                f"{server.name} executes more than {MAX_FILES:,} files or {MAX_BYTES // 1_000_000}"
                " MB of this project"
            )
            raise UsageError(
                f"{text}.", code=errors.E_FAILED, hint="Have it start from a folder of its own."
            )
        found[os.path.relpath(path, workspace)] = hashlib.sha256(data).hexdigest()
    return found


def digest(server: Server, files: dict[str, str]) -> str:
    """Return what an approval is bound to: the definition, and the content of what it executes."""
    total = hashlib.sha256(server.digest.encode())
    total.update(msgspec.json.encode(sorted(files.items())))
    return f"sha256:{total.hexdigest()}"


def changes(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Return what is new, changed or gone, a few words each."""
    found = [f"changed {name}" for name in now if name in before and now[name] != before[name]]
    found += [f"new {name}" for name in now if name not in before]
    return sorted(found + [f"gone {name}" for name in before if name not in now])


class _Search:
    """Finds the files of one server."""

    def __init__(self, workspace: str, server: Server) -> None:
        self.root = workspace
        self.server = server
        given = server.cwd.replace("${workspaceFolder}", workspace)
        self.cwd = os.path.realpath(os.path.join(workspace, os.path.expanduser(given)))
        self.found: dict[str, None] = {}
        paths = [path for path in server.env.get("PYTHONPATH", "").split(os.pathsep) if path]
        self.bases = [
            self.cwd,
            f"{self.cwd}/src",
            *(os.path.join(self.cwd, path) for path in paths),
        ]

    def add_command(self) -> None:
        """Find everything, beginning with the command line."""
        server = self.server
        self._add_word(server.command)
        if "/" not in server.command and (program := shutil.which(server.command)):
            self._add_word(program)
        if server.env_file:
            self._add_word(server.env_file)
        for value in server.env.values():
            for word in value.split(os.pathsep):
                self._add_word(word)
        self._add_words([server.command, *server.args])
        names = {PurePath(word).name for word in (server.command, *server.args)}
        if names & _RUNNERS or "." in server.args:
            self._add_project()

    def _add_words(self, words: list[str]) -> None:
        for before, word in zip(["", *words], words, strict=False):
            if before == "-m" or (before in ("-p", "--module", "--package")):
                self._add_module(word)
            if word.startswith("-m") and len(word) > 2:
                self._add_module(word[2:])
            self._add_word(word)
            for part in (*_split(word), word.rpartition("=")[2], word.partition(":")[0]):
                if part != word:
                    self._add_word(part)

    def _add_project(self) -> None:
        """Add the files that describe a project, and what they name."""
        for name in _PROJECTS:
            if os.path.isfile(path := f"{self.cwd}/{name}"):
                self._add_file(path)
        described = _json(f"{self.cwd}/package.json")
        named: list[Any] = [described.get("main"), described.get("module")]
        for key in ("scripts", "bin", "exports"):
            value = described.get(key)
            named += value.values() if isinstance(value, dict) else [value]
        for text in named:
            if isinstance(text, str):
                self._add_words(_split(text))
        for module in re.findall(
            r'^\s*"?[\w.-]+"?\s*=\s*"([\w.]+):[\w.]+"', _text(f"{self.cwd}/pyproject.toml"), re.M
        ):
            self._add_module(module)

    def _add_word(self, word: str) -> None:
        """Add what a word of a command line names, if that is in the workspace."""
        word = word.replace("${workspaceFolder}", self.root).replace("${workspaceRoot}", self.root)
        if not word or "\0" in word or len(word) > 4096:
            return
        path = os.path.join(self.cwd, os.path.expanduser(word))
        if os.path.isfile(path):
            self._add_file(path)
            folder = os.path.dirname(os.path.realpath(path))
            if (
                self._is_inside(folder)
                and not self._is_above(folder)
                and path.endswith(tuple(_CODE))
            ):
                self._add_folder(folder)
        elif os.path.isdir(path) and os.path.isfile(f"{path}/__main__.py"):
            self._add_folder(os.path.realpath(path))

    def _add_module(self, name: str, bases: list[str] | None = None) -> None:
        """Add a Python module or package that is found in the workspace, as a whole."""
        top = name.split(".")[0]
        for base in bases or self.bases:
            if not top or not self._is_within(os.path.realpath(base)):
                continue
            if os.path.isdir(folder := f"{base}/{top}"):
                self._add_folder(os.path.realpath(folder))
            if os.path.isfile(file := f"{base}/{top}.py"):
                self._add_file(file)

    def _add_folder(self, folder: str) -> None:
        """Add all code in a folder."""
        if not self._is_inside(folder):
            return
        for path, folders, names in os.walk(folder):
            folders[:] = [name for name in folders if name not in _SKIPPED]
            for name in names:
                if name.endswith(tuple(_CODE)) or name in _PROJECTS:
                    self._add_file(f"{path}/{name}")
            if len(self.found) > MAX_FILES:
                return

    def _add_file(self, path: str) -> None:
        """Add a file, and those that it imports by name or by relative path."""
        real = os.path.realpath(path)
        if real in self.found or not self._is_inside(real) or len(self.found) > MAX_FILES:
            return
        self.found[real] = None
        if path != real and self._is_inside(os.path.abspath(path)):
            self.found[os.path.abspath(path)] = None
        folder = os.path.dirname(real)
        if real.endswith((".py", ".pyi")):
            for name in _imported(_text(real)):
                self._add_module(name, [folder, *self.bases])
        elif real.endswith((".js", ".mjs", ".cjs", ".ts", ".mts", ".jsx", ".tsx")):
            for name in _REQUIRES.findall(_text(real)):
                for ending in _ENDINGS:
                    if os.path.isfile(other := f"{folder}/{name}{ending}"):
                        self._add_file(other)

    def _is_inside(self, path: str) -> bool:
        return path.startswith(f"{self.root}/")

    def _is_within(self, path: str) -> bool:
        return path == self.root or self._is_inside(path)

    def _is_above(self, folder: str) -> bool:
        return folder == self.root


def _imported(text: str) -> Iterator[str]:
    for match in _IMPORTS.finditer(text):
        if match["names"]:
            yield from (name.split()[0] for name in match["names"].split(",") if name.split())
        elif base := match["base"].lstrip("."):
            yield base
        else:
            yield from (name.split()[0] for name in match["inner"].split(",") if name.split())


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(MAX_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _json(path: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(_text(path) or "{}")
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}
