"""Create placeholders for hidden files that Git tracks, so that Git does not see them as deleted.

The sandbox hides a path by mounting something else over it. If Git found an empty folder or a device
there, `git add -A` and `git commit -a` would record that the files were deleted. A placeholder has
the size and the modification time that Git's index contains, so Git takes the file to be unchanged
without reading it. Nobody may read a placeholder: if Git needs its content after all, for example
because another program changed the index, Git fails and records nothing.

Git reads a file in spite of equal stat data if the file is as new as the index itself (see
"racy-git" in Git's documentation) or if the index says that its size is unknown. For these entries,
the index gets an older modification time. Outside the sandbox, Git then compares the content once.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from hilum import walk_folders

from hilum_guard.file_names import is_below
from hilum_guard.repositories.git_index import IndexEntry, read_index

_DIGESTS = {20: hashlib.sha1, 32: hashlib.sha256}
_OLD = 1
"""A modification time, in seconds, that no index is older than."""
_FOLDER_FLAGS = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_DIRECTORY", 0)
_FOLDER_FLAGS |= getattr(os, "O_NOFOLLOW", 0)
_SETTINGS = {"core.checkStat": "minimal", "core.trustctime": "false"}
# An expected file: its mode, its size, and its modification time in nanoseconds.
_Stat = tuple[int, int, int]


class Placeholders:
    """The placeholders for a session's hidden paths.

    Args:
        folder: A folder outside the commands' temporary folder, used only by this object.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._indexes: dict[str, tuple[tuple[int, ...], list[IndexEntry]]] = {}

    def create(self, hidden: Iterable[str], writable: Sequence[str]) -> dict[str, str]:
        """Return the placeholders for hidden folders and for files that Git tracks, by path. Blocks.

        Args:
            hidden: The paths, absolute and without links.
            writable: The folders that commands may write to. The index of a repository elsewhere is
                not written: a command may have forged the `.git` file that names the repository.
        """
        found: dict[str, str] = {}
        for path in sorted(hidden, key=len):
            if is_below(path, found):
                continue
            root = _find_working_tree(path)
            files = self._list_tracked(path, root, writable) if root else {}
            # A folder is replaced even if it contains no tracked file: what a build wrote into an
            # empty folder of the sandbox would be lost without an error.
            if files or os.path.isdir(path):
                found[path] = self._build(path, files)
        return found

    def _list_tracked(self, path: str, root: str, writable: Sequence[str]) -> dict[str, _Stat]:
        """Return the tracked files at a path or below it, relative to the path."""
        git = _find_git_folder(root)
        try:
            entries = self._read(git, path, root, is_below(git, writable))
        except (OSError, ValueError, struct.error, IndexError):
            # Without the index, every file may be tracked.
            return dict(_list_files(path))
        prefix = os.path.relpath(path, root)
        tracked = {}
        for entry in entries:
            name = _relative_to(entry.name, prefix)
            if name is not None and not entry.skipped:
                time = entry.seconds * 10**9 + entry.nanoseconds
                tracked[name] = (entry.mode, entry.size, time)
        return tracked

    def _read(self, git: str, path: str, root: str, ages: bool) -> list[IndexEntry]:
        """Return the entries of an index, after ageing those that Git would compare by content.

        Args:
            git: The Git folder.
            path: The hidden path.
            root: The working tree.
            ages: Whether the index may be written.
        """
        index = os.path.join(git, "index")
        key = _identify(index)
        known = self._indexes.get(index)
        if known is None or known[0] != key:
            _, entries = read_index(index)
            known = (key, entries)
            self._indexes[index] = known
        prefix = os.path.relpath(path, root)
        compared = [
            entry
            for entry in known[1]
            if _relative_to(entry.name, prefix) is not None and _is_compared(entry, key[0])
        ]
        if compared and ages and _age_entries(git, key, prefix, root):
            return self._read(git, path, root, ages=False)
        return known[1]

    def _build(self, path: str, files: Mapping[str, _Stat]) -> str:
        """Return the placeholder for a path, which replaces the given files."""
        text = repr((path, sorted(files.items())))
        digest = hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:32]
        target = os.path.join(self._folder, digest)
        if os.path.lexists(target):
            return target
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        # Another command may start at the same time, so the finished placeholder is renamed.
        draft = f"{target}.{os.urandom(4).hex()}"
        if os.path.isdir(path):
            os.mkdir(draft)
        for name, expected in files.items():
            file = os.path.normpath(os.path.join(draft, name))
            os.makedirs(os.path.dirname(file), exist_ok=True)
            _create_file(file, expected, os.path.normpath(os.path.join(path, name)))
        with suppress(OSError):
            os.rename(draft, target)
        return target if os.path.lexists(target) else draft


def add_git_settings(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which Git compares only the size and time of files."""
    count = int(env["GIT_CONFIG_COUNT"]) if env.get("GIT_CONFIG_COUNT", "").isdecimal() else 0
    added = dict(env)
    for number, (name, value) in enumerate(_SETTINGS.items(), count):
        added[f"GIT_CONFIG_KEY_{number}"] = name
        added[f"GIT_CONFIG_VALUE_{number}"] = value
    added["GIT_CONFIG_COUNT"] = str(count + len(_SETTINGS))
    return added


# --- files ----------------------------------------------------------------------------------------


def _create_file(path: str, expected: _Stat, real: str) -> None:
    """Create a placeholder for one file."""
    mode, size, time = expected
    kind = stat.S_IFMT(mode)
    if kind == stat.S_IFLNK:
        text = "x" * (size or 1)
        with suppress(OSError):
            text = os.readlink(real)
        os.symlink(text, path)
        os.utime(path, ns=(time, time), follow_symlinks=False)
    elif kind == stat.S_IFREG:
        with open(path, "xb") as file:
            file.truncate(size)
        os.utime(path, ns=(time, time))
        os.chmod(path, mode & 0o100)
    else:
        # For Git, an empty folder is a submodule that was not checked out.
        os.makedirs(path, exist_ok=True)


def _list_files(path: str) -> Iterator[tuple[str, _Stat]]:
    """Yield all files at a path or below it, relative to the path, as they are."""
    if not os.path.isdir(path):
        found = os.lstat(path)
        yield ".", (found.st_mode, found.st_size, found.st_mtime_ns)
        return
    for folder, _, names in walk_folders(path):
        for name in names:
            with suppress(OSError):
                file = os.path.join(folder, name)
                found = os.lstat(file)
                mode = found.st_mode
                yield os.path.relpath(file, path), (mode, found.st_size, found.st_mtime_ns)


def _relative_to(name: str, prefix: str) -> str | None:
    """Return the part of a path after a folder; `.` for the folder itself, None for others."""
    if name == prefix:
        return "."
    return name[len(prefix) + 1 :] if name.startswith(f"{prefix}/") else None


# --- repositories ---------------------------------------------------------------------------------


def _find_working_tree(path: str) -> str:
    """Return the innermost folder above a path that is a Git working tree; empty if none is."""
    for folder in Path(path).parents:
        if os.path.lexists(folder / ".git"):
            return str(folder)
    return ""


def _find_git_folder(root: str) -> str:
    """Return the Git folder of a working tree."""
    git = os.path.join(root, ".git")
    if os.path.isfile(git):  # a linked worktree or a submodule
        with open(git, encoding="utf-8", errors="surrogateescape") as file:
            git = os.path.join(root, file.read(4096).strip().removeprefix("gitdir: "))
    return os.path.realpath(git)


def _identify(path: str) -> tuple[int, ...]:
    found = os.stat(path)
    return (int(found.st_mtime), found.st_mtime_ns, found.st_size, found.st_ino)


def _is_compared(entry: IndexEntry, index_time: int) -> bool:
    """Return whether Git compares the content of a file that has the stat data of its entry."""
    if not stat.S_ISREG(entry.mode) and not stat.S_ISLNK(entry.mode):
        return False
    return entry.seconds >= index_time or (not entry.size and not entry.empty)


def _age_entries(git: str, key: Sequence[int], prefix: str, root: str) -> bool:
    """Write an older time to the index for the entries that Git compares by content.

    Args:
        git: The Git folder.
        key: What identifies the index as it was read.
        prefix: The path of the entries, relative to the working tree.
        root: The working tree.

    Returns:
        Whether the index was written.
    """
    # A command may replace the folder by a link to another repository, so the open folder is used.
    folder = os.open(git, _FOLDER_FLAGS)
    locked = -1
    try:
        with suppress(FileExistsError):  # Git is writing the index
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            locked = os.open("index.lock", flags, 0o600, dir_fd=folder)
        if locked < 0:
            return False
        try:
            if _identify(os.path.join(git, "index")) != tuple(key):
                raise ValueError("the index was changed in the meantime")
            data, entries = read_index(os.path.join(git, "index"))
            changed = bytearray(data)
            for entry in entries:
                if _relative_to(entry.name, prefix) is not None and _is_compared(entry, key[0]):
                    _age_entry(changed, entry, os.path.join(root, entry.name))
            _update_checksum(changed, data)
            with open(locked, "wb", closefd=False) as file:
                file.write(changed)
            os.fchmod(locked, os.stat("index", dir_fd=folder).st_mode & 0o777)
            os.rename("index.lock", "index", src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink("index.lock", dir_fd=folder)
            raise
    finally:
        if locked >= 0:
            os.close(locked)
        os.close(folder)
    return True


def _age_entry(data: bytearray, entry: IndexEntry, path: str) -> None:
    struct.pack_into(">II", data, entry.offset + 8, _OLD, 0)
    if not entry.size and not entry.empty:
        size = 0
        with suppress(OSError):
            size = os.lstat(path).st_size
        # If the size differs from the file's size, Git takes the file to be changed, which is true
        # for an empty file with an entry that is not empty.
        struct.pack_into(">I", data, entry.offset + 36, size & 0xFFFFFFFF or 1)


def _update_checksum(data: bytearray, before: bytes) -> None:
    """Write the checksum at the end of an index.

    Raises:
        ValueError: The index did not end with its checksum.
    """
    for size, digest in _DIGESTS.items():
        if digest(before[:-size]).digest() == before[-size:]:
            data[-size:] = digest(data[:-size]).digest()
            return
    # With the setting index.skipHash, Git writes zeros.
    if before[-20:].strip(b"\0"):
        raise ValueError("the index has a wrong checksum")
