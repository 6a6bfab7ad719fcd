"""The ports of this machine's loopback that commands of the session have opened."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

_LISTENS = "0A"


def find_own_ports(pids: Iterable[int]) -> set[int]:
    """Return the ports on which some processes, or those that they started, listen. Blocks.

    Where a process has a network of its own, everything that listens there is the session's.

    Args:
        pids: The processes.
    """
    found: set[int] = set()
    ours = _network("self")
    for pid in _with_children(pids):
        sockets = _listening(pid)
        if _network(pid) == ours:
            own = _sockets(pid)
            sockets = {port: inodes & own for port, inodes in sockets.items()}
        found |= {port for port, inodes in sockets.items() if inodes}
    return found


def _with_children(pids: Iterable[int]) -> Iterator[int]:
    waiting = list(pids)
    seen: set[int] = set()
    while waiting:
        pid = waiting.pop()
        if pid in seen:
            continue
        seen.add(pid)
        yield pid
        with suppress(OSError):
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/children") as file:
                    waiting += map(int, file.read().split())


def _network(pid: int | str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


def _listening(pid: int) -> dict[int, set[str]]:
    """Return the sockets that listen in the network of a process, by port."""
    found: dict[int, set[str]] = {}
    for name in ("tcp", "tcp6"):
        with suppress(OSError), open(f"/proc/{pid}/net/{name}") as file:
            for line in file.read().splitlines()[1:]:
                words = line.split()
                if words[3] == _LISTENS:
                    found.setdefault(int(words[1].rpartition(":")[2], 16), set()).add(words[9])
    return found


def _sockets(pid: int) -> set[str]:
    found = set()
    with suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                match = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{fd}"))
                if match:
                    found.add(match[1])
    return found
