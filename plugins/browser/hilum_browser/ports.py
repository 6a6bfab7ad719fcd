"""Finds the loopback ports that commands of the session opened, using Linux's ``/proc``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

# The state of a listening socket in /proc/net/tcp (include/net/tcp_states.h).
_LISTEN = "0A"


def find_own_ports(pids: Iterable[int]) -> set[int]:
    """Return the ports on which the given processes or their child processes listen. Blocks.

    If a process has its own network namespace, every open port in it is included.

    Args:
        pids: The processes.
    """
    found: set[int] = set()
    own_network = _read_network("self")
    for pid in _walk_children(pids):
        sockets = _read_listening_sockets(pid)
        if _read_network(pid) != own_network:
            found |= set(sockets)
            continue
        own = _read_open_sockets(pid)
        found |= {port for port, inodes in sockets.items() if inodes & own}
    return found


def _walk_children(pids: Iterable[int]) -> Iterator[int]:
    """Yield processes and all their child processes."""
    # The kernel lists the child processes of each thread in /proc/PID/task/TID/children.
    pending = list(pids)
    seen: set[int] = set()
    while pending:
        pid = pending.pop()
        if pid in seen:
            continue
        seen.add(pid)
        yield pid
        with suppress(OSError):  # the process may end in the meantime
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/children") as file:
                    pending += map(int, file.read().split())


def _read_network(pid: int | str) -> str:
    """Return the network namespace of a process."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


def _read_listening_sockets(pid: int) -> dict[int, set[str]]:
    """Return the inodes of the listening sockets in a process's network namespace, by port."""
    found: dict[int, set[str]] = {}
    for name in ("tcp", "tcp6"):
        with suppress(OSError), open(f"/proc/{pid}/net/{name}") as file:
            for line in file.read().splitlines()[1:]:
                # proc(5): the second field is the local address, the fourth the state, the tenth
                # the inode.
                fields = line.split()
                if fields[3] == _LISTEN:
                    port = int(fields[1].rpartition(":")[2], 16)
                    found.setdefault(port, set()).add(fields[9])
    return found


def _read_open_sockets(pid: int) -> set[str]:
    """Return the inodes of the sockets that a process has open."""
    found = set()
    with suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                target = os.readlink(f"/proc/{pid}/fd/{fd}")
                match = re.fullmatch(r"socket:\[(\d+)\]", target)
                if match:
                    found.add(match[1])
    return found
