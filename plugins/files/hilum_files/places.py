"""Places in the workspace, as the tools use them: opened with a helpful error, or replaced whole.

All of it blocks.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, BinaryIO

from hilum import ToolError, Workspace, errors

if TYPE_CHECKING:
    from hilum import Place

# Folders of version control, builds and caches, which listings and searches pass over.
_SKIPPED = """.git .hg .svn .jj node_modules __pycache__ .venv venv .tox .nox .mypy_cache .pytest_cache .ruff_cache
.hypothesis .eggs dist build target .next .gradle .idea .cache"""
SKIPPED = frozenset(_SKIPPED.split())
_NAMELESS = getattr(os, "O_TMPFILE", 0) if os.path.isdir("/proc/self/fd") else 0
_IDENTITY = ("st_dev", "st_ino", "st_size", "st_mtime_ns")


@contextmanager
def at(
    workspace: Workspace, path: str | Path, *, make: bool = False, follow: bool = True
) -> Iterator[Place]:
    """Hold open the folder that a path is in, as ``Workspace.at`` does.

    Where nothing is, the error gives near paths.
    """
    try:
        with workspace.at(path, make=make, follow=follow) as place:
            yield place
    except ToolError as error:
        if error.code == errors.E_FILE_NOT_FOUND and (found := near(workspace, path)):
            error.hint = f"Did you mean {' or '.join(map(repr, found))}?"
        raise


@contextmanager
def opened(workspace: Workspace, path: str | Path) -> Iterator[BinaryIO]:
    """Open a file to read its bytes. Raises as ``at`` does, and for what is not a plain file."""
    with at(workspace, path) as place:
        if stat.S_ISDIR(os.stat(place.name, dir_fd=place.folder, follow_symlinks=False).st_mode):
            raise ToolError(
                f"{str(path)!r} is a folder, not a file.", hint="List it, or name a file in it."
            )
        with place.open() as file:
            yield file


def replace(
    workspace: Workspace,
    path: str | Path,
    data: bytes,
    *,
    make: bool = True,
    expected: os.stat_result | None = None,
    mode: int | None = None,
) -> Path:
    """Write a file whole or not at all; an existing file keeps its mode and owner.

    Args:
        workspace: Where it is.
        path: Relative to the root, or absolute. A link is followed and stays.
        data: The new content.
        make: Make missing folders.
        expected: What the file must still be: its status when it was read.
        mode: Permissions to give it, whatever those of an existing file are.

    Returns:
        The resolved path that was written.

    Raises:
        ToolError: As ``at`` does; the file is read-only; ``E_STALE`` when it is not the expected
            one any more.
    """
    with at(workspace, path, make=make) as place:
        folder = place.folder
        name = place.name
        old = _status_to_replace(place, path, expected, force=mode is not None)
        temporary = os.path.join(os.path.dirname(name), f".hilum-{token_hex(8)}.tmp")
        target, nameless = _new(folder, temporary)
        try:
            with open(target, "wb") as file:
                file.write(data)
                file.flush()
                if old and folder is not None:
                    with suppress(PermissionError):
                        os.fchown(target, old.st_uid, old.st_gid)
                    os.fchmod(target, stat.S_IMODE(old.st_mode))
                if mode is not None:
                    os.chmod(target if folder is not None else temporary, mode)
                if nameless:
                    os.link(f"/proc/self/fd/{target}", temporary, dst_dir_fd=folder)
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
            raise
        return place.path


def _new(folder: int | None, name: str) -> tuple[int, bool]:
    """Open a new file to write to, and say whether it has no name yet: one without leaves nothing
    behind in a crash.
    """
    if _NAMELESS and folder is not None:
        with suppress(OSError):  # not every file system can
            return (
                os.open(
                    os.path.dirname(name) or ".", os.O_WRONLY | _NAMELESS, 0o666, dir_fd=folder
                ),
                True,
            )
    flags = (
        os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    )  # EXCL follows no link either
    return os.open(name, flags, 0o666, dir_fd=folder), False


def _status_to_replace(
    place: Place, path: str | Path, expected: os.stat_result | None, *, force: bool
) -> os.stat_result | None:
    """Return the status of what a write would replace, or refuse the write."""
    old = None
    with suppress(FileNotFoundError):
        old = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    if old and not stat.S_ISREG(old.st_mode):
        kind = "a folder" if stat.S_ISDIR(old.st_mode) else "a link, pipe, socket or device"
        raise ToolError(f"{str(path)!r} is {kind}, not a file with content.")
    if old and not old.st_mode & 0o222 and not force:
        raise ToolError(
            f"{str(path)!r} is read-only.", hint="Ask the user before you change its mode."
        )
    if expected and (
        old is None or any(getattr(old, key) != getattr(expected, key) for key in _IDENTITY)
    ):
        message = f"{str(path)!r} changed meanwhile; it was not written."
        raise ToolError(message, code=errors.E_STALE, hint="Read it.")
    return old


def near(workspace: Workspace, path: str | Path) -> list[str]:
    """Give up to three existing paths like a missing one: near it first, then anywhere, in a
    bounded look.
    """
    from difflib import get_close_matches  # 2 ms, only where something is missing

    real = workspace.resolve(path)
    known: dict[str, None] = {}
    for start in (real.parent, workspace.root):
        limit = len(known) + 1000
        for folder, folders, files in os.walk(
            start if start.is_relative_to(workspace.root) else workspace.root
        ):
            folders[:] = sorted(set(folders) - SKIPPED)
            known |= dict.fromkeys(
                workspace.relative(Path(folder, name)) for name in sorted(files) + folders
            )
            if len(known) > limit:
                break
    same = [name for name in known if os.path.basename(name).lower() == real.name.lower()]
    return list(dict.fromkeys(same + get_close_matches(workspace.relative(real), known)))[:3]
