"""Manages the fetched repositories: one folder per URL in the user's cache.

::

    skills/HOST-OWNER-NAME-DIGEST/       one for each URL
        heads.json                       ref → commit, when, what was left out
        COMMIT/                          the files of a commit, never changed afterwards
    skills/HOST-OWNER-NAME-DIGEST.lock   held while something is fetched or removed

Files and folders are created under a temporary name and renamed when complete, so incomplete data
left by a killed process is never used.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import trio
from hilum import HilumError, cache_folder, make_private_folder, remove_folder
from hilum.errors import E_BUSY

from hilum_skills import lazy
from hilum_skills.source import SkillSource

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from hilum_skills.git import GitClient, Progress

# Prefix of the names of incomplete files and folders, which are never used.
_TEMPORARY = ".new-"
# Seconds to wait while another process is fetching.
LOCK_TIMEOUT = 300.0
# Maximum number of omitted files to list in ``heads.json``.
MAX_LEFT_OUT = 50


class Clone(msgspec.Struct, frozen=True):
    """A fetched commit.

    Attributes:
        folder: The folder with the commit's files.
        commit: Its id.
        at: Unix time at which the commit was fetched or last confirmed to be the newest.
        left_out: Files that were not written, with the reasons.
        new: Whether this call fetched the commit.
    """

    folder: Path
    commit: str
    at: float
    left_out: tuple[str, ...] = ()
    new: bool = False


class Clones(msgspec.Struct, frozen=True):
    """The cache of fetched repositories.

    Args:
        root: The folder that contains the repositories.
    """

    root: Path = msgspec.field(default_factory=lambda: cache_folder() / "skills")

    def find(self, source: SkillSource) -> Clone | None:
        """Return the fetched commit of a source, or None if there is none. Blocks.

        Folders are never fetched.
        """
        home = self.root / source.key
        head = _read_heads(home).get(source.ref)
        # Users and programs may delete any part of a cache at any time.
        if head is None or not (home / head.commit).is_dir():
            return None
        return Clone(home / head.commit, head.commit, head.at, head.left_out)

    def marker_path(self, source: SkillSource) -> Path:
        """Return the path of the file that changes whenever a source is fetched."""
        return self.root / source.key / "heads.json"

    async def fetch(
        self,
        source: SkillSource,
        git: GitClient,
        *,
        update: bool = False,
        progress: Progress = lambda _: None,
    ) -> Clone:
        """Fetch a source that is missing or, with ``update``, outdated.

        If several processes fetch a source at once, one of them fetches it and the others use the
        result.

        Args:
            source: A source of the kind ``git``.
            git: The Git client.
            update: Whether to check for a newer commit if the source has already been fetched.
            progress: A function to call with a description of each step.

        Raises:
            FetchError: The source cannot be fetched. A commit that was fetched earlier remains
                available.
            HilumError: Another process has been fetching the source for minutes, or the cache
                cannot be written.
        """
        try:
            # The time is read before the lock is acquired, so that a fetch by another process in
            # the meantime counts as new enough.
            begun = time.time()
            async with self._hold_lock(source, progress):
                known = await trio.to_thread.run_sync(self.find, source)
                # Another process may have fetched the source while this one waited for the lock.
                if known is not None and (not update or known.at >= begun):
                    return known
                if known is not None and await self._is_newest(known, source, git):
                    # Store the time, so that processes that wait for the lock do not contact the
                    # server again.
                    confirmed = msgspec.structs.replace(known, at=time.time())
                    await trio.to_thread.run_sync(self._record_commit, source, confirmed)
                    return known
                return await self._fetch(source, git, progress)
        except OSError as error:
            message = f"{source.text} could not be stored: {error.strerror or error}."
            raise lazy.git.FetchError(message, hint=f"Check the disk and {self.root}.") from None

    async def _is_newest(self, known: Clone, source: SkillSource, git: GitClient) -> bool:
        return await git.find_newest_commit(source, self.root) == known.commit

    async def remove(self, source: SkillSource) -> None:
        """Remove the fetched commits of a repository, for all refs."""
        async with self._hold_lock(source, lambda _: None):
            home = self.root / source.key
            # The rename is atomic, so another session sees either the whole repository or nothing.
            gone = home.with_name(f"{_TEMPORARY}{os.urandom(8).hex()}")
            if home.exists():
                home.rename(gone)
                await trio.to_thread.run_sync(remove_folder, gone)

    async def _fetch(self, source: SkillSource, git: GitClient, progress: Progress) -> Clone:
        selection = lazy.selection
        home = self.root / source.key
        # The lock is held, so no other process is using these files.
        await trio.to_thread.run_sync(_remove_leftovers, home)
        made = home / f"{_TEMPORARY}{os.urandom(8).hex()}"
        # The temporary folder is next to its target, because a rename is atomic only within one
        # file system. The folder's mode denies other users access, because a repository may be
        # private.
        made.mkdir(mode=0o700, parents=True)
        try:
            bare = made / "git"
            progress("connecting")
            commit = await git.fetch(source, bare, progress)
            listing = await git.list_tree(bare)
            chosen = selection.select_files(selection.parse_listing(listing))
            progress(f"writing {len(chosen.entries)} files")
            objects = [entry.object for entry in chosen.entries]
            # Git's output contains a header of about 60 bytes for each file.
            contents = await git.read_objects(bare, objects, selection.MAX_BYTES + 1_000_000)
            tree = made / "tree"
            await trio.to_thread.run_sync(selection.write_files, chosen.entries, contents, tree)
            left_out = tuple(chosen.left_out[:MAX_LEFT_OUT])
            clone = Clone(home / commit, commit, time.time(), left_out, new=True)
            # Another ref may point to the same commit. The commit's files never change, so they are
            # kept.
            if not clone.folder.exists():
                tree.rename(clone.folder)
            await trio.to_thread.run_sync(self._record_commit, source, clone)
            return clone
        finally:
            # Remove the folder even after a cancellation; otherwise, it would remain until the next
            # fetch.
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(remove_folder, made)

    def _record_commit(self, source: SkillSource, clone: Clone) -> None:
        """Record the commit of a ref, and remove commits that are no longer used by any ref."""
        home = self.root / source.key
        heads = _read_heads(home)
        heads[source.ref] = _Head(clone.commit, clone.at, clone.left_out, source.where)
        # Sessions read ``heads.json`` without the lock, so the file is replaced atomically.
        new = home / f"{_TEMPORARY}{os.urandom(8).hex()}"
        new.write_bytes(msgspec.json.format(msgspec.json.encode(heads), indent=1))
        new.replace(home / "heads.json")
        # Old commits are removed only now, because sessions use them until ``heads.json`` names the
        # new commit.
        kept = {head.commit for head in heads.values()}
        for path in home.iterdir():
            # Temporary folders are kept, because this fetch's own temporary folder still contains
            # the repository.
            is_temporary = path.name.startswith(_TEMPORARY)
            if path.is_dir() and path.name not in kept and not is_temporary:
                remove_folder(path)

    @asynccontextmanager
    async def _hold_lock(self, source: SkillSource, progress: Progress) -> AsyncIterator[None]:
        """Hold the lock on a repository, or do nothing if the disk does not support locks."""
        make_private_folder(self.root)
        file = os.open(
            # The lock is next to the folder, because ``remove`` renames the folder while holding
            # the lock.
            self.root / f"{source.key}.lock",
            os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0),
            0o600,
        )
        try:
            if not _try_lock(file):
                progress("waiting for another hilum process that is fetching it")
                await _wait_for_lock(file, source)
            yield
        finally:
            os.close(file)


async def _wait_for_lock(file: int, source: SkillSource) -> None:
    until = trio.current_time() + LOCK_TIMEOUT
    # A blocking flock call in a thread could not be cancelled.
    while not _try_lock(file):
        if trio.current_time() > until:
            message = f"Another hilum process has been fetching {source.text} for minutes."
            raise HilumError(message, code=E_BUSY, hint="Wait, or stop the other process.")
        # The delay is short enough not to be noticed, and long enough to use hardly any CPU time.
        await trio.sleep(0.05)


def _try_lock(file: int) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # the disk does not support locks
        pass
    return True


def _remove_leftovers(home: Path) -> None:
    """Remove the files left by a killed process. The caller must hold the lock."""
    for path in home.glob(f"{_TEMPORARY}*") if home.is_dir() else ():
        remove_folder(path)
        path.unlink(missing_ok=True)


class _Head(msgspec.Struct, frozen=True):
    """An entry in ``heads.json`` for one ref."""

    # The id is used as a folder name, so the pattern rejects paths such as ``..`` in a damaged
    # file.
    commit: Annotated[str, msgspec.Meta(pattern=r"^[0-9A-Za-z]+$")]
    at: float
    left_out: tuple[str, ...] = ()
    # hilum does not read this URL, which is stored only to show people the origin of the files.
    url: str = msgspec.field(name="from", default="")


def _read_heads(home: Path) -> dict[str, _Head]:
    """Read the commit of each ref in a repository.

    An unreadable ``heads.json`` counts as missing, so the repository is fetched again.
    """
    try:
        return msgspec.json.decode((home / "heads.json").read_bytes(), type=dict[str, _Head])
    except (OSError, msgspec.DecodeError, RecursionError):
        return {}
