"""Find the Unix sockets of the user's services that a sandbox must hide, such as Docker's.

Neither a read-only mount nor a network namespace prevents a command from connecting to a socket
that has a name in the file system. Therefore the sandbox mounts another file over each of these
sockets. The sockets in ``/run`` and in temporary folders do not exist in the sandbox.
"""

from __future__ import annotations

import functools
import glob
import os
import stat
import time
from typing import NamedTuple

from hilum_guard.sandbox.unix_sockets import (
    BoundSocket,
    find_folders_of_owners,
    list_bound_sockets,
    read_inodes,
)

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


# A folder that changed just before it was read may change again without a new time.
_RACY_NS = 50_000_000


class _Place(NamedTuple):
    """A folder in which a bound socket may be.

    Attributes:
        folder: The resolved folder.
        name: The name of the socket when it was bound.
        inode: The inode of its file; 0 if it is unknown.
    """

    folder: str
    name: str
    inode: int


@functools.lru_cache(maxsize=8)
def _list_known(home: str) -> tuple[tuple[str, str], ...]:
    """Return the known patterns, each with the folder above its first wildcard."""
    patterns = [home + each[1:] if each.startswith("~") else each for each in _KNOWN]
    return tuple((os.path.dirname(each.partition("*")[0]), each) for each in patterns)


def find_sockets() -> list[str]:
    """Return the resolved paths of sockets that a command could connect to.

    Blocks for about 200 µs. A socket that was moved to another folder after it was bound is not
    found.
    """
    found: dict[str, None] = {}
    for place in _locate(list_bound_sockets(), os.path.expanduser("~")):
        found |= dict.fromkeys(_find_in_folder(place))
    for folder, pattern in _list_known(os.path.expanduser("~")):
        # Most of these programs are not installed, and `glob` is slow even if it finds nothing.
        if os.path.isdir(folder):
            paths = (path for path in glob.glob(pattern) if _is_socket(path))
            found |= dict.fromkeys(path for path in paths if os.path.realpath(path) == path)
    if os.geteuid() == 0:
        return [path for path in found if _is_reachable_in_namespace(path)]
    return list(found)


@functools.lru_cache(maxsize=4)
def _locate(bound: tuple[BoundSocket, ...], home: str) -> tuple[_Place, ...]:
    """Return the places where bound sockets may be, except those that no sandbox contains.

    Args:
        bound: The sockets.
        home: The user's home folder.
    """
    inodes = read_inodes()
    named = [each for each in bound if each.number in inodes or not each.name.startswith("@")]
    relative = frozenset(each.number for each in named if not each.name.startswith("/"))
    owners = find_folders_of_owners(relative) if relative else {}
    found: dict[_Place, None] = {}
    for number, path in named:
        starts = [""]
        if number in relative:
            # The process may have gone to another folder since, so likely ones are tried, too.
            starts = [*owners.get(number, ()), home, os.getcwd()]
        for start in starts:
            folder, name = os.path.split(os.path.join(start, path))
            resolved = os.path.realpath(folder)
            if not f"{resolved}/".startswith(_COVERED):
                found[_Place(resolved, name, inodes.get(number, 0))] = None
    return tuple(found)


def _find_in_folder(place: _Place) -> list[str]:
    """Return the paths of a bound socket in a folder.

    If none of the sockets in the folder is known to be the bound one, any of them may be.
    """
    try:
        status = os.stat(place.folder)
    except OSError:
        return []
    is_settled = time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > _RACY_NS
    list_sockets = _list_sockets_once if is_settled else _list_sockets
    listed = list_sockets(place.folder, (status.st_ino, status.st_mtime_ns, status.st_ctime_ns))
    if listed is None:
        path = os.path.join(place.folder, place.name)
        return [path] if _is_socket(path) else []
    found = [
        os.path.join(place.folder, name)
        for name, inode in listed
        if name == place.name or inode == place.inode
    ]
    return found or [os.path.join(place.folder, name) for name, _ in listed]


def _list_sockets(folder: str, _stamp: tuple[int, ...]) -> tuple[tuple[str, int], ...] | None:
    """Return the names and inodes of the sockets in a folder; None if it cannot be listed."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False):
                    continue
                if _is_socket(entry.path):
                    found.append((entry.name, entry.inode()))
    except OSError:
        return None
    return tuple(found)


# The stamp changes when something appears in the folder.
_list_sockets_once = functools.lru_cache(maxsize=256)(_list_sockets)


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
