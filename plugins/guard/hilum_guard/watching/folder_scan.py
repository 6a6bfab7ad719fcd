"""List the folders in a workspace, rereading only those that changed.

A scan costs one ``lstat`` for each known folder. The scan compares change times (ctime), because a
program can set modification times, but not change times. In a large workspace, ``folder_events`` may
confirm that nothing has changed, which costs nothing.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import attrs

from hilum_guard.file_names import QUARANTINED, original
from hilum_guard.repositories import git_metadata
from hilum_guard.watching.executed_files import PARENTS, find_name
from hilum_guard.watching.folder_events import FolderEvents

MAX_FOLDERS = 20_000
"""Maximum number of folders to watch; those nearest the root come first."""
SETTLED = 50_000_000
"""Time, in nanoseconds, within which a folder may change again without a new change time."""
# Folders of installed packages, which users do not open or enter. These folders are scanned if the
# Git index contains nested repositories.
SKIPPED = frozenset({"node_modules", "site-packages", "__pycache__"})
Stamp = tuple[int, int]
"""Inode and change time."""


@attrs.define
class Folder:
    """The result of listing a folder.

    Attributes:
        stamp: The folder's stamp when it was listed.
        settled: Whether a later change to the folder would change its stamp.
        folders: Paths of the subfolders.
        skipped: Paths of the subfolders that scans usually skip.
        names: Names of files in the folder that may be executed.
        executed: The paths in ``folders`` that are executed as a whole. Scans look only for Git
            metadata in these folders.
        repository: Whether the folder is a Git folder.
        listed: Whether the folder could be listed.
    """

    stamp: Stamp
    settled: bool
    folders: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    executed: tuple[str, ...] = ()
    repository: bool = False
    listed: bool = True


class ScannedFolders(NamedTuple):
    """The folders that a scan found.

    Attributes:
        revision: A number that two scans share only if the second found the same folders, and no
            folder had changed, or might have changed without a new change time.
        paths: The paths of the folders.
    """

    revision: int
    paths: Collection[str]


class FolderScan:
    """The folders in a workspace.

    Args:
        roots: The folders to scan, resolved.
        events: Confirms that nothing has changed, if there is one.

    Attributes:
        relevant: The folders that contain relevant names, are Git folders or could not be listed.
        scanned: The folders, as of the last scan.
        truncated: Whether some folders are not scanned because there are too many.
    """

    def __init__(self, roots: Sequence[str], events: FolderEvents | None = None) -> None:
        self.relevant: list[tuple[str, Folder]] = []
        self.scanned = ScannedFolders(0, ())
        self.truncated = False
        self._roots = tuple(roots)
        self._events = events
        self._folders: dict[str, Folder] = {}
        # Whether the previous scan included folders of installed packages; None before the first.
        self._everywhere: bool | None = None
        # Whether a later change to any folder that it found would change the folder's stamp.
        self._is_settled = False
        # Folders that are executed as a whole.
        self._executed: set[str] = set()

    def refresh(self, everywhere: bool) -> None:
        """List the folders that changed, and forget those that no longer exist.

        Args:
            everywhere: Whether to also scan folders of installed packages.
        """
        events = self._events
        is_similar = everywhere == self._everywhere
        if events is not None:
            if is_similar and self._is_settled and events.confirm():
                return
            events.begin_scan()
        # This loop runs for every folder in a workspace at every command, so it does no more than
        # necessary: it uses local names instead of attributes, and calls no function for a known
        # folder.
        old = self._folders
        found: dict[str, Folder] = {}
        relevant: list[tuple[str, Folder]] = []
        lstat = os.lstat
        is_changed = False
        waiting = list(self._roots)
        # Folders are scanned level by level, so that the limit omits the deepest ones.
        while waiting and len(found) < MAX_FOLDERS:
            deeper: list[str] = []
            for path in waiting:
                try:
                    status = lstat(path)
                except OSError:
                    continue
                stamp = (status.st_ino, status.st_ctime_ns)
                state = old.get(path)
                if state is None or not state.settled or state.stamp != stamp:
                    if not stat.S_ISDIR(status.st_mode):
                        continue
                    state = self._list(path, stamp)
                    is_changed = True
                found[path] = state
                if state.names or state.repository or not state.listed:
                    relevant.append((path, state))
                deeper += state.folders
                if everywhere:
                    deeper += state.skipped
            waiting = deeper
        self._folders = found
        self.relevant = relevant
        # Without a new listing, every folder that was found was known.
        if is_changed or len(found) != len(old):
            self.scanned = ScannedFolders(self.scanned.revision + 1, found.keys())
        self._everywhere = everywhere
        self._is_settled = all(state.settled for state in found.values())
        # The watches follow two scans of the same kind: a single one is not repeated soon.
        if events is not None and is_similar:
            events.end_scan({path: state.stamp[0] for path, state in found.items()})
        self.truncated = bool(waiting)

    def _list(self, path: str, stamp: Stamp) -> Folder:
        is_executed = path in self._executed
        folder = _list_folder(path, stamp, only_git=is_executed)
        self._executed.update(folder.folders if is_executed else folder.executed)
        return folder

    def has_changed_packages(self, since: int) -> bool:
        """Return whether a folder in a folder of installed packages has changed.

        This takes 13 µs for each of these folders, if they are in the cache of the file system.

        Args:
            since: The time from which changes count, as Unix time in nanoseconds.
        """
        lstat = os.lstat
        waiting = [path for state in self._folders.values() for path in state.skipped]
        while waiting:
            path = waiting.pop()
            # The folder is gone, or cannot be listed.
            with suppress(OSError):
                if lstat(path).st_ctime_ns >= since:
                    return True
                with os.scandir(path) as entries:
                    waiting += [
                        entry.path for entry in entries if entry.is_dir(follow_symlinks=False)
                    ]
        return False

    def skipped_folders(self) -> Iterator[str]:
        """Yield the folders of installed packages, except those with compiled modules."""
        for state in self._folders.values():
            for path in state.skipped:
                if not path.endswith("/__pycache__"):  # they contain no repositories
                    yield path


def _list_folder(path: str, stamp: Stamp, *, only_git: bool = False) -> Folder:
    """List a folder.

    Args:
        path: The folder.
        stamp: Its stamp.
        only_git: Whether the folder is executed as a whole, so that only Git metadata matters in
            it.
    """
    settled = time.time_ns() - stamp[1] > SETTLED
    try:
        with os.scandir(path) as entries:
            found = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
    except (FileNotFoundError, NotADirectoryError):
        return Folder(stamp, settled)
    except OSError:
        # A command may make a folder unlistable to hide files in it, so unlistable folders are not
        # skipped.
        return Folder(stamp, settled, listed=False)
    inner = [name for name, is_folder in found.items() if is_folder and name.lower() != ".git"]
    folders = [name for name in inner if name not in SKIPPED]
    return Folder(
        stamp,
        settled,
        folders=tuple(os.path.join(path, name) for name in folders),
        skipped=tuple(os.path.join(path, name) for name in inner if name in SKIPPED),
        names=tuple(name for name in found if _is_relevant(path, name, only_git)),
        executed=tuple(os.path.join(path, name) for name in filter(_is_executed, folders)),
        repository=git_metadata.is_repository(set(found)),
    )


def _is_executed(name: str) -> bool:
    """Return whether a folder with this name, even a quarantined one, is executed as a whole."""
    row = find_name(original(name) if name.endswith(QUARANTINED) else name)
    return row is not None and row.folder and not row.data


def _is_relevant(folder: str, name: str, only_git: bool) -> bool:
    """Return whether a name in a folder belongs to Git, is executed or contains executed files."""
    # A file system that ignores case finds `.GIT` where Git looks for `.git`.
    low = name.lower()
    if low == ".git":
        return True
    if only_git or name.endswith(QUARANTINED):
        return False
    row = find_name(name)
    if row is None:
        return low in PARENTS
    # A name that is executed only as a file is harmless as a folder's name.
    return row.folder or not os.path.isdir(f"{folder}/{name}")


# --- files ----------------------------------------------------------------------------------------


def read_stamp(path: str) -> Stamp:
    """Return a file's stamp; zeros if the file does not exist."""
    try:
        status = os.lstat(path)
    except OSError:
        return (0, 0)
    return status.st_ino, status.st_ctime_ns


def read_inode(path: str) -> int:
    """Return a file's inode, which changes if the file is replaced; 0 if there is no file."""
    return read_stamp(path)[0]


def is_settled(stamps: Iterable[object]) -> bool:
    """Return whether later changes to the files would change their stamps."""
    now = time.time_ns()
    changes = [stamp[1] for stamp in stamps if isinstance(stamp, tuple) and len(stamp) > 1]
    return all(now - changed > SETTLED for changed in changes)


def describe_kind(path: str) -> str:
    """Return ``file``, ``folder``, ``nothing``, or ``link to`` and the target."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return "nothing"
    if stat.S_ISLNK(mode):
        try:
            return f"link to {os.readlink(path)}"
        except OSError:
            return "link to nothing"
    return "folder" if stat.S_ISDIR(mode) else "file"
