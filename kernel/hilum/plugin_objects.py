"""Plugins that are not installed modules: objects, functions, tools and files.

The module also reads the names that a plugin declares.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from hilum.errors import PluginError, UsageError
from hilum.hookspecs import PROJECT, hookimpl
from hilum.tools import Tool, tool

MARK = f"{PROJECT}_impl"


def is_file(thing: object) -> bool:
    """Return whether an item in a list of plugins is a file, and not a plugin's name."""
    if isinstance(thing, Path):
        return True
    return isinstance(thing, str) and (thing.endswith(".py") or "/" in thing or os.sep in thing)


def check_file(path: str | os.PathLike[str]) -> str:
    """Return the absolute path of a plugin's file.

    Raises:
        UsageError: The file does not exist or is not a Python file.
    """
    absolute = os.path.abspath(os.path.expanduser(path))
    shown = repr(os.fspath(path))
    if os.path.isdir(absolute):
        hint = "Name a Python file in this folder."
        raise UsageError(f"The plugin file {shown} is a folder.", hint=hint)
    if not os.path.isfile(absolute):
        hint = "Name an existing file that ends with .py."
        raise UsageError(f"There is no plugin file {shown}.", hint=hint)
    if not absolute.endswith(".py"):
        hint = "Name a Python file."
        raise UsageError(f"The plugin file {shown} does not end with .py.", hint=hint)
    return absolute


def load_file(path: str) -> ModuleType:
    """Import a file as a module, without writing bytecode.

    Raises:
        Exception: The exception that the file's code raises.
    """
    # Read as bytes, so that compile() finds an encoding declaration (PEP 263).
    with open(path, "rb") as file:
        source = file.read()
    # Files in two projects may have the same name, so a hash distinguishes their modules.
    mark = hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
    name = f"hilum_plugin_file_{Path(path).stem}_{mark}"
    loader = importlib.machinery.SourceFileLoader(name, path)
    specification = importlib.util.spec_from_loader(name, loader)
    assert specification is not None
    module = importlib.util.module_from_spec(specification)
    # Without dont_inherit, the `from __future__` imports of this module would also apply to the
    # file.
    code = compile(source, path, "exec", dont_inherit=True)
    # Type hints are resolved through sys.modules.
    sys.modules[name] = module
    try:
        exec(code, vars(module))
    except BaseException:
        # A later import must not find a module whose code did not run to its end.
        sys.modules.pop(name, None)
        raise
    return module


def as_plugin(thing: object) -> tuple[str, object]:
    """Return the name of a plugin that was passed as an object, and the object with its hooks.

    Raises:
        UsageError: The object cannot be a plugin.
    """
    if isinstance(thing, ModuleType):
        return thing.__name__.rpartition(".")[2], thing
    if isinstance(thing, FunctionType) and hasattr(thing, MARK):
        options: dict[str, Any] = getattr(thing, MARK)
        module = ModuleType(thing.__name__)
        setattr(module, options.get("specname") or thing.__name__, thing)
        return thing.__name__, module
    if isinstance(thing, Tool | FunctionType):
        name = thing.name if isinstance(thing, Tool) else thing.__name__
        hint = (
            f"Pass it as a tool: open_kernel(tools=[{name}]). A function is a plugin when it is"
            " marked with @hookimpl."
        )
        raise UsageError(f"{name} is not a plugin.", hint=hint)
    if isinstance(thing, type):
        hint = f"Pass an instance: {thing.__name__}()."
        raise UsageError(f"The class {thing.__name__} is not a plugin.", hint=hint)
    if thing is None or isinstance(
        thing, bool | int | float | bytes | Sequence | set | frozenset | dict
    ):
        hint = (
            "A plugin is the name of an installed one, a module, an object with @hookimpl methods,"
            " or a file."
        )
        raise UsageError(f"{thing!r:.60} is not a plugin.", hint=hint)
    return type(thing).__name__, thing


def tools_plugin(tools: Iterable[Tool | Callable[..., Any]]) -> ModuleType:
    """Create a plugin that provides tools.

    Args:
        tools: Tools, and functions that become tools.

    Raises:
        UsageError: An item is neither a tool nor a function.
        PluginError: A function cannot be described, for example because a parameter has no
            annotation.
    """
    made: list[Tool] = []
    for each in tools:
        if not isinstance(each, Tool) and not callable(each):
            raise UsageError(
                f"{each!r:.60} is not a tool.",
                hint="Pass a function, or a function decorated with @hilum.tool.",
            )
        found = each if isinstance(each, Tool) else tool(each)
        _ = found.spec  # a tool that cannot be described must fail here, not in the first session
        made.append(found)
    module = ModuleType("tools")

    @hookimpl
    def provide_tools() -> list[Tool]:
        return made

    vars(module)["provide_tools"] = provide_tools
    return module


def names_in(module: object, attribute: str) -> tuple[str, ...]:
    """Return the names that a plugin declares under ``gates`` or ``replaces``.

    Raises:
        PluginError: The declaration is not a collection of names.
    """
    if isinstance(module, ModuleType):
        # Unlike getattr(), vars() does not run the module's __getattr__.
        value = vars(module).get(attribute, ())
    else:
        value = getattr(module, attribute, ())
    if isinstance(value, ModuleType):  # a package may contain a module of that name
        return ()
    if not isinstance(value, tuple | list | set | frozenset) or not all(
        isinstance(name, str) for name in value
    ):
        raise PluginError(
            f"{attribute} is {value!r:.60}.", hint=f'Write a tuple of names: {attribute} = ("…",).'
        )
    return tuple(value)
