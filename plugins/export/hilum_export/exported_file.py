"""Files to write for another program, and how they are written without losing anything."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import attrs

Target = Literal["claude", "codex", "agents-md"]
State = Literal["new", "same", "exists", "refused"]
_KEPT_MODE = 0o644


@attrs.frozen
class ExportedFile:
    """A file for another program.

    Attributes:
        path: The file, relative to the project.
        data: Its content.
        source: What it is made of, relative to the project.
        lost: What the format cannot express, as sentences.
        keeps_old: Whether ``data`` contains what the file contains now.
    """

    path: str
    data: bytes
    source: str
    lost: tuple[str, ...] = ()
    keeps_old: bool = False


@attrs.frozen
class NotExported:
    """Something that has no counterpart in the format.

    Attributes:
        source: What is not exported, relative to the project.
        reason: Why, as a sentence.
    """

    source: str
    reason: str


def find_state(root: Path, file: ExportedFile) -> State:
    """Return whether a file is new, has this content already, exists, or must not be written."""
    path = root / file.path
    # A link in the project must not make hilum write elsewhere.
    real = Path(os.path.realpath(path))
    if real != Path(os.path.realpath(root)) / file.path:
        return "refused"
    try:
        return "same" if path.read_bytes() == file.data else "exists"
    except FileNotFoundError:
        return "new"
    except OSError:
        return "refused"


def write_file(root: Path, file: ExportedFile) -> None:
    """Write a file completely or not at all.

    Raises:
        OSError: It cannot be written.
    """
    path = root / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else _KEPT_MODE
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".hilum-export-")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(file.data)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def show_path(root: Path, path: Path) -> str:
    """Return a path relative to the project, if it is in the project."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def remove_duplicates(files: Iterable[ExportedFile]) -> list[ExportedFile]:
    """Return the files; of several for one path, the first."""
    found: dict[str, ExportedFile] = {}
    for file in files:
        found.setdefault(file.path.casefold(), file)
    return list(found.values())
