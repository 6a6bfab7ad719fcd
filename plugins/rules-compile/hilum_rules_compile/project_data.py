"""Keeps data about a project in the user's data folder, which agents cannot change unasked."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from hilum import data_folder, make_private_folder

from hilum_rules_compile.atomic_files import replace_file

FOLDER = "rules"


def data_file(top: Path, name: str) -> Path:
    """Return the path of a file about a project.

    Args:
        top: The root of its repository.
        name: The end of the file name.
    """
    # The file name is a hash, because the path may be too long for a file name.
    digest = hashlib.sha256(os.fsencode(top)).hexdigest()[:32]
    return data_folder() / FOLDER / f"{digest}-{name}"


def write_data(path: Path, data: bytes) -> None:
    """Write a file atomically. A failure is ignored: the data can be made again. Blocks."""
    try:
        make_private_folder(path.parent)
        replace_file(path, data)
    except OSError:
        return


def read_data(path: Path) -> bytes:
    """Return the contents of a file; empty if it cannot be read. Blocks."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
