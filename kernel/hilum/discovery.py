"""The plugins and commands that are installed.

Entry points are read from their files; nothing is imported.

``importlib.metadata`` does the same, but importing it takes 30 ms, half of the time that ``hilum
--help`` may take.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import NamedTuple

# The distributions of hilum itself, whose plugins come before those of others.
STANDARD = frozenset(
    f"hilum-{name}"
    for name in (
        "acp",
        "agents",
        "browser",
        "checks",
        "cli",
        "commands",
        "context",
        "core",
        "eval",
        "export",
        "files",
        "guard",
        "hooks-claude",
        "image",
        "init",
        "lint",
        "lsp",
        "mcp",
        "memory",
        "models",
        "otel",
        "plan",
        "postgres",
        "prompt",
        "replay",
        "rules",
        "rules-compile",
        "search",
        "semantic-search",
        "serve",
        "shell",
        "skills",
        "store",
        "terminal",
        "trace",
        "web",
    )
)
GATES = "hilum.gates"
"""The group of entry points that names plugins with gates, which are thus known without an import:
``guard = "hilum_guard:gates"``.
"""


USER_COMMANDS = "hilum.user_commands"
"""The group of entry points that names commands that only the user may run, because they decide what
an agent may do, or change what belongs to the user: ``"mcp approve" = "hilum_mcp.command:main"``. A
name without an action stands for the whole command. Only the names are read.
"""


_HEADER = re.compile(r"\[(.*)\]")
_PAIR = re.compile(r"\s*+([^=#;]*[^=#;\s])\s*+=\s*+([\w.:]+)")


class EntryPoint(NamedTuple):
    """A name that a distribution declares, with its object (``module`` or ``module:attribute``)."""

    name: str
    target: str
    distribution: str
    version: str

    def load(self) -> object:
        """Import the object."""
        module, _, attribute = self.target.partition(":")
        found = import_module(module)
        return getattr(found, attribute) if attribute else found


def entry_points(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, sorted.

    If a name occurs more than once, an entry point from the standard set takes precedence;
    otherwise, the first one does.
    """
    return {points[0].name: points[0] for points in all_entry_points(group).values()}


def all_entry_points(group: str) -> dict[str, list[EntryPoint]]:
    """Return all entry points of a group by normalized name, sorted.

    A list with more than one element is a clash: several distributions claim one name. If a
    distribution occurs twice on ``sys.path``, only its first occurrence counts. An entry point
    whose name contains control characters is left out.
    """
    found: dict[str, dict[str, EntryPoint]] = {}
    # The path is an argument, so that the cache does not outlive a change of sys.path.
    for point in _declared_points(tuple(sys.path), group):
        same_name = found.setdefault(normal(point.name), {})
        same_name.setdefault(normal(point.distribution), point)
    ordered = {name: sorted(points.values(), key=_after_standard) for name, points in found.items()}
    return dict(sorted(ordered.items()))


@functools.cache
def _declared_points(path: tuple[str, ...], group: str) -> list[EntryPoint]:
    """Return the entry points of a group in the order of ``path``. Cached.

    Opening a session asks for the same groups several times.
    """
    points = []
    for folder, text in _declared(path):
        distribution, _, version = folder.removesuffix(".dist-info").partition("-")
        distribution = distribution.replace("_", "-")
        for name, target in _entries(text).get(group, ()):
            point = EntryPoint(name, target, distribution, version)
            # `hilum --help` and `hilum plugins` print these texts; with control characters, a
            # distribution could forge lines.
            if "".join(point).isprintable():
                points.append(point)
    return points


@functools.cache
def _entries(text: str) -> dict[str, list[tuple[str, str]]]:
    """Return the names and targets of the entry points in an ``entry_points.txt``, by group."""
    found: dict[str, list[tuple[str, str]]] = {}
    section = found.setdefault("", [])
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("["):
            header = _HEADER.match(stripped)
            if header:
                section = found.setdefault(header[1], [])
        elif "=" in stripped:
            pair = _PAIR.match(line)
            if pair:
                section.append((pair[1], pair[2]))
    return found


def _after_standard(point: EntryPoint) -> bool:
    return point.distribution.lower() not in STANDARD


def list_user_commands() -> list[str]:
    """Return the commands that only the user may run, for example ``mcp approve``."""
    return [points[0].name for points in all_entry_points(USER_COMMANDS).values()]


def clash(kind: str, points: Iterable[EntryPoint]) -> str:
    """Return the error message about a name that several distributions claim."""
    listed = [f"{point.distribution} {point.version}" for point in points]
    name = next(iter(points)).name
    return f"{' and '.join(listed)} both provide the {kind} {name!r}. Uninstall one of them."


@functools.cache
def _declared(path: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the name and text of each entry point file that mentions hilum. Cached."""
    found = []
    for folder in path:
        with suppress(OSError):
            for name in sorted(os.listdir(folder or ".")):
                if name.endswith(".dist-info"):
                    text = read_source(os.path.join(folder, name, "entry_points.txt"))
                    # Most distributions have no entry points for hilum, so their texts are not
                    # kept.
                    if "[hilum" in text:
                        found.append((name, text))
    return found


def normal(name: str) -> str:
    """Return the form in which plugin names are compared.

    In this form, a name is in lower case, has ``-`` in place of ``_`` and ``.``, and lacks the
    prefix ``hilum-``.
    """
    return re.sub(r"[-_.]+", "-", name).lower().removeprefix("hilum-")


def sources(target: str) -> Iterator[str]:
    """Yield the source files of a module, or of all modules of a package.

    Nothing is imported.

    Args:
        target: The object of an entry point, as ``module:attribute``.
    """
    parts = target.partition(":")[0].split(".")
    for folder in sys.path:
        path = os.path.join(folder or ".", *parts)
        if os.path.isfile(f"{path}.py"):
            yield f"{path}.py"
            return
        if os.path.isdir(path):
            for root, _, names in os.walk(path):
                yield from (
                    os.path.join(root, name) for name in sorted(names) if name.endswith(".py")
                )
            return


def mentions(text: str, names: Iterable[str]) -> bool:
    """Return whether source code contains one of the names as a word.

    The check is meant for files that cannot be imported, and also finds names in comments and
    strings.
    """
    return re.search(rf"\b({'|'.join(names)})\b", text) is not None


def read_source(path: str) -> str:
    """Return the text of a file; empty if the file cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def summary(point: EntryPoint) -> str:
    """Return the first line of the docstring of a command's function.

    The function is not imported.
    """
    module, _, function = point.target.partition(":")
    text = read_source(_module_file(module))
    quotes = r"""(?:\"\"\"|''')"""
    pattern = (
        rf'^(?:async )?def {re.escape(function)}\([^"]*?\)(?: ->'
        rf' [^\n"]*)?:\n\s+{quotes}(.+?)(?:{quotes}|\n)'
    )
    found = re.search(pattern, text, re.MULTILINE | re.DOTALL) if function else None
    line = found[1].strip().replace("``", "").removesuffix(".") if found else ""
    return line if line.isprintable() else ""


def list_program_commands() -> dict[str, str]:
    """Return the installed sub-commands of ``hilum``, each with a one-line summary.

    Nothing is imported.
    """
    points = entry_points("hilum.commands").values()
    return {point.name: summary(point) or f"From {point.distribution}" for point in points}


def list_plugin_modules() -> dict[str, str]:
    """Return the modules of the installed plugins, each with its distribution in lower case.

    Nothing is imported.
    """
    points = [point for found in all_entry_points("hilum").values() for point in found]
    return {point.target.partition(":")[0]: point.distribution.lower() for point in points}


def _module_file(module: str) -> str:
    parts = module.split(".")
    for folder in sys.path:
        path = os.path.join(folder or ".", *parts)
        for file in (f"{path}.py", os.path.join(path, "__init__.py")):
            if os.path.isfile(file):
                return file
    return ""
