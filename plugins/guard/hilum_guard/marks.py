"""Remembers on disk that commands run, so that the next hilum looks at what a killed one could not
look at any more.

A session writes a mark before a command starts and removes it after the last look. A mark whose
owner is gone means that the owner was killed in between: ``recovery`` then does the look that is
missing. The owner holds a lock (flock) on the mark, which the system drops with the process, so
that the mark of a living session is never taken for one of a dead session, not even when process
numbers are used again or belong to another container.

A mark outlives the process, not a failure of the machine: it is not forced to the disk, which would
take milliseconds for each command, and neither is what the command writes.
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

import attrs
from hilum import data_folder

from hilum_guard import executed, repositories
from hilum_guard.leftovers import lock

OWNER = ".owner"
_STATE = ".state"
_WRITING = ".writing"


@attrs.frozen
class Remembered:
    """What a watch knew while commands ran.

    Attributes:
        roots: The folders that commands wrote to.
        known: What was executed before the commands, as the fields of ``repositories.Entry``.
        since: When the commands began, in nanoseconds.
        packages: Folders of installed packages that were there, with their inode numbers.
        untold: Sentences on what was made inert that the session has not logged yet.
        running: Whether commands may have run since the last look; if not, there is only something
            to tell.
    """

    roots: tuple[str, ...]
    known: tuple[tuple[str, str, str], ...]
    since: int = 0
    packages: dict[str, int] = attrs.field(factory=dict)
    untold: tuple[str, ...] = ()
    running: bool = True


class Mark:
    """The mark of one session. Methods block, and are called by one thread at a time.

    Args:
        workspace: Root of the workspace, resolved.
    """

    def __init__(self, workspace: str) -> None:
        self._folder = folder_of(workspace)
        self._name = uuid4().hex
        self._fd = -1
        self._written: Remembered | None = None

    def write(self, remembered: Remembered) -> None:
        """Write down what was there before the commands that run.

        Raises:
            OSError: hilum's data folder cannot be written.
        """
        if remembered == self._written:
            return
        if self._fd < 0:
            self._fd = self._own()
        text = json.dumps({"rules": _rules(), **attrs.asdict(remembered)})
        new = self._path(_WRITING)
        new.write_text(text, encoding="ascii")
        os.replace(
            new, self._path(_STATE)
        )  # whoever reads it finds all of it, or what was there before
        self._written = remembered

    def clear(self) -> None:
        """Remove it: no command runs, everything was looked at, and what was found is logged."""
        if self._written is not None:
            self._written = None
            self._path(_STATE).unlink(missing_ok=True)

    def close(self) -> None:
        """Give the mark up. What was not cleared stays for the next session."""
        if self._fd < 0:
            return
        if self._written is None:
            _remove(self._folder, self._name)
        os.close(self._fd)
        self._fd = -1

    def _own(self) -> int:
        """Create the file that this session locks, and lock it.

        Raises:
            OSError: It cannot be created, or its file system has no locks.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            path = self._path(OWNER)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                lock(fd, exclusive=True)
                if os.path.samestat(os.fstat(fd), os.stat(path)):
                    return fd
            except (BlockingIOError, FileNotFoundError):
                pass
            except OSError:  # no locks on this file system: another name would not help
                os.close(fd)
                path.unlink(missing_ok=True)
                raise
            # Another process has locked and removed it between the two calls, as it looked like one
            # without an owner.
            os.close(fd)
            self._name = uuid4().hex
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _path(self, ending: str) -> Path:
        return self._folder / f"{self._name}{ending}"


def folder_of(workspace: str) -> Path:
    """Return the folder for the marks of a workspace; it may not exist."""
    return data_folder() / "running" / hashlib.sha256(os.fsencode(workspace)).hexdigest()[:32]


@contextmanager
def abandoned(folder: Path, name: str) -> Iterator[bool]:
    """Hold a mark while the body looks; remove it afterwards, unless the body raises.

    Args:
        folder: Where it is.
        name: Its name, without an ending.

    Yields:
        Whether its owner is gone. If not, it is left alone.
    """
    try:
        fd = os.open(folder / f"{name}{OWNER}", os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        try:
            lock(fd, exclusive=True)
        except OSError:
            yield False
            return
        yield True
        _remove(folder, name)
    finally:
        os.close(fd)


def read(folder: Path, name: str) -> Remembered | None:
    """Read what a mark remembers. Returns None where all was looked at.

    Raises:
        ValueError: It cannot be read, or it was written by a hilum with another list of what is
            executed.
    """
    try:
        text = (folder / f"{name}{_STATE}").read_text(encoding="ascii")
    except FileNotFoundError:
        return None
    found = json.loads(text)
    if not isinstance(found, dict) or found.pop("rules", "") != _rules():
        raise ValueError("it was written by another version of hilum")
    try:
        known = tuple((kind, path, detail) for kind, path, detail in found["known"])
        untold = tuple(found["untold"])
        return Remembered(
            tuple(found["roots"]),
            known,
            found["since"],
            found["packages"],
            untold,
            found["running"],
        )
    except (KeyError, TypeError) as error:
        raise ValueError("it is damaged") from error


def _remove(folder: Path, name: str) -> None:
    """Remove a mark, the file of its owner last: without that, nobody would find the rest.

    Remove the folder if it is empty.
    """
    for ending in (_WRITING, _STATE, OWNER):
        with suppress(OSError):
            (folder / f"{name}{ending}").unlink()
    with suppress(OSError):
        folder.rmdir()


@functools.cache
def _rules() -> str:
    """Return a digest of the lists of what is executed: an entry that one list has and another has
    not is not new.
    """
    lists = repr((executed.TABLE, repositories.SETTINGS))
    return hashlib.sha256(lists.encode()).hexdigest()[:16]
