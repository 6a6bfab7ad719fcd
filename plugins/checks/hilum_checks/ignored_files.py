"""Decide which files Git certainly ignores, without starting Git.

An ignored file is not committed. Checks that passed before it was written are therefore still valid.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from hilum.config_files import read_regular_file
from hilum_guard import CHANGED, UNKNOWN, FileAccess, is_tracked

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

MAX_BYTES = 100_000
"""Maximum size of the `.gitignore` of a workspace."""
_SPECIAL = (UNKNOWN, CHANGED, "*", "?", "[", "{", "~", "$")


def read_patterns(root: Path) -> list[str]:
    """Return the lines of a workspace's `.gitignore`. Blocks.

    Args:
        root: The root of the workspace.
    """
    try:
        data = read_regular_file(root / ".gitignore", MAX_BYTES)
    except (OSError, ValueError):
        return []
    return data.decode(errors="replace").splitlines()


def is_ignored(access: FileAccess, root: Path) -> bool:
    """Return whether an access is certainly to a file that Git ignores and does not track. Blocks.

    Args:
        access: The access.
        root: The root of the workspace.
    """
    # A pattern or a folder may contain tracked files.
    if not access.certain or any(part in access.path for part in _SPECIAL):
        return False
    patterns = tuple(read_patterns(root))
    return bool(patterns) and all(
        _is_ignored(os.path.join(cwd or root, access.path), root, patterns)
        for cwd in access.cwds or (None,)
    )


def _is_ignored(path: str, root: Path, patterns: tuple[str, ...]) -> bool:
    """Return whether Git ignores a file and, if it is a link, also its target."""
    if os.path.isdir(path) or _has_other_names(path):
        return False
    top = os.path.realpath(root)
    found = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    for each in (found, os.path.realpath(path)):
        if not each.startswith(f"{top}/") or is_tracked(each, top):
            return False
        if not _make_spec(patterns).match_file(each[len(top) + 1 :]):
            return False
    return True


def _has_other_names(path: str) -> bool:
    """Return whether a file has several hard links, of which Git may track another one."""
    try:
        return os.stat(path).st_nlink > 1
    except OSError:
        return False


@lru_cache(4)
def _make_spec(patterns: tuple[str, ...]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(patterns)
