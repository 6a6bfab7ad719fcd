"""Plugins that a test creates from tools and functions, without a module."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from hilum.hookspecs import hookimpl
from hilum.tools import Tool


def plugin(name: str = "inline", /, *tools: Tool, **members: Any) -> ModuleType:
    """Create a plugin module.

    Args:
        name: The plugin's name.
        tools: Tools that the plugin provides to every session.
        members: Hook implementations by name; a function that is already marked with ``hookimpl``
            keeps its options. Classes, such as settings sections, and the tuples ``gates`` and
            ``replaces`` become attributes of the plugin.
    """
    module = ModuleType(name)
    if tools:
        members.setdefault("provide_tools", lambda: list(tools))
    for attribute, member in members.items():
        marked = isinstance(member, type | tuple) or hasattr(member, "hilum_impl")
        setattr(module, attribute, member if marked else hookimpl(member))
    return module
