"""The files of a project that extend what an agent can do in it, and a hash of each.

The files are all those in ``.hilum``, except those that are only text or can only restrict an
agent, and all files in the folders from which hilum reads other programs' skills and agents, and
commands that can run shell commands. Such a file can name tools, give instructions and contain
scripts.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator

from hilum import errors
from hilum.errors import UsageError

HILUM_FOLDER = ".hilum"
PROJECT_FOLDERS = (
    HILUM_FOLDER,
    ".agents/skills",
    ".claude/agents",
    ".claude/commands",
    ".claude/skills",
    ".codex/agents",
    ".codex/skills",
    ".cursor/agents",
    ".cursor/skills",
    ".gemini/agents",
    ".gemini/commands",
    ".gemini/skills",
    ".github/agents",
    ".github/chatmodes",
    ".github/skills",
    ".opencode/agent",
    ".opencode/agents",
    ".opencode/command",
    ".opencode/commands",
    ".opencode/skill",
    ".opencode/skills",
    ".windsurf/skills",
)
_REPLACE = "Replace it with a regular file or folder."
_SHRINK = "Move the large files, or some of the files, out of this folder."
_CHECK_ACCESS = "Check the file's permissions."
# These limits keep a project from making the hash slow, because hilum reads all of these files.
MAX_FILES = 2_000
MAX_BYTES = 20_000_000
MAX_DEPTH = 40
# These files and folders can only restrict what an agent may do, or contain text for its prompt.
# All other files in ``.hilum`` require trust, so that any new kind of file is covered from the
# start.
_HARMLESS_FILES = frozenset({"permissions.toml", "rules.lock", "settings.toml", ".gitignore"})
_TEXT_FOLDERS = frozenset({"rules", "memory"})
# A file can change twice within one tick of the file system's clock, with equal timestamps. A hash
# is therefore cached only if the last change is at least this many nanoseconds old.
_CACHED_AFTER_NS = 2_000_000_000
_hashes: dict[str, tuple[tuple[int, ...], str]] = {}


def list_files(workspace: str | os.PathLike[str]) -> list[str]:
    """Return the files of a project that count for trust, relative to the project. Blocks.

    Raises:
        UsageError: See ``hash_files``.
    """
    return list(hash_files(os.path.realpath(workspace)))


def hash_files(root: str) -> dict[str, str]:
    """Return a hash for each file that counts, by its path relative to the project. Blocks.

    The hash changes with the file's content and its executable bits, or with the target of a link.

    Args:
        root: The project, resolved.

    Raises:
        UsageError: A file cannot be trusted because it is unreadable, a link out of the project or
            not a regular file; or there are too many files, or they are too large.
    """
    hashes: dict[str, str] = {}
    total_size = 0
    for folder in PROJECT_FOLDERS:
        for name, path in _find_files(root, folder):
            if path is None:
                hashes[name] = "link"
                continue
            hashes[name], size = _hash_file(name, path)
            total_size += size
            if len(hashes) > MAX_FILES or total_size > MAX_BYTES:
                limit = f"more than {MAX_FILES:,} files or {MAX_BYTES // 1_000_000} MB"
                raise _untrustable(folder, f"it contains {limit}", _SHRINK)
    return dict(sorted(hashes.items()))


def combine_hashes(hashes: dict[str, str]) -> str:
    """Return one digest of all hashes that ``hash_files`` returns."""
    total = hashlib.sha256()
    for name, value in hashes.items():
        encoded = os.fsencode(name)
        # The length distinguishes lists of files whose names and hashes concatenate to the same
        # text.
        total.update(f"{len(encoded)}:".encode() + encoded + value.encode())
    return f"sha256:{total.hexdigest()}"


def _find_files(root: str, folder: str) -> Iterator[tuple[str, str | None]]:
    """Yield the name and the path of each file that counts.

    hilum does not read a folder that is a link out of the project, so the path of such a folder is
    None.
    """
    top = os.path.join(root, folder)
    if not os.path.lexists(top):
        return
    if folder == HILUM_FOLDER and (os.path.islink(top) or not os.path.isdir(top)):
        raise _untrustable(folder, "it is a link or a file, not a folder", _REPLACE)
    if not _is_inside(top, root):
        yield folder, None
    elif os.path.isdir(top):
        yield from _walk(root, top, set())


def _walk(root: str, folder: str, parents: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the name and the path of each file that counts in a folder and below it."""
    shown = os.path.relpath(folder, root)
    real = os.path.realpath(folder)
    if real in parents or len(parents) == MAX_DEPTH:
        raise _untrustable(shown, "it is too deep, or a link to a folder above it", _REPLACE)
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        why = error.strerror or "it cannot be read"
        raise _untrustable(shown, why, _CHECK_ACCESS) from None
    is_hilum_folder = folder == os.path.join(root, HILUM_FOLDER)
    for name in names:
        path = os.path.join(folder, name)
        is_folder = os.path.isdir(path)
        harmless = _TEXT_FOLDERS if is_folder else _HARMLESS_FILES
        if is_hilum_folder and name in harmless:
            continue
        _check_entry(root, path)
        if is_folder:
            yield from _walk(root, path, parents | {real})
        else:
            yield os.path.relpath(path, root), path


def _check_entry(root: str, path: str) -> None:
    """Raise UsageError unless a path is a file or folder whose content the hash covers."""
    shown = os.path.relpath(path, root)
    if os.path.islink(path) and not _is_inside(path, root):
        why = "it is a link out of the project, and its target can change"
        raise _untrustable(shown, why, _REPLACE)
    if not os.path.isdir(path) and not os.path.isfile(path):
        why = "it is a broken link or not a regular file, and can become something else"
        raise _untrustable(shown, why, _REPLACE)


def _is_inside(path: str, root: str) -> bool:
    return os.path.realpath(path).startswith(os.path.join(root, ""))


def _hash_file(name: str, path: str) -> tuple[str, int]:
    """Return the hash of a file, and its size in bytes.

    The content is read again only if the file's metadata changed.
    """
    try:
        status = os.stat(path)
        # The time of the last status change (ctime) is included, because programs can set back the
        # other times.
        stamp = (
            status.st_dev,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )
        cached = _hashes.get(path)
        if cached is None or cached[0] != stamp:
            if status.st_size > MAX_BYTES:
                why = f"it is larger than {MAX_BYTES // 1_000_000} MB"
                raise _untrustable(name, why, _SHRINK)
            with open(path, "rb") as file:
                cached = stamp, hashlib.sha256(file.read()).hexdigest()
            # On Windows, st_ctime is the creation time, and programs can set back the other times,
            # so nothing is cached.
            if os.name != "nt" and time.time_ns() - status.st_ctime_ns > _CACHED_AFTER_NS:
                _hashes[path] = cached
    except OSError as error:
        why = error.strerror or "it cannot be read"
        raise _untrustable(name, why, _CHECK_ACCESS) from None
    is_executable = bool(status.st_mode & 0o111)
    return f"{is_executable:d}{cached[1]}", status.st_size


def _untrustable(name: str, why: str, hint: str) -> UsageError:
    return UsageError(f"{name} cannot be trusted: {why}.", code=errors.E_FAILED, hint=hint)
