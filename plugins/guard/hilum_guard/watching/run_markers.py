"""Record on disk that commands run, so that the next session can check what a killed session left.

A session writes a marker before a command starts, and removes it after the last check. If a marker
has no owner, the owner was killed before the last check. ``recovery`` then performs the missing
check. The owner holds a lock (flock) on the marker, which the operating system releases when the
process ends. So a running session's marker is never mistaken for that of a killed session, even if
process ids are reused or belong to another container.

A marker survives the process, but not a machine crash: syncing it to disk would take milliseconds
per command, and the files that the command writes are not synced either.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import msgspec
from hilum import data_folder, make_private_folder

from hilum_guard.file_names import digest_path
from hilum_guard.repositories import git_metadata
from hilum_guard.sandbox.masks import lock
from hilum_guard.watching import executed_files

OWNER = ".owner"
_STATE = ".state"
_WRITING = ".writing"


class WatchState(msgspec.Struct, frozen=True):
    """The state of a ``WorkspaceWatcher`` while commands were running.

    Attributes:
        roots: The folders that commands wrote to.
        known: The entries that existed before the commands, as the fields of
            ``repositories.Entry``.
        since: The time at which the commands began, in nanoseconds.
        packages: Folders of installed packages that existed before the commands, with their inodes.
        unreported: Sentences that the session has not logged yet, about what was made inert.
        running: Whether commands may have run since the last check; otherwise only sentences are
            left to report.
        undoing: Paths, as shown to the user, of entries that a check was about to make inert.
    """

    roots: tuple[str, ...]
    known: tuple[tuple[str, str, str], ...]
    since: int = 0
    packages: dict[str, int] = {}
    unreported: tuple[str, ...] = ()
    running: bool = True
    undoing: tuple[str, ...] = ()


class RunMarker:
    """The marker of one session. Methods block, and only one thread at a time may call them.

    Args:
        workspace: Root of the workspace, resolved.

    Attributes:
        folder: The folder of the marker; it may not exist.
        name: The marker's name, without a suffix.
    """

    def __init__(self, workspace: str) -> None:
        self.folder = folder_of(workspace)
        self.name = uuid4().hex
        self._fd = -1
        self._written: WatchState | None = None
        # The state in the file that `clear` keeps: most commands change nothing, so the next one
        # begins with the same state.
        self._kept: WatchState | None = None

    @classmethod
    def adopt(cls, folder: Path, name: str, fd: int) -> RunMarker:
        """Return the marker of an ended session, whose lock this process holds.

        Args:
            folder: The folder of the marker.
            name: The marker's name, without a suffix.
            fd: The descriptor that holds the lock.
        """
        marker = cls.__new__(cls)
        marker.folder = folder
        marker.name = name
        marker._fd = fd
        marker._written = None
        marker._kept = None
        return marker

    def write(self, state: WatchState) -> None:
        """Record which entries existed before the running commands started.

        Raises:
            OSError: hilum's data folder cannot be written.
        """
        if state == self._written:
            return
        if self._fd < 0:
            self._fd = self._own()
        if self._restore(state):
            return
        # The digest of the tables shows whether a different version of hilum wrote the marker.
        text = json.dumps({"rules": _digest_rules(), **msgspec.structs.asdict(state)})
        new = self._path(_WRITING)
        self._kept = None
        with open(new, "w", encoding="ascii") as file:
            file.write(text)
        # Readers find either all of the new state or all of the previous state.
        os.replace(new, self._path(_STATE))
        self._written = state

    def _restore(self, state: WatchState) -> bool:
        """Put the file that ``clear`` kept in its place, if it contains a state."""
        if state != self._kept:
            return False
        self._kept = None
        try:
            os.rename(self._path(_WRITING), self._path(_STATE))
        except FileNotFoundError:
            return False
        self._written = state
        return True

    def clear(self) -> None:
        """Remove the marker after all commands have ended and everything is checked and logged.

        The file gets the name of one that is not complete, which no session reads.
        """
        if self._written is not None:
            kept = self._written
            self._written = None
            with suppress(FileNotFoundError):
                os.rename(self._path(_STATE), self._path(_WRITING))
                self._kept = kept

    def close(self) -> None:
        """Release the marker. A marker that was not cleared remains for the next session."""
        if self._fd < 0:
            return
        if self._written is None:
            _remove(self.folder, self.name)
        os.close(self._fd)
        self._fd = -1

    def _own(self) -> int:
        """Create the file that this session locks, and lock it.

        Raises:
            OSError: The file cannot be created, or its file system does not support locks.
        """
        make_private_folder(self.folder)
        while True:
            path = self._path(OWNER)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                lock(fd, exclusive=True)
                if os.path.samestat(os.fstat(fd), os.stat(path)):
                    return fd
            except (BlockingIOError, FileNotFoundError):
                pass
            except OSError:  # no locks on this file system, so another name would not help
                os.close(fd)
                with suppress(FileNotFoundError):
                    os.unlink(path)
                raise
            # Between `open` and `lock`, another process locked and removed the file because it
            # seemed to have no owner.
            os.close(fd)
            self.name = uuid4().hex
            make_private_folder(self.folder)

    def _path(self, ending: str) -> str:
        # Each command uses three of them, and to join paths takes much longer.
        return f"{self.folder}/{self.name}{ending}"


def folder_of(workspace: str) -> Path:
    """Return the folder for a workspace's markers; it may not exist."""
    return data_folder() / "running" / digest_path(workspace)


@contextmanager
def abandoned(folder: Path, name: str) -> Iterator[RunMarker | None]:
    """Lock a marker during the `with` block; remove it afterwards, unless the block raises.

    Args:
        folder: The folder that contains the marker.
        name: The marker's name, without a suffix.

    Yields:
        The marker, or None if its owner has not ended; in that case, the marker is left unchanged.
    """
    path = folder / f"{name}{OWNER}"
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        try:
            lock(fd, exclusive=True)
        except OSError:
            yield None
            return
        yield RunMarker.adopt(folder, name, fd)
        _remove(folder, name)
    finally:
        os.close(fd)


def read(folder: Path, name: str) -> WatchState | None:
    """Return the state in a marker, or None if everything was checked.

    Raises:
        ValueError: The state cannot be read, or was written by a hilum version with a different
            table of executed files.
    """
    try:
        text = (folder / f"{name}{_STATE}").read_text(encoding="ascii")
    except FileNotFoundError:
        return None
    found = json.loads(text)
    if not isinstance(found, dict) or found.pop("rules", "") != _digest_rules():
        raise ValueError("it was written by another version of hilum")
    try:
        # msgspec only validates the data: its decoder would reject the lone surrogates of names
        # that are not UTF-8.
        return msgspec.convert(found, WatchState)
    except msgspec.ValidationError as error:
        raise ValueError("it is damaged") from error


def _remove(folder: Path, name: str) -> None:
    """Remove a marker, and its folder if it is empty."""
    # Remove the owner's file last: without it, the other files would not be found.
    for ending in (_WRITING, _STATE, OWNER):
        with suppress(OSError):
            (folder / f"{name}{ending}").unlink()
    with suppress(OSError):
        folder.rmdir()


@functools.cache
def _digest_rules() -> str:
    """Return a digest of the tables of executed files.

    An entry that is in only one of two tables would be mistaken for a new entry.
    """
    lists = repr((executed_files.TABLE, git_metadata.SETTINGS))
    return hashlib.sha256(lists.encode()).hexdigest()[:16]
