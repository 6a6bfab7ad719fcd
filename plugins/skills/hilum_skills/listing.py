"""Which files of a fetched repository are written to the disk, and writing them: by name, without
git and without links.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

import attrs

from hilum_skills.git import FetchError
from hilum_skills.skill import FILE

MOST_FILES = 5_000
MOST_BYTES = 50_000_000
MOST_OF_ONE = 5_000_000
MOST_OF_TEXT = 300_000
DEEPEST = 12


@attrs.frozen
class Entry:
    """A file in a repository."""

    path: str
    kind: str
    object: str
    size: int

    @property
    def executable(self) -> bool:
        """Whether it may be run as a program."""
        return self.kind == "100755"


@attrs.frozen
class Plan:
    """What is to be written, and what is left out for a reason that the user should know."""

    entries: list[Entry]
    left_out: list[str]


def read_listing(data: bytes) -> list[Entry]:
    """Read what ``git ls-tree -r -l -z`` wrote.

    Raises:
        FetchError: A path in it leads out of the repository, or into what git keeps of itself: it
            was made to do harm.
    """
    entries = []
    for row in data.split(b"\0"):
        if not row:
            continue
        about, _, raw = row.partition(b"\t")
        mode, _, name, size = about.decode("ascii", "replace").split()
        path = raw.decode("utf-8", "surrogateescape")
        for part in path.split("/"):
            if part in ("", ".", "..") or _folded(part) in (".git", "git~1"):
                message = (
                    f"The repository has the path {path[:200]!a}, which leads out of it or into"
                    " git's own files."
                )
                raise FetchError(
                    message, hint="It was made to do harm, and nothing of it was kept."
                )
        entries.append(Entry(path, mode, name, int(size) if size.isdigit() else 0))
    return entries


def _folded(name: str) -> str:
    """A name as the most forgiving file system would take it."""
    import unicodedata

    kept = "".join(letter for letter in unicodedata.normalize("NFKC", name) if letter.isprintable())
    return kept.casefold().rstrip(". ")


def plan(listing: Iterable[Entry]) -> Plan:
    """Choose: all files of folders with a skill, and Markdown elsewhere.

    No links out, no submodules, nothing huge.
    """
    found = {entry.path: entry for entry in listing}
    roots = {str(PurePosixPath(path).parent) for path in found if _is_skill(path)}
    chosen: list[Entry] = []
    left_out: list[str] = []
    names: set[str] = set()
    total = 0
    # Skills first, so that a repository that is too big loses other things.
    for entry in sorted(
        found.values(),
        key=lambda entry: (not _in(entry.path, roots), not _is_skill(entry.path), entry.path),
    ):
        in_skill = _in(entry.path, roots)
        if not in_skill and (
            not entry.path.casefold().endswith(".md") or entry.size > MOST_OF_TEXT
        ):
            continue
        why = _doubt(entry) or (
            "it differs from another only in the case of letters"
            if _folded(entry.path) in names
            else ""
        )
        why = why or ("there are too many files" if len(chosen) >= MOST_FILES else "")
        why = why or ("the repository is too big" if total + entry.size > MOST_BYTES else "")
        if why:
            if in_skill:
                left_out.append(f"{entry.path!a} is left out: {why}.")
            continue
        names.add(_folded(entry.path))
        total += entry.size
        chosen.append(entry)
    return Plan(chosen, left_out)


def _is_skill(path: str) -> bool:
    return path.rpartition("/")[2].casefold() == FILE.casefold()


def _in(path: str, roots: set[str]) -> bool:
    return "." in roots or any(str(parent) in roots for parent in PurePosixPath(path).parents)


def _doubt(entry: Entry) -> str:
    """Why a file is not written; empty if nothing is against it."""
    why = ""
    if entry.kind == "160000":
        why = "it is a submodule"
    elif entry.kind == "120000":
        why = "it is a link"
    elif entry.kind not in ("100644", "100755", "100664"):
        why = "it is no plain file"
    elif entry.size > MOST_OF_ONE:
        why = f"it has {entry.size:,} bytes"
    elif (
        len(PurePosixPath(entry.path).parts) > DEEPEST
        or len(entry.path.encode(errors="surrogateescape")) > 500
    ):
        why = "its path is too long"
    elif not entry.path.isprintable() or "\\" in entry.path:
        why = "its name has characters that are not taken"
    elif any(len(part.encode()) > 200 for part in entry.path.split("/")):
        why = "its name is too long"
    return why


def write(chosen: list[Entry], contents: bytes, folder: Path) -> None:
    """Write files below a new folder. Blocks.

    Args:
        chosen: What to write; only names that ``plan`` let through.
        contents: What ``git cat-file --batch`` wrote for them, in this order.
        folder: The folder; it is made.

    Raises:
        FetchError: The contents are not those of the files.
        OSError: The disk does not take them.
    """
    folder.mkdir(parents=True)
    for entry, content in zip(chosen, _blobs(contents, chosen), strict=True):
        path = folder / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = 0o755 if entry.executable else 0o644
        descriptor = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), mode
        )
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)


def _blobs(contents: bytes, chosen: list[Entry]) -> Iterator[bytes]:
    at = 0
    for entry in chosen:
        end = contents.find(b"\n", at)
        head = contents[at:end].decode("ascii", "replace").split()
        if (
            end < 0
            or head != [entry.object, "blob", str(entry.size)]
            or end + 1 + entry.size > len(contents)
        ):
            raise FetchError(
                f"The file {entry.path!a} could not be taken out of the repository.",
                hint="Try again.",
            )
        yield contents[end + 1 : end + 1 + entry.size]
        at = end + 2 + entry.size
