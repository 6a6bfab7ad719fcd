"""Imports what a session needs, so that forked processes have it already."""

from __future__ import annotations

import gc
import importlib
import pkgutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from types import ModuleType

from hilum import Tool, list_plugin_modules, make_redactor, rehearse_loading
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
# An environment without settings of a user.
_NOBODY = {"HOME": "/nonexistent"}


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
    _resolve_settings()
    for tool in _find_tools():
        with suppress(Exception):
            tool.signature  # noqa: B018


def _resolve_settings() -> None:
    sections = dict.fromkeys(kind for module in _list_own_modules() for kind in sections_of(module))
    with suppress(Exception):
        # Nothing of the user is read; each process reads the settings anew.
        load(sections, environ=_NOBODY, known=None, strict=False)


def _find_tools() -> Iterator[Tool]:
    """Yield the tools in hilum's modules, and those in classes as if bound to an instance."""
    for module in _list_own_modules():
        for value in list(vars(module).values()):
            if type(value) is Tool:
                yield value
            elif isinstance(value, type) and value.__module__ == module.__name__:
                # The bound tools of all instances share one signature.
                tools = [each for each in vars(value).values() if type(each) is Tool]
                yield from (tool.__get__(object(), value) for tool in tools)


def _list_own_modules() -> list[ModuleType]:
    """Return the imported modules of hilum's packages."""
    return [module for name, module in list(sys.modules.items()) if name.startswith("hilum")]


def warm_up() -> None:
    """Do what each start does with the imported code, in a standby.

    The memory that this changes is copied now, and not when the process has its request. Nothing of
    the user is read.
    """
    with suppress(Exception):
        make_parser().parse_intermixed_args(["text"])
        rehearse_loading({**_NOBODY, "HILUM_MODEL": "openai/m"})
        _resolve_types()
        _rehearse_redaction()


def _rehearse_redaction() -> None:
    """Search the descriptions of the tools for secrets, which compiles some of the patterns.

    Each start searches the same texts again before it sends them.
    """
    redact = make_redactor({})
    for tool in _find_tools():
        with suppress(Exception):
            redact(f"{tool.spec}")


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
