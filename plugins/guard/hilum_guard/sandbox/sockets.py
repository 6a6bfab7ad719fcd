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
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from hilum_guard.file_names import is_below
from hilum_guard.sandbox.unix_sockets import (
    BoundSocket,
    find_bound_sockets,
    find_folders_of_owners,
    read_list,
    select_named,
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
# The same for file systems whose times are whole seconds, or even numbers of seconds.
_COARSE_NS = 3_000_000_000
_SECOND_NS = 1_000_000_000
# The kernel tells the lower 32 bits of an inode.
_INODE_BITS = 0xFFFFFFFF


class _Place(NamedTuple):
    """A folder in which a bound socket may be.

    Attributes:
        folder: The resolved folder.
        name: The name of the socket when it was bound.
        inode: The lower 32 bits of the inode of its file; 0 if it is unknown.
        is_guess: Whether the socket was bound by a relative path, perhaps in another folder.
    """

    folder: str
    name: str
    inode: int
    is_guess: bool


class _Places:
    """The places of bound sockets. Any thread may call the methods."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._named: object = None
        self._home = ""
        # By the number of the socket.
        self._places: dict[int, dict[_Place, None]] = {}
        self._owners: dict[int, set[str]] = {}

    def find(self, home: str) -> list[_Place]:
        """Return the places of all sockets.

        Args:
            home: The user's home folder.
        """
        with self._lock:
            listed = read_list()
            named = None if listed is None else select_named(listed)
            if named is None or (named, home) != (self._named, self._home):
                self._update(find_bound_sockets(named or ()), home)
                self._named = named
                self._home = home
            return [place for places in self._places.values() for place in places]

    def _update(self, bound: Sequence[BoundSocket], home: str) -> None:
        relative = {each.number for each in bound if not each.name.startswith("/")}
        new = frozenset(relative - self._owners.keys())
        self._owners = {each: self._owners[each] for each in relative & self._owners.keys()}
        if new:
            owners = find_folders_of_owners(new)
            self._owners |= {each: owners.get(each, set()) for each in new}
        places: dict[int, dict[_Place, None]] = {}
        for each in bound:
            # A link on the way may lead elsewhere now; the socket is where it was.
            kept = self._places.get(each.number, {})
            places[each.number] = kept | dict.fromkeys(self._locate(each, home))
        self._places = places

    def _locate(self, bound: BoundSocket, home: str) -> Iterator[_Place]:
        is_guess = not bound.name.startswith("/")
        starts = [""]
        if is_guess:
            # The process may have gone to another folder since, so likely ones are tried, too.
            starts = [*self._owners[bound.number], home]
            with suppress(OSError):  # the current folder was deleted
                starts.append(os.getcwd())
        for start in starts:
            folder, name = os.path.split(os.path.join(start, bound.name))
            yield _Place(os.path.realpath(folder), name, bound.inode, is_guess)


_PLACES = _Places()


@functools.lru_cache(maxsize=8)
def _list_known(home: str) -> tuple[tuple[str, str], ...]:
    """Return the known patterns, each with the folder above its first wildcard."""
    patterns = [home + each[1:] if each.startswith("~") else each for each in _KNOWN]
    return tuple((os.path.dirname(each.partition("*")[0]), each) for each in patterns)


def find_sockets(shown: Collection[str] = ()) -> list[str]:
    """Return the resolved paths of sockets that a command could connect to. Blocks.

    A socket that was moved to another folder after it was bound is not found.

    Args:
        shown: The folders that sandboxes show although they have temporary folders of their own.
    """
    home = os.path.expanduser("~")
    folders: dict[str, list[_Place]] = {}
    for place in _PLACES.find(home):
        if not f"{place.folder}/".startswith(_COVERED) or _is_shown(place.folder, shown):
            folders.setdefault(place.folder, []).append(place)
    found: dict[str, None] = {}
    for folder, places in folders.items():
        found |= dict.fromkeys(os.path.join(folder, name) for name in _select(folder, places))
    for folder, pattern in _list_known(home):
        # Most of these programs are not installed, and `glob` is slow even if it finds nothing.
        if os.path.isdir(folder):
            paths = (path for path in glob.glob(pattern) if _is_socket(path))
            found |= dict.fromkeys(path for path in paths if os.path.realpath(path) == path)
    if os.geteuid() == 0:
        return _select_reachable(found)
    return list(found)


def _is_shown(folder: str, shown: Collection[str]) -> bool:
    return folder in shown or is_below(folder, shown)


def _select(folder: str, places: Sequence[_Place]) -> set[str]:
    """Return the names of the bound sockets in a folder.

    If the kernel does not tell the inode of a socket, and no socket has its name, any may be it.
    """
    listed = _list_sockets(folder)
    if listed is None:
        names = {place.name for place in places}
        return {name for name in names if _is_socket(os.path.join(folder, name))}
    found: set[str] = set()
    for place in places:
        names = {place.name} & listed.names
        if place.inode:
            # A hard link is another name of the same socket.
            names |= listed.by_inode.get(place.inode, frozenset())
        elif not names and not place.is_guess:
            names = set(listed.names)
        found |= names
    return found


class _Listing(NamedTuple):
    """The sockets in a folder: their names, and the names of each inode (lower 32 bits)."""

    names: frozenset[str]
    by_inode: Mapping[int, frozenset[str]]


def _list_sockets(folder: str) -> _Listing | None:
    """Return the sockets in a folder; None if it cannot be listed."""
    try:
        status = os.stat(folder)
    except OSError:
        return _Listing(frozenset(), {})
    changed = max(status.st_mtime_ns, status.st_ctime_ns)
    is_coarse = status.st_mtime_ns % _SECOND_NS == 0
    if time.time_ns() - changed <= (_COARSE_NS if is_coarse else _RACY_NS):
        return _scan(folder, ())
    return _scan_once(folder, (status.st_ino, status.st_mtime_ns, status.st_ctime_ns))


def _scan(folder: str, _stamp: tuple[int, ...]) -> _Listing | None:
    """List a folder; the stamp changes when something appears in it."""
    names: list[str] = []
    by_inode: dict[int, frozenset[str]] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False):
                    continue
                if _is_socket(entry.path):
                    names.append(entry.name)
                    inode = entry.inode() & _INODE_BITS
                    by_inode[inode] = by_inode.get(inode, frozenset()) | {entry.name}
    except OSError:
        return None
    return _Listing(frozenset(names), by_inode)


_scan_once = functools.lru_cache(maxsize=1024)(_scan)


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False


def _select_reachable(paths: Iterable[str]) -> list[str]:
    """Return the paths in folders that root can reach in the sandbox's user namespace."""
    reachable: dict[str, bool] = {}
    for folder in map(os.path.dirname, paths):
        if folder not in reachable:
            reachable[folder] = _is_reachable_in_namespace(folder)
    return [path for path in paths if reachable[os.path.dirname(path)]]


def _is_reachable_in_namespace(folder: str) -> bool:
    """Return whether root can reach what is in a folder in the sandbox's user namespace.

    There, root has no rights in the folders of other users beyond those that everybody has. A path
    below such a folder cannot be mounted over either: bwrap would fail.
    """
    groups = {os.getegid(), *os.getgroups()}
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
