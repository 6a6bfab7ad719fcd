"""Tell the files that an agent may have written from those of the project."""

from __future__ import annotations

import os
import time

from hilum_guard.small_files import read_small_file

MAX_INDEX = 20_000_000
"""Maximum size of a Git index to read, in bytes."""
# Files that are written later may be the work of an agent of this process.
_STARTED = time.time()


def is_new_file(path: str, root: str) -> bool:
    """Return whether a file was written since this program started, or is not in Git's index.

    A file in a folder without a repository is new only if it was written since. Blocks.

    Args:
        path: The absolute path of the file.
        root: The root of the workspace.
    """
    try:
        if os.stat(path).st_mtime >= _STARTED:
            return True
    except OSError:
        return False
    return not is_tracked(path, root)


def is_tracked(path: str, root: str) -> bool:
    """Return whether a file is in Git's index, or whether there is no index to read. Blocks.

    Args:
        path: The absolute path of the file.
        root: The root of the workspace.
    """
    index = read_small_file(os.path.join(root, ".git", "index"), MAX_INDEX)
    if index is None:
        return True
    # The index contains each path as a whole, followed by a null byte.
    return os.path.relpath(path, root).encode() + b"\0" in index
