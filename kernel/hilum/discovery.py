"""Which plugins and commands are installed: entry points, read from their files without importing
anything.

``importlib.metadata`` does the same and costs 30 ms to import, which is half of what
``hilum --help`` may take.
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

# The distributions of hilum itself, which come before others in the order of plugins.
STANDARD = frozenset(
    f"hilum-{name}"
    for name in (
        "agents",
        "browser",
        "cli",
        "context",
        "files",
        "guard",
        "image",
        "lint",
        "mcp",
        "memory",
        "models",
        "plan",
        "prompt",
        "replay",
        "rules",
        "search",
        "shell",
        "skills",
        "store",
        "web",
    )
)
GATES = "hilum.gates"
"""Group of entry points that name the plugins with gates, readable without importing them:
``guard = "hilum_guard:gates"``.
"""


class EntryPoint(NamedTuple):
    """A name that a distribution declares, and the object it stands for (``module`` or
    ``module:attribute``).
    """

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

    Of a name found twice the standard set's, else the first, counts.
    """
    return {points[0].name: points[0] for points in all_entry_points(group).values()}


def all_entry_points(group: str) -> dict[str, list[EntryPoint]]:
    """Return all entry points of a group by the normal form of their name, sorted.

    A list with more than one element is a clash: several distributions claim one name. A
    distribution that is found twice on ``sys.path`` counts where it is first. What has a name that
    no terminal should be shown is left out.
    """
    found: dict[str, dict[str, EntryPoint]] = {}
    for folder, text in _declared(tuple(sys.path)):
        distribution, _, version = folder.removesuffix(".dist-info").partition("-")
        inside = ""
        for line in text.splitlines():
            header = re.match(r"\[(.*)\]", line.strip())
            if header:
                inside = header[1]
            elif inside == group and (
                pair := re.match(r"\s*([^=#;]*[^=#;\s])\s*=\s*([\w.:]+)", line)
            ):
                point = EntryPoint(pair[1], pair[2], distribution.replace("_", "-"), version)
                if "".join(point).isprintable():
                    found.setdefault(normal(point.name), {}).setdefault(
                        normal(point.distribution), point
                    )
    ordered = {name: sorted(points.values(), key=_after_standard) for name, points in found.items()}
    return dict(sorted(ordered.items()))


def _after_standard(point: EntryPoint) -> bool:
    return point.distribution.lower() not in STANDARD


def clash(kind: str, points: Iterable[EntryPoint]) -> str:
    """Return the sentence for a name that several distributions claim."""
    listed = [f"{point.distribution} {point.version}" for point in points]
    name = next(iter(points)).name
    return f"{' and '.join(listed)} both provide the {kind} {name!r}. Uninstall one of them."


@functools.cache
def _declared(path: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return name and text of all entry point files that speak of hilum; read once in a process."""
    found = []
    for folder in path:
        with suppress(OSError):
            for name in sorted(
                name for name in os.listdir(folder or ".") if name.endswith(".dist-info")
            ):
                with (
                    suppress(OSError),
                    open(os.path.join(folder, name, "entry_points.txt"), "rb") as file,
                ):
                    text = file.read().decode("utf-8", "replace")
                    found += [(name, text)] if "[hilum" in text else []
    return found


def normal(name: str) -> str:
    """Return the form in which plugin names are compared: lower case, ``-`` for ``_``, without the
    prefix ``hilum-``.
    """
    return re.sub(r"[-_.]+", "-", name).lower().removeprefix("hilum-")


def sources(target: str) -> Iterator[str]:
    """Yield the files with the source of a module, or of all modules of a package, without
    importing anything.

    Args:
        target: What an entry point stands for.
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
    """Return whether a source has one of the names as a word: enough to be careful with a file that
    cannot be imported.
    """
    return re.search(rf"\b({'|'.join(names)})\b", text) is not None


def read_source(path: str) -> str:
    """Return the text of a file, empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def summary(point: EntryPoint) -> str:
    """Return what a command says of itself: the first line of the docstring of its function, read
    without importing it.
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


def _module_file(module: str) -> str:
    parts = module.split(".")
    for folder in sys.path:
        path = os.path.join(folder or ".", *parts)
        for file in (f"{path}.py", os.path.join(path, "__init__.py")):
            if os.path.isfile(file):
                return file
    return ""
