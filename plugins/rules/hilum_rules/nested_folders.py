"""Finds the folders below a workspace that have rules files of their own.

A session reads them when a file in such a folder is first used; the commands about rules list them
all at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from hilum_rules.discovery import NESTED_NAMES

MAX_SEARCHED = 20_000
"""Maximum number of folders to search."""
# Some file systems do not distinguish between upper and lower case.
_FOLDED_NAMES = frozenset(name.casefold() for name in NESTED_NAMES)
_GENERATED = frozenset(
    "node_modules __pycache__ venv site-packages target dist build".split(),
)


def may_have_rules(folder: Path) -> bool:
    """Return whether the names in a folder are such that it may have rules of its own. Blocks."""
    try:
        names = os.listdir(folder)
    except OSError:
        return True
    return not _FOLDED_NAMES.isdisjoint(map(str.casefold, names))


def find_nested_folders(root: Path) -> Iterator[str]:
    """Yield the folders, relative to a workspace, that may have rules files, nearest first. Blocks.

    Hidden folders and those that programs generate are not searched.

    Args:
        root: The workspace, which is not yielded itself.
    """
    folders = [str(root)]
    # The list grows during the search.
    for folder in islice(folders, MAX_SEARCHED):
        names, inner = _list_folder(folder)
        folders += inner
        if folder != str(root) and not NESTED_NAMES.isdisjoint(names):
            yield os.path.relpath(folder, root)


def _list_folder(folder: str) -> tuple[list[str], list[str]]:
    """Return the names in a folder, and the paths of the folders to search in it."""
    names = []
    inner = []
    try:
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                names.append(entry.name)
                is_skipped = entry.name.startswith(".") or entry.name in _GENERATED
                if not is_skipped and entry.is_dir(follow_symlinks=False):
                    inner.append(entry.path)
    except OSError:
        # A folder that cannot be listed has no rules that an agent could use.
        pass
    return names, inner
