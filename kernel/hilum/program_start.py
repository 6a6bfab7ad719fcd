"""Find when this program started, for its user: files written later may be the work of its agents."""

import os
import time
from functools import lru_cache

_IMPORTED = time.time()


def find_start() -> float:
    """Return when this process started, or was given its start by the fork server.

    Returns:
        The time in seconds since the epoch, like that of a file.
    """
    return _find_start(os.getpid())


def begin_again() -> None:
    """Make now the start of this process: it was forked ahead of what it is to do."""
    now = time.time()
    _starts[os.getpid()] = now
    _find_start.cache_clear()


# By process, because a forked process inherits what its parent knows.
_starts: dict[int, float] = {}


@lru_cache(2)
def _find_start(process: int) -> float:
    """Return when a process started.

    This module may be imported only after the first file has been written, so that the time of its
    import is no answer where the system knows a better one.

    Args:
        process: The identifier of this process, which is another one after a fork.
    """
    if process in _starts:
        return _starts[process]
    try:
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
            # The name of the program, in parentheses, may contain spaces (proc_pid_stat(5)).
            ticks = int(file.read().rpartition(")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):  # there is no /proc
        return _IMPORTED
    return time.time() - age
