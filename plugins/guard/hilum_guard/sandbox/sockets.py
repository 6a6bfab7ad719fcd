"""Find the Unix sockets of the user's services that a sandbox must hide, such as Docker's.

Neither a read-only mount nor a network namespace prevents a command from connecting to a socket
that has a name in the file system. Therefore the sandbox mounts another file over each of these
sockets. The sockets in ``/run`` and in temporary folders do not exist in the sandbox.
"""

from __future__ import annotations

import glob
import os
import stat

_COVERED = ("/run/", "/var/run/", "/tmp/", "/var/tmp/", "/proc/", "/dev/")
# The kernel's list does not include the sockets of services in containers, which have network
# namespaces of their own, or in virtual machines.
_KNOWN = (
    "~/.docker/run/*.sock",
    "~/.docker/desktop/*.sock",
    "~/.colima/*/*.sock",
    "~/.colima/*.sock",
    "~/.rd/*.sock",
    "~/.orbstack/run/*.sock",
    "~/.lima/*/sock/*.sock",
    "~/.local/share/containers/podman/machine/*.sock",
    "/var/lib/docker/*.sock",
    "/var/snap/*/common/*/unix.socket",
)


def find_sockets() -> list[str]:
    """Return the paths of sockets that a command could connect to. Blocks for about 100 µs."""
    found: dict[str, None] = {}
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError:
        lines = []
    for line in lines:
        # Names of abstract sockets begin with `@`. Abstract sockets have no file, and belong to a
        # network namespace.
        path = line.partition(" /")[2]
        if path and not f"/{path}".startswith(_COVERED):
            found[f"/{path}"] = None
    for pattern in _KNOWN:
        for path in glob.glob(os.path.expanduser(pattern)):
            found[path] = None
    return [path for path in found if _is_socket(path) and os.path.realpath(path) == path]


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False
