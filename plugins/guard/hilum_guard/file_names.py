"""Compare, resolve and print file names.

Names are compared as the most permissive file system would compare them.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import unicodedata
from collections.abc import Iterable, Iterator

QUARANTINED = ".quarantined"
"""Suffix that makes a file inert: no program looks for files with this suffix."""
_ENDING = r"(\.\d+)?" + re.escape(QUARANTINED) + "$"
_CONTROLS = r"[\x00-\x1f\x7f-\x9f]"


def folded(name: str) -> str:
    """Return a name in the form in which the most permissive file system would compare it."""
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFKC", name).casefold()


def resolve_links(path: str | os.PathLike[str]) -> str:
    """Return a path with symbolic links resolved, up to the first link that cannot be read."""
    try:
        return os.path.realpath(path)
    except OSError as error:
        # Before Python 3.13, `realpath` raises for a link that this process may not read, such as
        # `/proc/1/cwd`. A model may name such a link, or a program may leave a link to one.
        return os.fsdecode(error.filename or path)


def resolve_all(paths: Iterable[str]) -> Iterator[str]:
    """Yield absolute paths with symbolic links resolved, in their order.

    Each folder is resolved only once, which makes this faster than ``os.path.realpath``.
    """
    folders: dict[str, str] = {}
    for path in paths:
        folder, name = os.path.split(path)
        resolved = os.path.join(_resolve_folder(folder, folders), name)
        if name in ("", ".", "..") or os.path.islink(resolved):
            resolved = os.path.realpath(path)
        yield resolved


def select_unlinked(paths: Iterable[str]) -> Iterator[str]:
    """Yield the paths that exist and do not lead through a symbolic link, in their order.

    Each folder is resolved only once.

    Args:
        paths: Absolute, normalized paths.
    """
    folders: dict[str, str] = {}
    for path in paths:
        folder, name = os.path.split(path)
        try:
            is_unlinked = _resolve_folder(folder, folders) == folder
        except OSError:  # a link that this process may not read
            is_unlinked = False
        if not is_unlinked or name in ("", ".", ".."):
            continue
        try:
            mode = os.lstat(path).st_mode
        except (OSError, ValueError):  # ValueError: NUL in a path
            continue
        if not stat.S_ISLNK(mode):
            yield path


def _resolve_folder(folder: str, known: dict[str, str]) -> str:
    """Return an absolute path with symbolic links resolved, as ``os.path.realpath`` does.

    Args:
        folder: The path.
        known: Paths that are already resolved; this path and its parents are added.

    Raises:
        OSError: A link cannot be read.
    """
    resolved = known.get(folder)
    if resolved is not None:
        return resolved
    parent, name = os.path.split(folder)
    if name in ("", ".", ".."):
        resolved = os.path.realpath(folder)
    else:
        resolved = os.path.join(_resolve_folder(parent, known), name)
        if os.path.islink(resolved):
            resolved = os.path.realpath(resolved)
    known[folder] = resolved
    return resolved


def resolve_listed(paths: Iterable[str], workspace: str) -> set[str]:
    """Return the resolved forms of paths in the user's settings.

    The paths may begin with ``~``; a relative path is relative to the workspace.
    """
    expanded = map(os.path.expanduser, paths)
    return {os.path.realpath(os.path.join(workspace, path)) for path in expanded}


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Return whether a path is inside one of the folders. Nothing is resolved."""
    return any(path.startswith(folder.rstrip("/") + "/") for folder in folders)


def digest_path(path: str) -> str:
    """Return a file name that identifies a path, such as the name of a record about it."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:32]


def original(name: str) -> str:
    """Return the name that a file had before hilum made it inert; return other names unchanged."""
    return re.sub(_ENDING, "", name)


def printable(text: str) -> str:
    """Convert text that contains paths to a form that can be stored and displayed.

    A file name may be any sequence of bytes. Python represents bytes that are not UTF-8 as lone
    surrogates, which events cannot contain. Lone surrogates and control characters become escape
    sequences.
    """
    try:
        data = os.fsencode(text)
    except UnicodeEncodeError:  # surrogates that represent no byte
        data = text.encode(errors="backslashreplace")
    decoded = data.decode(errors="backslashreplace")
    return re.sub(_CONTROLS, lambda match: f"\\x{ord(match[0]):02x}", decoded)
