"""Finds out whether files of the running program have changed."""

from __future__ import annotations

import os
import sys

Stamp = tuple[int, int, int]
Stamps = dict[str, Stamp | None]


def read_stamps() -> Stamps:
    """Return the stamps of all files and folders that the imported code comes from. Blocks.

    Installing, upgrading or removing a distribution changes the time of its folder on ``sys.path``.
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
        if stamp is not None and stamp[0] > started * 1e9 and not os.path.isdir(path):
            return path
    return ""


def _read_stamp(path: str) -> Stamp | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
