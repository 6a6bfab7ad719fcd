"""Folders that only the user can use."""

from __future__ import annotations

import os
from pathlib import Path


def make_private_folder(folder: str | os.PathLike[str]) -> None:
    """Create a folder, and the folders that contain it, for the user alone; existing ones stay.

    ``Path.mkdir`` and ``os.makedirs`` create the containing folders for everybody, whatever the
    mode: the first of them may be the folder of all of hilum's data.

    Raises:
        OSError: The folder cannot be created, or another file has its name.
    """
    path = Path(folder)
    missing = [each for each in (path, *path.parents) if not each.exists()]
    for each in reversed(missing or [path]):
        each.mkdir(mode=0o700, exist_ok=True)
