"""Reads and writes files of the measurement in folders that a careless or hostile agent may have changed.

The folder of these files is hidden from agents in a sandbox. Without one, an agent can put links, named
pipes and folders in their places: a link must not lead a write to another file, and no pipe may block.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path

_MAX_BYTES = 200_000_000


def read_regular_file(path: Path) -> str:
    """Return the text of a regular file.

    Raises:
        OSError: The file does not exist, is no regular file, is a link, or is too large.
    """
    # A pipe without a writer does not block then.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "Not a regular file", str(path))
        if status.st_size > _MAX_BYTES:
            raise OSError(errno.EFBIG, "File too large", str(path))
        return file.read().decode(errors="replace")


def write_regular_file(path: Path, text: str) -> None:
    """Write a new file, which takes the place of whatever has its name.

    Raises:
        OSError: The file cannot be written, or a folder has its name.
    """
    descriptor, name = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogatepass") as file:
            file.write(text)
        # Renaming replaces a link itself, and not the file to which it leads.
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
