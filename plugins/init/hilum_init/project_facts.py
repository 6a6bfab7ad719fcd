"""Gathers facts about a project without a model: languages, commands, layout and conventions."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from hilum import walk_folders

from hilum_init.project_commands import (
    Command,
    find_ci_commands,
    find_commands,
    read_json,
    read_text,
    read_toml,
)

MAX_FILES = 20_000
MAX_DEPTH = 12
MAX_SECONDS = 3.0
MAX_FOLDERS = 16
MAX_DESCRIPTION = 240  # characters
_LANGUAGES = {
    "Python": "py pyi",
    "JavaScript": "js jsx mjs cjs",
    "TypeScript": "ts tsx mts cts",
    "Rust": "rs",
    "Go": "go",
    "Java": "java",
    "Kotlin": "kt kts",
    "C": "c h",
    "C++": "cpp cc cxx hpp hh",
    "C#": "cs",
    "Ruby": "rb",
    "PHP": "php",
    "Swift": "swift",
    "Elixir": "ex exs",
    "Scala": "scala",
    "Haskell": "hs",
    "Lua": "lua",
    "Dart": "dart",
    "Shell": "sh bash zsh",
    "HTML": "html htm",
    "CSS": "css scss less",
    "Vue": "vue",
    "Svelte": "svelte",
    "SQL": "sql",
    "Terraform": "tf",
    "Jupyter": "ipynb",
    "Markdown": "md mdx",
}
_BY_SUFFIX = {f".{end}": name for name, ends in _LANGUAGES.items() for end in ends.split()}
# Languages that count as a project's language only if there is no other.
_SIDE_LANGUAGES = ("Markdown", "HTML", "CSS", "Shell", "SQL")
# Folders whose files are generated, downloaded, or copied from elsewhere.
_SKIPPED = frozenset(
    "node_modules bower_components venv env __pycache__ site-packages dist build target out vendor"
    " third_party coverage htmlcov Pods DerivedData obj bin.tmp".split()
)
_MANIFESTS = ("pyproject.toml", "package.json", "Cargo.toml", "go.mod", "pom.xml", "mix.exs")
_DOCUMENTS = ("CONTRIBUTING.md", "CONTRIBUTING.rst", "ARCHITECTURE.md", "DEVELOPMENT.md", "docs")
# A name that can be written into a file between backticks.
_PLAIN_NAME = re.compile(r"[\w][\w.@+ -]{0,60}")


class Folder(msgspec.Struct, frozen=True):
    """A folder in a project.

    Attributes:
        name: The name.
        language: The language of most files in the folder; empty if there is none.
        files: The number of files in the folder.
        parts: The packages in the folder, if the folder contains several.
    """

    name: str
    language: str
    files: int
    parts: tuple[str, ...] = ()


class ProjectFacts(msgspec.Struct, frozen=True):
    """Facts about a project that can be gathered without reading its code.

    Attributes:
        name: The name.
        description: One or two sentences about the project; empty if unknown.
        languages: The project's languages with their numbers of files, the most frequent language
            first.
        commands: The project's commands, by purpose.
        ci: Commands that the project's CI runs.
        folders: The project's folders, without generated folders.
        conventions: The requirements in the project's configuration, one sentence each.
        documents: Documents for developers.
        is_complete: Whether all files were counted.
    """

    name: str
    description: str = ""
    languages: tuple[tuple[str, int], ...] = ()
    commands: tuple[Command, ...] = ()
    ci: tuple[Command, ...] = ()
    folders: tuple[Folder, ...] = ()
    conventions: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    is_complete: bool = True

    @property
    def sources(self) -> tuple[str, ...]:
        """The files that define the commands."""
        return tuple(dict.fromkeys(command.source for command in self.commands))


def look_at(root: Path) -> ProjectFacts:
    """Return the facts about a project, in at most a few seconds. Blocks.

    No program is run, not even Git, which could run programs that the project configures.
    """
    counts, is_complete = _count_files(root)
    total: Counter[str] = Counter()
    for each in counts.values():
        total += each
    manifests = _Manifests(
        read_toml(root / "pyproject.toml"),
        read_json(root / "package.json"),
        read_toml(root / "Cargo.toml"),
    )
    return ProjectFacts(
        _find_name(root, manifests),
        _find_description(root, manifests),
        tuple(_rank(total)),
        tuple(find_commands(root)),
        tuple(find_ci_commands(root)),
        tuple(_find_folders(root, counts)),
        tuple(_find_conventions(root, manifests)),
        tuple(name + "/" * (root / name).is_dir() for name in _DOCUMENTS if (root / name).exists()),
        is_complete,
    )


class _Manifests(NamedTuple):
    """The data in the manifests of a project; empty for those that it does not have."""

    pyproject: dict[str, Any]
    package: dict[str, Any]
    cargo: dict[str, Any]

    def values(self, name: str) -> Iterator[str]:
        """Yield the texts that the manifests give for a field of the project."""
        for table in (
            _table(self.pyproject, "project"),
            self.package,
            _table(self.cargo, "package"),
        ):
            value = table.get(name)
            if isinstance(value, str) and value.strip():
                yield value


# --- files ----------------------------------------------------------------------------------------


def _count_files(root: Path) -> tuple[dict[str, Counter[str]], bool]:
    """Count the files by language, for each top-level folder.

    Returns:
        The counts, in which an empty name stands for files without a language, and whether all
        files were counted.
    """
    counts: dict[str, Counter[str]] = {}
    end = time.monotonic() + MAX_SECONDS
    files = 0
    for path, folders, names in walk_folders(root):
        relative = os.path.relpath(path, root)
        parts = [] if relative == "." else relative.split(os.sep)
        folders[:] = [] if len(parts) >= MAX_DEPTH else sorted(_select(path, folders))
        top = parts[0] if parts else ""
        count = counts.setdefault(top, Counter())
        for name in names:
            count[_BY_SUFFIX.get(os.path.splitext(name)[1].lower(), "")] += 1
        files += len(names)
        if files > MAX_FILES or time.monotonic() > end:
            return counts, False
    return counts, True


def _select(path: str, folders: list[str]) -> Iterator[str]:
    """Yield the folders that belong to the project itself."""
    for name in folders:
        if name.startswith(".") or name in _SKIPPED or name.endswith(".egg-info"):
            continue
        inside = os.path.join(path, name)
        # Skip virtual environments with other names, and repositories inside this one.
        markers = ("pyvenv.cfg", ".git")
        if not any(os.path.lexists(os.path.join(inside, marker)) for marker in markers):
            yield name


def _rank(counts: Counter[str]) -> Iterator[tuple[str, int]]:
    """Yield the languages, the most frequent first, but languages for texts and scripts last."""
    named = [(name, count) for name, count in counts.most_common() if name]
    yield from (pair for pair in named if pair[0] not in _SIDE_LANGUAGES)
    yield from (pair for pair in named if pair[0] in _SIDE_LANGUAGES)


def _find_folders(root: Path, counts: dict[str, Counter[str]]) -> Iterator[Folder]:
    shown = 0
    for name, count in sorted(counts.items()):
        if not name or not count or not _PLAIN_NAME.fullmatch(name) or shown == MAX_FOLDERS:
            continue
        shown += 1
        language = next((each for each, _ in count.most_common() if each), "")
        yield Folder(name, language, count.total(), tuple(_find_parts(root / name)))


def _find_parts(folder: Path) -> list[str]:
    """Return the packages in a folder if it contains several, or the only Python package in src."""
    found = []
    packages = []
    for inside in sorted(folder.iterdir()):
        if not inside.is_dir() or not _PLAIN_NAME.fullmatch(inside.name):
            continue
        if any((inside / manifest).exists() for manifest in _MANIFESTS):
            found.append(inside.name)
        if (inside / "__init__.py").exists():
            packages.append(inside.name)
    if len(found) > 1:
        return found
    return packages if folder.name == "src" else []


# --- texts ----------------------------------------------------------------------------------------


def _find_name(root: Path, manifests: _Manifests) -> str:
    for name in (*manifests.values("name"), root.name):
        if re.fullmatch(r"[\w@/. -]{1,80}", name):
            return name
    return "This project"


def _table(data: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return a table in a table; empty if there is none."""
    for name in names:
        found = data.get(name)
        data = found if isinstance(found, dict) else {}
    return data


def _find_description(root: Path, manifests: _Manifests) -> str:
    for text in manifests.values("description"):
        return _to_sentence(text)
    for name in ("README.md", "README.rst", "README.txt", "README"):
        text = read_text(root / name)
        if text:
            return _to_sentence(_first_paragraph(text))
    return ""


def _first_paragraph(text: str) -> str:
    """Return the first paragraph in a README that is neither a heading nor an image."""
    for paragraph in re.split(r"\n\s*\n", text[:20_000]):
        plain = " ".join(paragraph.split())
        is_prose = re.match(r"[A-Za-z*_\u00c0-\uffff]", plain) and not re.search(
            r"^[=~^-]{3,}$", paragraph, re.MULTILINE
        )
        if is_prose and not plain.startswith(("<", "[!", "![", "..", "```")):
            return plain
    return ""


def _to_sentence(text: str) -> str:
    """Return a description as one line of plain text that ends with a period."""
    line = " ".join(text.split())
    # Links are replaced by their texts, and characters with a meaning in Markdown are dropped.
    line = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", line)
    line = re.sub(r"[`<>#*_|\\]|[^\x20-\x7e\u00a1-\u1fff\u2010-\u2027\u2030-\uffef]", "", line)
    if len(line) > MAX_DESCRIPTION:
        shorter = line[:MAX_DESCRIPTION]
        end = shorter.rfind(". ")
        line = shorter[: end + 1] if end > 40 else shorter.rsplit(" ", 1)[0] + " …"
    if line and line[-1] not in ".!?…。":
        line += "."
    return line


# --- conventions ----------------------------------------------------------------------------------


def _find_conventions(root: Path, manifests: _Manifests) -> Iterator[str]:
    tools = _table(manifests.pyproject, "tool")
    version = _plain(_table(manifests.pyproject, "project").get("requires-python"))
    if version:
        yield f"Requires Python {version}."
    lengths = [_table(tools, name).get("line-length") for name in ("ruff", "black")]
    length = next((each for each in lengths if isinstance(each, int) and 40 <= each <= 300), 0)
    if length:
        yield f"Lines of Python code have at most {length} characters."
    if _table(tools, "mypy").get("strict") is True:
        yield "Types are checked strictly by mypy: annotate every function."
    engine = _plain(_table(manifests.package, "engines").get("node"))
    if engine:
        yield f"Requires Node {engine}."
    if manifests.package.get("type") == "module":
        yield "JavaScript files are ES modules."
    edition = _plain(_table(manifests.cargo, "package").get("edition"))
    if edition:
        yield f"Rust edition {edition}."
    go = re.search(r"^go (\d+\.\d+)", read_text(root / "go.mod"), re.MULTILINE)
    if go:
        yield f"Go {go[1]}."
    yield from _read_editorconfig(read_text(root / ".editorconfig"))


def _plain(version: object) -> str:
    """Return a version or a range of versions; empty if the value is anything else."""
    is_version = isinstance(version, str) and re.fullmatch(r"[<>=~!^|0-9., x*-]+", version)
    return str(version).strip() if is_version else ""


def _read_editorconfig(text: str) -> Iterator[str]:
    """Yield a sentence about the indentation that ``[*]`` in .editorconfig requires."""
    section = re.search(r"^\[\*\]\s*$(.*?)(?=^\[|\Z)", text, re.MULTILINE | re.DOTALL)
    values = dict(re.findall(r"^(\w+)\s*=\s*(\w+)", section[1] if section else "", re.MULTILINE))
    style = values.get("indent_style", "").lower()
    size = values.get("indent_size", "")
    if style == "tab":
        yield "Indent with tabs."
    elif style == "space" and size.isdigit():
        yield f"Indent with {size} spaces."
