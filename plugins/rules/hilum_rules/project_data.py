"""Keeps data about a project in the user's data folder, which agents cannot change unasked."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from hilum import data_folder

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
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(data)
        os.replace(file.name, path)
    except OSError:
        return
