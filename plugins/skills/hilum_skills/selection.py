"""Selects the files of a fetched repository to write to disk, and writes them.

Files are written by name, without Git's checkout and without links.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

import attrs

from hilum_skills.git import FetchError
from hilum_skills.skill import SKILL_FILE

# These limits protect against malicious repositories.
MAX_FILES = 5_000
MAX_BYTES = 50_000_000
MAX_FILE_BYTES = 5_000_000
MAX_TEXT_BYTES = 300_000
MAX_DEPTH = 12


@attrs.frozen
class RepositoryFile:
    """A file in a repository."""

    path: str
    kind: str
    object: str
    size: int


@attrs.frozen
class Selection:
    """The files to write, and messages to the user about omitted files."""

    entries: list[RepositoryFile]
    left_out: list[str]


def parse_listing(data: bytes) -> list[RepositoryFile]:
    """Parse the output of ``git ls-tree -r -l -z``.

    Raises:
        FetchError: A path leads out of the repository or into Git's own files, so the repository is
            malicious.
    """
    entries = []
    for row in data.split(b"\0"):
        if not row:
            continue
        about, _, raw = row.partition(b"\t")
        # "MODE TYPE OBJECT SIZE", where the size of a submodule is "-"; see git-ls-tree(1).
        mode, _, name, size = about.decode("ascii", "replace").split()
        # Git does not require UTF-8 names; other bytes are kept here, and ``_explain_bad_path``
        # rejects them.
        path = raw.decode("utf-8", "surrogateescape")
        if any(_is_malicious(part) for part in path.split("/")):
            message = (
                f"The repository contains the path {path[:200]!a}, which leads out of it or into"
                " Git's own files."
            )
            raise FetchError(
                message, hint="The repository is malicious. None of its files were kept."
            )
        length = int(size) if size.isdigit() else 0
        entries.append(RepositoryFile(path, mode, name, length))
    return entries


def _is_malicious(part: str) -> bool:
    # "git~1" is the short name of ".git" on Windows.
    return part in ("", ".", "..") or _fold(part) in (".git", "git~1")


def _fold(name: str) -> str:
    """Return a name in the normalized form in which the most lenient file system compares it."""
    # HFS+ ignores some invisible characters; Windows ignores case and trailing spaces and dots.
    letters = unicodedata.normalize("NFKC", name)
    kept = "".join(letter for letter in letters if letter.isprintable())
    return kept.casefold().rstrip(". ")


def select_files(files: Iterable[RepositoryFile]) -> Selection:
    """Select all files in folders with a skill, and Markdown files elsewhere.

    Links, submodules and huge files are omitted.
    """
    by_path = {file.path: file for file in files}
    roots = {str(PurePosixPath(path).parent) for path in by_path if _is_skill(path)}
    selector = _Selector()

    # Skills come first, so that if a repository is too large, other files are omitted.
    def order(file: RepositoryFile) -> tuple[bool, bool, str]:
        return not _is_in(file.path, roots), not _is_skill(file.path), file.path

    for file in sorted(by_path.values(), key=order):
        in_skill = _is_in(file.path, roots)
        is_text = file.path.casefold().endswith(".md") and file.size <= MAX_TEXT_BYTES
        if in_skill or is_text:
            selector.add(file, report=in_skill)
    return Selection(selector.chosen, selector.left_out)


@attrs.define
class _Selector:
    """The files selected so far, with their names and total size."""

    chosen: list[RepositoryFile] = attrs.Factory(list)
    left_out: list[str] = attrs.Factory(list)
    _names: set[str] = attrs.Factory(set)
    _bytes: int = 0

    def add(self, file: RepositoryFile, *, report: bool) -> None:
        """Select a file, or report why it is omitted."""
        why = _explain_unsupported(file) or self._explain_conflict(file)
        if not why:
            # The folded name is recorded only for files that are written, because an omitted file
            # cannot cause a conflict.
            self._names.add(_fold(file.path))
            self._bytes += file.size
            self.chosen.append(file)
        elif report:
            self.left_out.append(f"{file.path!a} is left out: {why}.")

    def _explain_conflict(self, file: RepositoryFile) -> str:
        """Return why a file cannot be added to the selected files; empty if it can."""
        # On a case-insensitive disk, the second file would overwrite the first.
        if _fold(file.path) in self._names:
            return "its name differs from another one only in letter case"
        if len(self.chosen) >= MAX_FILES:
            return "there are too many files"
        if self._bytes + file.size > MAX_BYTES:
            return "the repository is too big"
        return ""


def _is_skill(path: str) -> bool:
    return path.rpartition("/")[2].casefold() == SKILL_FILE.casefold()


def _is_in(path: str, roots: set[str]) -> bool:
    return "." in roots or any(str(parent) in roots for parent in PurePosixPath(path).parents)


def _explain_unsupported(file: RepositoryFile) -> str:
    """Return why a file must not be written; empty if writing is allowed."""
    if file.kind not in ("100644", "100755", "100664"):
        # A link could lead out of the repository, and a submodule would need another fetch.
        kinds = {"160000": "it is a submodule", "120000": "it is a link"}
        return kinds.get(file.kind, "it is not a regular file")
    if file.size > MAX_FILE_BYTES:
        return f"it has {file.size:,} bytes"
    return _explain_bad_path(file.path)


def _explain_bad_path(path: str) -> str:
    if len(PurePosixPath(path).parts) > MAX_DEPTH:
        return "its path is too long"
    if len(path.encode(errors="surrogateescape")) > 500:
        return "its path is too long"
    # Surrogates (names that are not UTF-8) are not printable. A backslash separates folders on
    # Windows.
    if not path.isprintable() or "\\" in path:
        return "its name has unsupported characters"
    # Most file systems allow 255 bytes for a name.
    if any(len(part.encode()) > 200 for part in path.split("/")):
        return "its name is too long"
    return ""


def write_files(chosen: list[RepositoryFile], contents: bytes, folder: Path) -> None:
    """Write files below a new folder. Blocks.

    Args:
        chosen: The files, all of which must have been selected by ``select_files``.
        contents: The output of ``git cat-file --batch`` for the files, in the same order.
        folder: The folder, which is created.

    Raises:
        FetchError: The contents do not match the list of files.
        OSError: The files cannot be written.
    """
    folder.mkdir(parents=True)
    # Every file is new, and no link is followed, so nothing can be written outside the folder.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    for entry, content in zip(chosen, _split_blobs(contents, chosen), strict=True):
        path = folder / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        is_executable = entry.kind == "100755"
        descriptor = os.open(path, flags, 0o755 if is_executable else 0o644)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)


def _split_blobs(contents: bytes, chosen: list[RepositoryFile]) -> Iterator[bytes]:
    """Yield the content of each file. See "Batch output" in the ``git cat-file`` manual."""
    at = 0
    for entry in chosen:
        head_end = contents.find(b"\n", at)
        head = contents[at:head_end].decode("ascii", "replace").split()
        begin = head_end + 1
        end = begin + entry.size
        # A missing object or truncated output would otherwise shift the contents of all later
        # files.
        is_expected = head == [entry.object, "blob", str(entry.size)]
        if head_end < 0 or not is_expected or end > len(contents):
            raise FetchError(
                f"The file {entry.path!a} could not be read from the repository.",
                hint="Try again.",
            )
        yield contents[begin:end]
        at = end + 1
