"""Agents: defined in Markdown files, called by name.

Importing the package reads no file and loads no YAML.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Where what is public stands, loaded at first use.
_HOMES: dict[str, str] = {}

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"hilum_agents.{_HOMES[name]}"), name)
    return value
