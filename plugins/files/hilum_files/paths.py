"""Opens and replaces files in the workspace, with helpful errors. All functions block."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, BinaryIO

from hilum import ToolError, Workspace, errors, walk_folders

from hilum_files.text import quote

if TYPE_CHECKING:
    from hilum import Place

SKIPPED_FOLDERS = frozenset(
    ".git .hg .svn .jj node_modules __pycache__ .venv venv .tox .nox .mypy_cache .pytest_cache"
    " .ruff_cache .hypothesis .eggs dist build target .next .gradle .idea .cache".split()
)
"""Version control, build and cache folders, which listings and searches skip."""
MAX_COMPARED_PATHS = 1000
"""Maximum number of paths in a folder to compare with a missing path."""
MAX_SUGGESTIONS = 3
# A file without a name is linked through /proc, so both O_TMPFILE and /proc are needed.
_O_TMPFILE = getattr(os, "O_TMPFILE", 0) if os.path.isdir("/proc/self/fd") else 0
_O_PATH = getattr(os, "O_PATH", 0) if os.path.isdir("/proc/self/fd") else 0
_IDENTITY = ("st_dev", "st_ino", "st_size", "st_mtime_ns")


@contextmanager
def open_place(
    workspace: Workspace, path: str | Path, *, make: bool = False, follow: bool = True
) -> Iterator[Place]:
    """Open the folder that contains a path during the ``with`` block, as ``Workspace.at`` does.

    If there is nothing at the path, the error suggests similar paths.
    """
    try:
        # The open folder cannot be replaced by a link that leads out of the workspace.
        with workspace.at(path, make=make, follow=follow) as place:
            yield place
    except ToolError as error:
        if error.code == errors.E_FILE_NOT_FOUND:
            similar = find_similar_paths(workspace, path)
            if similar:
                error.hint = f"Did you mean {' or '.join(map(repr, similar))}?"
        raise


@contextmanager
def open_file(workspace: Workspace, path: str | Path) -> Iterator[BinaryIO]:
    """Open a file to read its bytes.

    Raises:
        ToolError: See ``open_place``; also if the path is not a regular file.
    """
    with open_place(workspace, path) as place:
        if stat.S_ISDIR(read_status(place).st_mode):
            raise ToolError(
                f"{quote(str(path))} is a folder, not a file.",
                hint="List the folder, or pass the path of a file in it.",
            )
        with place.open() as file:
            yield file


def read_status(place: Place) -> os.stat_result:
    """Return the status of the entry at an opened location without following links.

    Raises:
        FileNotFoundError: There is no such entry.
    """
    return os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)


def find_status(place: Place) -> os.stat_result | None:
    """Return the status of the entry at an opened location, or ``None`` if there is none."""
    try:
        return read_status(place)
    except FileNotFoundError:
        return None


def chmod_at(place: Place, mode: int) -> None:
    """Change the mode of a file or folder at an opened location; a link is left unchanged.

    The entry may be replaced by a link at any time, whose target must not be changed.
    """
    if stat.S_ISLNK(read_status(place).st_mode):
        return
    if _O_PATH and place.folder is not None:
        # Linux cannot change a mode without following links, except that of an open entry.
        flags = _O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
        entry = os.open(place.name, flags, dir_fd=place.folder)
        try:
            if not stat.S_ISLNK(os.fstat(entry).st_mode):
                os.chmod(f"/proc/self/fd/{entry}", mode)
        finally:
            os.close(entry)
        return
    follow = os.chmod not in os.supports_follow_symlinks
    os.chmod(place.name, mode, dir_fd=place.folder, follow_symlinks=follow)


@contextmanager
def open_unreadable(place: Place) -> Iterator[BinaryIO]:
    """Open a file at an opened location, also one that its owner may not read."""
    try:
        file = place.open()
    except PermissionError:
        mode = stat.S_IMODE(read_status(place).st_mode)
        if mode & 0o400:
            raise
        # The user owns the file, so it may be made readable for a moment.
        chmod_at(place, mode | 0o400)
        try:
            file = place.open()
        finally:
            chmod_at(place, mode)
    with file:
        yield file


def find_link_above(root: Path, name: str) -> str | None:
    """Return the outermost parent folder of a path that is a link, or ``None``.

    Args:
        root: The folder to which the paths are relative.
        name: The path.
    """
    if os.path.isabs(name):  # in another root of the workspace
        return None
    above = ""
    for part in name.split("/")[:-1]:
        above = f"{above}/{part}" if above else part
        if os.path.islink(root / above):
            return above
    return None


def replace_file(
    workspace: Workspace,
    path: str | Path,
    data: bytes,
    *,
    make: bool = True,
    expected: os.stat_result | None = None,
    mode: int | None = None,
) -> Path:
    """Replace the content of a file atomically; an existing file keeps its mode and owner.

    Args:
        workspace: The workspace.
        path: The path, relative to the root or absolute. A link is followed, not replaced.
        data: The new content.
        make: Whether to create missing folders.
        expected: The status of the file when it was read; the file must not have changed since.
        mode: New permissions; by default, an existing file keeps its own.

    Returns:
        The resolved path that was written.

    Raises:
        ToolError: See ``open_place``; also if the file is read-only; ``E_STALE`` if it has changed
            since ``expected``.
    """
    with open_place(workspace, path, make=make) as place:
        replace_at(place, path, data, expected=expected, mode=mode)
        return place.path


def replace_at(
    place: Place,
    path: str | Path,
    data: bytes,
    *,
    expected: os.stat_result | None = None,
    mode: int | None = None,
) -> None:
    """Replace the content of a file in an open folder; see ``replace_file``.

    Args:
        place: The location of the file.
        path: The path, for messages.
        data: The new content.
        expected: The status of the file when it was read.
        mode: New permissions.
    """
    old = check_replaceable(place, path, expected, force=mode is not None)
    # The temporary file is in the same folder, because a file cannot be renamed to another file
    # system.
    temporary = os.path.join(os.path.dirname(place.name), f".hilum-{token_hex(8)}.tmp")
    descriptor, is_nameless = _open_new(place.folder, temporary)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if place.folder is None:
                # Windows cannot change the mode of an open file.
                if mode is not None:
                    os.chmod(temporary, mode)
            else:
                _copy_permissions(descriptor, old, mode)
            # `link` does not replace an existing file, so the new file gets a temporary name
            # first.
            if is_nameless:
                os.link(f"/proc/self/fd/{descriptor}", temporary, dst_dir_fd=place.folder)
        os.replace(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=place.folder)
        raise


def _open_new(folder: int | None, name: str) -> tuple[int, bool]:
    """Open a new file for writing.

    Returns:
        The file's descriptor, and whether the file has no name yet. A file without a name leaves
        nothing behind after a crash.
    """
    if _O_TMPFILE and folder is not None:
        parent = os.path.dirname(name) or "."
        with suppress(OSError):  # not all file systems support O_TMPFILE
            # The umask limits this mode, as for any new file.
            return os.open(parent, os.O_WRONLY | _O_TMPFILE, 0o666, dir_fd=folder), True
    # O_EXCL does not follow links either.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    return os.open(name, flags, 0o666, dir_fd=folder), False


def _copy_permissions(descriptor: int, old: os.stat_result | None, mode: int | None) -> None:
    """Give a new file the owner and mode of the file that it replaces, or another mode."""
    if old:
        with suppress(PermissionError):  # only root may change a file's owner
            os.fchown(descriptor, old.st_uid, old.st_gid)
        # The mode is set last, because changing the owner clears set-user-ID bits.
        os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
    if mode is not None:
        os.fchmod(descriptor, mode)


def check_replaceable(
    place: Place, path: str | Path, expected: os.stat_result | None, *, force: bool = False
) -> os.stat_result | None:
    """Return the status of the file that a write would replace.

    Raises:
        ToolError: The file must not be replaced.
    """
    old = find_status(place)
    if old and not stat.S_ISREG(old.st_mode):
        kind = "a folder" if stat.S_ISDIR(old.st_mode) else "a link, pipe, socket or device"
        raise ToolError(f"{quote(str(path))} is {kind}, not a file with content.")
    # A rename would replace the file regardless of its mode.
    if old and not old.st_mode & 0o222 and not force:
        raise ToolError(
            f"{quote(str(path))} is read-only.", hint="Ask the user before changing its mode."
        )
    if expected and not _is_same(old, expected):
        message = f"{quote(str(path))} changed in the meantime; it was not written."
        raise ToolError(message, code=errors.E_STALE, hint="Read it.")
    return old


def _is_same(status: os.stat_result | None, expected: os.stat_result) -> bool:
    if status is None:
        return False
    return all(getattr(status, key) == getattr(expected, key) for key in _IDENTITY)


def find_similar_paths(workspace: Workspace, path: str | Path) -> list[str]:
    """Return up to three existing paths similar to a missing one, nearest folders first.

    The number of paths compared is limited.
    """
    from difflib import get_close_matches  # the import takes 2 ms

    missing = workspace.resolve(path)
    start = missing.parent if missing.parent.is_relative_to(workspace.root) else workspace.root
    # A dict preserves the order and drops duplicates.
    known = dict.fromkeys(_list_paths(workspace, start))
    known |= dict.fromkeys(_list_paths(workspace, workspace.root))
    same_name = [name for name in known if _has_name(name, missing.name)]
    similar = get_close_matches(workspace.relative(missing), known)
    return list(dict.fromkeys(same_name + similar))[:MAX_SUGGESTIONS]


def _has_name(path: str, name: str) -> bool:
    return os.path.basename(path).lower() == name.lower()


def _list_paths(workspace: Workspace, start: Path) -> list[str]:
    """Return the first paths below a folder."""
    found: list[str] = []
    for folder, folders, files in walk_folders(start):
        folders[:] = sorted(set(folders) - SKIPPED_FOLDERS)
        for name in [*sorted(files), *folders]:
            found.append(workspace.relative(Path(folder, name)))
        if len(found) > MAX_COMPARED_PATHS:
            break
    return found
