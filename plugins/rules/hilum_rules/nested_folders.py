"""Finds the folders below a workspace that have rules files of their own.

A session reads them when a file in such a folder is first used; the commands about rules list them
all at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from hilum import walk_folders

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
        # A folder that cannot be listed has no rules that an agent could use.
        _, inner, files = next(walk_folders(folder), ("", [], []))
        if folder != str(root) and not NESTED_NAMES.isdisjoint((*inner, *files)):
            yield os.path.relpath(folder, root)
        for name in sorted(inner):
            path = os.path.join(folder, name)
            is_skipped = name.startswith(".") or name in _GENERATED
            if not is_skipped and not os.path.islink(path):
                folders.append(path)
