"""Finds out whether files of the running program have changed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

Stamp = tuple[object, ...]
Stamps = dict[str, Stamp | None]


def read_stamps() -> Stamps:
    """Return the stamps of all files and folders that the imported code comes from. Blocks.

    Installing, upgrading or removing a distribution changes what its folder on ``sys.path`` lists.
    """
    paths = {sys.executable, os.path.realpath(sys.executable)}
    paths.add(os.path.join(sys.prefix, "pyvenv.cfg"))
    paths.update(folder for folder in sys.path if folder)
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            paths.add(file)
    return {path: _read_stamp(path) for path in sorted(paths)}


def find_changed(stamps: Stamps) -> str:
    """Return the first path that has changed since its stamp was read; empty if none has. Blocks."""
    for path, stamp in stamps.items():
        if _read_stamp(path) != stamp:
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


def _read_stamp(path: str) -> Stamp | None:
    try:
        if os.path.isdir(path):
            return tuple(sorted(_list_folder(path)))
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _list_folder(path: str) -> Iterator[str]:
    """Yield what a folder contains; a distribution's metadata with its time and number.

    The folder for bytecode, which appears with a first import, is left out.
    """
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.name.endswith(".dist-info"):
                found = entry.stat()
                yield f"{entry.name} {found.st_mtime_ns} {found.st_ino}"
            elif entry.name != "__pycache__":
                yield entry.name
