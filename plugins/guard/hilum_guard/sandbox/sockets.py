"""Find the Unix sockets of the user's services that a sandbox must hide, such as Docker's.

Neither a read-only mount nor a network namespace prevents a command from connecting to a socket
that has a name in the file system. Therefore the sandbox mounts another file over each of these
sockets. The sockets in ``/run`` and in temporary folders do not exist in the sandbox.
"""

from __future__ import annotations

import functools
import glob
import os
import re
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


# Names of abstract sockets begin with `@`. Abstract sockets have no file, and belong to a network
# namespace.
_PATH = rb" (/[^\n]*)"


@functools.lru_cache(maxsize=8)
def _list_known(home: str) -> tuple[tuple[str, str], ...]:
    """Return the known patterns, each with the folder above its first wildcard."""
    patterns = [home + each[1:] if each.startswith("~") else each for each in _KNOWN]
    return tuple((os.path.dirname(each.partition("*")[0]), each) for each in patterns)


def find_sockets() -> list[str]:
    """Return the paths of sockets that a command could connect to. Blocks for about 100 µs."""
    found: dict[str, None] = {}
    try:
        with open("/proc/net/unix", "rb", 0) as file:
            listed = file.read()
    except OSError:
        listed = b""
    for path in map(os.fsdecode, re.findall(_PATH, listed)):
        if not path.startswith(_COVERED):
            found[path] = None
    for folder, pattern in _list_known(os.path.expanduser("~")):
        # Most of these programs are not installed, and `glob` is slow even if it finds nothing.
        if os.path.isdir(folder):
            found |= dict.fromkeys(glob.glob(pattern))
    sockets = [path for path in found if _is_socket(path) and os.path.realpath(path) == path]
    if os.geteuid() == 0:
        return [path for path in sockets if _is_reachable_in_namespace(path)]
    return sockets


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False


def _is_reachable_in_namespace(path: str) -> bool:
    """Return whether root can reach a path in the sandbox's user namespace.

    There, root has no rights in the folders of other users beyond those that everybody has. A path
    below such a folder cannot be mounted over either: bwrap would fail.
    """
    groups = {os.getegid(), *os.getgroups()}
    folder = os.path.dirname(path)
    while folder != "/":
        try:
            status = os.lstat(folder)
            has_access_list = "system.posix_acl_access" in os.listxattr(folder)
        except OSError:
            return True
        is_own = status.st_uid == os.geteuid()
        is_group = status.st_gid in groups
        search = stat.S_IXGRP if is_group else stat.S_IXOTH
        if not is_own and not has_access_list and not status.st_mode & search:
            return False
        folder = os.path.dirname(folder)
    return True
