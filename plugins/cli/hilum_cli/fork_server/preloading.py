"""Imports what a session needs, so that forked processes have it already."""

from __future__ import annotations

import gc
import importlib
import pkgutil
import sys
from collections.abc import Iterator
from contextlib import suppress

from hilum import Tool, list_plugin_modules, rehearse_loading
from hilum.settings import load, sections_of

from hilum_cli.run import make_parser

# The distributions whose modules most sessions need. Those of others, which may import large
# libraries, are imported late, as usual.
_IMPORTED = frozenset(
    f"hilum-{name}"
    for name in (
        "acp",
        "agents",
        "checks",
        "cli",
        "commands",
        "context",
        "export",
        "files",
        "guard",
        "hooks-claude",
        "init",
        "lint",
        "lsp",
        "memory",
        "models",
        "plan",
        "prompt",
        "rules",
        "rules-compile",
        "search",
        "shell",
        "skills",
        "store",
        "terminal",
        "trace",
    )
)
# Parts of the names of modules that are not for use in a session.
_LEFT_OUT = ("__main__", "bench", "corpus", "demo", "demo_project", "testing")
# A first request needs these, and hilum imports them late.
_LATE = (
    "encodings.idna",
    "hilum_replay.provider",
    "httpcore._backends.trio",
    "pwd",
    "sqlite3",
    "tomllib",
)


def preload() -> None:
    """Import the plugins, and the modules of hilum's own packages. Blocks.

    A module that fails to import is left out: the forked process reports the error.
    """
    for name in (*_list_modules(), *_LATE):
        # A plugin of another author may raise anything, and an extra may be missing.
        with suppress(Exception):
            importlib.import_module(name)
    _resolve_types()
    gc.collect()
    # Otherwise, the collector would write to, and thereby copy, every shared page of memory.
    gc.freeze()


def _resolve_types() -> None:
    """Compute what settings and tools compute once in each process: the types of their fields."""
    modules = [module for name, module in sys.modules.items() if name.startswith("hilum")]
    sections = dict.fromkeys(kind for module in modules for kind in sections_of(module))
    with suppress(Exception):
        # Nothing of the user is read; each process reads the settings anew.
        load(sections, environ={"HOME": "/nonexistent"}, known=None, strict=False)
    for found in gc.get_objects():
        if isinstance(found, Tool):
            with suppress(Exception):
                found.signature  # noqa: B018


def warm_up() -> None:
    """Do what each start does with the imported code, in a process that waits for a request.

    The memory that this changes is copied now, and not when the process has its request. Nothing of
    the user is read.
    """
    with suppress(Exception):
        make_parser().parse_intermixed_args(["text"])
        rehearse_loading({"HOME": "/nonexistent", "HILUM_MODEL": "openai/m"})
        _resolve_types()


def _list_modules() -> Iterator[str]:
    """Yield the names of the modules to import, packages before their modules."""
    yield "hilum.__main__"
    yield from _walk("hilum")
    for module, distribution in list_plugin_modules().items():
        yield module
        if distribution in _IMPORTED:
            yield from _walk(module)


def _walk(package: str) -> Iterator[str]:
    with suppress(Exception):
        path = importlib.import_module(package).__path__
        for found in pkgutil.walk_packages(path, f"{package}.", onerror=lambda _name: None):
            if not set(found.name.split(".")) & set(_LEFT_OUT):
                yield found.name
