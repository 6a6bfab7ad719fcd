"""The memory that a process and its descendants use."""

from __future__ import annotations

import os
from contextlib import suppress

# Maximum number of processes of a server to look at.
MAX_PROCESSES = 200


def measure_tree(pid: int) -> int:
    """Return the resident memory of a process and its descendants in bytes; 0 if unknown. Blocks.

    On other systems than Linux, which have no ``/proc``, the memory is unknown.
    """
    total = 0
    left = [pid]
    seen = 0
    while left and seen < MAX_PROCESSES:
        current = left.pop()
        seen += 1
        total += _read_resident(current)
        left += _list_children(current)
    return total


def _read_resident(pid: int) -> int:
    with suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _list_children(pid: int) -> list[int]:
    """Return the child processes of all threads of a process."""
    found: list[int] = []
    with suppress(OSError, ValueError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
    return found
