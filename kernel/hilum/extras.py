"""The optional packages of hilum.

A message about a missing package contains the command that installs it.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import NamedTuple

from hilum.discovery import entry_points


class Extra(NamedTuple):
    """An optional package of hilum, installed as ``hilum[NAME]``.

    Attributes:
        name: The name of the extra, of the plugin if there is one, and of the command if there is
            one.
        tools: The names of the package's tools.
        sections: The settings sections that the package reads.
        files: Files of a project that have no effect without the package.
        has_command: Whether ``hilum NAME`` is a command.
    """

    name: str
    tools: Collection[str] = ()
    sections: Collection[str] = ()
    files: Collection[str] = ()
    has_command: bool = False

    @property
    def advice(self) -> str:
        """A sentence with the command that installs the package."""
        return f"It comes with: pip install 'hilum[{self.name}]'."


EXTRAS = (
    Extra("batch", has_command=True),
    Extra("browser", tools=("browser_use",), sections=("browser",)),
    Extra("eval", has_command=True),
    Extra("image", tools=("generate_image",), sections=("image",)),
    Extra(
        "mcp",
        sections=("mcp", "mcp_server"),
        files=(".hilum/mcp.json", ".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json"),
        has_command=True,
    ),
    Extra("otel", sections=("otel",)),
    Extra("postgres", sections=("postgres",)),
    Extra("semantic-search", tools=("semantic_search",), sections=("semantic_search",)),
    Extra("web", tools=("web_search", "web_fetch"), sections=("web",)),
)


def missing_extras() -> list[Extra]:
    """Return the optional packages that are not installed."""
    plugins = entry_points("hilum")
    commands = entry_points("hilum.commands")
    return [
        extra
        for extra in EXTRAS
        if extra.name not in plugins and not (extra.has_command and extra.name in commands)
    ]


def advice_for_command(name: str) -> str:
    """Return how to install a command's missing package; empty if no package is missing."""
    for extra in missing_extras():
        if extra.has_command and extra.name == name:
            return extra.advice
    return ""


def advice_for_tool(name: str) -> str:
    """Return how to install a tool's missing package; empty if no package is missing."""
    for extra in missing_extras():
        if name in extra.tools:
            return extra.advice
    return ""


def unused_files(folder: str | os.PathLike[str]) -> dict[str, str]:
    """Return why files of a project have no effect, by name of the missing plugin. Blocks.

    Args:
        folder: The folder of the project.
    """
    reasons = {}
    for extra in missing_extras():
        found = [name for name in extra.files if os.path.isfile(os.path.join(folder, name))]
        if found:
            reasons[extra.name] = (
                f"hilum-{extra.name} is not installed, so {', '.join(found)} has no effect."
                f" {extra.advice}"
            )
    return reasons
