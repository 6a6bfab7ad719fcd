"""Which plugins and commands are installed: entry points, read from their files without importing anything.

``importlib.metadata`` does the same and costs 30 ms to import, which is half of what ``hilum --help`` may take.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from contextlib import suppress
from importlib import import_module
from typing import NamedTuple


class EntryPoint(NamedTuple):
    """A name that a distribution declares, and the object it stands for (``module`` or ``module:attribute``)."""

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
    """Give the entry points of a group by name, sorted. A name found twice counts where it is first on ``sys.path``.

    What has a name that no terminal should be shown is left out.
    """
    found: dict[str, EntryPoint] = {}
    for folder, text in _declared(tuple(sys.path)):
        distribution, _, version = folder.removesuffix(".dist-info").partition("-")
        inside = ""
        for line in text.splitlines():
            if header := re.match(r"\[(.*)\]", line.strip()):
                inside = header[1]
            elif inside == group and (pair := re.match(r"\s*([^=#;]*[^=#;\s])\s*=\s*([\w.:]+)", line)):
                point = EntryPoint(pair[1], pair[2], distribution.replace("_", "-"), version)
                if "".join(point).isprintable():
                    found.setdefault(point.name, point)
    return dict(sorted(found.items()))


@functools.cache
def _declared(path: tuple[str, ...]) -> list[tuple[str, str]]:
    """Give name and text of all entry point files that speak of hilum; read once in a process."""
    found = []
    for folder in path:
        with suppress(OSError):
            for name in sorted(name for name in os.listdir(folder or ".") if name.endswith(".dist-info")):
                with suppress(OSError), open(os.path.join(folder, name, "entry_points.txt"), "rb") as file:
                    text = file.read().decode("utf-8", "replace")
                    found += [(name, text)] if "[hilum" in text else []
    return found


def normal(name: str) -> str:
    """The form in which plugin names are compared: lower case, ``-`` for ``_``, without the prefix ``hilum-``."""
    return re.sub(r"[-_.]+", "-", name).lower().removeprefix("hilum-")
