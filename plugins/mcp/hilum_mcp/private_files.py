"""Writes files that only the user can read."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from hilum import StoreError, make_private_folder


def write_private(file: Path, text: str, *, keep_mode: bool = False) -> None:
    """Replace a file with a new one that only the user can read. Blocks.

    Args:
        file: The file; its folder is created if it does not exist.
        text: The content.
        keep_mode: Whether an existing file keeps its mode; if the path is a link, its target is
            replaced.

    Raises:
        StoreError: The file cannot be written. The old file is unchanged.
    """
    path = Path(os.path.realpath(file)) if keep_mode else file
    try:
        make_private_folder(path.parent)
        mode = 0o600
        if path.exists():
            # os.replace ignores the mode of the old file. Opening the old file for writing fails if
            # it is read-only, which protects it.
            os.close(os.open(path, os.O_RDWR))
            if keep_mode:
                mode = stat.S_IMODE(path.stat().st_mode)
        _replace(path, text, mode)
    except OSError as error:
        raise StoreError(f"{file} cannot be written: {error.strerror or error}.") from None


def _replace(path: Path, text: str, mode: int) -> None:
    # `mkstemp` creates the file with mode 0600, so no other user can ever read it.
    handle, new = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "w", encoding="utf-8", errors="replace", newline="\n") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(text)
            stream.flush()
            # Without fsync, the renamed file could be empty after a power failure.
            os.fsync(stream.fileno())
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise
