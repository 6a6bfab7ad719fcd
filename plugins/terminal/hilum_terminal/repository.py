"""Reads the current Git branch of a folder, without starting a program."""

from __future__ import annotations

import os
from pathlib import Path

MAX_HEAD = 1000  # bytes


def find_branch(folder: Path) -> str:
    """Return the name of the checked-out Git branch, or the beginning of the commit's id.

    The result is empty outside a repository. The function blocks while it reads a small file.
    """
    for parent in (folder, *folder.parents):
        marker = parent / ".git"
        try:
            if marker.is_dir():
                return _read_head(marker)
            if marker.is_file():
                # In a worktree or a submodule, `.git` is a file that contains the path of the Git
                # folder.
                text = marker.read_text(errors="replace")[:MAX_HEAD].strip()
                target = text.removeprefix("gitdir:").strip()
                return _read_head(parent / target)
        except (OSError, ValueError):  # the path in the file may contain NUL
            return ""
    return ""


def _read_head(folder: Path) -> str:
    # If HEAD is a named pipe, opening it must not block the thread forever.
    descriptor = os.open(folder / "HEAD", os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, errors="replace") as file:
        head = file.read(MAX_HEAD).strip()
    if head.startswith("ref:"):
        return head.removeprefix("ref:").strip().removeprefix("refs/heads/")
    return head[:8]
