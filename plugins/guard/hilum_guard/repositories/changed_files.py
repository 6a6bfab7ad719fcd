"""List the files that differ between commits and the index, without starting Git."""

from __future__ import annotations

import heapq
import os
import re
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import attrs

from hilum_guard.repositories.git_index import read_index
from hilum_guard.repositories.git_object_store import GitObjectStore
from hilum_guard.small_files import read_small_file

MAX_COMMITS = 2_000
"""Maximum number of commits to read in search of the last one that two branches have in common."""
MAX_LISTED = 200
"""Maximum number of commits whose changes are listed."""
MAX_TREES = 3_000
"""Maximum number of folders of a commit to read."""
MAX_SETTINGS = 200_000
"""Maximum size of a repository's settings, in bytes."""
MAX_REFERENCES = 8_000_000
"""Maximum size of the packed references, in bytes."""
_HASH = 20
_FOLDER = 0o40000
_STAGES = 0x3000
# The size of what an entry of the index contains before its hash.
_BEFORE_HASH = 40


@attrs.define
class _CachedTree:
    """A folder of the index, as Git wrote it to the object database.

    Attributes:
        name: The hash; empty if a file in the folder was changed since.
        inner: The folders in it.
    """

    name: bytes = b""
    inner: dict[bytes, _CachedTree] = attrs.field(factory=dict)


class _File(NamedTuple):
    """The mode and the hash of a file in a commit or in the index."""

    mode: int
    name: bytes


def list_changed_files(git_folder: str, common: str, old: str, new: str) -> list[str] | None:
    """Return the files that differ between two commits, or a commit and the index. Reads the disk.

    Args:
        git_folder: The Git folder of the working tree.
        common: The Git folder with the branches and objects.
        old: A commit, as in ``HEAD``, ``HEAD~2^2``, ``main`` and ``origin/main``; ``main...HEAD`` for
            the last one that both have; ``-3`` and ``main..HEAD`` for what each of several commits
            has changed.
        new: Another commit; empty for the index. After ``-3``, the last of the commits.

    Returns:
        The files, relative to the top of the working tree; ``None`` if they cannot be listed.
    """
    try:
        if _has_replacements(common):
            return None
        store = GitObjectStore(os.path.join(common, "objects"))
        head = _read_head(git_folder, common)

        def find(revision: str) -> bytes:
            start = _find_start(git_folder, common, head, revision)
            return _find_commit(store, start, revision)

        if re.search(r"^-\d{1,3}$|(?<!\.)\.\.(?!\.)", old) and _shows_merges(common):
            return None
        if re.fullmatch(r"-\d{1,3}", old):
            return sorted(map(os.fsdecode, _list_by_commits(store, find(new), int(old[1:]))))
        if re.search(r"(?<!\.)\.\.(?!\.)", old):
            one, _, other_name = old.partition("..")
            return sorted(map(os.fsdecode, _list_by_range(store, find(one), find(other_name))))
        end = find(new) if new else b""
        one, dots, other_name = old.partition("...")
        begin = _find_merge_base(store, find(one), find(other_name)) if dots else find(old)
        tree = _read_commit(store, begin).tree
        if new:
            other = _read_commit(store, end).tree
            changed = _compare_trees(store, tree, other)
        else:
            changed = _compare_index(store, tree, os.path.join(git_folder, "index"))
    except (OSError, ValueError, IndexError, struct.error, zlib.error, RecursionError):
        return None
    return sorted(map(os.fsdecode, changed))


class _Commit(NamedTuple):
    """The hashes of a commit's tree and parents, and when it was committed."""

    tree: bytes
    parents: list[bytes]
    time: int


def _read_commit(store: GitObjectStore, name: bytes) -> _Commit:
    """Read a commit.

    Raises:
        OSError, ValueError, IndexError, struct.error, zlib.error: It cannot be read.
    """
    header = store.read(name, b"commit").partition(b"\n\n")[0]
    found = re.match(rb"tree ([0-9a-f]{40})\n((?:parent [0-9a-f]{40}\n)*)", header + b"\n")
    if found is None:
        raise ValueError("a commit cannot be read")
    parents = re.findall(rb"[0-9a-f]{40}", found[2])
    committed = re.search(rb"^committer .*> (\d+)", header, re.MULTILINE)
    return _Commit(
        bytes.fromhex(found[1].decode()),
        [bytes.fromhex(each.decode()) for each in parents],
        int(committed[1]) if committed else 0,
    )


def _list_by_commits(store: GitObjectStore, start: bytes, count: int) -> set[bytes]:
    """Return the files that the last commits have changed, without merges, as `git log` shows them.

    Args:
        store: The objects.
        start: The last commit.
        count: The number of commits.
    """
    changed: set[bytes] = set()
    waiting = [(-_read_commit(store, start).time, start)]
    seen = {start}
    while waiting and count > 0:
        commit = _read_commit(store, heapq.heappop(waiting)[1])
        count -= 1
        changed |= _list_changes(store, commit)
        for parent in commit.parents:
            if parent not in seen:
                seen.add(parent)
                heapq.heappush(waiting, (-_read_commit(store, parent).time, parent))
    return changed


def _list_changes(store: GitObjectStore, commit: _Commit) -> set[bytes]:
    """Return the files that a commit has changed; of a merge, `git log -p` shows none."""
    if len(commit.parents) > 1:
        return set()
    before = _read_commit(store, commit.parents[0]).tree if commit.parents else b""
    return _compare_trees(store, before, commit.tree)


_IS_FOUND = 4
_IS_PASSED = 8


def _find_merge_base(store: GitObjectStore, one: bytes, other: bytes) -> bytes:
    """Return the last commit that two commits have in common.

    Both histories are followed from their ends, the latest commit first, as Git does it.

    Raises:
        ValueError: There is none, or there are several, or it is too far away.
    """
    if one == other:
        return one
    marks = _mark_histories(store, one, other)
    found = [commit for commit, mark in marks.items() if mark & _IS_FOUND and not mark & _IS_PASSED]
    if len(found) != 1:
        raise ValueError("there is not one last common commit")
    return found[0]


def _list_by_range(store: GitObjectStore, one: bytes, other: bytes) -> set[bytes]:
    """Return the files that the commits of `ONE..OTHER` have changed, without merges.

    Raises:
        ValueError: There are too many.
    """
    marks = _mark_histories(store, one, other) if one != other else {}
    names = [name for name, mark in marks.items() if mark & (1 | 2) == 2]
    if len(names) > MAX_LISTED:
        raise ValueError("there are too many commits")
    return {file for name in names for file in _list_changes(store, _read_commit(store, name))}


def _mark_histories(store: GitObjectStore, one: bytes, other: bytes) -> dict[bytes, int]:
    """Return which commits are in the histories of two: 1, 2 or both, and other marks.

    Raises:
        ValueError: The histories do not meet for too long.
    """
    marks = {one: 1, other: 2}
    waiting = [(-_read_commit(store, each).time, each) for each in (one, other)]
    heapq.heapify(waiting)
    count = 0
    while any(not marks[commit] & _IS_PASSED for _, commit in waiting):
        count += 1
        if count > MAX_COMMITS:
            raise ValueError("the last common commit is too far away")
        name = heapq.heappop(waiting)[1]
        passed_on = marks[name] & (1 | 2 | _IS_PASSED)
        if passed_on == 1 | 2:
            marks[name] |= _IS_FOUND
            passed_on |= _IS_PASSED
        for parent in _read_commit(store, name).parents:
            if marks.get(parent, 0) & passed_on != passed_on:
                marks[parent] = marks.get(parent, 0) | passed_on
                heapq.heappush(waiting, (-_read_commit(store, parent).time, parent))
    return marks


_REVISION = re.compile(r"(HEAD|@|[A-Za-z][\w./-]*)(?:[~^]\d{0,3})*")


def _find_start(git_folder: str, common: str, head: str, revision: str) -> str:
    """Return the hash of the commit or branch with which a revision begins.

    Raises:
        ValueError: There is no such branch, or the name may also mean something else.
    """
    found = _REVISION.fullmatch(revision)
    name = found[1] if found else ""
    if name in ("HEAD", "@"):
        return head
    is_unclear = not name or ".." in name or re.fullmatch(r"[0-9a-f]{4,}", name) is not None
    is_unclear = is_unclear or os.path.lexists(os.path.join(git_folder, name))
    if is_unclear or _read_reference(common, f"refs/tags/{name}"):
        raise ValueError("the commit is given in another way")
    branch = _read_reference(common, f"refs/heads/{name}")
    # A branch of a remote: `origin/main`.
    if not branch and "/" in name and not _read_reference(common, f"refs/{name}"):
        branch = _read_reference(common, f"refs/remotes/{name}")
    if re.fullmatch(r"[0-9a-f]{40}", branch) is None:
        raise ValueError("there is no such branch")
    return branch


def _find_commit(store: GitObjectStore, start: str, revision: str) -> bytes:
    """Return the hash of a commit that is given by its distance from another one.

    Args:
        store: The objects.
        start: The hash of the commit with which the revision begins.
        revision: The revision, as in ``HEAD~2``.

    Raises:
        ValueError: There is no such commit.
    """
    commit = bytes.fromhex(start)
    for sign, digits in re.findall(r"([~^])(\d*)", revision):
        number = int(digits or 1)
        steps = number if sign == "~" else min(number, 1)
        parent = 1 if sign == "~" else number
        for _ in range(steps):
            parents = _read_commit(store, commit).parents
            if len(parents) < parent:
                raise ValueError("there is no such commit")
            commit = parents[parent - 1]
    return commit


def _compare_index(store: GitObjectStore, tree: bytes, path: str) -> set[bytes]:
    """Return the files that differ between a tree and an index."""
    data, entries = read_index(path)
    cached = _read_cached_tree(data, entries[-1].offset if entries else 0)
    reader = _CommitReader(store)
    reader.read(tree, cached, b"")
    changed = set()
    names = set()
    for entry in entries:
        name = os.fsencode(entry.name)
        names.add(name)
        start = entry.offset + _BEFORE_HASH
        flags = int.from_bytes(data[start + _HASH : start + _HASH + 2])
        file = _File(entry.mode, data[start : start + _HASH])
        is_merged = not flags & _STAGES
        if not is_merged or not (reader.files.get(name) == file or reader.is_same(name)):
            changed.add(name)
    return changed | (reader.files.keys() - names)


def _compare_trees(store: GitObjectStore, old: bytes, new: bytes) -> set[bytes]:
    """Return the files that differ between two trees."""
    changed: set[bytes] = set()
    waiting: list[tuple[bytes, bytes | None, bytes | None]] = [(b"", old, new)]
    count = 0
    while waiting:
        prefix, *both = waiting.pop()
        count += 1
        if count > MAX_TREES:
            raise ValueError("too many folders differ")
        one, other = (dict(_read_tree(store, each)) if each else {} for each in both)
        for name in one.keys() | other.keys():
            files = one.get(name), other.get(name)
            if files[0] == files[1]:
                continue
            folders = [file.name if file and file.mode == _FOLDER else None for file in files]
            if any(folders):
                waiting.append((prefix + name + b"/", folders[0], folders[1]))
            if any(file and file.mode != _FOLDER for file in files):
                changed.add(prefix + name)
    return changed


def _read_tree(store: GitObjectStore, tree: bytes) -> Iterator[tuple[bytes, _File]]:
    """Yield the names of what is in a tree, each with its mode and hash."""
    content = store.read(tree, b"tree")
    at = 0
    while at < len(content):
        end = content.index(b"\0", at)
        mode, _, name = content[at:end].partition(b" ")
        at = end + 1 + _HASH
        yield name, _File(int(mode, 8), content[end + 1 : at])


class _CommitReader:
    """Reads the files of a commit, except those in folders that the index contains unchanged."""

    def __init__(self, store: GitObjectStore) -> None:
        self.files: dict[bytes, _File] = {}
        self._same: set[bytes] = set()
        self._store = store
        self._count = 0

    def read(self, tree: bytes, cached: _CachedTree, prefix: bytes) -> None:
        """Read a folder, whose path is a prefix that ends with a slash."""
        if cached.name == tree:
            self._same.add(prefix)
            return
        self._count += 1
        if self._count > MAX_TREES:
            raise ValueError("the commit has too many folders")
        for name, file in _read_tree(self._store, tree):
            if file.mode == _FOLDER:
                inner = cached.inner.get(name, _CachedTree())
                self.read(file.name, inner, prefix + name + b"/")
            else:
                self.files[prefix + name] = file

    def is_same(self, name: bytes) -> bool:
        """Return whether a file is in a folder that the index contains unchanged."""
        if b"" in self._same:
            return True
        ends = (at + 1 for at, byte in enumerate(name) if byte == ord("/"))
        return any(name[:end] in self._same for end in ends)


def _shows_merges(common: str) -> bool:
    """Return whether the repository's settings may let `git log -p` show what merges change."""
    settings = read_small_file(os.path.join(common, "config"), MAX_SETTINGS)
    return settings is None or b"diffmerges" in settings.lower()


def _has_replacements(common: str) -> bool:
    """Return whether Git may show other objects instead of those of a commit."""
    folder = os.path.join(common, "refs", "replace")
    if os.path.isdir(folder) and os.listdir(folder):
        return True
    packed = read_small_file(os.path.join(common, "packed-refs"), MAX_REFERENCES)
    if packed is None:
        return os.path.exists(os.path.join(common, "packed-refs"))
    return b" refs/replace/" in packed


def _read_head(git_folder: str, common: str) -> str:
    """Return the hash of the commit that is checked out.

    Raises:
        ValueError: There is none, or it cannot be found.
    """
    head = _read_line(os.path.join(git_folder, "HEAD"))
    if head.startswith("ref: "):
        reference = head.removeprefix("ref: ")
        head = _read_reference(common, reference)
    if re.fullmatch(r"[0-9a-f]{40}", head) is None:
        raise ValueError("there is no commit")
    return head


def _read_reference(common: str, reference: str) -> str:
    """Return the hash that a reference contains; empty if there is none."""
    loose = _read_line(os.path.join(common, reference))
    if loose:
        return loose
    packed = read_small_file(os.path.join(common, "packed-refs"), MAX_REFERENCES) or b""
    pattern = rb"^([0-9a-f]{40}) " + re.escape(os.fsencode(reference)) + rb"$"
    found = re.search(pattern, packed, re.MULTILINE)
    return found[1].decode() if found else ""


def _read_line(path: str) -> str:
    return os.fsdecode(read_small_file(path, 4096) or b"").strip()


def _read_cached_tree(data: bytes, start: int) -> _CachedTree:
    """Return the folders of an index that Git wrote to the object database; none if it wrote none.

    Args:
        data: The index.
        start: An offset before the extensions.
    """
    at = data.find(b"TREE", start)
    while at >= 0:
        # A name may end with these letters, but what follows it is then no list of folders.
        length = int.from_bytes(data[at + 4 : at + 8])
        content = data[at + 8 : at + 8 + length]
        if content and len(content) == length:
            try:
                tree, end = _read_folder(content, 0, is_top=True)
            except (ValueError, IndexError):
                end = -1
            if end == length:
                return tree[1]
        at = data.find(b"TREE", at + 1)
    return _CachedTree()


def _read_folder(
    content: bytes, at: int, *, is_top: bool = False
) -> tuple[tuple[bytes, _CachedTree], int]:
    """Return the name and the folder at an offset of the extension, and where it ends."""
    name_end = content.index(b"\0", at)
    name = content[at:name_end]
    if is_top != (not name):
        raise ValueError("the top has a name, or a folder in it has none")
    line_end = content.index(b"\n", name_end)
    count, _, inner_count = content[name_end + 1 : line_end].partition(b" ")
    at = line_end + 1
    tree = _CachedTree()
    # A folder in which a file was changed has a negative number of files, and no hash.
    if int(count) >= 0:
        tree.name = content[at : at + _HASH]
        at += _HASH
    for _ in range(int(inner_count)):
        (inner, folder), at = _read_folder(content, at)
        tree.inner[inner] = folder
    return (name, tree), at
