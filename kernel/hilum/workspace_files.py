"""The list of a workspace's files, for completion in faces, and its Git branch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Generic, TypeVar

import trio

from hilum.errors import HilumError
from hilum.folder_trees import walk_folders
from hilum.session import Session

T = TypeVar("T")
MAX_HEAD = 1000  # bytes

# Seconds after which the list of files is read again.
FRESH = 10.0
MAX_FILES = 20_000
# Folders to leave out, also if Git does not ignore them.
_LEFT_OUT = frozenset(
    (".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache")
)
_LIST = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]


class WorkspaceFiles(Generic[T]):
    """The files of workspaces as relative paths, found by Git or by a scan of the folders.

    Args:
        make_index: Function that prepares the paths for searches; it runs in a thread.
    """

    def __init__(self, make_index: Callable[[Sequence[str]], T]) -> None:
        self._make_index = make_index
        self._paths: list[str] = []
        self._index: T | None = None
        self._read_at = 0.0
        self._session: Session | None = None
        # While the files are read and prepared, further requests wait for the same result.
        self._lock = trio.Lock()

    async def index(self, session: Session) -> T:
        """Return the prepared files and folders of a session, from an up-to-date list.

        The path of a folder ends with a slash.
        """
        async with self._lock:
            is_fresh = trio.current_time() - self._read_at < FRESH
            if self._index is not None and is_fresh and self._session is session:
                return self._index
            paths = await _list_files(session)
            if self._index is None or paths != self._paths:
                self._index = await trio.to_thread.run_sync(
                    lambda: self._make_index(_with_folders(paths))
                )
            self._paths = paths
            self._read_at = trio.current_time()
            self._session = session
            return self._index


def _with_folders(paths: Sequence[str]) -> list[str]:
    """Return the paths and the folders that contain them; folders end with a slash."""
    folders: dict[str, None] = {}
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and f"{folder}/" not in folders:
            folders[f"{folder}/"] = None
            folder = folder.rpartition("/")[0]
    return [*paths, *folders]


async def _list_files(session: Session) -> list[str]:
    root = session.workspace.root
    try:
        done = await session.processes.run(_LIST, limit=8_000_000, purpose="look")
    except HilumError:
        done = None
    if done is not None and done.returncode == 0 and not done.dropped:
        names = done.stdout.decode(errors="replace").split("\0")
        # Staged files that were deleted are also listed, which does no harm.
        # A project without a .gitignore has untracked files that nobody wants to mention.
        return sorted({name for name in names if name and not _is_left_out(name)})[:MAX_FILES]
    return await trio.to_thread.run_sync(lambda: list(_find_files(root)))


def _is_left_out(path: str) -> bool:
    """Return whether a file is in a folder of files that a program generates."""
    return not _LEFT_OUT.isdisjoint(path.split("/")[:-1])


def _find_files(root: Path) -> Iterator[str]:
    """Yield the files below a folder, top-level files first."""
    count = 0
    for folder, folders, names in walk_folders(root):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
        relative = os.path.relpath(folder, root)
        for name in sorted(names):
            yield name if relative == "." else f"{relative}/{name}"
            count += 1
            if count >= MAX_FILES:
                return


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
