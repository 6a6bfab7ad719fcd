"""Finds out whether files of the running program have changed."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress

Stamp = tuple[object, ...]
Stamps = dict[str, Stamp | None]
_METADATA = ".dist-info"
# The first parts of the stamps of folders; those of files begin with a time.
_FOLDER = "folder"
_FOLDER_OF_METADATA = "metadata"


def read_stamps() -> Stamps:
    """Return the stamps of all files and folders that the imported code comes from. Blocks.

    Installing, upgrading or removing a distribution changes what its folder on ``sys.path`` lists.
    """
    paths = {sys.executable, os.path.realpath(sys.executable)}
    paths.add(os.path.join(sys.prefix, "pyvenv.cfg"))
    for folder in filter(None, sys.path):
        paths.add(folder)
        paths.update(_list_metadata(folder))
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            paths.add(file)
    return {path: _read_stamp(path) for path in sorted(paths)}


def _list_metadata(folder: str) -> Iterator[str]:
    """Yield the folders with metadata of distributions."""
    with suppress(OSError):
        for name in os.listdir(folder):
            if name.endswith(_METADATA):
                yield os.path.join(folder, name)


def find_changed(stamps: Stamps) -> str:
    """Return the first path that has changed since its stamp was read; empty if none has. Blocks.

    Each start waits for this: examining 1,600 paths takes 4 ms.
    """
    for path, stamp in stamps.items():
        if _has_changed(path, stamp):
            return path
    return ""


def find_newer(stamps: Stamps, started: float) -> str:
    """Return the first file that changed after a time; empty if none did.

    Args:
        stamps: The stamps.
        started: Seconds since the epoch.
    """
    for path, stamp in stamps.items():
        time = stamp[0] if stamp else 0
        if isinstance(time, int) and time > started * 1e9:
            return path
    return ""


def _has_changed(path: str, stamp: Stamp | None) -> bool:
    try:
        found = os.stat(path)
    except OSError:
        return stamp is not None
    if stamp is not None and stamp[:2] == (_FOLDER, found.st_mtime_ns):
        # Nothing was added or removed, so the folder need not be listed.
        return False
    if stat.S_ISDIR(found.st_mode) and not path.endswith(_METADATA):
        now = _read_stamp(path)
        # The time also changes with the folder for bytecode.
        return now is None or stamp is None or now[2:] != stamp[2:]
    return _make_stamp(found) != stamp


def _read_stamp(path: str) -> Stamp | None:
    try:
        found = os.stat(path)
        if stat.S_ISDIR(found.st_mode) and not path.endswith(_METADATA):
            return (_FOLDER, found.st_mtime_ns, *_list_folder(path))
    except OSError:
        return None
    return _make_stamp(found)


def _make_stamp(found: os.stat_result) -> Stamp:
    if stat.S_ISDIR(found.st_mode):
        return _FOLDER_OF_METADATA, found.st_mtime_ns, found.st_ino
    return found.st_mtime_ns, found.st_size, found.st_ino


def _list_folder(path: str) -> list[str]:
    """Return what a folder contains, except for bytecode, which appears with a first import."""
    return sorted(name for name in os.listdir(path) if name != "__pycache__")
