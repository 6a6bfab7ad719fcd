"""The Unix sockets of the user's services that a sandbox with its own mounts still sees: Docker's,
agents of keys, editors'.

A read-only mount does not keep anybody from connecting, and neither does a namespace of the network
where the socket has a name in the file system. So each one is covered. Those in `/run` and in the
folders of temporary files are not there at all.
"""

from __future__ import annotations

import glob
import os
import stat

_COVERED = ("/run/", "/var/run/", "/tmp/", "/var/tmp/", "/proc/", "/dev/")
# Sockets whose services live in another network namespace (a container, a virtual machine) stand in
# no list of this one.
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
    """Return the paths of sockets that a command could connect to.

    Blocks for some hundred microseconds.
    """
    found: dict[str, None] = {}
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError:
        lines = []
    for line in lines:
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
