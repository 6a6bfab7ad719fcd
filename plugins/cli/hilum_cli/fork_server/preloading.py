"""Imports what a session needs, so that forked processes have it already."""

from __future__ import annotations

import gc
import importlib
import pkgutil
from collections.abc import Iterator
from contextlib import suppress

from hilum.discovery import STANDARD, all_entry_points

# Distributions whose modules few sessions need, and that import large libraries.
_LARGE = frozenset(
    f"hilum-{name}"
    for name in ("browser", "eval", "image", "mcp", "otel", "postgres", "semantic-search", "serve")
)
# Parts of the names of modules that are not for use in a session.
_LEFT_OUT = ("__main__", "bench", "corpus", "demo", "demo_project", "testing")
# A first request needs these, and the plugins import them late.
_LIBRARIES = ("httpcore._backends.trio", "encodings.idna", "sqlite3", "tomllib")


def preload() -> None:
    """Import the plugins, and the modules of hilum's own packages. Blocks.

    A module that fails to import is left out: the forked process reports the error.
    """
    for name in (*_list_modules(), *_LIBRARIES):
        # A plugin of another author may raise anything, and an extra may be missing.
        with suppress(Exception):
            importlib.import_module(name)
    gc.collect()
    # Otherwise, the collector would write to, and thereby copy, every shared page of memory.
    gc.freeze()


def _list_modules() -> Iterator[str]:
    """Yield the names of the modules to import, packages before their modules."""
    yield "hilum.__main__"
    yield from _walk("hilum")
    for points in all_entry_points("hilum").values():
        for point in points:
            module = point.target.partition(":")[0]
            yield module
            distribution = point.distribution.lower()
            if distribution in STANDARD - _LARGE:
                yield from _walk(module)


def _walk(package: str) -> Iterator[str]:
    with suppress(Exception):
        path = importlib.import_module(package).__path__
        for found in pkgutil.walk_packages(path, f"{package}.", onerror=lambda _name: None):
            if not set(found.name.split(".")) & set(_LEFT_OUT):
                yield found.name
