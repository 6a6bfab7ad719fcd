"""Recognize executed files that Git has written to a linked working tree from the repository.

`git worktree add` writes the project's own `.hilum`, `.vscode` or `.envrc` to another folder. To
rename such a copy would make Git believe that it was deleted.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from collections.abc import Collection, Sequence

from hilum_guard.repositories.git_index import read_index
from hilum_guard.repositories.git_metadata import pointed
from hilum_guard.sandbox.sandbox_policy import find_repository
from hilum_guard.small_files import read_small_file

MAX_FILE = 1_000_000
"""Maximum size of a file to compare, in bytes."""
MAX_FILES = 1000
"""Maximum number of files to compare in one folder."""
# Files of a folder `.hilum` that execute nothing: they can only forbid actions.
_RULES = frozenset(("rules.lock", "rules.toml"))
_STAT_SIZE = 40
"""Number of bytes before the hash in an entry of an index (gitformat-index)."""


def is_checked_out(
    path: str, known: Collection[str], git_folders: Sequence[tuple[str, str]], *, is_partial: bool
) -> bool:
    """Return whether an executed file in a linked working tree is a copy of the user's own.

    The signed rules of another branch may differ from the user's, as long as they are in the index.

    Args:
        path: The file or folder.
        known: The paths of the executed files that belong to the user.
        git_folders: The workspace's folders, each with its repository's Git folder.
        is_partial: Whether Git may be writing the files, so that their ends may be missing.
    """
    for root, git_folder in git_folders:
        top = _find_linked_top(path, root, git_folder)
        if not top:
            continue
        original = root + path[len(top) :]
        if original in known and _is_same(path, original, is_partial=is_partial):
            return True
        if os.path.basename(path) == ".hilum" and _contains_only_rules(path):
            return is_partial or _are_in_index(path, top)
    return False


def _find_linked_top(path: str, root: str, git_folder: str) -> str:
    """Return the linked working tree in a root that contains a path; empty if none does."""
    folder = os.path.dirname(path)
    while folder.startswith(f"{root}/"):
        if os.path.lexists(f"{folder}/.git"):
            return folder if find_repository(folder) == git_folder else ""
        folder = os.path.dirname(folder)
    return ""


def _is_same(path: str, original: str, *, is_partial: bool) -> bool:
    """Return whether a file, or each file in a folder, has the content of another one."""
    waiting = [(path, original)]
    count = 0
    while waiting:
        one, other = waiting.pop()
        count += 1
        try:
            mode = os.lstat(one).st_mode
            is_alike = stat.S_IFMT(mode) == stat.S_IFMT(os.lstat(other).st_mode)
            if not is_alike or count > MAX_FILES:
                return False
            if stat.S_ISDIR(mode):
                waiting += [(f"{one}/{name}", f"{other}/{name}") for name in os.listdir(one)]
                continue
        except OSError:
            return False
        # The target of a link is in the other working tree, where it may be another file.
        if not stat.S_ISREG(mode):
            return False
        content = read_small_file(one, MAX_FILE)
        wanted = read_small_file(other, MAX_FILE)
        if content is None or wanted is None:
            return False
        if content != wanted and not (is_partial and wanted.startswith(content)):
            return False
    return True


def _contains_only_rules(folder: str) -> bool:
    """Return whether a folder `.hilum` contains only files that execute nothing."""
    try:
        names = os.listdir(folder)
        return not os.path.islink(folder) and all(
            name in _RULES and stat.S_ISREG(os.lstat(f"{folder}/{name}").st_mode) for name in names
        )
    except OSError:
        return False


def _are_in_index(folder: str, top: str) -> bool:
    """Return whether each file in a folder has the content that is in its working tree's index."""
    try:
        data, entries = read_index(f"{pointed(f'{top}/.git')}/index")
    except (OSError, ValueError, struct.error, IndexError):
        return False
    offsets = {entry.name: entry.offset for entry in entries}
    for name in os.listdir(folder):
        path = f"{folder}/{name}"
        content = read_small_file(path, MAX_FILE)
        offset = offsets.get(path[len(top) + 1 :])
        if content is None or offset is None:
            return False
        blob = b"blob %d\0%b" % (len(content), content)
        hashes = (hashlib.sha1(blob, usedforsecurity=False), hashlib.sha256(blob))
        stored = data[offset + _STAT_SIZE :]
        if not any(stored.startswith(each.digest()) for each in hashes):
            return False
    return True
