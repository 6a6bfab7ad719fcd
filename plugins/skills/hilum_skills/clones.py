"""Repositories that were fetched: one folder for each address in the user's cache, whole or not
there.

::

    skills/HOST-OWNER-NAME-DIGEST/       one for each address
        heads.json                       ref → commit, when, what was left out
        COMMIT/                          its files, never changed once they are there
    skills/HOST-OWNER-NAME-DIGEST.lock   held while something is fetched or removed

Everything is made under a name that nobody looks at, and renamed when it is whole: a kill leaves
nothing that counts.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from hilum import HilumError, cache_folder
from hilum.errors import E_BUSY

from hilum_skills.source import Source

if TYPE_CHECKING:
    from hilum_skills.git import Git, Progress

_TEMPORARY = ".new-"
_PATIENCE = 300.0


class Clone(msgspec.Struct, frozen=True):
    """A fetched commit.

    Attributes:
        folder: Its files.
        commit: Its id.
        at: When it was fetched or last found to be the newest, in seconds since 1970.
        left_out: What was not written, and why.
        new: Whether it was fetched just now.
    """

    folder: Path
    commit: str
    at: float
    left_out: tuple[str, ...] = ()
    new: bool = False


class Clones(msgspec.Struct, frozen=True):
    """All repositories that were fetched.

    Args:
        root: The folder they are in.
    """

    root: Path = msgspec.field(default_factory=lambda: cache_folder() / "skills")

    def find(self, source: Source) -> Clone | None:
        """Return what was fetched for a source, from the disk alone; nothing if it was not.

        Blocks.
        """
        home = self.root / source.key
        entry = _heads(home).get(source.ref)
        if entry is None or not (home / entry["commit"]).is_dir():
            return None
        return Clone(home / entry["commit"], entry["commit"], entry["at"], tuple(entry["left_out"]))

    def watched(self, source: Source) -> Path:
        """The file that changes whenever something is fetched for a source."""
        return self.root / source.key / "heads.json"

    async def fetch(
        self, source: Source, git: Git, *, update: bool = False, progress: Progress = lambda _: None
    ) -> Clone:
        """Fetch a source if it is not there, or, with ``update``, if the server has something
        newer.

        Several processes may do this at once: one fetches, the others take what it has fetched.

        Args:
            source: A source of the kind ``git``.
            git: Runs git.
            update: Ask the server although it is there.
            progress: Called with each step, as words.

        Raises:
            FetchError: It cannot be fetched; what was there is still there.
            HilumError: Another process has been fetching it for minutes, or the disk cannot be
                written.
        """
        from hilum_skills.git import FetchError

        try:
            begun = time.time()
            async with self._alone(source, progress):
                known = await trio.to_thread.run_sync(self.find, source)
                if known is not None and (not update or known.at >= begun):
                    return known
                if known is not None and await git.newest(source, self.root) == known.commit:
                    await trio.to_thread.run_sync(
                        self._note, source, msgspec.structs.replace(known, at=time.time())
                    )
                    return known
                return await self._fetch(source, git, progress)
        except OSError as error:
            message = f"{source.text} could not be kept: {error.strerror or error}."
            raise FetchError(message, hint=f"Look at the disk and at {self.root}.") from None

    async def remove(self, source: Source) -> None:
        """Remove what was fetched of a repository, for all its refs."""
        async with self._alone(source, lambda _: None):
            home = self.root / source.key
            gone = home.with_name(f"{_TEMPORARY}{os.urandom(8).hex()}")
            if home.exists():
                home.rename(gone)
                await trio.to_thread.run_sync(shutil.rmtree, gone, True)

    async def _fetch(self, source: Source, git: Git, progress: Progress) -> Clone:
        from hilum_skills.listing import MOST_BYTES, plan, read_listing, write

        home = self.root / source.key
        await trio.to_thread.run_sync(_sweep, home)
        made = home / f"{_TEMPORARY}{os.urandom(8).hex()}"
        made.mkdir(mode=0o700, parents=True)
        try:
            bare = made / "git"
            progress("connecting")
            commit = await git.fetch(source, bare, progress)
            chosen = plan(read_listing(await git.tree(bare)))
            progress(f"writing {len(chosen.entries)} files")
            contents = await git.contents(
                bare, [entry.object for entry in chosen.entries], MOST_BYTES + 1_000_000
            )
            await trio.to_thread.run_sync(write, chosen.entries, contents, made / "tree")
            clone = Clone(home / commit, commit, time.time(), tuple(chosen.left_out[:50]), new=True)
            if not clone.folder.exists():
                (made / "tree").rename(clone.folder)
            await trio.to_thread.run_sync(self._note, source, clone)
            return clone
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(shutil.rmtree, made, True)

    def _note(self, source: Source, clone: Clone) -> None:
        """Write down what a ref stands for, and remove commits that no ref stands for any more."""
        home = self.root / source.key
        heads = _heads(home)
        heads[source.ref] = {
            "commit": clone.commit,
            "at": clone.at,
            "left_out": list(clone.left_out),
            "from": source.where,
        }
        new = home / f"{_TEMPORARY}{os.urandom(8).hex()}"
        new.write_text(json.dumps(heads, indent=1))
        new.replace(home / "heads.json")
        kept = {entry["commit"] for entry in heads.values()}
        for path in home.iterdir():
            if path.is_dir() and path.name not in kept and not path.name.startswith(_TEMPORARY):
                shutil.rmtree(path, ignore_errors=True)

    @asynccontextmanager
    async def _alone(self, source: Source, progress: Progress) -> AsyncIterator[None]:
        """Hold the lock of a repository. Where a system or disk has no such locks, it is none."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(
            self.root / f"{source.key}.lock",
            os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0),
            0o600,
        )
        try:
            until = trio.current_time() + _PATIENCE
            told = False
            while not _locked(file):
                if not told:
                    progress("another hilum is fetching it; waiting")
                    told = True
                if trio.current_time() > until:
                    message = f"Another hilum has been fetching {source.text} for minutes."
                    raise HilumError(message, code=E_BUSY, hint="Wait, or end that hilum.")
                await trio.sleep(0.05)
            yield
        finally:
            os.close(file)


def _locked(file: int) -> bool:
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        pass
    return True


def _sweep(home: Path) -> None:
    """Remove what a killed process has left; the caller holds the lock."""
    for path in home.glob(f"{_TEMPORARY}*") if home.is_dir() else ():
        shutil.rmtree(path, ignore_errors=True)
        path.unlink(missing_ok=True)


def _heads(home: Path) -> dict[str, dict[str, Any]]:
    """Read what the refs stand for.

    What cannot be read counts as not there, and is fetched again.
    """
    try:
        found = json.loads((home / "heads.json").read_bytes())
        return {
            ref: entry
            for ref, entry in found.items()
            if isinstance(entry["commit"], str)
            and entry["commit"].isalnum()
            and isinstance(entry["at"], int | float)
            and isinstance(entry["left_out"], list)
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}
