"""Find the configuration files that another one extends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hilum.config_files import UnreadableFile, load_file

MAX_DEPTH = 4
"""Maximum depth of the tables in which a file may name another one."""
_KEYS = ("extend", "extends")
# Files of other tools, which extend no other file, or mean something else by it.
_WITHOUT = frozenset(
    "package.json compile_commands.json compile_flags.txt .clangd go.mod go.work Cargo.toml".split()
)


def list_extended(path: str) -> list[str]:
    """Return the files that a configuration file extends, some of which may not exist. Blocks.

    ruff, pyright and TypeScript name them in ``extend`` or ``extends``. In TypeScript, that may be a
    list, the suffix may be missing, and the file may be in a package.

    Args:
        path: The configuration file.
    """
    if os.path.basename(path) in _WITHOUT:
        return []
    try:
        data = load_file(Path(path)).data
    except UnreadableFile:
        return []
    found: dict[str, None] = {}
    for name in _find_names(data, 0):
        found.update(dict.fromkeys(_find_paths(os.path.expanduser(name), os.path.dirname(path))))
    return list(found)


def _find_names(data: dict[str, Any], depth: int) -> Iterator[str]:
    for key, value in data.items():
        if key in _KEYS:
            names = value if isinstance(value, list) else [value]
            # No path contains a null character.
            yield from (name for name in names if isinstance(name, str) and "\0" not in name)
        elif isinstance(value, dict) and depth < MAX_DEPTH:
            yield from _find_names(value, depth + 1)


def _find_paths(name: str, folder: str) -> Iterator[str]:
    """Yield the paths that a name may stand for.

    Args:
        name: The name.
        folder: The folder of the file that contains it.
    """
    path = os.path.normpath(os.path.join(folder, name))
    yield path
    if name.endswith((".json", ".toml")) and name.startswith((".", "/")):
        return
    yield f"{path}.json"
    if name.startswith((".", "/")) or name.endswith(".toml"):
        return
    while True:
        packages = os.path.join(folder, "node_modules")
        if os.path.isdir(packages):
            inner = os.path.normpath(os.path.join(packages, name))
            yield from (inner, f"{inner}.json", os.path.join(inner, "tsconfig.json"))
        if folder == os.path.dirname(folder):
            return
        folder = os.path.dirname(folder)
