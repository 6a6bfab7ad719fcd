"""List the files that a repository tracks, without starting Git."""

from __future__ import annotations

import os
import struct

from hilum_guard.repositories.git_index import list_names
from hilum_guard.small_files import read_small_file

MAX_LINK = 4096
"""Maximum size of a file ``.git`` that names the Git folder, in bytes."""


def find_git_top(path: str) -> str | None:
    """Return the top of the repository that contains a path, or ``None``. Reads the disk."""
    folder = path
    while not os.path.lexists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    return folder


def find_index(top: str) -> str:
    """Return the path of a repository's index, which need not exist. Reads the disk.

    Args:
        top: The top of the repository; its ``.git`` may be a file, as in a worktree.
    """
    git = os.path.join(top, ".git")
    if os.path.isfile(git):
        text = os.fsdecode(read_small_file(git, MAX_LINK) or b"")
        git = os.path.join(top, text.removeprefix("gitdir:").strip())
    return os.path.join(git, "index")


def list_tracked_files(top: str) -> list[str] | None:
    """Return the files in a repository's index, or ``None`` if it cannot be read. Reads the disk.

    Args:
        top: The top of the repository; its ``.git`` may be a file, as in a worktree.
    """
    try:
        return list_names(find_index(top))
    except FileNotFoundError:
        return []
    except (OSError, ValueError, struct.error, IndexError):
        return None
