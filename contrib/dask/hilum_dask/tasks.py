"""Reads the tasks file, and names every mistake before anything starts."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

import msgspec
from hilum import UsageError
from hilum.errors import E_BAD_ARGS, E_FILE_NOT_FOUND, E_TOO_LARGE

from hilum_dask.folders import name_file
from hilum_dask.records import Task

MAX_LINE = 16 << 20
"""Maximum size of a task's line in bytes."""
MAX_PROMPT = 4 << 20
"""Maximum size of a prompt in bytes: no model reads more."""
MAX_FILE = 16 << 20
"""Maximum size of a file in ``files`` in bytes."""
MAX_PROBLEMS = 20
"""Maximum number of mistakes that an error lists."""


class Entry(msgspec.Struct, frozen=True):
    """A task of the batch, without its content, which stays in the file.

    Attributes:
        id: The task's id.
        name: The id as a file name.
        offset: Position of the task's line in the file.
    """

    id: str
    name: str
    offset: int


class TaskFile:
    """A tasks file whose lines have been checked.

    Only ids and positions are in memory, so that the size of the file does not matter.

    Args:
        path: The file.

    Attributes:
        entries: The tasks, in order.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[Entry] = []

    def read(self, entry: Entry) -> Task:
        """Return a task.

        Raises:
            OSError: The file cannot be read.
        """
        with open(self.path, "rb") as file:
            file.seek(entry.offset)
            task = parse_line(file.readline(MAX_LINE + 1))
        task.id = entry.id
        return task

    def load(self) -> None:
        """Read the whole file and check each line.

        Raises:
            UsageError: The file is missing or has mistakes; all mistakes are named.
        """
        try:
            with open(self.path, "rb") as file:
                self._check_lines(file)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise UsageError(
                f"The tasks file {str(self.path)!r} cannot be read: {reason}.",
                code=E_FILE_NOT_FOUND,
                hint="Name a file with one task in each line.",
            ) from None
        if not self.entries:
            raise UsageError(
                f"The tasks file {str(self.path)!r} contains no task.",
                code=E_BAD_ARGS,
                hint="Write one task in each line: a prompt, or a JSON object with a prompt.",
            )

    def _check_lines(self, file: IO[bytes]) -> None:
        problems: list[str] = []
        lines: dict[str, int] = {}
        too_large = False
        for number, offset, line in _split_lines(file):
            if line is None:
                problems.append(f"line {number}: it is larger than {MAX_LINE >> 20} MB")
                too_large = True
                continue
            if not line.strip():
                continue
            try:
                task = parse_line(line)
                _check_task(task)
            except TaskError as error:
                problems.append(f"line {number}: {error}")
                too_large = too_large or error.too_large
                continue
            identity = task.id or str(number)
            name = name_file(identity)
            # Some file systems ignore case, and the results of two tasks must not be one file.
            earlier = lines.setdefault(name.casefold(), number)
            if earlier != number:
                problems.append(
                    f"line {number}: the id {identity!r} is already that of line {earlier}"
                )
                continue
            self.entries.append(Entry(identity, name, offset))
        if problems:
            raise _problems_error(self.path, problems, too_large=too_large)


class TaskError(Exception):
    """A mistake in a line of the tasks file.

    Attributes:
        too_large: Whether something in the line is too large.
    """

    def __init__(self, message: str, *, too_large: bool = False) -> None:
        super().__init__(message)
        self.too_large = too_large


def _split_lines(file: IO[bytes]) -> Iterator[tuple[int, int, bytes | None]]:
    """Yield each line with its number and position; ``None`` in place of one that is too large."""
    number = 0
    while True:
        offset = file.tell()
        line = file.readline(MAX_LINE + 1)
        if not line:
            return
        number += 1
        if len(line) <= MAX_LINE:
            yield number, offset, line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE)
        yield number, offset, None


def parse_line(line: bytes) -> Task:
    """Return the task in a line: a JSON object, or plain text that is the prompt.

    Raises:
        TaskError: The line is not a task.
    """
    line = line.removeprefix(b"\xef\xbb\xbf").strip()
    if not line.startswith((b"{", b"[", b'"')):
        try:
            return Task(prompt=line.decode())
        except UnicodeDecodeError:
            raise TaskError("it is not text in UTF-8") from None
    try:
        if line.startswith(b'"'):
            return Task(prompt=msgspec.json.decode(line, type=str))
        return msgspec.json.decode(line, type=Task)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TaskError(str(error)[:300]) from None


def _check_task(task: Task) -> None:
    """Check the values of a task.

    Raises:
        TaskError: A value is not possible.
    """
    if not task.prompt.strip():
        raise TaskError("the prompt is empty")
    size = len(task.prompt.encode(errors="replace"))
    if size > MAX_PROMPT:
        raise TaskError(
            f"the prompt has {size / (1 << 20):.0f} MB, and at most {MAX_PROMPT >> 20} MB are"
            " allowed; put the data into a file (files) and name it in the prompt",
            too_large=True,
        )
    if task.timeout is not None and not 0 < task.timeout < float("inf"):
        raise TaskError("the timeout is not a positive number of seconds")
    if "\0" in task.id or "\0" in task.repo:
        raise TaskError("the id and the repo cannot contain a zero byte")
    if task.ref.startswith("-") or task.repo.startswith("-"):
        raise TaskError("the ref and the repo cannot begin with a hyphen")
    for path in task.files:
        check_relative(path)


def check_relative(path: str) -> None:
    """Check that a path leads to a file inside the workspace.

    Raises:
        TaskError: The path is absolute, or leads outside or into the Git folder.
    """
    parts = PurePosixPath(path).parts
    is_outside = not parts or path.startswith("/") or ".." in parts or "\0" in path
    if is_outside or ".git" in {part.lower() for part in parts}:
        raise TaskError(f"the file {path!r} is not inside the workspace")


def _problems_error(path: Path, problems: list[str], *, too_large: bool) -> UsageError:
    """Return the error for a tasks file with mistakes."""
    shown = problems[:MAX_PROBLEMS]
    if len(problems) > MAX_PROBLEMS:
        shown.append(f"and {len(problems) - MAX_PROBLEMS} more")
    count = "a mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
    text = "\n".join(f"  {problem}" for problem in shown)
    return UsageError(
        f"The tasks file {str(path)!r} has {count}; nothing was started:\n{text}",
        code=E_TOO_LARGE if too_large else E_BAD_ARGS,
        hint="A task is a prompt, or a JSON object such as"
        ' {"id": "a", "prompt": "…", "repo": "…"}.',
    )


def read_files(task: Task, folder: Path) -> dict[str, bytes]:
    """Return the contents of a task's files by their paths in the workspace.

    Args:
        task: The task.
        folder: The folder of the tasks file, which paths are relative to.

    Raises:
        UsageError: A file is missing or too large.
    """
    if isinstance(task.files, dict):
        return {path: text.encode() for path, text in task.files.items()}
    contents = {}
    for path in task.files:
        try:
            if os.path.getsize(folder / path) > MAX_FILE:
                raise UsageError(
                    f"The file {path!r} is larger than {MAX_FILE >> 20} MB.",
                    code=E_TOO_LARGE,
                    hint="Put large files into the repository.",
                )
            contents[path] = (folder / path).read_bytes()
        except OSError as error:
            raise UsageError(
                f"The file {path!r} cannot be read: {error.strerror}.", code=E_FILE_NOT_FOUND
            ) from None
    return contents


def copy_tasks(source: Path, target: Path) -> None:
    """Copy a tasks file into the batch's folder, unless it is that file.

    Raises:
        OSError: The copy cannot be written.
    """
    if target.exists() and os.path.samefile(source, target):
        return
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        shutil.copyfile(source, temporary)
        os.replace(temporary, target)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
