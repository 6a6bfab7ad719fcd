"""Read small files that a command names."""

from __future__ import annotations

import os
import stat

from hilum_guard.command_paths import locate


def read_small_file(path: str, limit: int) -> bytes | None:
    """Return the content of a small regular file, or None for anything else.

    This function never waits for a pipe or device.

    Args:
        path: The file, as commands see it.
        limit: Maximum size in bytes.
    """
    try:
        descriptor = os.open(locate(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
            return None
        return os.read(descriptor, limit)
    except OSError:
        return None
    finally:
        os.close(descriptor)
