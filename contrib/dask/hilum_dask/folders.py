"""The folder of a batch: where each file is, and how a result is published exactly once."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import msgspec
from hilum import HilumError, UsageError
from hilum.errors import E_FAILED, E_FILE_NOT_FOUND

from hilum_dask.records import Options, Record, decode_record, encode

MAX_NAME = 120
"""Maximum length of a file name; file systems allow 255, and suffixes are added."""
FORMAT = 1
FULL = (errno.ENOSPC, errno.EDQUOT)
_FULL_TEXTS = ("no space left", "out of diskspace", "disk quota", "disk is full")
"""What Git, the session store and the operating system write about a full disk, in lower case."""


class BatchInfo(msgspec.Struct):
    """The file ``batch.json``.

    Attributes:
        format: Version of the layout of the folder.
        batch: Random identity of the batch.
        options: The options with which the batch was started last.
        source: The folder of the tasks file, which the paths in it are relative to.
        budget: Maximum cost of all tasks in US dollars; 0 for no limit.
    """

    format: int
    batch: str
    options: Options
    source: str = ""
    budget: float = 0.0


def name_file(identity: str) -> str:
    """Return the file name for a task's id, which may contain any characters."""
    name = quote(identity, safe="")
    # Hidden files are not results, and `.` and `..` are folders.
    if name.startswith("."):
        name = f"%2E{name[1:]}"
    if len(name) <= MAX_NAME:
        return name
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return f"{name[:MAX_NAME]}~{digest}"


def describe_os_error(error: OSError) -> str:
    """Return the reason of an error of the operating system, without its number."""
    return error.strerror or type(error).__name__


def names_full_disk(text: str) -> bool:
    """Return whether a message is about a full disk."""
    lowered = text.lower()
    return any(phrase in lowered for phrase in _FULL_TEXTS)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it has either its old or its new content, even after a power loss.

    Raises:
        OSError: The file cannot be written. Its old content remains.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        _write_synced(temporary, data)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(path.parent)


def _write_synced(path: Path, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class BatchFolder:
    """The folder of a batch.

    Args:
        root: The folder.

    Attributes:
        results: One file for each finished task.
        attempts: One file for each attempt that has ended.
        patches: The patches.
        sessions: The sessions, one store for each attempt.
        logs: What the child processes wrote to standard error.
        work: The workspaces.
        cancelled: Requests of ``hilum batch cancel``.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.results = root / "results"
        self.attempts = root / "attempts"
        self.patches = root / "patches"
        self.sessions = root / "sessions"
        self.logs = root / "logs"
        self.work = root / "work"
        self.cancelled = root / "cancel"

    @property
    def info_file(self) -> Path:
        """The file that describes the batch."""
        return self.root / "batch.json"

    @property
    def tasks_file(self) -> Path:
        """The copy of the tasks file."""
        return self.root / "tasks.jsonl"

    @property
    def lease_file(self) -> Path:
        """The file that says which driver works on the batch."""
        return self.root / "driver.json"

    @property
    def table(self) -> Path:
        """The table of all results."""
        return self.root / "results.jsonl"

    def create(self) -> None:
        """Create the folders.

        Raises:
            HilumError: A folder cannot be created, for example because the disk is read-only.
        """
        folders = (self.results, self.attempts, self.patches, self.sessions, self.logs)
        try:
            for folder in (*folders, self.work, self.cancelled):
                folder.mkdir(parents=True, exist_ok=True)
            # A folder that exists may still be on a read-only disk.
            probe = self.root / f".probe.{secrets.token_hex(4)}"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise HilumError(
                f"The folder {str(self.root)!r} cannot be written: {describe_os_error(error)}.",
                code=E_FAILED,
                hint="Choose another folder with --out.",
            ) from None

    def read_info(self) -> BatchInfo | None:
        """Read the description of the batch; return ``None`` if there is none yet.

        Raises:
            UsageError: The file is damaged, or a newer version wrote it.
        """
        try:
            data = self.info_file.read_bytes()
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            raise UsageError(f"{str(self.root)!r} is not a folder.") from None
        try:
            info = msgspec.json.decode(data, type=BatchInfo)
        except msgspec.DecodeError as error:
            raise UsageError(
                f"The file {str(self.info_file)!r} is damaged: {error}.",
                hint="Choose another folder with --out, or delete the file to begin again.",
            ) from None
        if info.format > FORMAT:
            raise UsageError(
                f"A newer version of hilum-dask wrote {str(self.root)!r}.",
                hint="Update hilum-dask, or choose another folder with --out.",
            )
        return info

    def write_info(self, info: BatchInfo) -> None:
        """Write the description of the batch."""
        write_whole(self.info_file, encode(info))

    def expect(self) -> BatchInfo:
        """Return the description of an existing batch.

        Raises:
            UsageError: The folder contains no batch.
        """
        info = self.read_info()
        if info is None:
            raise UsageError(
                f"There is no batch in {str(self.root)!r}.",
                code=E_FILE_NOT_FOUND,
                hint="Name the folder that `hilum batch` wrote (--out).",
            )
        return info

    def read_epoch(self) -> int:
        """Return the epoch of the driver that has the batch; 0 if there is none."""
        try:
            return int(msgspec.json.decode(self.lease_file.read_bytes())["epoch"])
        except (OSError, msgspec.DecodeError, KeyError, TypeError, ValueError):
            return 0

    # --- results ----------------------------------------------------------------------------------

    def publish(self, name: str, record: Record) -> bool:
        """Make a record the result of its task, unless the task already has one.

        Args:
            name: The task's id as a file name.
            record: The record.

        Returns:
            Whether this record is the result.

        Raises:
            OSError: The record cannot be written.
        """
        path = self.results / f"{name}.json"
        temporary = self.results / f".{name}.{secrets.token_hex(4)}"
        try:
            _write_synced(temporary, encode(record))
            # Unlike a rename, a link fails if the file exists, so a second result is never
            # accepted, whoever writes it.
            os.link(temporary, path)
        except FileExistsError:
            return False
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink()
        _sync_folder(self.results)
        return True

    def read_result(self, name: str) -> Record | None:
        """Return the result of a task; ``None`` if it has none."""
        return _read_record(self.results / f"{name}.json")

    def result_names(self) -> set[str]:
        """Return the file names of the tasks that have results, also damaged ones."""
        return {entry.removesuffix(".json") for entry in _list_files(self.results)}

    def set_damaged_aside(self, name: str) -> str:
        """Move a damaged result aside, so that the task is open; return its new path.

        Raises:
            OSError: The file cannot be moved.
        """
        target = self.attempts / f"{name}.damaged-{secrets.token_hex(4)}"
        os.replace(self.results / f"{name}.json", target)
        return f"attempts/{target.name}"

    def reopen_task(self, name: str) -> None:
        """Move a result aside, so that the task is open again."""
        source = self.results / f"{name}.json"
        number = 1
        while True:
            target = self.attempts / f"{name}.earlier-{number}.json"
            try:
                os.link(source, target)
            except FileExistsError:
                number += 1
                continue
            source.unlink()
            return

    # --- attempts ---------------------------------------------------------------------------------

    def attempt_name(self, name: str, attempt: int) -> str:
        """Return the name of the files of an attempt, without a suffix."""
        return f"{name}.{attempt}"

    def write_attempt(self, name: str, record: Record) -> None:
        """Write the record of an attempt that has ended."""
        path = self.attempts / f"{self.attempt_name(name, record.attempts)}.json"
        write_whole(path, encode(record))

    def read_attempts(self) -> Iterator[tuple[str, Record]]:
        """Yield the records of all attempts that have ended, with the names of their tasks."""
        for entry in _list_files(self.attempts):
            stem = entry.removesuffix(".json")
            name, _, number = stem.rpartition(".")
            record = _read_record(self.attempts / entry)
            if record is not None and number.isdigit():
                yield name, record

    def sum_costs(self, name: str, last: int, session: str) -> float:
        """Return what the attempts at a task up to a number cost in a session, as they reported."""
        found = 0.0
        for attempt in range(1, last + 1):
            record = _read_record(self.attempts / f"{self.attempt_name(name, attempt)}.json")
            if record is not None and record.session == session:
                found += record.cost or 0.0
        return found

    def clear_cancelled(self, name: str) -> None:
        """Remove the request to cancel a task."""
        with contextlib.suppress(FileNotFoundError):
            (self.cancelled / name).unlink()

    def list_cancelled(self) -> set[str]:
        """Return the names in requests to cancel."""
        try:
            return set(os.listdir(self.cancelled))
        except OSError:
            return set()


STOP_ALL = "..all"
"""The name of a request to stop the whole batch, which no task's file name can be."""


def _list_files(folder: Path) -> list[str]:
    """Return the names of the JSON files in a folder, in order."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return sorted(name for name in names if name.endswith(".json") and name[0] != ".")


def _read_record(path: Path) -> Record | None:
    """Return the record in a file; ``None`` if the file is missing or damaged."""
    try:
        return decode_record(path.read_bytes())
    except (OSError, msgspec.DecodeError):
        return None
