"""Make inert the files and settings that programs outside the sandbox would execute.

A file is renamed to a name that no program looks for. A setting is removed from its file. Nothing
is deleted. Commands may still be running and may replace a folder in a path with a link, so every
folder is opened without following links.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO

from hilum_guard.file_names import QUARANTINED, printable
from hilum_guard.repositories import git_metadata
from hilum_guard.repositories.git_metadata import Entry
from hilum_guard.watching.executed_files import find_name

UNATTRIBUTED = "A service or the user wrote it."
"""The end of a sentence about an entry that appeared while only services ran."""
MAX_SHOWN = 5
"""Maximum number of settings named in one sentence."""
MAX_NUMBER = 1000
"""Maximum number of suffixes to try when searching for a free name."""
# For these kinds, all entries in a file are removed at once.
_OF_FILES = ("setting", "todo")
# What a file system without hard links reports, and one on which a file has too many of them.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
# With O_PATH, a folder can be opened even if a command has removed the right to read it.
_OPEN_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC if hasattr(os, "O_PATH") else 0


class Quarantine:
    """The quarantine of a workspace.

    Args:
        roots: The workspace's folders, resolved.

    Attributes:
        failed: Entries that could not be made inert, each with a sentence about it. Failed entries
            are never attributed to the user, are retried, and are reported only once.
        restored: The user's pointers and links that were restored.
        renamed: The former and the new path of each entry that was renamed, except where another
            one was restored. A thread adds to it, and the event loop takes from it.
    """

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = tuple(roots)
        self.failed: dict[Entry, str] = {}
        self.restored: set[Entry] = set()
        self.renamed: deque[tuple[str, str]] = deque()

    def make_inert(
        self, new: Iterable[Entry], known: Iterable[Entry], *, by_command: bool = True
    ) -> list[str]:
        """Make entries inert.

        An entry that cannot be made inert is reported and does not affect the others.

        Args:
            new: The entries.
            known: The entries that existed before the commands; they belong to the user.
            by_command: Whether a command wrote the new entries; otherwise, a service or the user
                did.

        Returns:
            A sentence for each.
        """
        sentences = self._make_inert(new, known, by_command=by_command)
        if by_command:
            return sentences
        return [f"{sentence} {UNATTRIBUTED}" for sentence in sentences]

    def _make_inert(
        self, new: Iterable[Entry], known: Iterable[Entry], *, by_command: bool
    ) -> list[str]:
        sentences: list[str] = []
        for entries in _group(new):
            entry = entries[0]
            try:
                if entry.kind in _OF_FILES:
                    sentences.append(self._clean_file(entries))
                    continue
                for each in entries:
                    sentences.append(self._make_one_inert(each, known, by_command=by_command))
            except (FileNotFoundError, NotADirectoryError):
                # The entry no longer exists, or a link replaced its folder; the next check finds
                # out which.
                continue
            except (OSError, ValueError) as error:
                path = self.show(entry.path)
                text = (
                    f"{path} could not be made inert ({printable(str(error))}). Do not use this"
                    f" folder; remove {path} yourself."
                )
                if entry not in self.failed:
                    sentences.append(text)
                self.failed |= dict.fromkeys(entries, text)
        return sentences

    def _clean_file(self, entries: list[Entry]) -> str:
        """Remove settings from their file, and return a sentence about them."""
        entry = entries[0]
        details = [each.detail for each in entries]
        rewritten = _rewrite(entry.path, details)
        if rewritten is None:
            renamed = _rename(entry.path)
            self.renamed.append((entry.path, renamed))
            return (
                f"{self.show(entry.path)} cannot be examined, because it is too large or cannot be"
                f" read. It is now {self.show(renamed)}."
            )
        kept = self.show(rewritten)
        # A line of unusual syntax has no name, and is shown as it is.
        shown = [detail.removeprefix("?.=") for detail in details[:MAX_SHOWN]]
        listed = ", ".join(printable(detail[:100]) for detail in shown)
        what = "steps of a rebase" if entry.kind == "todo" else "settings"
        return (
            f"{self.show(entry.path)} had {what} that execute programs ({listed}). They were"
            f" removed; the original file is {kept}."
        )

    def _make_one_inert(self, entry: Entry, known: Iterable[Entry], *, by_command: bool) -> str:
        """Make one entry inert, and return a sentence about it."""
        shown = self.show(entry.path)
        if entry.kind == "folder":
            with _open_folder(entry.path) as folder:
                _grant_access(folder)
            return (
                f"{shown} could not be listed, so its contents were unknown. Its owner may list it"
                " now."
            )
        renamed = _rename(entry.path)
        before = _find_replaced(entry, known)
        if before is None:
            self.renamed.append((entry.path, renamed))
        explained = _explain(entry, by_command=by_command)
        sentence = f"{shown} {explained}. It is now {self.show(renamed)}."
        if before is not None and not self._restore(before):
            self.renamed.append((entry.path, renamed))
            sentence += f" Write your own {shown} again: it was too large to be kept."
        return sentence

    def _restore(self, before: Entry) -> bool:
        """Restore the user's pointer or link; return whether its contents are known."""
        name = os.path.basename(before.path)
        with _open_folder(os.path.dirname(before.path)) as folder:
            if before.kind == "link":
                os.symlink(before.detail.removeprefix("link to "), name, dir_fd=folder)
            else:
                text = git_metadata.make_pointer(before.detail)
                if text is None:
                    return False
                _write_new(name, text, folder)
        self.restored.add(before)
        return True

    def show(self, path: str) -> str:
        """Return a printable path for the user, relative to the workspace."""
        for root in self._roots:
            if path.startswith(f"{root}/"):
                return printable(path[len(root) + 1 :])
        return printable(path)


def _group(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Return entries grouped by path, with a file's settings in a separate group."""
    groups: dict[tuple[str, bool], list[Entry]] = {}
    for entry in sorted(entries):
        groups.setdefault((entry.path, entry.kind in _OF_FILES), []).append(entry)
    return list(groups.values())


def _find_replaced(entry: Entry, known: Iterable[Entry]) -> Entry | None:
    """Return the user's pointer or link that an entry replaced."""
    for before in known:
        if before.path == entry.path and before.kind in ("pointer", "link"):
            return before
    return None


def _explain(entry: Entry, *, by_command: bool) -> str:
    """Return a phrase that follows an entry's path and names the program that executes it."""
    if entry.kind == "name":
        row = find_name(os.path.basename(entry.path))
        written = "was written by a command" if by_command else "is new"
        if row:
            return f"{written}, and {row.program} executes it {row.when}"
        return written
    if entry.kind == "hook":
        return "is a hook that Git would execute"
    return f"points Git to other metadata ({printable(entry.detail[:200])})"


def _rename(path: str) -> str:
    """Rename a file or folder within its parent folder, and return its new path."""
    before = os.path.basename(path)
    with _open_folder(os.path.dirname(path)) as folder:
        try:
            name = _rename_in(before, folder)
        except PermissionError:  # a command may have removed the owner's write permission
            _grant_access(folder)
            name = _rename_in(before, folder)
    return f"{os.path.dirname(path)}/{name}"


def _rename_in(before: str, folder: int) -> str:
    name = _find_free_name(before, folder)
    os.rename(before, name, src_dir_fd=folder, dst_dir_fd=folder)
    return name


def _rewrite(path: str, details: list[str]) -> str | None:
    """Rewrite a file without some of its lines, and return the path of the old file.

    Returns:
        The path; ``None`` if the contents are not known, so that the file was left alone.
    """
    with _open_folder(os.path.dirname(path)) as folder:
        # A command may exchange a folder on the way for a link. What is written must come from where
        # it is written.
        text = git_metadata.read(os.path.basename(path), folder)
        if text is None or text == git_metadata.UNREADABLE:
            return None
        if path.endswith("git-rebase-todo"):
            lines = text.split("\n")
            for number, line in enumerate(lines):
                if line.strip() in details:
                    lines[number] = f"# {line}"
            text = "\n".join(lines)
        else:
            text = git_metadata.without(text, details)
        try:
            kept = _replace_in(os.path.basename(path), text, folder)
        except PermissionError:  # a command may have removed the owner's write permission
            _grant_access(folder)
            kept = _replace_in(os.path.basename(path), text, folder)
    return f"{os.path.dirname(path)}/{kept}"


def _replace_in(name: str, text: str, folder: int) -> str:
    """Replace a file, and return the name under which the old one is kept.

    The new file has the mode and, if possible, the owner of the old one. If hilum is killed
    meanwhile, the old file or the new one has the name, and never none: a repository without its
    configuration would be damaged.
    """
    before = os.stat(name, dir_fd=folder, follow_symlinks=False)
    new = f"{name}.{time.time_ns()}{QUARANTINED}"
    _write_new(new, text, folder, before)
    made = [new]
    try:
        kept = _keep(name, folder)
        made.append(kept)
        os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        # It is tried again at the next check, and must not leave another file each time.
        for each in made:
            os.unlink(each, dir_fd=folder)
        raise
    return kept


def _keep(name: str, folder: int) -> str:
    """Give a file a second name, or copy it, and return the name of the second file."""
    while True:
        kept = _find_free_name(name, folder)
        try:
            os.link(name, kept, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            return kept
        except FileExistsError:  # a command has just used the name
            continue
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
        try:
            _copy(name, kept, folder)
            return kept
        except FileExistsError:
            continue


def _copy(name: str, kept: str, folder: int) -> None:
    """Copy a regular file to a new one in the same folder."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(name, flags, dir_fd=folder), "rb") as source:
        status = os.fstat(source.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        with _create(kept, folder, status) as target:
            try:
                shutil.copyfileobj(source, target)
                target.flush()
            except OSError:
                os.unlink(kept, dir_fd=folder)
                raise


@contextmanager
def _open_folder(path: str) -> Iterator[int]:
    """Open a folder without following links in its path, and yield its descriptor."""
    fd = os.open("/", _OPEN_FOLDER)
    try:
        for part in path.strip("/").split("/"):
            # Open one component at a time, because O_NOFOLLOW applies only to the last component of
            # a path.
            inner = os.open(part, _OPEN_FOLDER | os.O_NOFOLLOW, dir_fd=fd)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def _grant_access(folder: int) -> None:
    """Allow an open folder's owner to list and change it."""
    # The mode is changed through the descriptor, so that no link can redirect the change.
    mode = stat.S_IMODE(os.fstat(folder).st_mode) | stat.S_IRWXU
    os.chmod(f"/proc/self/fd/{folder}", mode)


def _find_free_name(name: str, folder: int) -> str:
    for number in range(1, MAX_NUMBER):
        numbered = name if number == 1 else f"{name}.{number}"
        wanted = f"{numbered}{QUARANTINED}"
        try:
            os.stat(wanted, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return wanted
    return f"{name}.{time.time_ns()}{QUARANTINED}"


def _write_new(name: str, text: str, folder: int, before: os.stat_result | None = None) -> None:
    """Create a file that must not exist yet, and write to it.

    Args:
        name: The name of the file.
        text: What is written.
        folder: The open folder.
        before: The status of the file that it replaces, whose mode and owner it gets.
    """
    with _create(name, folder, before) as file:
        file.write(text.encode(errors="surrogateescape"))


def _create(name: str, folder: int, before: os.stat_result | None) -> BinaryIO:
    """Create a file that must not exist yet, and open it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    # O_EXCL is needed because a running command may have created a file or link with this name.
    fd = os.open(name, flags, 0o644 if before is None else 0o600, dir_fd=folder)
    if before is not None:
        with suppress(OSError):  # only root may give a file to another user
            os.fchown(fd, before.st_uid, before.st_gid)
        os.fchmod(fd, stat.S_IMODE(before.st_mode))
    return open(fd, "wb")
