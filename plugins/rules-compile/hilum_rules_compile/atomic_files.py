"""Replaces files so that no reader ever sees a part of the new contents."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_file(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace a file, or create it. A link stays a link. Blocks.

    Args:
        path: The file.
        data: Its new contents.
        mode: Its permissions.

    Raises:
        OSError: It cannot be written; the old contents are still there.
    """
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".hilum-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.chmod(temporary, mode)
        os.replace(temporary, os.path.realpath(path))
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise
